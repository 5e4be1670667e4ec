"""Whether searches with a layer can be graphs on an accelerator (`calque.decode.captured`), found out on a processor."""

import inspect
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from calque.adl.check import CheckedDefinition
from calque.decode.captured_steps import CapturedBeginning, CapturedSteps
from calque.decode.graph import NotCapturable
from calque.decode.rule import SearchSettings
from calque.decode.scorer import Models, SourceBatch
from calque.layers.contract import Layer, Registry
from calque.prove.case import BEAMS, SENTENCES, SOURCE_LENGTH, SOURCE_WORDS, TARGET_LENGTH, ProofCase
from calque.prove.outcome import describe

ASKS = frozenset(
    {"item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__contains__"}
    | {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "equal", "allclose", "bincount"}
)
"""Functions of torch whose result, or its shape, the host has to know."""


def refusal(checked: CheckedDefinition, registry: Registry, layer: type[Layer]) -> str:
    """Why searches go step by step on an accelerator; nothing where they are graphs."""
    case, settings, asked = ProofCase(checked, registry, 0), SearchSettings(BEAMS), _Asked(_files(layer))
    source = case.words(SENTENCES, SOURCE_LENGTH, SOURCE_WORDS)
    with torch.inference_mode(), asked:
        try:
            scorer = Models([SourceBatch(case.model, source, case.source_mask)])
            beginning = CapturedBeginning(scorer, settings, SENTENCES, TARGET_LENGTH)
            progress = beginning.first()
            steps = CapturedSteps(beginning.scorer, beginning.rule, settings, progress, None)
            asked.where = ""  # before the first step a layer may ask
            steps.prepare(2)
        except NotCapturable as why:
            return str(why)
        except (Exception, SystemExit) as fault:  # a layer may raise anything
            return describe(fault)
    return asked.where


class _Asked(TorchFunctionMode):
    """Notes where one of some files asks for numbers that an accelerator has."""

    def __init__(self, files: frozenset[str]):
        super().__init__()
        self._files, self.where = files, ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.where and _asks(func, args, kwargs or {}):
            self.where = _asked_in(self._files)
        return func(*args, **(kwargs or {}))


def _asks(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    if name in ("__getitem__", "__setitem__"):
        index = args[1] if isinstance(args[1], tuple) else args[1:2]
        return any(isinstance(i, Tensor) and i.dtype == torch.bool for i in index)
    if name == "repeat_interleave":  # a tensor alone says how often each number comes
        repeats = kwargs.get("repeats", args[:2][-1] if args else None)
        return isinstance(repeats, Tensor) and kwargs.get("output_size") is None
    if name == "where":  # a condition alone asks where it holds
        return len(args) + len(kwargs) == 1
    if name == "one_hot":
        return bool(kwargs.get("num_classes", (*args[1:], -1)[0]) < 0)
    if name == "to":
        return any(str(each) == "cpu" for each in (*args[1:], *kwargs.values()))
    return name in ASKS


def _files(layer: type[Layer]) -> frozenset[str]:
    """Where the functions of a layer stand."""
    kinds = [kind for kind in layer.__mro__ if issubclass(kind, Layer) and kind is not Layer]
    return frozenset(f.__code__.co_filename for kind in kinds for f in vars(kind).values() if inspect.isfunction(f))


def _asked_in(files: frozenset[str]) -> str:
    """Where the innermost call in some files is; nothing where no call is."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if (file := frame.f_code.co_filename) in files:
            return f"{Path(file).name}:{frame.f_lineno} asks for numbers that the accelerator has"
    return ""
