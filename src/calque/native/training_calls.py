"""The compiled functions of training: what each takes."""

import ctypes
from ctypes import c_double, c_float, c_int, c_int64, c_uint64, c_void_p
from typing import Any

import torch
from torch import Tensor

TYPES = {torch.float32: 4, torch.bfloat16: 2}
"""Bytes of a number, by which kernels know its type."""


class Adam(ctypes.Structure):
    """With g the gradient over `divisor`: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, and
    w = kept w - rate m / (sqrt(v) / root + epsilon).
    """

    _fields_ = tuple((name, c_float) for name in ("divisor", "beta1", "beta2", "rate", "root", "epsilon", "kept"))


class Muon(ctypes.Structure):
    """With g the gradient over `divisor`: b = momentum b + (1 - momentum) g, u = momentum b + (1 - momentum) g, x = u / |u|, some
    times x = a x + (b x x^T + c (x x^T)^2) x, and w = kept w - rate x.
    """

    _fields_ = tuple((name, c_float) for name in ("divisor", "momentum", "rate", "kept", "a", "b", "c"))


_P, _N, _I = c_void_p, c_int64, c_int
_EVERYWHERE: dict[str, tuple[Any, ...]] = {
    "drop": (_P, _I, _N, c_uint64, _N, _I, _P, _I),
    "drop_relu_back": (_P, _P, _I, _N, c_float, _P, _I),
    "training_norm": (_P, _I, _N, _N, _P, _P, c_float, _P, _P, _I),
    "norm_back": (_P, _P, _P, _I, _N, _N, _P, _P, _P, _P, _I),
    "training_attend": (_P, _I, _P, _P, _P, _P, _I),
    "attend_back": (_P, _I, _P, _P, _P, _P, _P, _P, _P, _I),
    "additive": (_P, _I, _P, _P, _P, _P, _I),
    "additive_back": (_P, _I, _P, _P, _P, _P, _P, _P, _P, _I),
    "lstm": (_P, _I, _P, _P, _P, _P, _P, _P, _I),
    "lstm_back": (_P, _I, _P, _P, _P, _P, _P, _P, _P, _I),
    "loss": (_P, _I, _P, _N, _N, _N, _P, c_float, c_float, _I, _P, ctypes.POINTER(c_double), _I),
    "squares": (_P, _I, _N, _I),
    "adam": (_P, _P, _P, _I, _P, _P, _P, _N, _I),
}
_PRODUCTS: dict[str, tuple[Any, ...]] = {
    "training_product": (_P, _I, _N, _P, _P, _N, _N, _I, _I, c_uint64, _N, _P, _I),
    "training_weight": (_P, _P, _I, _N, _N, _N, _P, _P, _I, _I),
    "training_pack": (_P, _I, _N, _N, _I, _P, _I),
    "training_rows": (_P, _I, _N, _P, _P, _N, _N, _P, _I),
}
_HALVES: dict[str, tuple[Any, ...]] = {"training_muon": (_P, _P, _P, _I, _P, _P, _N, _N, _I, _I)}


class Calls:
    """The functions of a library by their names, `training_` left out, with the types of their arguments."""

    def __init__(self, loaded: ctypes.CDLL):
        types = loaded.calque_training_products()
        self.products = frozenset(dtype for dtype, size in TYPES.items() if types & size)
        """The types that it has products for."""
        self._functions: dict[str, Any] = {}
        halves = _HALVES if torch.bfloat16 in self.products else {}
        for name, types in (_EVERYWHERE | (_PRODUCTS if self.products else {}) | halves).items():
            function = getattr(loaded, f"calque_{name}")
            function.argtypes, function.restype = types, c_double if name == "squares" else None
            self._functions[name.removeprefix("training_")] = function

    def __getattr__(self, name: str) -> Any:
        return self._functions[name]


def address(x: Tensor | None) -> int | None:
    """Where a tensor begins; none stays none."""
    return None if x is None else x.data_ptr()
