"""What the papers say of one language pair as against others is tested on text of that pair alone."""

import pytest

from calque.papers.read_paper import paper
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
