"""The names of other notations: `known_as` of the layers, and the table `words.toml`.

An alias is a call of the other notation: `NAME`, `NAME(PARAMETERS)`, or either followed by ` -> ARGUMENTS`. PARAMETERS are
the names here of positional arguments there, `_` for an argument without a counterpart; ARGUMENTS are added. So the alias
`GRU(_, width) -> cell=gru` of the layer `rnn` turns `nn.GRU(256, 512)` into `rnn(512, gru)`. Case and underscores are ignored.
"""

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from calque.adl.signature import Flag, Int, Parameter, Point, Signature, Word


@dataclass(frozen=True, slots=True)
class Alias:
    """The counterpart of a name of another notation: `parameters` is None where arguments keep their order."""

    target: str
    parameters: tuple[str, ...] | None = None
    added: str = ""


def plain(name: str) -> str:
    """A name in lower case without underscores."""
    return name.replace("_", "").lower()


def read_alias(written: str, target: str) -> tuple[str, Alias]:
    """The name of another notation, as by `plain`, and its alias."""
    call, _, added = written.partition(" -> ")
    name, bracket, inside = call.partition("(")
    parameters = tuple(p.strip() for p in inside.rstrip(")").split(",")) if bracket else None
    return plain(name), Alias(target, parameters, added)


@functools.cache
def words() -> Mapping[str, Mapping[str, str | list[str]]]:
    """The sections of `words.toml`: for each entry a list of words, or one word."""
    text = resources.files("calque.adl.advice").joinpath("words.toml").read_text(encoding="utf-8")
    sections: Mapping[str, Mapping[str, str | list[str]]] = tomllib.loads(text)
    return sections


@functools.cache
def lists(section: str) -> Mapping[str, tuple[str, ...]]:
    """A section with a list for each entry."""
    return {name: tuple(entry) for name, entry in words()[section].items()}


@functools.cache
def singles(section: str) -> Mapping[str, str]:
    """A section with one word for each entry."""
    return {name: str(entry) for name, entry in words()[section].items()}


@functools.cache
def listed(section: str) -> Mapping[str, tuple[str, ...]]:
    """A section of lists inverted: the possible meanings of a word, in the order of the section."""
    meanings: dict[str, tuple[str, ...]] = {}
    for meant, entry in lists(section).items():
        for word in (meant, *entry):
            meanings[plain(word)] = (*meanings.get(plain(word), ()), meant)
    return meanings


def choices_for(choices: tuple[str, ...], written: str) -> Iterator[str]:
    """The words among `choices` that may be meant by a word of another notation."""
    meanings = (*listed("words").get(plain(written), ()), *listed("definitions").get(plain(written), ()))
    for choice in choices:
        if plain(choice) in (plain(written), *map(plain, meanings)):
            yield choice


class Aliases:
    """The names of other notations for the layers of a library and the prelude's definitions."""

    def __init__(self, signatures: Mapping[str, Signature], definitions: Mapping[str, tuple[str, ...]]):
        """`definitions` are the definitions of the text and of the prelude, each with its parameters."""
        self.signatures, self.definitions = signatures, definitions
        self._aliases: dict[str, list[Alias]] = {}
        for name, signature in signatures.items():
            self._add(name, signature.known_as)
        for name in (*definitions, *signatures):
            self._aliases.setdefault(plain(name), []).append(Alias(name))
        for name, written in lists("definitions").items():
            self._add(name, written)

    def _add(self, target: str, written: tuple[str, ...]) -> None:
        for one in written:
            name, alias = read_alias(one, target)
            self._aliases.setdefault(name, []).append(alias)

    def of(self, name: str) -> Iterator[Alias]:
        """The possible counterparts of a name; then words of arguments, such as `lstm` of `cell`."""
        yield from self._aliases.get(plain(name), ())
        for signature in self.signatures.values():
            for parameter in signature.parameters:
                for word in getattr(parameter.kind, "choices", ()):
                    if plain(word) == plain(name) != "none":
                        yield Alias(signature.name, (), f"{parameter.name}={word}")

    def names(self) -> Iterator[str]:
        """Every known name, as by `plain`."""
        yield from self._aliases

    def parameters(self, name: str) -> tuple[str, ...]:
        """The parameters of a layer or a definition."""
        signature = self.signatures.get(name)
        return tuple(p.name for p in signature.parameters) if signature else self.definitions.get(name, ())

    def parameter(self, owner: str, name: str) -> str | None:
        """The parameter of a layer or definition that another notation calls `name`."""
        known = self.parameters(owner)
        by_plain = {plain(p): p for p in known}
        if plain(name) in by_plain:
            return by_plain[plain(name)]
        signature = self.signatures.get(owner)
        for parameter in signature.parameters if signature else ():
            if plain(name) in map(plain, parameter.known_as):
                return parameter.name
        return next((p for p in listed("arguments").get(plain(name), ()) if p in known), None)

    def kind(self, owner: str, name: str) -> Parameter | None:
        """The parameter of a layer."""
        signature = self.signatures.get(owner)
        return signature.find(name) if signature else None

    def values(self, owner: str, name: str, written: str) -> Iterator[str]:
        """The values of a parameter that may be meant; of a definition, whose parameters have no kinds, the text itself is one."""
        parameter = self.kind(owner, name)
        kind = parameter.kind if parameter else None
        if isinstance(kind, Word):
            yield from choices_for(kind.choices, written)
        elif isinstance(kind, Int | Point | Flag):
            fits = {Int: written.isdigit(), Point: written.startswith("@"), Flag: written in ("yes", "no")}
            if fits[type(kind)]:
                yield written
        elif kind is None and not written.isdigit():
            yield from (written, written.lower(), *listed("definitions").get(plain(written), ()))
