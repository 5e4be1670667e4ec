"""Reading text and checking corpora: what is accepted, and each fault with its code and line."""

import gzip
import os
import random
import re
from pathlib import Path

import pytest

from calque.data import lines as text
from calque.data.lines import EXAMPLES, LONG, Lines, check_corpus
from calque.data.packed import no_text
from calque.ground.diagnostics import CalqueError, Place, codes, render
from calque.ground.files import write_whole


def put(folder: Path, name: str, body: bytes) -> Path:
    path = folder / name
    path.write_bytes(body)
    return path


def check(folder: Path, source: bytes, target: bytes):
    return check_corpus(put(folder, "a", source), put(folder, "b", target))


def faults(folder: Path, source: bytes, target: bytes) -> list[tuple[str, str, int | None]]:
    with pytest.raises(CalqueError) as raised:
        check(folder, source, target)
    assert raised.value.exit_code == 1
    assert "{" not in str(raised.value)  # every field of every message is filled
    return places(raised.value.diagnostics)


def places(diagnostics) -> list[tuple[str, str, int | None]]:
    return [
        (d.code, Path(d.where.file).name, d.where.line) if isinstance(d.where, Place) else (d.code, "", None)
        for d in diagnostics
    ]


STRANGE = "a\u0085b \u2028 c\x0bd\x0ce\x1cf\u00a0g"


def test_only_newline_ends_a_line(tmp_path):
    lines = [STRANGE, "x\ry", "", "last"]
    path = put(tmp_path, "t", "\n".join(lines).encode())
    assert list(Lines(path)) == lines
    assert check(tmp_path, (STRANGE + "\n").encode(), b"one line\n").pairs == 1


def test_carriage_return_before_newline_is_dropped_once(tmp_path):
    assert list(Lines(put(tmp_path, "t", b"a\r\nb\r\r\nc\r"))) == ["a", "b\r", "c"]


def test_gzip_equals_plain_whatever_the_name(tmp_path):
    body = "".join(f"Zeile {i} ß\n" for i in range(5000)).encode()
    plain, packed = put(tmp_path, "plain.gz", body), put(tmp_path, "packed", gzip.compress(body))
    assert list(Lines(plain)) == list(Lines(packed)) == body.decode().split("\n")[:-1]
    assert check_corpus(plain, packed).pairs == 5000


def test_lines_can_be_read_again_and_need_no_last_newline(tmp_path):
    lines = Lines(put(tmp_path, "t", b"a\nb"))
    assert list(lines) == list(lines) == ["a", "b"]


def test_a_clean_corpus_has_no_findings(tmp_path):
    found = check(tmp_path, b"a cat\na dog\n", b"eine Katze\nein Hund\n")
    assert (found.pairs, found.warnings, dict(found.counts)) == (2, (), {})


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(CalqueError) as raised:
        check_corpus(tmp_path / "none", tmp_path)
    assert places(raised.value.diagnostics) == [("D101", "none", None), ("D101", tmp_path.name, None)]
    assert "no such file" in str(raised.value)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CalqueError) as raised:
        check_corpus(tmp_path / "pipe", Path("/dev/null"))
    assert places(raised.value.diagnostics) == [("D108", "pipe", None), ("D108", "null", None)]
    assert [fault.fields["found"] for fault in raised.value.diagnostics] == ["a pipe", "a device"]


def test_unequal_counts(tmp_path):
    assert faults(tmp_path, b"a\n", b"a\nb\nc\n") == [("D102", "a", 2)]
    with pytest.raises(CalqueError) as raised:
        check(tmp_path, b"a\nb\nc\n", b"a\n")
    [found] = raised.value.diagnostics
    assert (found.code, Path(found.where.file).name, found.where.line) == ("D102", "b", 2)
    assert (found.fields["n"], found.fields["m"]) == (3, 1)


def test_invalid_utf8_with_line_and_offset(tmp_path):
    source = "gut ß\n".encode() + b"caf\xe9!\n"
    with pytest.raises(CalqueError) as raised:
        check(tmp_path, source, b"a\nb\n")
    [found] = raised.value.diagnostics
    assert (found.code, found.where.line) == ("D103", 2)
    assert found.fields == {"byte": "0xe9", "column": 4, "offset": source.index(b"\xe9")}
    with pytest.raises(CalqueError) as again:
        list(Lines(tmp_path / "a"))
    assert again.value.diagnostics == raised.value.diagnostics


LINES = "Ein kurzer Satz, und noch einer.\n" * 30


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (LINES.encode("utf-16"), "UTF-16"),
        (LINES.encode("utf-16-be"), "UTF-16BE"),
        (LINES.encode("utf-16-le"), "UTF-16LE"),
        (LINES.encode("utf-32"), "UTF-32"),
        (b"PK\3\4" + bytes(range(256)) * 9, "a zip archive"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" * 9, "a PDF document"),
        (random.Random(5).randbytes(5000), "binary data"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_text_is_one_error(tmp_path, body, found, packed):
    with pytest.raises(CalqueError) as raised:
        check(tmp_path, gzip.compress(body) if packed else body, b"a\n")
    [fault] = raised.value.diagnostics
    assert (fault.code, Path(fault.where.file).name, fault.fields["found"]) == ("D107", "a", found)
    assert ("iconv -f UTF" in str(raised.value)) == found.startswith("UTF")


@pytest.mark.parametrize(
    "body", [b"a\n\0\1\n", b"\t\x1b\r\n" * 9, LINES.encode() + b"\0" * 40, "größer\n".encode("latin-1")]
)
def test_text_with_faults_is_text(body):
    assert no_text(body) == ""


def test_nul(tmp_path):
    assert faults(tmp_path, b"a\nb\0c\n", b"a\nb\n") == [("D104", "a", 2)]


@pytest.mark.parametrize("damage", ["cut", "flip", "header"])
def test_damaged_gzip(tmp_path, damage):
    packed = bytearray(gzip.compress("".join(f"line {i * i}\n" for i in range(9999)).encode()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    elif damage == "flip":
        packed[-6] ^= 1  # in the checksum
    else:
        packed[2] = 99
    [(code, name, line)] = faults(tmp_path, bytes(packed), b"x\n")
    assert (code, name) == ("D105", "a")
    assert line >= 1
    with pytest.raises(CalqueError):
        list(Lines(tmp_path / "a"))


def test_empty_file(tmp_path):
    assert faults(tmp_path, b"", gzip.compress(b"")) == [("D106", "a", None), ("D106", "b", None)]


def test_warnings_come_back(tmp_path):
    long = b"x" * (LONG + 1)
    source = b"a\r\n" + b" \xe3\x80\x80\n" + long + b"\n" + b"y" * 500 + b"\n" + b"z" * 99 + b"\n"
    target = b"a\nb\n" + long[:-1] + b"\n" + b"y" * 49 + b"\nz\n"
    found = check(tmp_path, source, target)
    assert places(found.warnings) == [("D111", "a", 1), ("D112", "a", 2), ("D113", "a", 3), ("D114", "a", 4)]
    assert all(d.severity == "warning" and render(d).startswith("warning[") for d in found.warnings)
    assert found.counts == {"D111": 1, "D112": 1, "D113": 1, "D114": 1}


def test_examples_are_few_and_all_are_counted(tmp_path):
    found = check(tmp_path, b"\n" * 30, b"x\n" * 30)
    assert found.counts == {"D112": 30}
    assert [d.code for d in found.warnings] == ["D112"] * EXAMPLES + ["D110"]
    assert found.warnings[-1].fields == {"more": 30 - EXAMPLES, "of": "D112"}


def test_all_errors_at_once_errors_first(tmp_path):
    found = faults(tmp_path, b"\n\xff\nb\0\nx\n", b"a\nb\nc\n")
    assert found == [("D102", "b", 4), ("D103", "a", 2), ("D104", "a", 3), ("D112", "a", 1)]


def test_write_whole_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_whole(path, b"old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_every_code_is_raised_somewhere_and_triggered_by_a_test():
    data = Path(text.__file__).parent
    raised = {c for f in data.glob("*.py") for c in re.findall(r'"(D[123]\d\d)"', f.read_text("utf-8"))}
    tested = {
        c for f in Path(__file__).parent.glob("*.py") for c in re.findall(r'"(D[123]\d\d)"', f.read_text("utf-8"))
    }
    # D13 is what `calque new` says of a corpus, and is tested with it.
    ours = {c for c in codes() if c[:2] in ("D1", "D2", "D3") and c[:3] != "D13"}
    assert raised == ours
    assert tested >= ours
