"""Claims on statistics that are known."""

from dataclasses import replace

import numpy as np
import pytest

from calque.evaluate.significance import Runs
from calque.evaluate.statistics import Measure
from calque.papers import claims
from calque.papers.claims import ClaimVerdict, Resampling, claims_of
from calque.papers.paper import Claim, Column, Figure, PrintedTable, Row
from calque.papers.read_paper import paper
from calque.papers.trained_report import statistics_of

COLUMN = Column("wmt", "bleu")
MEAN = Measure(
    "mean",
    lambda hypotheses, references: np.array([[float(h), 1.0] for h in hypotheses]),
    lambda sums: 100 * sums[..., 0] / sums[..., 1],
    lambda: "mean",
)


def table(**figures: float) -> PrintedTable:
    rows = (Row(f"p/t/{k}", k, "", (Figure(v, None, "wmt", "bleu"),)) for k, v in figures.items())
    return PrintedTable("t", "t", (COLUMN,), tuple(rows))


def claim(kind: str, rows: tuple[str, ...] = (), steps: tuple[tuple[str, str], ...] = ()) -> Claim:
    return Claim("said", "1", "t", kind, rows, steps, (COLUMN,))


def runs_of(**means: float) -> dict[str, Runs]:
    rng = np.random.default_rng(0)
    text = {row: [[str(m + rng.normal(0, 0.01)) for _ in range(200)] for _ in range(2)] for row, m in means.items()}
    return statistics_of(MEAN, text, ["x"] * 200)


def judge(said: Claim, **means: float) -> ClaimVerdict:
    return claims.judge(said, A, Resampling({"bleu": (MEAN, runs_of(**means))}, COLUMN, 400))


A = table(a=3.0, b=2.0, c=1.0, d=1.5)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (claim("above", ("a", "b")), "holds"),
        (claim("above", ("b", "a")), "does not hold"),
        (claim("above", ("a", "b", "c")), "holds"),
        (claim("above", ("b", "c", "a")), "does not hold"),
        (claim("below", ("c", "a", "b")), "holds"),
        (claim("above", ("c", "d")), "undecided"),
        (claim("about", ("c", "d")), "holds"),
        (claim("about", ("a", "c")), "does not hold"),
        (claim("not-above", ("b", "a")), "holds"),
        (claim("not-above", ("a", "b")), "does not hold"),
        (claim("gain", (), (("c", "a"), ("c", "b"))), "holds"),
        (claim("gain", (), (("c", "b"), ("c", "a"))), "does not hold"),
        (claim("gain", (), (("c", "d"), ("d", "c"))), "undecided"),
    ],
)
def test_verdicts(said: Claim, verdict: str) -> None:
    found = judge(said, a=0.3, b=0.2, c=0.1, d=0.1)
    assert found.verdict == verdict, found.tested
    assert all(one.paper is not None for one in found.tested)


def test_the_value_of_a_difference_of_gains() -> None:
    (one,) = judge(claim("gain", (), (("c", "a"), ("b", "a"))), a=0.3, b=0.2, c=0.1).tested
    assert one.text == "(a - c) - (a - b)"
    assert one.value == pytest.approx(10, abs=0.5)
    assert one.paper == pytest.approx(1.0)
    assert one.p is None


def test_a_claim_of_rows_that_are_not_there_is_not_tested() -> None:
    found = judge(claim("above", ("a", "b")), a=0.3)
    assert (found.verdict, found.missing, found.tested) == ("not tested", ("b",), ())


def test_what_grows_from_column_to_column_is_not_tested_in_one() -> None:
    said = Claim("said", "1", "t", "grows", ("a", "b"), (), (COLUMN, Column("wmt", "unk-bleu")))
    found = judge(said, a=0.3, b=0.2)
    assert (found.verdict, found.missing) == ("not tested", ("wmt unk-bleu",))


def test_every_claim_of_the_paper_is_of_some_metric() -> None:
    here = paper("domhan2018")
    for name in (t.name for t in here.tables):
        chosen = claims_of(here.claims, name, "bleu")
        assert chosen == [c for c in here.claims if c.table == name and any(x.metric == "bleu" for x in c.columns)]


@pytest.mark.parametrize(("rows", "verdict"), [(("a", "b"), "holds"), (("b", "a"), "does not hold")])
def test_what_grows_is_a_ratio_of_ratios_of_scores(rows: tuple[str, str], verdict: str) -> None:
    first, last = COLUMN, Column("wmt", "unk-bleu")
    scores = {"bleu": (MEAN, runs_of(a=0.2, b=0.3)), "unk-bleu": (MEAN, runs_of(a=0.8, b=0.4))}
    said = Claim("said", "1", "t", "grows", rows, (), (first, last))
    found = claims.judge(said, A, Resampling(scores, first, 400))
    (one,) = found.tested
    assert found.verdict == verdict
    assert one.text == f"{rows[0]} against {rows[1]}, unk-bleu over bleu"
    assert one.value == pytest.approx(3.0 if rows[0] == "a" else 1 / 3, rel=0.02)
    assert one.interval[0] < one.value < one.interval[1]
    assert (one.ratio, one.p, one.paper) == (True, None, None)
    # The same the other way round: the second row's advantage shrinks.
    shrunk = claims.judge(replace(said, kind="shrinks", rows=rows[::-1]), A, Resampling(scores, first, 400))
    assert (shrunk.verdict, shrunk.tested) == (verdict, found.tested)


def test_rows_that_decode_the_same_models_are_compared_model_by_model() -> None:
    (a,) = runs_of(a=0.4).values()
    a = a + np.array([[[0.0, 0.0]], [[0.1, 0.0]]])  # one model is much better than the other
    runs = {"a": a, "b": a - [0.01, 0.0]}
    found = {}
    for model in (None, "b"):
        both = PrintedTable("t", "t", (COLUMN,), (replace(A.row("b")), replace(A.row("a"), model_of=model)))
        evidence = Resampling({"bleu": (MEAN, runs)}, COLUMN, 400)
        found[model] = claims.judge(claim("above", ("a", "b")), both, evidence)
    assert (found[None].verdict, found["b"].verdict) == ("undecided", "holds")
    assert found["b"].tested[0].interval == pytest.approx((1, 1))


def test_beside_a_test_stand_the_figures_of_the_pairs_that_a_claim_is_about() -> None:
    other = Column("iwslt", "bleu")
    rows = (
        Row(f"p/t/{key}", key, "", (Figure(1.0, None, "wmt", "bleu"), Figure(value, None, "iwslt", "bleu")))
        for key, value in (("a", 7.0), ("b", 2.0))
    )
    both = PrintedTable("t", "t", (COLUMN, other), tuple(rows))
    evidence = Resampling({"bleu": (MEAN, runs_of(a=0.4, b=0.3))}, COLUMN, 400)
    for columns, paper_says in (((other,), 5.0), ((COLUMN, other), 0.0)):
        found = claims.judge(Claim("said", "1", "t", "above", ("a", "b"), (), columns), both, evidence)
        assert [one.paper for one in found.tested] == [paper_says]
