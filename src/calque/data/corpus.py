"""The prepared corpus as it is read: memory-mapped ids, codecs, and the text of validation and test."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from calque.data.codecs import Codec
from calque.data.lines import Lines
from calque.data.subwords import load_codecs
from calque.data.sums import Sums
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

FORMAT = 1
INDEX = "corpus.json"
SIDES = ("source", "target")
FURTHER = "valid."
"""Before the name of a further validation text: its split."""
DTYPES = ("<u2", "<i4")


class SideIndex(TypedDict):
    """One side of a split: the type of its ids, and their number."""

    dtype: str
    tokens: int


class SplitIndex(TypedDict):
    """One split; `parts` are the pairs of each of several training texts, which are one after the other."""

    source: SideIndex
    pairs: int
    target: SideIndex
    parts: NotRequired[list[int]]


class FileIndex(TypedDict):
    """The size and the sha256 of a file."""

    bytes: int
    sha256: str


class CorpusOrigin(TypedDict):
    """What a corpus was compiled from; older corpora have no `sums`, the checksums of the input files.

    `found` counts unsuitable training pairs, left out or not; `learned` are the pairs of the sample from which the codecs were
    learned, where there was one.
    """

    digest: str
    settings: dict[str, object]
    sums: NotRequired[list[str | None]]
    warnings: dict[str, int]
    found: NotRequired[dict[str, int]]
    learned: NotRequired[int]


class CorpusIndex(CorpusOrigin):
    """The contents of `corpus.json`. `seal` is the checksum of the other entries."""

    format: int
    splits: dict[str, SplitIndex]
    left_out: dict[str, int]
    source_size: int
    target_size: int
    source_mean: float
    target_mean: float
    versions: dict[str, str]
    files: dict[str, FileIndex]
    seal: str


_PART = 1 << 20
"""Sentences or ids that are read at a time, so that no memory is used for the whole."""
Ids: TypeAlias = NDArray[np.integer]
"""Ids as a file has them: two bytes unsigned or four signed."""


class Sentences:
    """The sentences of one side, without special symbols: sentence i is `ids[offsets[i] : offsets[i + 1]]`."""

    def __init__(self, ids: Ids, offsets: NDArray[np.int64]):
        self.ids, self.offsets = ids, offsets

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """The number of ids of each sentence."""
        return _lengths(self.offsets)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Sentences":
        """Sentences held in memory."""
        offsets = np.zeros(len(sentences) + 1, np.int64)
        np.cumsum([len(s) for s in sentences], out=offsets[1:])
        return cls(np.array([i for s in sentences for i in s], np.int32), offsets)

    def __len__(self) -> int:
        return max(0, len(self.offsets) - 1)

    def __getitem__(self, i: int) -> Ids:
        return self.ids[self.offsets[i] : self.offsets[i + 1]]

    def padded(self, rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """[n, width] ids of these sentences, zeros after their ends; no sentence may be longer than `width`."""
        inside = np.arange(width) < self.lengths[rows][:, None]
        table = np.zeros((len(rows), width), np.int64)
        # True cells in row order are the sentences one after the other.
        at = (self.offsets[rows][:, None] + np.arange(width))[inside]
        table[inside] = self.ids[at]
        return table


class Pairs:
    """The sentence pairs of one split. `parts`: how many are of each training text, where there are several."""

    def __init__(self, source: Sentences, target: Sentences, parts: Sequence[int] | None = None):
        self.sources, self.targets = source, target
        self.parts = list(parts) if parts else [len(source)]

    @classmethod
    def of(cls, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> "Pairs":
        """Pairs held in memory."""
        return cls(Sentences.of(source), Sentences.of(target))

    def __len__(self) -> int:
        return len(self.sources)

    def source(self, i: int) -> Ids:
        """The ids of source i."""
        return self.sources[i]

    def target(self, i: int) -> Ids:
        """The ids of target i."""
        return self.targets[i]

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """The number of ids of each source."""
        return self.sources.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """The number of ids of each target."""
        return self.targets.lengths


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared corpus; `about` is its `corpus.json`. Its splits are `train`, `valid`, `test`, and `valid.NAME`."""

    folder: Path
    about: CorpusIndex
    codecs: tuple[Codec, Codec]
    pairs: Mapping[str, Pairs]

    @property
    def digest(self) -> str:
        """A hash of the settings and the text that the corpus was made from."""
        return self.about["digest"]

    @property
    def source_mean(self) -> float:
        """Mean length of the training sources in subwords, without end symbol."""
        return self.about["source_mean"]

    @property
    def target_mean(self) -> float:
        """Mean length of the training targets in subwords, without end symbol."""
        return self.about["target_mean"]

    @property
    def gamma(self) -> float:
        """The mean source length divided by the mean target length (You 2020, section 3.2)."""
        return self.source_mean / self.target_mean

    @property
    def further(self) -> list[str]:
        """The names of the further validation texts."""
        return [split.removeprefix(FURTHER) for split in self.pairs if split.startswith(FURTHER)]

    def split(self, name: str) -> Pairs:
        """The pairs of a split. Raises D308 where the corpus has no such split."""
        if name not in self.pairs:
            raise error("D308", Place(str(self.folder)), split=name, splits=list(self.pairs))
        return self.pairs[name]

    def lines(self, name: str) -> tuple[list[str], list[str]]:
        """The text of a split other than `train`, one string per pair. Raises D308 where there is none."""
        if name == "train" or name not in self.pairs:
            raise error("D308", Place(str(self.folder)), split=name, splits=[s for s in self.pairs if s != "train"])
        source, target = (list(Lines(self.folder / f"{name}.{side}.txt")) for side in SIDES)
        return source, target


def _lengths(offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """The differences of offsets, computed in parts: an array of the size of the whole would be twice as large."""
    lengths = np.empty(max(0, len(offsets) - 1), np.int32)
    for at in range(0, len(lengths), _PART):
        lengths[at : at + _PART] = np.diff(offsets[at : at + _PART + 1])
    return lengths


def open_corpus(folder: Path, verify: bool = False) -> PreparedCorpus:
    """Maps a prepared corpus; with `verify`, compares checksums, for which it reads what `Sums` does not remember.

    Raises D301 (no such corpus), D302 (`corpus.json` is damaged), D303 (a file is missing or has the wrong size), D304
    (contents changed; without `verify` only where an id is in no vocabulary), D305 (the offsets do not divide the ids), and
    what `load_codecs` raises.
    """
    about = _read_index(folder)
    _check_files(folder, about["files"], verify)
    codecs = load_codecs(folder)
    # What has the right checksum needs no look at its ids.
    ids = (None, None) if verify else codecs
    pairs = {split: _open_split(folder, split, sides, ids) for split, sides in about["splits"].items()}
    return PreparedCorpus(folder, about, codecs, pairs)


def _check_files(folder: Path, files: Mapping[str, FileIndex], verify: bool) -> None:
    """Raises D303 and D304 for all files that are not as the index has them."""
    faults = []
    sums = Sums(folder)
    for name, file in files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size != file["bytes"]:
            shown = "none" if size is None else size
            faults.append(Diagnostic("D303", Place(str(path)), {"expected": file["bytes"], "found": shown}))
        elif verify and sums.of(path) != file["sha256"]:
            faults.append(Diagnostic("D304", Place(str(path))))
    sums.remember()
    if faults:
        raise CalqueError(faults)


def _open_split(folder: Path, split: str, index: SplitIndex, codecs: tuple[Codec | None, Codec | None]) -> Pairs:
    """Maps one split; looks at the ids where codecs are given. Raises D304 and D305."""
    stems = [folder / f"{split}.{side}" for side in SIDES]
    source = _sentences(stems[0], index["source"]["dtype"], look=codecs[0] is not None)
    target = _sentences(stems[1], index["target"]["dtype"], look=codecs[1] is not None)
    if len(source) != len(target):
        raise error("D305", Place(f"{stems[1]}.offsets"))
    for stem, sentences, codec in zip(stems, (source, target), codecs, strict=True):
        # An entry that no vocabulary has would end training in the middle.
        if codec is not None and not _within(Path(f"{stem}.ids"), sentences.ids.dtype, codec.size):
            raise error("D304", Place(f"{stem}.ids"))
    return Pairs(source, target, index.get("parts"))


def _within(path: Path, dtype: np.dtype[Any], size: int) -> bool:
    """Whether all ids of a file are in a vocabulary. They are read, not mapped, so that they take no memory."""
    with open(path, "rb") as file:
        while len(ids := np.fromfile(file, dtype, _PART)):
            if not 0 <= int(ids.min()) <= int(ids.max()) < size:
                return False
    return True


def _read_index(folder: Path) -> CorpusIndex:
    """The index of a prepared corpus. Raises D301 and D302."""
    path = folder / INDEX
    if not path.is_file():
        raise error("D301", Place(str(folder)))
    try:
        about: CorpusIndex = json.loads(path.read_bytes())
        if about["format"] != FORMAT:
            raise error("D302", Place(str(path)), reason=f"expected format {FORMAT}, found {about['format']}")
        # `seal` covers every entry, so that the entries need no other check.
        if about["seal"] != seal(about):
            raise error("D302", Place(str(path)), reason="its contents changed after it was written")
    except (ValueError, KeyError, TypeError):
        raise error("D302", Place(str(path)), reason="it is not the index of a corpus") from None
    return about


def seal(about: Mapping[str, object]) -> str:
    """The checksum of an index, its own entry `seal` left out."""
    rest = {key: value for key, value in about.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _sentences(stem: Path, dtype: str, look: bool) -> Sentences:
    """Maps a side; `look`: at all of its offsets. Raises D305."""
    ids, offsets = _map(Path(f"{stem}.ids"), dtype), _map(Path(f"{stem}.offsets"), "<i8").astype(np.int64, copy=False)
    sentences = Sentences(ids, offsets)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(ids) or (look and (sentences.lengths < 0).any()):
        raise error("D305", Place(f"{stem}.offsets"))
    return sentences


def _map(path: Path, dtype: str) -> Ids:
    if not path.stat().st_size:  # nothing to map
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r"))
