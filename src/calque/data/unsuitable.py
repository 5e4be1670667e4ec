"""Training pairs that teach nothing: repeated ones, copies, and those in the script of another language.

All are counted and reported; those that `leave_out` of [data] names are left out of training.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calque.data.scripts import name_of, own_scripts
from calque.data.survey import MARKS, TextSurvey

REASONS = ("duplicates", "copies", "script")
"""In this order: a pair that is left out is counted under the first reason that applies. Its number from 1 is that in the file."""
FILE = "left-out"
PART = 1 << 20
"""Pairs read at a time."""
BUCKET = 1 << 23
"""Hashes sorted at a time; bounds memory."""


def find_unsuitable(marks: Path, survey: TextSurvey, leave_out: Sequence[str], file: Path) -> dict[str, int]:
    """How many pairs each reason applies to. Writes one byte for each pair: 0, or the number of the reason to leave it out."""
    total = sum(survey.pairs)
    own = [own_scripts(side) for side in survey.scripts]
    duplicates = np.zeros(-(-total // 8), np.uint8)  # a bit for each pair
    counts = {**dict.fromkeys(REASONS, 0), "duplicates": _mark_duplicates(marks, total, duplicates)}
    with open(file, "wb") as written:
        for at, part in _parts(marks):
            bits = duplicates[at // 8 : -(-(at + len(part)) // 8)]
            found = {
                "duplicates": np.unpackbits(bits, count=len(part)).astype(bool),
                "copies": part["copy"] > 0,
                "script": ~(own[0][part["source"]] & own[1][part["target"]]),
            }
            for reason in REASONS[1:]:
                counts[reason] += int(found[reason].sum())
            out = np.zeros(len(part), np.uint8)
            for number, reason in reversed(list(enumerate(REASONS, 1))):
                if reason in leave_out:
                    out[found[reason]] = number
            written.write(out.tobytes())
    return counts


def left_out(file: Path, start: int, count: int) -> NDArray[np.uint8]:
    """What `find_unsuitable` wrote of so many pairs; read, not mapped, so that it takes no memory."""
    return np.fromfile(file, np.uint8, count, offset=start)


def suitable(file: Path) -> int:
    """How many pairs are not left out."""
    size = file.stat().st_size
    return sum(int((left_out(file, at, PART) == 0).sum()) for at in range(0, size, PART))


def _parts(marks: Path) -> Iterator[tuple[int, NDArray[np.void]]]:
    at = 0
    with open(marks, "rb") as file:
        while data := file.read(PART * MARKS.itemsize):
            part = np.frombuffer(data, MARKS)
            yield at, part
            at += len(part)


def _mark_duplicates(marks: Path, total: int, bits: NDArray[np.uint8]) -> int:
    """Sets the bit of each pair that occurred before; their number.

    Two different pairs have the same hash of 64 bits with a chance of n^2 / 2^65 for n pairs: 3 in a million for ten million.
    """
    buckets = -(-total // BUCKET)
    count = 0
    for bucket in range(buckets):
        hashes, numbers = [], []
        for at, part in _parts(marks):
            own = np.flatnonzero(part["hash"] % np.uint64(buckets) == bucket)
            hashes.append(part["hash"][own])
            numbers.append(own + at)
        values, places = np.concatenate(hashes), np.concatenate(numbers)
        order = np.argsort(values, kind="stable")  # of equal ones the first comes first
        values, places = values[order], places[order]
        repeated = places[1:][values[1:] == values[:-1]]
        count += len(repeated)
        np.bitwise_or.at(bits, repeated >> 3, (128 >> (repeated & 7)).astype(np.uint8))
    return count


def report_lines(survey: TextSurvey, counts: dict[str, int], leave_out: Sequence[str]) -> Iterator[str]:
    """What the survey found, in words."""
    total = max(1, sum(survey.pairs))
    names = {"duplicates": "exact duplicates", "copies": "copies (source = target)", "script": "in another script"}
    found = [
        f"{counts[reason]:,} {names[reason]} ({counts[reason] / total:.1%}{', left out' * (reason in leave_out)})"
        for reason in REASONS
    ]
    yield f"train: {sum(survey.pairs):,} pairs; " + ", ".join(found)
    low, middle, high = (survey.ratio(share) for share in (0.01, 0.5, 0.99))
    yield f"train: characters of the target per character of the source: median {middle:.2f}, 98% from {low:.2f} to {high:.2f}"
    scripts = [
        " and ".join(name_of(int(k)) for k in np.flatnonzero(own_scripts(side) & (side > 0)) if k) or "none"
        for side in survey.scripts
    ]
    yield f"train: scripts {scripts[0]} to {scripts[1]}"
