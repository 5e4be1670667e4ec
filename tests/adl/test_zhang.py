"""Zhang's tables: the texts are the folder's, the figures as printed, the claims about rows that exist."""

import re
from typing import Any

import pytest

from calque import zoo
from calque.papers import read_paper
from calque.papers.paper import Claim, Column, Figure
from calque.papers.read_paper import load_paper

ZHANG = read_paper.paper("zhang2018")
ROWS = {row.name.removeprefix("zhang2018/"): row for table in ZHANG.tables for row in table.rows}
TEXTS = {
    "table2": ["transformer", "aan", "aan-no-ffn", "aan-no-gate"],
    "table3": ["transformer", "aan", "transformer-cached"],
    "figure7": ["transformer", "aan", "transformer-cached"],
    "table4": ["transformer", "aan"],
    "table5": ["transformer", "aan"],
}

# Pasted from the paper's text, a line for each of its lines.
TABLE_3 = """
0.2474 0.2464 1.00
0.1804 0.0488 3.70
0.3576 0.0881 4.06
0.5503 0.1291 4.26
0.7323 0.1700 4.31
0.9172 0.2122 4.32
"""
TABLE_4 = """
En→De 27.33 27.22 -0.11 27.92 27.80 -0.12
De→En 32.63 32.73 +0.10 34.06 34.13 +0.07
En→Fi 21.00 20.87 -0.13 21.54 21.47 -0.07
Fi→En 25.19 24.78 -0.41 26.22 25.74 -0.48
En→Lv 16.83 16.63 -0.20 17.42 17.23 -0.19
Lv→En 17.57 17.51 -0.06 18.48 18.30 -0.18
En→Ru 27.82 27.73 -0.09 27.83 27.74 -0.09
Ru→En 31.51 31.36 -0.15 32.59 32.36 -0.23
En→Tr 12.11 11.59 -0.52 12.56 12.03 -0.53
Tr→En 16.19 15.84 -0.35 16.93 16.57 -0.36
En→Cs 21.53 21.12 -0.41 22.07 21.66 -0.41
Cs→En 27.49 27.45 -0.04 28.41 28.33 -0.08
"""
TABLE_5 = """
En→De 0.1411 0.02871 4.91
De→En 0.1255 0.02422 5.18
En→Fi 0.1289 0.02423 5.32
Fi→En 0.1285 0.02336 5.50
En→Lv 0.1850 0.03167 5.84
Lv→En 0.1980 0.03123 6.34
En→Ru 0.1821 0.03140 5.80
Ru→En 0.1595 0.02778 5.74
En→Tr 0.2078 0.02968 7.00
Tr→En 0.1886 0.03027 6.23
En→Cs 0.1150 0.02425 4.74
Cs→En 0.1178 0.02659 4.43
"""


def pair(direction: str) -> str:
    return "wmt17-" + direction.replace("→", "").lower()


def printed(table: str, row: str, column: Column) -> float:
    figure = ROWS[f"{table}/{row}"].figure(column)
    assert figure is not None
    assert figure.deviation is None
    return figure.value


def test_table_2() -> None:
    column = Column("wmt14-ende", "bleu")
    assert [printed("table2", row, column) for row in TEXTS["table2"]] == [26.37, 26.31, 26.05, 25.91]


def test_table_3_and_its_ratios() -> None:
    columns = [Column("wmt14-ende", "updates/s")]
    columns += [Column("wmt14-ende", "seconds/sentence", beam) for beam in (4, 8, 12, 16, 20)]
    assert list(ZHANG.table("table3").columns) == columns
    for column, line in zip(columns, TABLE_3.split("\n")[1:], strict=False):
        transformer, aan, ratio = map(float, line.split())
        assert (printed("table3", "transformer", column), printed("table3", "aan", column)) == (transformer, aan)
        assert round(transformer / aan, 2) == pytest.approx(ratio, abs=0.011)
    assert ROWS["table3/transformer"].decoding.uncached
    assert not ROWS["table3/aan"].decoding.uncached
    assert not ROWS["table3/transformer-cached"].decoding.uncached
    assert ROWS["table3/transformer-cached"].figures == ()


def test_table_4_and_its_differences() -> None:
    for line in TABLE_4.strip().split("\n"):
        direction, *figures = line.split()
        for metric, (transformer, aan, delta) in (("bleu", figures[:3]), ("uncased-bleu", figures[3:])):
            column = Column(pair(direction), metric)
            found = printed("table4", "transformer", column), printed("table4", "aan", column)
            assert found == (float(transformer), float(aan))
            assert round(found[1] - found[0], 2) == float(delta)


def test_table_5_and_its_ratios() -> None:
    for line in TABLE_5.strip().split("\n"):
        direction, *figures = line.split()
        column = Column(pair(direction), "seconds/sentence", 4)
        found = printed("table5", "transformer", column), printed("table5", "aan", column)
        assert found == (float(figures[0]), float(figures[1]))
        assert found[0] / found[1] == pytest.approx(float(figures[2]), abs=0.011)


def test_every_figure_is_there() -> None:
    assert {t.name: [r.key for r in t.rows] for t in ZHANG.tables} == TEXTS
    for table in ZHANG.tables:
        for row in table.rows:
            figures = row.reading_of is None and table.name != "figure7"  # which shows curves
            assert len(row.figures) == (len(table.columns) if figures else 0)


def test_rows_are_the_texts_of_the_folder() -> None:
    for name, row in ROWS.items():
        text = name.rpartition("/")[2].removesuffix("-cached")
        assert row.text.endswith(zoo.read(f"zhang2018/{text}").body)


def worth(claim: Claim, column: Column) -> list[float]:
    """The sums of a claim by the paper's own figures, the other way round where less is better."""
    scores = {row.key: f.value for row in ZHANG.table(claim.table).rows if (f := row.figure(column)) is not None}
    sign = -1 if column.of.lower else 1
    return [round(sign * contrast.value(scores), 6) for contrast in claim.contrasts]


def test_claims_against_the_papers_own_figures() -> None:
    """By its own figures all hold; alike is what differs by half a point of BLEU, or by a hundredth of the speed."""
    seen = set()
    for claim in ZHANG.claims:
        seen.add((claim.table, claim.kind))
        if "transformer-cached" in claim.rows or claim.table == "figure7":
            continue
        for column in claim.columns:
            for value in worth(claim, column):
                assert (
                    abs(value) <= (0.53 if "bleu" in column.metric else 0.0025) if claim.kind == "about" else value > 0
                )
        if claim.kind == "grows":
            aan, transformer = ([printed("table3", row, c) for c in claim.columns] for row in claim.rows)
            ratios = [t / a for t, a in zip(transformer, aan, strict=True)]
            assert ratios == sorted(ratios)
    assert seen == {
        *(("table2", "about"), ("table2", "above"), ("table2", "gain")),
        *(("table3", "about"), ("table3", "above"), ("table3", "grows")),
        *(("table4", "about"), ("table4", "above"), ("table4", "below"), ("table5", "above")),
        ("figure7", "grows"),
    }


# -- columns with a beam


def source(**changed: Any) -> dict[str, Any]:
    table = {
        "title": "t",
        "columns": ["a bleu", "a sentences/s beam=4", "a sentences/s beam=5"],
        "rows": {"x": {"label": "X", "same": "x", "figures": ["1", "2", "-"]}},
    }
    return {
        "title": "t",
        "cite": "c",
        "address": "h",
        "settings": {},
        "pairs": {"a": {"title": "A", "settings": {}}},
        "tables": {"t": {**table, **changed}},
        "claims": [],
    }


def test_a_column_with_a_beam_is_another_one() -> None:
    (table,) = load_paper("p", source(), {"x": "text"}).tables
    assert [str(c) for c in table.columns] == source()["tables"]["t"]["columns"]
    assert [c.what for c in table.columns] == ["bleu", "sentences/s beam=4", "sentences/s beam=5"]
    four, five = table.columns[1:]
    assert four != five
    assert four == Column("a", "sentences/s", 4)
    assert table.rows[0].figure(four) == Figure(2.0, None, "a", "sentences/s", 4)
    assert table.rows[0].figure(five) is None
    assert table.rows[0].figure(Column("a", "sentences/s")) is None


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("a sentences/s beam=0", "is no column"),
        ("a sentences/s beam=04", "is no column"),
        ("a sentences/s beam", "is no column"),
        ("a sentences/s  beam=4", "is no column"),
        ("a sentences/s batch=4", "is no column"),
        ("a updates/s beam=4", "a beam has no part in updates/s"),
    ],
)
def test_a_beam_is_read_strictly(column: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        load_paper("p", source(columns=[column]), {"x": "text"})


def test_rows_and_claims_are_read_strictly() -> None:
    row = {"label": "X", "same": "x", "figures": ["1", "2", "-"]}
    for key, value in (("uncached", False), ("uncached", 1), ("ensemble", True), ("beam", 4)):
        with pytest.raises(ValueError, match=f"`decoding` cannot have {key} = {value}"):
            load_paper("p", source(rows={"x": {**row, "decoding": {key: value}}}), {"x": "text"})
    with pytest.raises(ValueError, match="`same` names no earlier row of its table"):
        load_paper("p", source(rows={"x": {**row, "decoding": {"unknown": True}}}), {"x": "text"})
    claim = {"text": "c", "section": "1", "table": "t", "kind": "grows", "rows": ["x", "y"], "columns": ["a bleu"]}
    rows = {key: {"label": key, "same": "x", "figures": ["1", "2", "-"]} for key in ("x", "y")}
    with pytest.raises(ValueError, match="over two columns or more"):
        load_paper("p", {**source(rows=rows), "claims": [claim]}, {"x": "text"})
    claim["columns"] = ["a sentences/s beam=4", "a sentences/s beam=5"]
    (found,) = load_paper("p", {**source(rows=rows), "claims": [claim]}, {"x": "text"}).claims
    assert [c.terms for c in found.contrasts] == [((1, "x"), (-1, "y"))]
