"""Making a trained model ready to decode."""

from typing import TypeVar

import torch
from torch import nn

from calque.decode.products import Int8, Packed, packing_works
from calque.ground.diagnostics import error
from calque.layers.contract import Layer
from calque.model import Model

M = TypeVar("M", bound=nn.Module)

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.float32}
"""The type of activations and states, by precision."""
FEW = 16
"""Products of fewer rows are left as they are: there is nothing to win."""


def prepare_for_decoding(module: M, precision: str = "float32") -> M:
    """`module` itself, changed so that it decodes fast and can do nothing else: it cannot be trained or saved afterwards.

    float32, bfloat16  weights, activations and states in that type; what must be float32 is so in every type
    int8               weights in int8 with a scale for each row of the output, activations quantised row by row as they come

    Layers fuse their products (`Layer.fuse`), and on a processor weights are laid out once as its products read them. Raises
    X416 where the machine has no int8 products.
    """
    module.to(TYPES[precision]).requires_grad_(False)
    on_processor = next(module.parameters()).device.type == "cpu"
    quantised = precision == "int8"
    if quantised and not (on_processor and packing_works(torch.int8)):
        raise error("X416", None, device="processor" if on_processor else "accelerator")
    for layer in module.modules():
        if isinstance(layer, Layer):
            layer.fuse(exact=precision == "float32")
    if on_processor and (quantised or packing_works(TYPES[precision])):
        _pack(module, Int8 if quantised else Packed)
    return module.eval()


def _pack(module: nn.Module, product: type[Packed] | type[Int8]) -> None:
    for name, part in list(module.named_children()):
        if isinstance(part, nn.Linear) and part.out_features >= FEW:
            # Selections take rows of the output layer, whose plain weight with tying is the embedding anyway.
            keeps = isinstance(module, Model) or (isinstance(module, Layer) and name in module.reads)
            setattr(module, name, product(part.weight, part.bias, keeps))
        else:
            _pack(part, product)
