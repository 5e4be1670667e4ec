"""Public corpora: their parts, and the folders of their files.

`corpora/NAME.toml` describes a corpus: its licence, the address and SHA-256 of each input, and the SHA-256 of each file that is
built from them (of its text: a name in .gz is compressed here, and compressors differ).

All corpora lie below one folder, the data root: `--root`, else the environment variable CALQUE_DATA, else `data`.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

ROOT = "CALQUE_DATA"
"""The environment variable that names the data root."""
NAMES = ("multi30k", "envi", "tatoeba", "meteor")


@dataclass(frozen=True, slots=True)
class Input:
    """A published file."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Output:
    """A built file."""

    source: str
    """The input that it is made from; a name that ends in `*` means every input with this beginning."""
    sha256: str
    part: str = ""
    """The part of the input: a file of an archive, a side of a pair, or a set and side of a split."""


@dataclass(frozen=True)
class PublicCorpus:
    """One corpus: how its outputs come from its inputs."""

    name: str
    title: str
    licence: str
    build: str
    """The name of its builder in `public_builders`."""
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Output]
    """By path below the data root."""
    split: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Numbers of the pairs of each set, where no rule describes the split."""


def corpus(name: str) -> PublicCorpus:
    """The corpus of this name (one of `NAMES`)."""
    text = resources.files("calque.data").joinpath("corpora", f"{name}.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    inputs = {n: Input(**x) for n, x in read["inputs"].items()}
    outputs = {f"{read['folder']}/{n}": Output(**x) for n, x in read["outputs"].items()}
    return PublicCorpus(
        name, read["title"], read["licence"].strip(), read["build"], inputs, outputs, read.get("split", {})
    )


def providing(path: Path) -> tuple[str, Path] | None:
    """The corpus that contains a file, found by the end of its path, and the data root that the path implies."""
    parts = Path(os.path.abspath(path)).parts
    for name in NAMES:
        for output in corpus(name).outputs:
            file = Path(output).parts
            if parts[-len(file) :] == file:
                return name, _shorter(Path(*parts[: -len(file)]))
    return None


def _shorter(folder: Path) -> Path:
    """A folder relative to the current one, where it is inside it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def data_root(given: Path | None = None) -> Path:
    """The folder of all corpora: `given`, else CALQUE_DATA, else `data` in the current folder."""
    return given or Path(os.environ.get(ROOT) or "data")
