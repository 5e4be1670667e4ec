"""What a public corpus is made of: the files that are published, and those that are built from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Input:
    """A file as it is published."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Output:
    """A file as it is built."""

    source: str
    """The input it comes from; several that begin with this word where it ends in `*`."""
    sha256: str
    part: str = ""
    """Which part of the input: the file of an archive, the side of a pair, the set of a split."""


@dataclass(frozen=True)
class PublicCorpus:
    """One corpus: how its outputs come from its inputs."""

    name: str
    title: str
    licence: str
    build: str
    """Which builder of `public_build` makes it."""
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Output]
    """By path below the data root."""
    split: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of pairs, for a split that no rule tells."""
