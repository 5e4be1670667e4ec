"""What the tests of costs share: definitions at small sizes and the modules they become."""

import torch

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.explain import ModelCosts, Surroundings, whole
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.model import Model, Shape

WORDS = 11


def small(name: str) -> CheckedDefinition:
    """An architecture of the zoo, its width a hundredth of the paper's."""
    text = zoo.read(name)
    for settings in (["d=16", "heads=2"], ["d=16"]):  # a setting that nothing reads is an error
        try:
            return check(text, builtin(), reader("calque", parse_settings(settings)))
        except CalqueError as fault:
            if {d.code for d in fault.diagnostics} != {"C127"}:
                raise
    raise AssertionError(name)


def explained(body: str, length: int = 25, source: int = 25, around: Surroundings | None = None) -> ModelCosts:
    """The figures of a text."""
    return whole(check(Text("text", body), builtin()), around, length, source)


def built(checked: CheckedDefinition, kind: torch.dtype = torch.float64) -> Model:
    """Its module, with a vocabulary of `WORDS` and matrices of their own."""
    torch.manual_seed(1)
    return Model(checked, Shape(WORDS, WORDS, "none")).to(kind).eval()
