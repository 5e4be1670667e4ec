"""Preparation of a trained model for decoding."""

from typing import TypeVar

import torch
from torch import nn

from calque.decode.captured import Captured
from calque.decode.products import (
    Int8,
    Native,
    NativeBfloat16,
    NativeFloat32,
    NativeInt8,
    Packed,
    Product,
    packing_works,
)
from calque.decode.recorded import Recorded
from calque.ground.diagnostics import error
from calque.layers.contract import Layer
from calque.model import Model, Programs
from calque.native.kernels import kernels

M = TypeVar("M", bound=nn.Module)

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.float32}
"""The type of activations and states, by precision; of int8 with kernels of Calque's own, bfloat16."""
FEW = 16
"""Products with fewer outputs gain nothing: torch's stay as they are, Calque's own int8 are bfloat16."""


def prepare_for_decoding(module: M, precision: str = "float32") -> M:
    """`module` itself, changed to decode fast; it can no longer be trained or saved.

    float32, bfloat16  weights, activations and states in that type; parts that need float32 keep it
    int8               weights in int8 with a scale for each row of the output; activations are quantised row by row. Between
                       products they are bfloat16 where Calque's own kernels run, float32 where torch's do

    Layers fuse their products (`Layer.fuse`); on a processor, weights are laid out once in the order in which its products read
    them. Raises X416 where the machine has no int8 products.
    """
    on_processor = next(module.parameters()).device.type == "cpu"
    product = product_for(precision) if on_processor else None
    module.requires_grad_(False)
    module.to(torch.bfloat16 if product is NativeInt8 else TYPES[precision])
    if precision == "int8" and product is None:
        raise error("X416", None, device="processor" if on_processor else "accelerator")
    for layer in module.modules():
        if isinstance(layer, Layer):
            # A product of one row by torch comes out otherwise than among others anyway.
            layer.fuse(exact=precision == "float32" and product is not NativeFloat32)
    if product is not None:
        _pack(module, product)
    if isinstance(module, Model):
        module.programs = _programs(module, on_processor)
    return module.eval()


def _programs(model: Model, on_processor: bool) -> Programs | None:
    """What makes the steps of a prepared model in fewer calls."""
    if not on_processor:
        return Captured()
    own = kernels()
    return None if own is None else Recorded(model, own)


def rows_are_apart(module: nn.Module) -> bool:
    """Whether no row of the products of a prepared module depends on the others, to the bit.

    torch's products choose their order of summation by the number of rows.
    """
    return kernels() is not None and not any(isinstance(part, Packed | Int8 | nn.Linear) for part in module.modules())


def product_for(precision: str) -> type[Product] | None:
    """The fastest product that this processor has, Calque's own or oneDNN's packed one; None where torch's plain one has to do."""
    if kernels() is not None:
        return {"float32": NativeFloat32, "int8": NativeInt8, "bfloat16": NativeBfloat16}[precision]
    if not packing_works(torch.int8 if precision == "int8" else TYPES[precision]):
        return None
    return Int8 if precision == "int8" else Packed


def _pack(module: nn.Module, product: type[Product]) -> None:
    for name, part in list(module.named_children()):
        few = isinstance(part, nn.Linear) and part.out_features < FEW
        chosen = NativeBfloat16 if few and product is NativeInt8 else product
        if isinstance(part, nn.Linear) and (not few or issubclass(chosen, Native)):
            # Selections take rows of the output layer, whose plain weight with tying is the embedding anyway.
            keeps = isinstance(module, Model) or (isinstance(module, Layer) and name in module.reads)
            setattr(module, name, chosen(part.weight, part.bias, keeps))
        else:
            _pack(part, product)
