"""Corpora without the pairs that are no translations of each other."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from calque.ground.diagnostics import CalqueError
from calque.workflow import filtering
from calque.workflow.filtering import filter_corpus

WORDS = [f"{a}{b}" for a in "bcdfg" for b in "aeiou"]


def corpus(folder: Path, right: int, wrong: int, ends: str = "\n") -> tuple[tuple[Path, Path], list[bool]]:
    """Pairs of which some have the target of another; each word has one translation."""
    draw = random.Random(2)
    sources = [draw.choices(WORDS, k=draw.randint(4, 9)) for _ in range(right + wrong)]
    targets = [[f"x{word}" for word in words] for words in sources]
    lines = list(
        zip(sources, [*targets[:right], *targets[right + 1 :], targets[right]] if wrong else targets, strict=True)
    )
    marks = [k < right for k in range(right + wrong)]
    both = [*zip(lines, marks, strict=True)]
    draw.shuffle(both)
    paths = folder / "a.en", folder / "a.de"
    for k, path in enumerate(paths):
        path.write_bytes(ends.join(" ".join(line[k]) for line, _ in both).encode() + ends.encode())
    return paths, [mark for _, mark in both]


def rows(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_wrong_pairs_are_left_out_and_all_else_stays(tmp_path: Path, ends: str) -> None:
    paths, marks = corpus(tmp_path, 600, 400, ends)
    out, scores = (tmp_path / "b.en", tmp_path / "b.de"), tmp_path / "scores"
    counts: list[int] = []
    found = filter_corpus(paths, out, scores=scores, progress=lambda pairs: counts.append(-pairs) or counts.append)
    values = np.loadtxt(scores)
    kept = values >= found.least - 5e-5
    assert (found.pairs, found.words, found.kept) == (1000, 1000, int(kept.sum()))
    assert counts[0] == -1000 == -sum(counts[1:])
    right = np.array(marks)
    assert kept[right].mean() > 0.97
    assert kept[~right].mean() < 0.05
    for source, target in zip(paths, out, strict=True):
        assert rows(target) == [row for row, is_kept in zip(rows(source), kept, strict=True) if is_kept]


def test_a_share_is_kept(tmp_path: Path) -> None:
    paths, marks = corpus(tmp_path, 300, 100)
    out = tmp_path / "b.en", tmp_path / "b.de"
    assert filter_corpus(paths, out, keep=0.5).kept == 200
    want = [row for row, mark in zip(rows(paths[0]), marks, strict=True) if mark]
    assert set(rows(out[0])) <= set(want)
    assert filter_corpus(paths, out, keep=1.0).kept == 400
    assert rows(out[1]) == rows(paths[1])
    assert filter_corpus(paths, out, keep=0.0).kept == 0
    assert rows(out[1]) == []


def test_pairs_that_were_not_learned_from_have_scores_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "AT_ONCE", 7)
    paths, marks = corpus(tmp_path, 600, 200)
    found = filter_corpus(paths, scores=tmp_path / "scores", learn=200)
    kept = np.loadtxt(tmp_path / "scores") >= found.least - 5e-5
    assert kept[np.array(marks)].mean() > 0.9
    assert kept[~np.array(marks)].mean() < 0.1


def test_blank_lines_and_what_is_packed(tmp_path: Path) -> None:
    paths, _ = corpus(tmp_path, 300, 0)
    texts = [b"\n" + path.read_bytes() + b"ba be bi" for path in paths]  # without a line end
    packed = tmp_path / "c.en.gz", tmp_path / "c.de"
    packed[0].write_bytes(gzip.compress(texts[0]))
    packed[1].write_bytes(texts[1])
    out = tmp_path / "d.en", tmp_path / "d.de"
    found = filter_corpus(packed, out, keep=1.0, scores=tmp_path / "scores")
    assert (found.pairs, found.words, found.kept) == (302, 301, 301)
    assert rows(tmp_path / "scores")[0] == b"-inf\n"
    assert out[0].read_bytes() == texts[0][1:] + b"\n"


@pytest.mark.parametrize("body", ["a\n", "a b\n\n", "\n\n", ". \n, \n"])
def test_texts_that_say_nothing(tmp_path: Path, body: str) -> None:
    paths = tmp_path / "a.en", tmp_path / "a.de"
    for path in paths:
        path.write_text(body)
    if "." not in body:
        with pytest.raises(CalqueError, match="D139"):
            filter_corpus(paths, (tmp_path / "b.en", tmp_path / "b.de"))
    found = filter_corpus(paths, (tmp_path / "b.en", tmp_path / "b.de"), keep=1.0, scores=tmp_path / "scores")
    assert found.pairs == body.count("\n") == len(rows(tmp_path / "scores"))
    assert found.kept <= found.words <= found.pairs
    assert len(rows(tmp_path / "b.en")) == found.kept


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    paths, _ = corpus(tmp_path, 20, 0)
    out = tmp_path / "b.en", tmp_path / "none" / "b.de"
    with pytest.raises(FileNotFoundError):
        filter_corpus(paths, out)
    paths[1].write_bytes(b"\xff\n" * 20)
    with pytest.raises(CalqueError, match="D103"):
        filter_corpus(paths, (tmp_path / "b.en", tmp_path / "b.de"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]
