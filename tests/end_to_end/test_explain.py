"""`calque explain` and `calque fit` as a user runs them."""

import json
from pathlib import Path

import pytest
from command import Run

TINY = "d = 32\nheads = 4\nn = 3\nencoder = pos -> repeat(n, tenc)\ndecoder = pos -> repeat(n, tdec) -> norm\n"


@pytest.mark.medium
def test_fit_prints_what_set_takes(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    (tmp_path / "b.adl").write_text(TINY.replace("tdec", "tdec(rnn)"))
    done = calque("fit", tmp_path / "a.adl", "--params-of", tmp_path / "b.adl")
    assert done.status == 0, done.err
    again = calque("explain", tmp_path / "a.adl", "--set", done.out.strip(), "--json")
    assert f"{json.loads(again.out)['parameters']:,} parameters" in done.err
    assert calque("fit", tmp_path / "a.adl", "--params-of", 200_000, "--setting", "n").out == "n=7\n"
    assert calque("fit", tmp_path / "a.adl", "--params-of", 1, "--setting", "p").status == 2
    assert calque("fit", tmp_path / "a.adl", "--params-of", "200_000", "--setting", "n").out == "n=7\n"
    assert calque("fit", tmp_path / "a.adl", "--params-of", "0.2M", "--setting", "n").out == "n=7\n"
    assert calque("fit", tmp_path / "a.adl", "--params-of", "1.5").status == 2
    done = calque("fit", tmp_path / "a.adl", "--params-of", tmp_path / "a.adl", "--setting", "heads")
    assert (done.status, done.out) == (0, "heads=1\n"), done.err
    assert "(+0.00%)" in done.err
    (tmp_path / "e.toml").write_text(
        '[model]\nfile = "a.adl"\n[data]\ntrain = ["x", "y"]\nvalid = ["x", "y"]\n[train]\nmax_epochs = 1\n'
    )
    assert calque("fit", tmp_path / "e.toml", "--params-of", 200_000, "--setting", "n").out == "n=7\n"
    keys = ("--set", "train.lr=0.1", "--set", f"model.file={tmp_path}/b.adl", "--set", "heads=2")
    of_b = calque("fit", tmp_path / "b.adl", "--params-of", 200_000, "--setting", "n", "--set", "heads=2")
    by_key = calque("fit", tmp_path / "e.toml", "--params-of", 200_000, "--setting", "n", *keys)
    assert (by_key.status, by_key.out) == (0, of_b.out), by_key.err
    assert "error[X105]" in calque("fit", tmp_path / "e.toml", "--params-of", 9, "--set", "train.none=1").err
    assert "error[X112]" in calque("fit", tmp_path / "missing", "--params-of", 200_000).err
    (tmp_path / "none.adl").write_text("encoder = id\ndecoder = id\n")
    for nothing in (0, tmp_path / "none.adl"):
        assert "error[X232]" in calque("fit", tmp_path / "a.adl", "--params-of", nothing).err
    for count in ("1__0", "_5", "5_", "²"):
        none = calque("fit", tmp_path / "a.adl", "--params-of", count, "--setting", "n")
        assert (none.status, "error[" in none.err, "Traceback" in none.err) == (2, True, False)


def test_explain_takes_lengths_and_vocabularies(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    sizes = ["--length", 10, "--source-length", 20, "--source-vocabulary", 100, "--target-vocabulary", 100]
    found = json.loads(calque("explain", tmp_path / "a.adl", "--json", *sizes).out)
    assert (found["length"], found["source_length"]) == (10, 20)
    assert found["output"] == {"parameters": 100 * 33, "products": 100 * 32}
    assert found["decoder"]["field"] == [None, 0]
    assert found["state_bytes"]["float32"] == 8 + 4 * 3 * 64 * (11 + 20)  # keys and values of three layers


@pytest.mark.parametrize("tying", [(), ("--tying", "none")])
@pytest.mark.parametrize("side", ["--source-vocabulary", "--target-vocabulary"])
def test_one_vocabulary_alone_is_that_of_both_sides(
    calque: Run, tmp_path: Path, side: str, tying: tuple[str, ...]
) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    both = calque("explain", tmp_path / "a.adl", "--source-vocabulary", 100, "--target-vocabulary", 100, *tying).out
    assert "output            3,300 parameters" in both
    assert calque("explain", tmp_path / "a.adl", side, 100, *tying).out == both


def test_vocabularies_of_two_sizes_share_no_matrix(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    sizes = ["--source-vocabulary", 100, "--target-vocabulary", 200]
    wrong = calque("explain", tmp_path / "a.adl", *sizes, "--tying", "three-way")
    assert (wrong.status, "vocabularies of one size, found 100 and 200" in wrong.err) == (2, True)


def test_a_diagram_is_drawn_whole_or_not_at_all(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    done = calque("explain", tmp_path / "a.adl", "--diagram", tmp_path / "a.svg")
    assert (done.status, done.out.strip()) == (0, str(tmp_path / "a.svg"))
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">a.adl</text>" in drawn
    calque("explain", "domhan2018/transformer", "--diagram", tmp_path / "b.svg")
    assert ">domhan2018/transformer</text>" in (tmp_path / "b.svg").read_text(encoding="utf-8")
    failed = calque("explain", tmp_path / "a.adl", "--diagram", tmp_path / "nowhere" / "a.svg")
    assert failed.status == 2
    assert "X408" in failed.err
    other = calque("explain", tmp_path / "a.adl", "--diagram", tmp_path / "a.png")
    assert (other.status, (tmp_path / "a.png").exists()) == (2, False)
    assert "expected a name that ends in .svg" in other.err
    broken = calque("explain", tmp_path / "a.adl", "--set", "d=33", "--diagram", tmp_path / "c.svg")
    assert broken.status == 2
    assert not (tmp_path / "c.svg").exists()
