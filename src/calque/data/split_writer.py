"""One split of a corpus written as files: ids, offsets, and the text that is not for training."""

import contextlib
from collections.abc import Sequence
from itertools import chain, compress, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from calque.data.codecs import Codec
from calque.data.corpus import DTYPES, SIDES, SideIndex, SplitIndex
from calque.data.lines import Lines
from calque.experiment import DataSettings

CHUNK = 8192
"""Pairs encoded at a time; bounds the memory of a corpus of any size."""


class _SideWriter:
    """Writes one side of a split into open files; `text` is None for training."""

    def __init__(self, codec: Codec, ids: BinaryIO, text: BinaryIO | None):
        self.codec, self.ids, self.text = codec, ids, text
        self.dtype = DTYPES[codec.size > 1 << 16]
        self.lengths: list[NDArray[np.int64]] = []

    def encode(self, lines: Sequence[str]) -> tuple[list[list[int]], NDArray[np.int64]]:
        """The ids of each line and their number; writes the text where it is kept."""
        if self.text is not None:
            self.text.write("".join(f"{line}\n" for line in lines).encode())
        ids = self.codec.encode(lines)
        return ids, np.fromiter(map(len, ids), np.int64, len(ids))

    def write(self, ids: list[list[int]], lengths: NDArray[np.int64], kept: NDArray[np.bool_]) -> None:
        """Writes the ids of the sentences that are kept."""
        self.lengths.append(lengths[kept])
        flat = chain.from_iterable(compress(ids, kept))
        self.ids.write(np.fromiter(flat, self.dtype, int(self.lengths[-1].sum())).tobytes())

    def finish(self, path: Path) -> SideIndex:
        """Writes the offsets; the entry of the index."""
        offsets = np.cumsum(np.concatenate([[0], *self.lengths]), dtype="<i8")
        path.write_bytes(offsets.tobytes())
        return {"dtype": self.dtype, "tokens": int(offsets[-1])}


def write_split(
    settings: DataSettings, split: str, paths: tuple[Path, Path], codecs: tuple[Codec, Codec], folder: Path
) -> tuple[SplitIndex, dict[str, int]]:
    """Writes one split into `folder`: its entry of the index, and the number of pairs left out for each reason.

    Only training pairs are left out, and only the text of the other splits is kept.
    """
    training = split == "train"
    left_out = {"blank": 0, "long": 0, "ratio": 0} if training else {}
    with contextlib.ExitStack() as stack:

        def create(side: str, ending: str) -> BinaryIO:
            return stack.enter_context(open(folder / f"{split}.{side}.{ending}", "wb"))

        source, target = (
            _SideWriter(codec, create(side, "ids"), None if training else create(side, "txt"))
            for side, codec in zip(SIDES, codecs, strict=True)
        )
        pairs = zip(*(Lines(path) for path in paths), strict=True)
        while chunk := list(islice(pairs, CHUNK)):
            (source_ids, source_lengths), (target_ids, target_lengths) = (
                writer.encode(lines) for writer, lines in zip((source, target), zip(*chunk, strict=True), strict=True)
            )
            kept = np.ones(len(chunk), bool)
            if training:
                kept = _keep(settings, source_lengths, target_lengths, left_out)
            source.write(source_ids, source_lengths, kept)
            target.write(target_ids, target_lengths, kept)
    index: SplitIndex = {
        "source": source.finish(folder / f"{split}.source.offsets"),
        "pairs": sum(map(len, source.lengths)),
        "target": target.finish(folder / f"{split}.target.offsets"),
    }
    return index, left_out


def _keep(
    settings: DataSettings, source: NDArray[np.int64], target: NDArray[np.int64], left_out: dict[str, int]
) -> NDArray[np.bool_]:
    """Which training pairs are kept, by their lengths; counts the others in `left_out` under the first reason that applies."""
    shorter, longer = np.minimum(source, target), np.maximum(source, target)
    kept = np.ones(len(source), bool)
    rules = {
        "blank": shorter == 0,
        "long": (longer > settings.max_tokens) & (settings.max_tokens > 0),
        "ratio": (longer > settings.max_ratio * shorter) & (settings.max_ratio > 0),
    }
    for reason, out in rules.items():
        left_out[reason] += int((out & kept).sum())
        kept &= ~out
    return kept
