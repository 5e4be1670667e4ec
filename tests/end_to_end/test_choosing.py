"""`calque mbr`: from the output of `calque translate` to one translation of each line, and what is refused."""

from pathlib import Path

import pytest
from command import Run
from test_ways_to_translate import make_run

from calque.evaluate.mbr import Candidates, most_alike
from calque.evaluate.statistics import measure


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"), "two", 2)


def test_samples_of_a_run_become_one_translation_of_each_line(calque: Run, run: Path, tmp_path: Path) -> None:
    source = b"i h g\n\nb c d e f\n"
    samples = calque("translate", run, "--sample", "--n-best", 6, stdin=source).out
    each = [samples.split("\n")[at : at + 6] for at in (0, 6, 12)]
    assert len(set(each[2])) > 3
    done = calque("mbr", "-", "--n-best", 6, "--scores", stdin=samples.encode())
    chosen = [most_alike(Candidates(one), measure("bleu")) for one in each]
    assert (done.status, done.out) == (0, "".join(f"{one.score:.4f}\t{one.text}\n" for one in chosen))
    (tmp_path / "samples").write_text(samples)
    done = calque("mbr", tmp_path / "samples", "--n-best", 6, "--metric", "chrf")
    assert done.out == "".join(f"{most_alike(Candidates(one), measure('chrf')).text}\n" for one in each)


def test_epsilon_bounds_what_is_sampled(calque: Run, run: Path) -> None:
    line = b"i h g f e d\n" * 20
    greedy = calque("translate", run, "--beam", 1, stdin=line).out
    best = calque("translate", run, "--sample", "--set", "decode.epsilon=1", stdin=line).out
    assert best == greedy
    assert calque("translate", run, "--sample", stdin=line).out != greedy


def test_scores_of_a_search_weigh_its_translations(calque: Run, run: Path) -> None:
    found = calque("translate", run, "--n-best", 5, "--scores", stdin=b"i h g f e\n").out
    best = calque("translate", run, "--beam", 5, stdin=b"i h g f e\n").out
    assert calque("mbr", "-", "--n-best", 5, "--scale", 1000, stdin=found.encode()).out == best
    assert calque("mbr", "-", "--n-best", 5, "--scale", 1, stdin=best.encode() * 5).err.count("error[D526]") == 1


def test_each_file_can_be_one_system(calque: Run, tmp_path: Path) -> None:
    for name, line in {"a": "a dog runs", "b": "the dog runs", "c": "the dog run"}.items():
        (tmp_path / name).write_text(f"{line}\n{name}\n")
    done = calque("mbr", *(tmp_path / name for name in "abc"))
    assert (done.status, done.out) == (0, "the dog runs\na\n")


def test_one_candidate_is_no_choice(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    done = calque("mbr", tmp_path / "a")
    assert (done.status, done.out) == (2, "")
    assert "a single candidate leaves no choice" in done.err


def test_what_is_no_text_is_told(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\xff\na b\n")
    done = calque("mbr", tmp_path / "a", "--n-best", 2)
    assert (done.status, done.out) == (1, "a\ufffd\n")
    assert done.err.count("error[D120]") == 1
    (tmp_path / "thai").write_text("หมาวิ่งเร็ว\nหมาเดินเร็ว\n")
    done = calque("mbr", tmp_path / "thai", "--n-best", 2, "--metric", "bleu")
    assert (done.status, done.err.count("warning[D505]")) == (0, 1)
    (tmp_path / "scored").write_text("-0.5\ta b\n-1e-2\ta\n-inf\t\n2\tc\n")
    done = calque("mbr", tmp_path / "scored", "--n-best", 2)
    assert (done.status, done.err.count("warning[D527]")) == (0, 1)


def test_a_file_that_is_cut_off_is_an_error(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\na b\nc\n")
    done = calque("mbr", tmp_path / "a", "--n-best", 2)
    assert (done.status, done.out, done.err.count("error[D524]")) == (1, "a b\n", 1)
    (tmp_path / "b").write_text("a\nb\n")
    done = calque("mbr", tmp_path / "a", tmp_path / "b")
    assert (done.status, done.err.count("error[D525]")) == (1, 1)
