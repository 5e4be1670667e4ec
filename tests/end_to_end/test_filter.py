"""`calque filter`: what it writes and says, and what is refused."""

import random
from pathlib import Path

import pytest
from command import Run


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    """Letters and their numbers; the last 40 pairs have the target of another."""
    draw = random.Random(3)
    sources = [draw.choices("abcdefghijklmnopqrst", k=6) for _ in range(400)]
    targets = [[str(ord(letter)) for letter in words] for words in sources]
    targets[360:] = [*targets[361:], targets[360]]
    paths = tmp_path / "a.en", tmp_path / "a.de"
    for path, side in zip(paths, (sources, targets), strict=True):
        path.write_text("".join(" ".join(words) + "\n" for words in side))
    return paths


def test_wrong_pairs_are_left_out(calque: Run, text: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "b.en", tmp_path / "b.de"
    done = calque("filter", *text, "--out", *out, "--scores", tmp_path / "scores")
    kept = [path.read_text().splitlines() for path in out]
    assert (done.status, done.out) == (0, "")
    assert f"{len(kept[0])} of 400 pairs ({len(kept[0]) / 4:.1f}%) have a score of at least" in done.err
    assert 345 <= len(kept[0]) <= 365
    assert sum(" ".join(str(ord(x)) for x in a.split()) == b for a, b in zip(*kept, strict=True)) >= 345
    assert len((tmp_path / "scores").read_text().splitlines()) == 400
    again = calque("filter", *text, "--keep", 0.5, "--out", *out)
    assert again.err.startswith("200 of 400 pairs (50.0%)")


def test_what_is_wrong_is_one_error_and_writes_nothing(calque: Run, text: tuple[Path, Path], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    new = tmp_path / "b.en", tmp_path / "b.de"
    short = tmp_path.parent / f"{tmp_path.name}.short"
    short.write_text("a\n")
    for given, status, words in [
        (text, 2, "nothing is to be written"),
        ((*text, "--out", *new, "--keep", 1, "--accept", 0.1), 2, "decide the same"),
        ((*text, "--out", *new, "--keep", 2), 2, "--keep"),
        ((*text, "--out", new[0], new[0]), 2, "X408"),
        ((*text, "--out", new[0], text[1]), 2, "another file of this command"),
        ((*text, "--scores", tmp_path / "none" / "scores"), 2, "X408"),
        ((*text, "--scores", tmp_path), 2, "it is a folder"),
        ((text[0], short, "--out", *new), 1, "D102"),
        ((text[0], tmp_path / "none", "--out", *new), 1, "D101"),
        ((text[0], "-", "--out", *new), 1, "D101"),
    ]:
        done = calque("filter", *given)
        assert (done.status, words in done.err) == (status, True), (given, done.err)
        assert "Traceback" not in done.err
    assert sorted(tmp_path.iterdir()) == before
