"""The two files of a paper: texts in the zoo, and beside them what the paper prints."""

import copy
from typing import Any

import pytest

from calque import zoo
from calque.papers.read_paper import joined, printed

TEXTS, FIGURES = {"settings", "definitions", "pairs"}, {"claims", "floors", "keys", "computed"}


@pytest.mark.parametrize("name", zoo.papers())
def test_the_zoo_holds_texts_and_the_other_file_figures(name: str) -> None:
    texts, figures = zoo.source(name), printed(name)
    assert set(texts) <= {"title", "cite", "address", "tables"} | TEXTS
    assert set(figures) <= {"tables"} | FIGURES
    for table in texts["tables"].values():
        assert set(table) == {"title", "pairs", "rows"}
        for row in table["rows"].values():
            assert set(row) <= {"label", "note", "encoder", "decoder", "same", "settings", "models"}
    for table in figures["tables"].values():
        assert set(table) <= {"columns", "rows", "match"}
        for row in table["rows"].values():
            assert set(row) <= {"figures", "reading_of", "decoding"}


def both() -> tuple[dict[str, Any], dict[str, Any]]:
    return copy.deepcopy(zoo.source("luong2015")), copy.deepcopy(printed("luong2015"))


def test_files_that_do_not_fit() -> None:
    texts, figures = both()
    joined(texts, figures)
    figures["tables"]["table1"]["rows"]["x"] = {"figures": ["1"]}
    with pytest.raises(ValueError, match="table1: x is printed and has no text"):
        joined(texts, figures)
    texts, figures = both()
    texts["tables"]["table1"]["pairs"] = ["xx"]
    with pytest.raises(ValueError, match="its language pairs are not those of its columns"):
        joined(texts, figures)
    texts, figures = both()
    del texts["tables"]["table1"]["rows"]["ensemble"]["models"]
    with pytest.raises(ValueError, match="table1/ensemble: expected models = 8"):
        joined(texts, figures)
    texts, figures = both()
    figures["tables"]["table99"] = {"columns": []}
    with pytest.raises(ValueError, match="table99 is printed and has no texts"):
        joined(texts, figures)
