"""Lexical tables: counted, written, read again; the dictionary of unknown words."""

from pathlib import Path

from calque.align.lexical_table import best_of, count_links, read_table, rows

SOURCES = [["a", "b"], ["a", "a"], ["b", "c"]]
TARGETS = [["x", "y"], ["x", "z"], ["y", "<unk>"]]
LINKS = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (1, 0)})]


def test_probabilities_are_shares_of_links(tmp_path: Path) -> None:
    table = count_links(SOURCES, TARGETS, LINKS)
    assert table == {("a", "x"): 2 / 3, ("a", "z"): 1 / 3, ("b", "y"): 1, ("c", "<unk>"): 0.5, ("c", "y"): 0.5}
    assert count_links(SOURCES, TARGETS, LINKS, 2) == {("a", "x"): 2 / 3, ("b", "y"): 1}
    written = list(rows(table))
    assert written == ["a\tx\t0.666667", "a\tz\t0.333333", "b\ty\t1", "c\t<unk>\t0.5", "c\ty\t0.5"]
    path = tmp_path / "table"
    path.write_text("".join(f"{row}\n" for row in written))
    assert read_table(path).keys() == table.keys()


def test_a_dictionary_has_the_most_probable_word_and_no_symbol() -> None:
    table = count_links(SOURCES, TARGETS, LINKS)
    assert best_of(table) == {"a": "x", "b": "y", "c": "y"}
    assert best_of({("a", "z"): 0.5, ("a", "b"): 0.5}) == {"a": "b"}
