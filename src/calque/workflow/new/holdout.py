"""Validation text for a corpus that has none: a part of it, chosen by content."""

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from calque.data.lines import Lines
from calque.ground.diagnostics import Place, error

HELD_OUT = 1_000
"""At most so many pairs are held out; one in twenty of a smaller corpus."""
_ENDING = re.compile(r"\.([A-Za-z][\w-]*?)(?:\.(?:gz|bz2|xz|zst|txt))*$")
_WORDS, _BLANK = b"+", b"-"


def hold_out(folder: Path, files: Sequence[Path], pairs: int) -> tuple[list[Path], list[Path], int]:
    """Splits a corpus by content, so that equal pairs are in one part. Returns training, validation, and the pairs held out.

    The parts are written into `folder`. Raises X413 where all pairs are the same.
    """
    wanted = max(1, min(HELD_OUT, pairs // 20))
    counts = Counter(_key(*lines) for lines in zip(Lines(files[0]), Lines(files[1]), strict=True))
    if len(counts) < 2:
        raise error("X413", Place(str(files[0])), pairs=pairs)
    chosen = _chosen(counts, wanted)
    parts = [[folder / f"{split}.{ending}" for ending in _endings(files)] for split in ("train", "valid")]
    with contextlib.ExitStack() as stack:
        written = [[stack.enter_context(open(path, "wb")) for path in part] for part in parts]
        for lines in zip(Lines(files[0]), Lines(files[1]), strict=True):
            for file, line in zip(written[_key(*lines) in chosen], lines, strict=True):
                file.write(line.encode() + b"\n")
    return parts[0], parts[1], sum(counts[key] for key in chosen)


def _chosen(counts: Mapping[bytes, int], wanted: int) -> set[bytes]:
    """The keys of pairs that are held out: in their order those that have no more lines than are wanted still, but not all pairs.

    Where each pair has more lines than are wanted, the first one with the fewest.
    """
    keys = [key for key in sorted(counts) if key.startswith(_WORDS)] or sorted(counts)
    chosen = set[bytes]()
    for key in keys:
        if counts[key] <= wanted and len(chosen) < max(1, len(keys) - 1):
            chosen.add(key)
            wanted -= counts[key]
    return chosen or {min(keys, key=lambda key: counts[key])}


def _endings(files: Sequence[Path]) -> list[str]:
    """The endings of the parts: those of the files, which may name their languages; else `source` and `target`."""
    found = [ending[1] for file in files if (ending := _ENDING.search(file.name))]
    return found if len(set(found)) == len(found) == 2 else ["source", "target"]


def _key(source: str, target: str) -> bytes:
    """A digest of a pair, behind a mark whether both sides have words: other pairs are left out of a corpus."""
    mark = _WORDS if source.split() and target.split() else _BLANK
    return mark + hashlib.sha256(f"{source}\t{target}".encode()).digest()[:8]
