"""The survey of training text before it is compiled: faults, duplicates, copies, scripts and ratios of lengths.

Several processes look at blocks of pairs. Of each pair only a hash and three bytes are kept, on the disk, so that memory does not
grow with the text.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.blocks import Block, Pace, blocks
from calque.data.lines import LONG, RATIO, RATIO_FROM, CheckedSide, Findings, check_counts, check_pair
from calque.data.part_folder import PartFolder
from calque.data.scripts import SCRIPTS, SPACE, classes, dominant
from calque.ground.diagnostics import Diagnostic, Place
from calque.ground.processes import in_order

BLOCK = 8192
"""Pairs that a process looks at together."""
MARKS = np.dtype([("hash", "<u8"), ("copy", "u1"), ("source", "u1"), ("target", "u1")])
"""What is kept of a pair: a hash of both sides, whether they are the same, and the script of each."""
FILE = "pairs"
OCTAVES, STEPS = 6, 16
"""The ratios of lengths that are counted apart: up to 2 ** OCTAVES in both directions, in STEPS for each doubling."""
_BINS = 2 * OCTAVES * STEPS


class Profile(NamedTuple):
    """The lines of one side of a block."""

    lengths: NDArray[np.int64]
    """In characters, without the ends of lines."""
    scripts: NDArray[np.uint8]
    doubtful: NDArray[np.bool_]
    """Lines to be looked at one by one: something may be wrong with them."""


class BlockSurvey(NamedTuple):
    """What is found in a block."""

    lines: tuple[int, int]
    sizes: tuple[int, int]
    """In bytes, of both sides."""
    kept: list[Diagnostic]
    counts: Mapping[str, int]
    marks: bytes
    ratios: NDArray[np.int64]


class TextSurvey:
    """Sums over the blocks of all training texts."""

    def __init__(self) -> None:
        self.pairs: list[int] = []
        """Of each text that has been read to its end."""
        self.scripts = np.zeros((2, len(SCRIPTS) + 1), np.int64)
        """For each side, how many lines have each script."""
        self.ratios = np.zeros(_BINS, np.int64)
        """How many pairs have each ratio of lengths."""
        self.findings = Findings()
        self.lines = 0
        """Lines of the text that is being read."""
        self.offsets = (0, 0)

    def add(self, block: BlockSurvey, marks: NDArray[np.void]) -> None:
        """Counts a block."""
        self.lines += max(block.lines)
        self.offsets = self.offsets[0] + block.sizes[0], self.offsets[1] + block.sizes[1]
        self.findings.merge(block.kept, block.counts)
        self.ratios += block.ratios
        for k, side in enumerate(("source", "target")):
            self.scripts[k] += np.bincount(marks[side], minlength=len(SCRIPTS) + 1)

    def to_json(self) -> dict[str, Any]:
        """The sums as JSON can hold them."""
        listed = [
            [d.code, d.where.file, d.where.line, dict(d.fields), d.severity]
            for kept in self.findings.kept.values()
            for d in kept
            if isinstance(d.where, Place)
        ]
        sums = {"pairs": self.pairs, "scripts": self.scripts.tolist(), "ratios": self.ratios.tolist()}
        found = {"listed": listed, "counts": dict(self.findings.counts)}
        return {**sums, **found, "lines": self.lines, "offsets": self.offsets}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "TextSurvey":
        """What `to_json` gave."""
        survey = cls()
        survey.pairs, survey.lines, survey.offsets = list(held["pairs"]), held["lines"], tuple(held["offsets"])
        survey.scripts, survey.ratios = np.array(held["scripts"], np.int64), np.array(held["ratios"], np.int64)
        listed = [
            Diagnostic(code, Place(file, line), fields, severity=severity)
            for code, file, line, fields, severity in held["listed"]
        ]
        survey.findings.merge(listed, held["counts"])
        return survey

    def ratio(self, share: float) -> float:
        """The ratio of lengths, target to source, that so large a share of the pairs does not exceed; 1 without pairs."""
        total = int(self.ratios.sum())
        if not total:
            return 1.0
        at = int(np.searchsorted(np.cumsum(self.ratios), share * total))
        return float(2.0 ** ((min(at, _BINS - 1) + 0.5 - _BINS / 2) / STEPS))


def survey_texts(
    texts: Sequence[tuple[Path, Path]], part: PartFolder, pace: Pace, workers: int, size: int = 0
) -> TextSurvey:
    """Looks at all training texts; the marks of their pairs go into the file `FILE` of the folder.

    `size`: pairs in a block, `BLOCK` unless given. Raises no fault of the text: `findings` has them.
    Continues where an earlier call secured its work.
    """
    held = part.state.get("survey")
    survey = TextSurvey.from_json(held) if held else TextSurvey()
    if part.state.get("surveyed"):
        return survey
    file = part.append(FILE)
    bulk = [sum(path.stat().st_size if os.path.isfile(path) else 0 for path in text) for text in texts]
    for k in range(len(survey.pairs), len(texts)):
        sides = [CheckedSide(path, survey.findings) for path in texts[k]]
        readers = sides[0].read(), sides[1].read()
        parts = blocks(*readers, size or BLOCK, survey.lines, survey.offsets)
        for found in in_order(partial(look_at, texts[k]), parts, workers):
            file.write(found.marks)
            survey.add(found, np.frombuffer(found.marks, MARKS))
            read = sum(bulk[:k]) + sum(side.raw.read for side in sides)
            pace.add(max(found.lines), read / max(1, sum(bulk)))
            if pace.commit_due():
                part.commit(survey=survey.to_json())
        check_counts(sides, survey.findings)
        survey.pairs.append(min(side.lines for side in sides))
        survey.lines, survey.offsets = 0, (0, 0)
    part.stage(survey=survey.to_json(), surveyed=True)
    part.close()
    return survey


def look_at(paths: tuple[Path, Path], block: Block) -> BlockSurvey:
    """The survey of one block."""
    findings = Findings()
    sides = CheckedSide(paths[0], findings), CheckedSide(paths[1], findings)
    lines = block.source, block.target
    count = min(map(len, lines))
    pairs = block.source[:count], block.target[:count]
    source, target = profile(pairs[0]), profile(pairs[1])
    single = range(count) if source is None or target is None else np.flatnonzero(_doubtful(source, target))
    _check_singly(sides, block, [*single, *range(count, max(map(len, lines)))])
    marks = np.zeros(count, MARKS)
    ratios = np.zeros(_BINS, np.int64)
    if source is not None and target is not None:
        marks["source"], marks["target"] = source.scripts, target.scripts
        marks["hash"], same = _hashes(*pairs)
        marks["copy"] = same & (source.scripts > 0)
        ratios = _ratios(source.lengths, target.lengths)
    sums = sum(map(len, block.source)), sum(map(len, block.target))
    kept = [diagnostic for some in findings.kept.values() for diagnostic in some]
    return BlockSurvey((len(lines[0]), len(lines[1])), sums, kept, dict(findings.counts), marks.tobytes(), ratios)


def _check_singly(sides: tuple[CheckedSide, CheckedSide], block: Block, numbers: Sequence[int]) -> None:
    """Reports what is wrong with these lines of a block."""
    if not numbers:
        return
    begins = [np.cumsum([start, *map(len, side)]) for start, side in zip(block.offsets, block[2:], strict=True)]
    for n in numbers:
        pair = (
            block.source[n] if n < len(block.source) else None,
            block.target[n] if n < len(block.target) else None,
        )
        check_pair(sides, pair, block.number + int(n), [int(at[min(n, len(at) - 1)]) for at in begins])


def profile(lines: Sequence[bytes]) -> Profile | None:
    """The lines of a side; None where they are not all UTF-8."""
    data = b"".join(lines)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    characters: NDArray[np.integer] = np.frombuffer(data, np.uint8)
    if len(text) != len(data):
        characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    ends = np.flatnonzero(characters == ord("\n"))
    if len(ends) < len(lines):  # the last line of the file has no end
        ends = np.append(ends, len(characters))
    starts = np.append(0, ends[:-1] + 1) if len(ends) else ends
    lengths = ends - starts
    number = np.repeat(np.arange(len(lines)), np.diff(np.append(starts, len(characters))))
    kinds = classes(characters)
    doubtful = np.bincount(number[kinds != SPACE], minlength=len(lines)) == 0
    doubtful |= lengths > LONG
    doubtful[number[(characters == 0) | (characters == ord("\r"))]] = True
    return Profile(lengths, dominant(kinds, number, len(lines)), doubtful)


def _doubtful(source: Profile, target: Profile) -> NDArray[np.bool_]:
    longer, shorter = np.maximum(source.lengths, target.lengths), np.minimum(source.lengths, target.lengths)
    apart = (longer >= RATIO_FROM) & (longer > RATIO * shorter)
    return np.asarray(source.doubtful | target.doubtful | apart)


def _hashes(source: Sequence[bytes], target: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A hash of each pair without ends of lines, and whether its sides are the same."""
    pairs = [(s.rstrip(b"\r\n"), t.rstrip(b"\r\n")) for s, t in zip(source, target, strict=True)]
    digests = b"".join(blake2b(s + b"\n" + t, digest_size=8).digest() for s, t in pairs)
    return np.frombuffer(digests, "<u8"), np.array([s == t for s, t in pairs], bool)


def _ratios(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    both = (source > 0) & (target > 0)
    at = np.floor(np.log2(target[both] / source[both]) * STEPS).astype(np.int64) + _BINS // 2
    return np.bincount(np.clip(at, 0, _BINS - 1), minlength=_BINS)
