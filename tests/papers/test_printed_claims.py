"""The claims of the papers beside the figures that the papers print: where these speak against a claim, that is known."""

import math
from collections.abc import Iterator

import pytest

from calque import zoo
from calque.papers.paper import Claim, Column, Contrast, PrintedTable
from calque.papers.ranges import ALIKE_POINTS, ALIKE_RATIO
from calque.papers.read_paper import paper
from calque.papers.request import Request
from calque.papers.under_trained import why_untested

SMALLER = "it is said of all pairs, and of this one the gain is smaller or as small"
ALMOST = "the paper calls 0.7 and 1.2 BLEU almost equal"
AGAINST_ITSELF = {
    ("domhan2018", "attention in every layer gains even more than several heads", "iwslt16-ende bleu"): SMALLER,
    ("domhan2018", "the largest gains come from several attention layers ...", "iwslt16-ende bleu"): SMALLER,
    ("domhan2018", "... and from feed-forward layers", "iwslt16-ende bleu"): SMALLER,
    ("domhan2018", "... and from feed-forward layers", "wmt17-lven bleu"): SMALLER,
    ("domhan2018", "... and from feed-forward layers", "wmt17-lven meteor"): SMALLER,
    ("domhan2018", "in CNNs the largest gains come from feed-forward layers", "wmt17-lven bleu"): SMALLER,
    ("domhan2018", "in CNNs the largest gains come from feed-forward layers", "wmt17-lven meteor"): SMALLER,
    ("you2020", "hard-coded self-attention scores almost as BASE does", "iwslt17-jaen bleu"): ALMOST,
    ("you2020", "hard-coded self-attention scores almost as BASE does", "wmt14-enfr bleu"): ALMOST,
}


def test_figures_that_speak_against_a_claim_are_known() -> None:
    assert set(contradictions()) == AGAINST_ITSELF.keys()


def contradictions() -> Iterator[tuple[str, str, str]]:
    for name in zoo.papers():
        for claim in paper(name).claims:
            table = paper(name).table(claim.table)
            columns = [claim.columns[-1]] if claim.across else claim.columns
            for column in columns:
                if any(
                    not agrees(value, contrast.relation, column) for value, contrast in values(claim, column, table)
                ):
                    yield name, claim.text, str(column)


def values(claim: Claim, column: Column, table: PrintedTable) -> Iterator[tuple[float, Contrast]]:
    """Of each comparison of which all figures are printed: by how much the better row is better, of ratios as a logarithm."""
    first = claim.columns[0] if claim.across else None
    for contrast in claim.contrasts:
        terms = [(factor, row, column) for factor, row in contrast.terms]
        terms += [(-factor, row, first) for factor, row in contrast.terms if first is not None]
        figures = [(factor, c, table.row(row).figure(c)) for factor, row, c in terms]
        if all(figure is not None for _, _, figure in figures):
            yield (
                sum(factor * worth(figure.value, c, claim.across) for factor, c, figure in figures if figure),
                contrast,
            )


def worth(value: float, column: Column, ratios: bool) -> float:
    scaled = math.log(value) if ratios or not points(column) else value
    return -scaled if column.of.lower else scaled


def points(column: Column) -> bool:
    return "bleu" in column.metric or column.metric == "meteor" or column.of.percentage


def agrees(value: float, relation: str, column: Column) -> bool:
    margin = ALIKE_POINTS if points(column) else math.log(ALIKE_RATIO)
    return {"above": value > 1e-9, "not-above": value < margin, "about": abs(value) <= margin + 1e-9}[relation]


@pytest.mark.parametrize(
    ("corpus", "pair", "tested"),
    [
        ("multi30k", None, False),
        ("multi30k", "wmt17-deen", False),
        ("mine.toml", "wmt17-deen", True),
        ("mine.toml", None, False),
    ],
)
def test_a_claim_of_one_pair_alone_needs_a_corpus_of_that_pair(corpus: str, pair: str | None, tested: bool) -> None:
    (claim,) = (one for one in paper("zhang2018").claims if one.text == "on German-English it improves slightly")
    why = why_untested(claim, Request("zhang2018", "table4", corpus, "linear", pair=pair), {})
    assert why == ("" if tested else "it is about WMT'17 German-English alone")
