"""What the papers say of one language pair as against others is tested on text of that pair alone, and what they say of speed and
quality on both.
"""

import pytest

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ledger.entry import Entry
from calque.papers.claims import UNTESTED, ClaimVerdict
from calque.papers.claims_page import judged_claims
from calque.papers.ledger_tables import ReproducedTable
from calque.papers.paper import Claim
from calque.papers.read_paper import paper
from calque.papers.report import Report
from calque.papers.request import Request
from calque.papers.under_trained import why_untested


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


SPEED_AND_QUALITY = "the convolutional encoder generates faster, and better (6/3)"


def reproduced(claim: Claim, timed: bool, verdict: str) -> ReproducedTable:
    """A table of a ledger with one verdict; `timed`: of speed."""
    kind, where = ("speed", {}) if timed else ("quality", {"row": "deep"})
    entry = Entry("x", "x", kind, "x", "2026-01-01", where, {}, seed=1)
    reason = "it was not tested" if verdict == UNTESTED else ""
    judged = (ClaimVerdict(claim, verdict, reason=reason),)
    request = Request("gehring2017", "table3", "multi30k", "budget")
    return ReproducedTable("x", Report(request, "", (), (), (), (), judged, {}, (), "", {}), (entry,))


@pytest.mark.parametrize(
    ("quality", "speed", "verdict", "why"),
    [
        (HOLDS, HOLDS, HOLDS, ""),
        (HOLDS, FAILS, FAILS, ""),
        (HOLDS, UNDECIDED, UNDECIDED, ""),
        (UNTESTED, HOLDS, UNTESTED, "it was not tested"),
        (HOLDS, None, UNTESTED, "the ledger does not have both quality and speed"),
        (FAILS, UNTESTED, FAILS, ""),
        (None, None, UNTESTED, "the ledger has no cell of this table"),
    ],
)
def test_a_claim_of_speed_and_quality_needs_both(
    quality: str | None, speed: str | None, verdict: str, why: str
) -> None:
    (claim,) = (one for one in paper("gehring2017").claims if one.text == SPEED_AND_QUALITY)
    sides = ((False, quality), (True, speed))
    tables = [reproduced(claim, timed, one) for timed, one in sides if one is not None]
    (judged,) = (one for one in judged_claims({"gehring2017": tables}, {}, "multi30k") if one.text == SPEED_AND_QUALITY)
    assert judged.verdict == verdict
    assert verdict != UNTESTED or judged.effect == why
