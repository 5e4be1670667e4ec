"""A corpus of a few words in the layout that `calque data` builds."""

import gzip
from pathlib import Path

import pytest
from reproduced import sentences


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets claims be tested on models of three updates; `test_trained` is about those that are not to be tested."""
    for report in ("trained_report", "timed_report"):
        monkeypatch.setattr(f"calque.papers.{report}.marked_rows", lambda cells: {})


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    folder = tmp_path / "corpora" / "multi30k" / "tok"
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 60, "val": 8, "test2016": 12}.items()):
        for language, text in zip(("en", "de"), sentences(count, seed), strict=True):
            if name == "train":
                (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    (folder / "bpe-joint.en-de.codes").write_text("#version: 0.2\nt h\nth e</w>\nd o\n", encoding="utf-8")
    return tmp_path / "corpora"
