"""A damaged file gives all the lines before the damage, and its error the place."""

import bz2
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from calque.data.lines import raw_lines
from calque.ground.diagnostics import CalqueError, Place

LINES = [
    f"line {n} of a text that is as long as captions are, {n * n % 977} and {n * 7919 % 10007}\n".encode()
    for n in range(18_000)
]


@pytest.mark.medium
@pytest.mark.parametrize("count", [2_500, 18_000])
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_lines_before_the_damage_come_first(pack: object, count: int, tmp_path: Path) -> None:
    assert callable(pack)
    path, found = tmp_path / "text", []
    path.write_bytes(pack(b"".join(LINES[:count]))[:-40])
    with pytest.raises(CalqueError) as caught:
        _collect(raw_lines(path), found)
    assert found == LINES[: len(found)]
    # bzip2 packs blocks of 900 kB, of which a damaged one is lost.
    assert len(found) >= (0 if pack is bz2.compress else 0.9 * count)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.where) == ("D105", Place(str(path), len(found) + 1))


def _collect(lines: Iterator[bytes], found: list[bytes]) -> None:
    for line in lines:
        found.append(line)
