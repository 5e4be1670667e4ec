"""The arguments of a layer: parameters with a kind, bounds, a default and a meaning.

A layer declares its arguments once, as a frozen dataclass whose fields are made by `arg`. The checker binds arguments by it, the
command line and the documents print it, and the layer receives an instance of it.
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

NAME = r"[A-Za-z_][A-Za-z_0-9]*"
"""A name of the language, as a regular expression: of a layer, an argument, a definition, a setting or a label."""


def is_name(word: object) -> bool:
    """Whether a text of the language can name something so."""
    return isinstance(word, str) and re.fullmatch(NAME, word) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The values that a parameter accepts. `optional`: also `none`; `many`: all remaining positional arguments."""

    optional: bool = False
    many: bool = False
    expects: ClassVar[str] = "a value"


@dataclass(frozen=True, slots=True)
class Int(Kind):
    """A whole number in `[low, high]`."""

    low: int = 1
    high: int = 65536
    expects: ClassVar[str] = "a whole number"

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Real(Kind):
    """A number in `[low, high]`, or in `[low, high)` where `below` is set."""

    low: float = 0.0
    high: float = 1.0
    below: bool = False
    expects: ClassVar[str] = "a number"

    def __post_init__(self) -> None:
        _check_bounds(self.low, self.high)


def _check_bounds(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"expected bounds in order, found {low} and {high}")


@dataclass(frozen=True, slots=True)
class Word(Kind):
    """One of a few words."""

    choices: tuple[str, ...] = ()
    expects: ClassVar[str] = "a word"


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """`yes` or `no`."""

    expects: ClassVar[str] = "`yes` or `no`"


@dataclass(frozen=True, slots=True)
class Body(Kind):
    """A chain of layers on the same side. `copies`: the argument that says how many copies of it the layer has; None: itself."""

    copies: str | None = None
    expects: ClassVar[str] = "a chain of layers"


@dataclass(frozen=True, slots=True)
class Point(Kind):
    """A point of the encoder, `@label`; a chain of layers may follow it where `chain` is set."""

    chain: bool = True
    expects: ClassVar[str] = "a source such as `@end`"


@dataclass(frozen=True, slots=True)
class IndexName(Kind):
    """A fresh name for the index of a repetition."""

    expects: ClassVar[str] = "a name"


@dataclass(frozen=True, slots=True)
class Setting:
    """A default that is the value of a setting: `d`, `heads` or `p`."""

    name: str


@dataclass(frozen=True, slots=True)
class SourceDefault:
    """A default that is an encoder point."""

    label: str


class Required:
    """The default of a parameter that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required()
Default: TypeAlias = int | float | str | Setting | SourceDefault | Required | None
"""A flag's default is a bool, a word's a string; None is `none`."""

SETTINGS: Mapping[str, tuple[int | float, Kind, str]] = {
    "d": (512, Int(1, 65536), "the model width: every width that is left out"),
    "heads": (8, Int(1, 1024), "the number of attention heads where it is left out"),
    "p": (0.1, Real(0.0, 1.0, below=True), "the dropout probability where it is left out"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a layer. `known_as` are its names in other notations, for the help of an error.

    `only`: another argument, and the values of it with which this one has an effect; with others it keeps its default (C220).

    `later`: the layer gained the argument after texts without it had been stored. Canonical text has it only where it differs from
    its default, which is what the layer computed before, so that these texts keep their hashes.
    """

    name: str
    kind: Kind
    default: Default
    doc: str
    known_as: tuple[str, ...] = ()
    later: bool = False
    only: tuple[str, tuple[str, ...]] | None = None


def value_of(args: object, name: str) -> object:
    """The value of an argument; the field of one whose name is a word of Python ends in `_`."""
    return getattr(args, name if hasattr(args, name) else f"{name}_")


@dataclass(frozen=True)
class Signature:
    """The arguments of a layer, in positional order.

    `either` lists two groups of which exactly one is given; the first is the default. `known_as` are names of the layer in other
    notations, for the help of an error: see `calque.adl.advice.aliases`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    doc: str = ""
    either: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    known_as: tuple[str, ...] = ()

    def find(self, name: str) -> Parameter | None:
        """The parameter of that name."""
        return next((p for p in self.parameters if p.name == name), None)


def arg(
    kind: Kind,
    default: Default = REQUIRED,
    doc: str = "",
    *,
    known_as: tuple[str, ...] = (),
    later: bool = False,
    only: tuple[str, tuple[str, ...]] | None = None,
) -> Any:
    """A field of a layer's arguments. A trailing underscore of the field's name is not part of the argument's name.

    Raises TypeError where the kind is none, or the default is no value of it.
    """
    if not isinstance(kind, Kind):
        raise TypeError(f"expected a kind of argument such as `Int()`, found {kind!r}")
    if not _suits(kind, default):
        raise TypeError(f"expected {kind.expects} as the default of `arg({kind!r}, ...)`, found {default!r}")
    return dataclasses.field(
        metadata={"kind": kind, "default": default, "doc": doc, "known_as": known_as, "later": later, "only": only}
    )


def _suits(kind: Kind, default: object) -> bool:
    """Whether a value can be the default of a parameter of this kind."""
    if isinstance(default, Required | Setting | SourceDefault) or (default is None and kind.optional):
        return True
    match kind:
        case Flag():
            return isinstance(default, bool)
        case Int():
            return isinstance(default, int) and not isinstance(default, bool)
        case Real():
            return isinstance(default, int | float) and not isinstance(default, bool)
        case Word():
            return default in kind.choices
    return True


@functools.cache
def read_signature(name: str, args: type, doc: str, known_as: tuple[str, ...] = ()) -> Signature:
    """The signature that a dataclass of `arg` fields declares."""
    parameters = tuple(Parameter(f.name.rstrip("_"), **f.metadata) for f in dataclasses.fields(args))
    return Signature(name, parameters, doc, getattr(args, "EITHER", None), known_as)


REPEAT = Signature(
    "repeat",
    (
        Parameter("n", Int(0, 1000), REQUIRED, "how many copies; a literal 0 is an error, a computed 0 is `id`"),
        Parameter("body", Body(), REQUIRED, "the chain to copy"),
        Parameter("index", IndexName(), "i", "the name of the copy's number, from 1, inside the body"),
        Parameter(
            "share",
            Flag(),
            False,
            "all copies have the weights of the first; each has its own state",
            ("tie", "tied", "shared", "share_weights"),
            later=True,
        ),
    ),
    "repeat(n, l) = l_1 -> ... -> l_n, each l_i an instance of l with weights of its own (Domhan 2018, section 2.2).\n\n"
    "With `share=yes` all have the same weights (Dehghani et al. 2018, Universal Transformers, with a fixed number of steps; Lan\n"
    "et al. 2019, ALBERT, section 3.1). These copies have to be alike; only the points that they read can depend on the index.",
    known_as=("stack", "times", "loop", "layers", "clone", "ModuleList"),
)
