"""Validation text for a corpus that has none: a part of it, chosen by content."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from calque.data.lines import Lines
from calque.ground.diagnostics import Place, error
from calque.ground.files import write_whole

HELD_OUT = 1_000
"""At most so many pairs are held out; one in twenty of a smaller corpus."""


def hold_out(folder: Path, files: Sequence[Path], pairs: int) -> tuple[list[Path], list[Path], int]:
    """Splits a corpus by content, so that equal pairs are in one part. Returns training, validation, and the pairs held out.

    The parts are written into `folder`. Raises X413 where all pairs are the same.
    """
    wanted = max(1, min(HELD_OUT, pairs // 20))
    digests: dict[bytes, bool] = {}  # whether both sides have words: other pairs are left out of a corpus
    for source, target in zip(Lines(files[0]), Lines(files[1]), strict=True):
        digests[_key(source, target)] = bool(source.split() and target.split())
    if len(digests) < 2:
        raise error("X413", Place(str(files[0])), pairs=pairs)
    full = sorted(key for key, words in digests.items() if words) or sorted(digests)
    chosen = set(full[: min(wanted, max(1, len(full) - 1))])
    parts: dict[str, list[bytes]] = {
        name: [] for name in ("train.source", "train.target", "valid.source", "valid.target")
    }
    for source, target in zip(Lines(files[0]), Lines(files[1]), strict=True):
        name = "valid" if _key(source, target) in chosen else "train"
        parts[f"{name}.source"].append(source.encode() + b"\n")
        parts[f"{name}.target"].append(target.encode() + b"\n")
    for name, lines in parts.items():
        write_whole(folder / name, b"".join(lines))
    train, valid = ([folder / f"{split}.{side}" for side in ("source", "target")] for split in ("train", "valid"))
    return train, valid, len(parts["valid.source"])


def _key(source: str, target: str) -> bytes:
    return hashlib.sha256(f"{source}\t{target}".encode()).digest()[:8]
