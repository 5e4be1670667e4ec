"""Every row of every paper, at each of its language pairs, has the sizes that the paper prints for that pair."""

import re
from collections.abc import Iterator

import pytest

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.tree import Node
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.papers import read_paper
from calque.papers.paper import Paper, PrintedTable, Row

# From the papers' text, not from the zoo's files: width of the model, inner width of feed-forward networks, heads, blocks.
SMALL, LARGE = (288, 507, 4, 5), (512, 2048, 8, 6)
YOU_LARGE = ("wmt16-enro", "wmt16-roen", "wmt14-ende", "wmt14-enfr")
"""You 2020, section 4.2: IWSLT at `SMALL`, WMT at `LARGE`; footnote 19: table 5 and figure 7 at the small sizes."""
DOMHAN = {"iwslt16-ende": 512, "wmt14-ende": 512, "wmt17-ende": 256, "wmt17-lven": 256}
"""Domhan 2018, section 4.1: 512 for IWSLT, 256 for WMT; its table 1 is the base model of Vaswani et al., which has 512."""
DROPOUT = {"iwslt14": "0.2", "wmt16": "0.1", "wmt15": "0.1", "wmt14": "0.1"}
"""Gehring 2017, section 4.3."""


def placed(name: str) -> Iterator[tuple[PrintedTable, Row, str]]:
    """Every row of a paper with every language pair of its table."""
    paper = read_paper.paper(name)
    return ((table, row, pair) for table in paper.tables for row in table.rows for pair in table.pairs)


def at(row: Row, pair: str) -> CheckedDefinition:
    """What `calque explain`, `reproduce` and the rest build."""
    if row.model_of is not None:
        return check(Text(row.name, row.at(pair)), builtin())
    return check(zoo.read(f"{row.name}@{pair}"), builtin())


def nodes(checked: CheckedDefinition, name: str) -> list[Node]:
    return [node for side in (checked.encoder, checked.decoder) for node in side.nodes() if node.name == name]


def test_a_pair_sets_no_other_settings_than_the_tests_here_know() -> None:
    known = {"you2020": {"d", "h", "heads", "n"}, "domhan2018": {"d"}, "gehring2017": {"p"}}
    for name in zoo.papers():
        for pair in read_paper.paper(name).pairs:
            assert set(pair.settings) == known.get(name, set()), (name, pair.name)


@pytest.mark.medium
def test_you_2020() -> None:
    seen = set()
    for table, row, pair in placed("you2020"):
        large = pair in YOU_LARGE or pair.startswith("lingeval97-")
        d, h, heads, blocks = LARGE if large else SMALL
        built = at(row, pair)
        assert built.encoder.width_out == built.decoder.width_out == d, (row.name, pair)
        assert {node.width_out for node in nodes(built, "ff")} <= {h}, (row.name, pair)
        for node in nodes(built, "mh_dot_self_att"):
            assert node.args.heads == heads, (row.name, pair)
        if row.key == "base":
            assert [len(nodes(built, n)) for n in ("mh_dot_self_att", "mh_dot_src_att", "ff")] == [
                2 * blocks,
                blocks,
                2 * blocks,
            ]
        seen.add((table.name, pair, d))
    assert ("table3", "wmt16-enro", 512) in seen
    assert ("table4", "lingeval97-auxiliary", 512) in seen
    assert ("table5", "wmt16-enro-small", 288) in seen
    assert ("table7", "iwslt16-ende", 288) in seen


def test_base_of_you_2020_has_the_parameters_of_the_equations() -> None:
    """Four d x d matrices an attention, without biases; two with biases a feed-forward network; gain and shift a norm."""
    for pair, (d, h, _, n) in {"iwslt16-ende": SMALL, "wmt14-ende": LARGE}.items():
        built = at(read_paper.paper("you2020").table("table2").row("base"), pair)
        attention, network, norm = 4 * d * d, 2 * d * h + d + h, 2 * d
        assert built.encoder.parameters == n * (attention + network + 2 * norm)
        assert built.decoder.parameters == n * (2 * attention + network + 3 * norm)


def test_domhan_2018() -> None:
    for _, row, pair in placed("domhan2018"):
        built = at(row, pair)
        assert built.encoder.width_out == built.decoder.width_out == DOMHAN[pair], (row.name, pair)


def test_gehring_2017() -> None:
    """Rows are of width 256 with LSTMs of 512 unless the row says otherwise, whatever the pair; the pair decides on dropout."""
    for _, row, pair in placed("gehring2017"):
        (p,) = set(re.findall(r"^p = (.+)$", row.at(pair), re.MULTILINE))
        own = "p = 0.1" in row.written  # a row for WMT in a table that has IWSLT too
        assert p == ("0.1" if own else DROPOUT[pair.partition("-")[0]]), (row.name, pair)


@pytest.mark.parametrize(("name", "width"), [("zhang2018", 512), ("luong2015", 1000)])
def test_papers_of_one_size(name: str, width: int) -> None:
    """Zhang 2018, section 5.1.1; Luong 2015, section 4.1."""
    for table, row, pair in placed(name):
        built = at(row, pair)
        assert built.decoder.width_out == width, (table.name, row.key, pair)


def test_a_row_without_a_pair_is_that_of_the_first_column() -> None:
    for name in zoo.papers():
        for table in read_paper.paper(name).tables:
            for row in table.rows:
                assert row.text == row.at(table.columns[0].pair)
                assert set(row.texts) == set(table.pairs)
    assert "\nd = 288\n" in zoo.read("you2020/table7/base").body
    assert zoo.read("you2020/table3/base").body == zoo.read("you2020/table3/base@wmt16-enro").body
    assert "\nd = 512\n" in zoo.read("you2020/table3/base").body


def test_a_pair_that_the_table_does_not_have() -> None:
    with pytest.raises(CalqueError) as caught:
        zoo.read("you2020/table2/base@wmt14-ened")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.fields["near"]) == ("X850", "wmt14-ende")
    zoo.read(f"you2020/table2/base@{fault.fields['near']}")


def test_pairs_of_equal_and_of_other_sizes() -> None:
    paper: Paper = read_paper.paper("domhan2018")
    table = paper.table("table3")
    assert table.same_sizes("wmt17-ende", "wmt17-lven")
    assert not table.same_sizes("iwslt16-ende", "wmt17-ende")
    assert table.same_sizes("iwslt16-ende", "wmt17-ende", ["d"])
    assert table.same_sizes(None, "iwslt16-ende")
