"""Input with bad bytes: as many lines out as in, each bad line reported; the same rule for sentences of a Python program."""

import bz2
import gzip
import lzma
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Run
from test_ways_to_translate import make_run

import calque as package

BAD = [b"a b c", b"a \xff b", b"", b"a\xc3", b"d\0e", b"\xed\xa0\x80 h", b"i\rh \xe2\x80\xa8 a\xc2\x85b", b"b"]
MEANT = ["a b c", "a \ufffd b", "", "a\ufffd", "d\ufffde", "\ufffd\ufffd\ufffd h", "i\rh \u2028 a\u0085b", "b"]
REPORTED = [("D120", 2), ("D120", 4), ("D121", 5), ("D120", 6)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), "one", 1)


@pytest.mark.medium
@pytest.mark.parametrize("options", [[], ["--workers", 2, "--threads", 1]])
def test_translate_writes_as_many_lines_as_it_reads(calque: Run, run: Path, options: list[object]) -> None:
    done = calque("translate", run, *options, stdin=b"\n".join(BAD) + b"\n")
    clean = calque("translate", run, stdin="".join(f"{line}\n" for line in MEANT).encode())
    assert (done.status, clean.status, clean.err) == (1, 0, "")
    assert done.out == clean.out
    assert done.out.count("\n") == len(BAD)
    for code, line in REPORTED:
        assert f"error[{code}]" in done.err
        assert f"--> stdin:{line}\n" in done.err
    assert "Traceback" not in done.err


def zstandard(body: bytes) -> bytes:
    packed: bytes = pytest.importorskip("zstandard").compress(body)
    return packed


@pytest.mark.medium
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_translate_unpacks_what_it_reads(calque: Run, run: Path, pack: Callable[[bytes], bytes]) -> None:
    body = b"a b c\nb\n" * 3000
    done, clean = calque("translate", run, stdin=pack(body)), calque("translate", run, stdin=body)
    assert (done.status, done.err) == (0, "")
    assert done.out == clean.out
    cut = calque("translate", run, stdin=pack(body)[:-9])
    assert (cut.status, cut.err.count("error["), "Traceback" in cut.err) == (1, 1, False)
    assert "error[D105]" in cut.err
    assert clean.out.startswith(cut.out)


def test_what_is_no_text_is_refused_as_a_whole(calque: Run, run: Path, tmp_path: Path) -> None:
    for body in ("a b c\nb\n" * 30).encode("utf-16"), bytes(range(256)) * 40:
        done = calque("translate", run, stdin=body)
        assert (done.status, done.out, done.err.count("error["), done.err.count("\n")) == (1, "", 1, 3), done
        assert "error[D107]" in done.err
        (tmp_path / "text").write_bytes(body)
        done = calque("evaluate", tmp_path / "text", tmp_path / "text")
        assert (done.status, done.err.count("error[")) == (1, 1)
        assert "error[D107]" in done.err


def test_evaluate_and_score_read_standard_input(calque: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a b c d e\n" * 3)
    text = (tmp_path / "text").read_bytes()
    want = calque("evaluate", tmp_path / "text", tmp_path / "text").out
    assert calque("evaluate", "-", tmp_path / "text", stdin=text).out == want
    assert calque("evaluate", tmp_path / "text", "-", stdin=gzip.compress(text)).out == want
    scores = calque("score", run, tmp_path / "text", tmp_path / "text").out
    assert calque("score", run, tmp_path / "text", "-", stdin=text).out == scores != ""
    for given, code in ((None, "D101"), (b"", "D501"), (text.decode().encode("utf-16"), "D107")):
        done = calque("evaluate", "-", tmp_path / "text", stdin=given)
        assert (done.status, code in done.err, done.out) == (1, True, ""), done


@pytest.mark.parametrize(
    "command",
    [
        "evaluate - -",
        "score RUN - -",
        "align --run RUN - -",
        "export RUN --to hf --test - -",
        "translate RUN --prefix -",
    ],
)
def test_standard_input_is_one_text(calque: Run, run: Path, command: str) -> None:
    done = calque(*[run if word == "RUN" else word for word in command.split()], stdin=b"a b\nc d\n")
    assert (done.status, done.out, done.err.count("error[")) == (2, "", 1), done
    assert "error[X117]: expected one text from standard input, found two" in done.err


def test_score_align_and_evaluate_read_bad_bytes_too(calque: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"a \xff b\nc\n")
    (tmp_path / "meant").write_text("a \ufffd b\nc\n")
    (tmp_path / "target").write_text("A B\nC\n")
    for command in (["score", run, "TEXT", tmp_path / "target"], ["align", "TEXT", tmp_path / "target", "--run", run]):
        done = calque(*[tmp_path / "bad" if word == "TEXT" else word for word in command])
        clean = calque(*[tmp_path / "meant" if word == "TEXT" else word for word in command])
        assert (done.status, done.err.count("error[D120]"), clean.status) == (1, 1, 0), (command, done)
        assert done.out == clean.out
        assert done.out.count("\n") == 2
    done = calque("evaluate", tmp_path / "bad", tmp_path / "meant")
    assert (done.status, done.err.count("error[D120]")) == (1, 1)
    assert done.out == calque("evaluate", tmp_path / "meant", tmp_path / "meant").out
    # What is learned from has to be right.
    for command in (["align", tmp_path / "bad", tmp_path / "target"], ["new", tmp_path / "new", "--train"]):
        done = calque(*command, *([tmp_path / "bad", tmp_path / "target"] if command[0] == "new" else []))
        assert (done.status, done.out, done.err.count("error[D103]")) == (1, "", 1)


def test_sides_that_differ_in_length_are_still_an_error(calque: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "two").write_bytes(b"a\nb\xff\n")
    (tmp_path / "one").write_bytes(b"A\n")
    (tmp_path / "none").write_bytes(b"")
    for target, code in (("one", "D102"), ("none", "D102")):
        done = calque("score", run, tmp_path / "two", tmp_path / target)
        assert (done.status, done.out, done.err.count(f"error[{code}]")) == (1, "", 1)
    assert calque("score", run, tmp_path / "none", tmp_path / "none").err.count("error[D106]") == 1


def test_one_string_is_one_sentence(run: Path) -> None:
    loaded = package.load(run)
    assert loaded.translate("a b c") == loaded.translate(["a b c"])[0]
    assert loaded.translate("a b c", prefixes="C A") == loaded.translate(["a b c"], prefixes=["C A"])[0]
    assert loaded.translate("a b c", prefixes="C A").startswith("C A")
    assert loaded.candidates("a b c", n_best=2) == loaded.candidates(["a b c"], n_best=2)[0]
    assert loaded.score(("a b", "A B")) == loaded.score([("a b", "A B")])[0]
    assert loaded.cross_entropies({"a b": "A B"}) == loaded.cross_entropies({"a b": ["A B"]})
    assert loaded.translate(line for line in ("a", "b")) == loaded.translate(("a", "b"))
    assert loaded.translate([]) == []
    ids = loaded.loaded.target.encode(["C A"])[0]
    anything: list[Any] = [ids, iter(ids), np.array(ids)]
    for given in anything:
        assert loaded.translate("a b c", prefixes=given).startswith("C A")
    assert loaded.translate(["a b c"], prefixes=[tuple(ids)])[0].startswith("C A")
    assert [len(one) for one in loaded.cross_entropies({"a b": [], "c": ["C"]})] == [0, 1]


def test_what_is_no_sentence_is_a_type_error(run: Path) -> None:
    loaded = package.load(run)
    for wrong in (b"a b", [b"a"], ["a", None], [["a"]]):
        with pytest.raises(TypeError, match="expected a string"):
            loaded.translate(wrong)  # type: ignore[call-overload]
    for pairs in (["ab", "cd"], "ab", [("a", "b", "c")], [3]):
        with pytest.raises(TypeError, match="pairs of source and target"):
            loaded.score(pairs)
    with pytest.raises(TypeError, match="one string"):
        loaded.translate(["a", "b"], prefixes="AB")  # type: ignore[call-overload]
    no_prefixes: list[Any] = [["A"], [True], 5, None]
    for prefix in no_prefixes:
        with pytest.raises(TypeError, match="as text or as ids"):
            loaded.translate(["a"], prefixes=[prefix])
    with pytest.raises(ValueError, match="as many prefixes"):
        loaded.translate(["a", "b"], prefixes=["A"])
    assert len(package.load(run, beam=1).candidates("a b", n_best=3)) == 3, "the beam is raised"
    with pytest.raises(ValueError, match="n_best must be at least 1, found 0"):
        package.load(run, beam=1).candidates(["a"], n_best=0)


def test_python_reads_sentences_as_the_command_line_reads_lines(calque: Run, run: Path) -> None:
    loaded = package.load(run)
    asked = b"\xef\xbb\xbfa b c\r\nd\nh h\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = loaded.translate(["\ufeffa b c\r\n", "d\n", "h h"])
    assert "".join(f"{line}\n" for line in found) == calque("translate", run, stdin=asked).out
    with pytest.warns(UserWarning, match="D121") as said:
        odd = loaded.translate(["a", "d \ud800 e", "b\0"])
    assert [str(one.message).split(" --> ")[1].split("\n")[0] for one in said] == ["lines:2", "lines:3"]
    advised = [str(one.message).split("for instance ")[1] for one in said]
    assert advised == [r'`text.replace("\ud800", "")`', r'`text.replace("\x00", "")`']
    assert r"`tr -d '\000'`" in calque("translate", run, stdin=b"b\0\n").err
    assert odd == loaded.translate(["a", "d \ufffd e", "b\ufffd"])
    text = "d = 8\nencoder = id\ndecoder = mlp_src_att\n"
    assert package.check("\ufeff" + text).hash == package.check(text).hash


def test_the_package_lists_what_it_has() -> None:
    assert set(package.__all__) <= set(dir(package))
    assert {"build", "check", "load", "Run", "Translation", "CalqueError", "__version__"} <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = package.lode
