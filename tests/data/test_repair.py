"""Lines with bad bytes: what they become, and what is reported."""

import gzip
from pathlib import Path

import pytest

from calque.data.lines import EXAMPLES
from calque.data.repair import LONGEST, Repairs
from calque.ground.diagnostics import Diagnostic

BAD = [b"a b c", b"a \xff b", b"", b"a\xc3", b"d\0e", b"\xed\xa0\x80 h", b"i\rh \xe2\x80\xa8 a\xc2\x85b", b"b"]
MEANT = ["a b c", "a \ufffd b", "", "a\ufffd", "d\ufffde", "\ufffd\ufffd\ufffd h", "i\rh \u2028 a\u0085b", "b"]
REPORTED = [("D120", 2), ("D120", 4), ("D121", 5), ("D120", 6)]


def read(path: Path) -> tuple[list[str], list[Diagnostic], int]:
    found: list[Diagnostic] = []
    repairs = Repairs(found.append)
    lines = list(repairs.lines(path))
    repairs.end()
    return lines, found, repairs.faults


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bad_bytes_become_replacement_characters(tmp_path: Path, pack: object) -> None:
    body = b"\xef\xbb\xbf" + b"\r\n".join(BAD)
    (tmp_path / "text").write_bytes(pack(body))  # type: ignore[operator]
    lines, found, faults = read(tmp_path / "text")
    assert lines == MEANT
    assert [(d.code, d.where.line) for d in found] == REPORTED  # type: ignore[union-attr]
    assert faults == len(REPORTED)
    assert found[0].fields == {"byte": "0xff", "column": 3}
    assert found[2].fields == {"character": "U+0000", "column": 2}


def test_only_the_first_faults_are_listed(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\n" * (EXAMPLES + 3))
    lines, found, faults = read(tmp_path / "text")
    assert lines == ["\ufffd"] * (EXAMPLES + 3)
    assert [d.code for d in found] == ["D120"] * EXAMPLES + ["D110"]
    assert (found[-1].fields["more"], faults) == (3, EXAMPLES + 3)


def test_an_over_long_line_is_one_line_and_takes_no_memory(tmp_path: Path) -> None:
    long = "ä" * LONGEST  # twice as many bytes; the cut is inside a character
    (tmp_path / "text").write_bytes(f"x{long}{long}\ny\n{'z' * LONGEST}".encode())
    lines, found, faults = read(tmp_path / "text")
    assert [len(line) for line in lines] == [1 + LONGEST // 2, 1, LONGEST]
    assert [(d.code, d.where.line) for d in found] == [("D122", 1)]  # type: ignore[union-attr]
    assert faults == 1
    (tmp_path / "text").write_bytes(b"z" * LONGEST + b"\ny\n")
    lines, found, faults = read(tmp_path / "text")
    assert ([len(line) for line in lines], found, faults) == ([LONGEST, 1], [], 0)
