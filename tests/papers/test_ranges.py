"""Claims on bare figures: the whole range decides, ratios and signs are as defined."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from calque.papers import claims
from calque.papers.claims import ClaimVerdict
from calque.papers.paper import Claim, Column, Figure, PrintedTable, Row
from calque.papers.ranges import Ranges

SPEED, SECONDS, AER, RATE, PERPLEXITY = (
    Column("wmt", m) for m in ("sentences/s", "seconds/sentence", "aer", "accuracy", "perplexity")
)
FOUR, TWENTY = (Column("wmt", "seconds/sentence", beam) for beam in (4, 20))


def judge(values: Mapping[Column, Mapping[str, Sequence[float]]], said: Claim, here: PrintedTable) -> ClaimVerdict:
    return claims.judge(said, here, Ranges(values))


def table(columns: Sequence[Column], printed: Mapping[str, Sequence[float]]) -> PrintedTable:
    rows = (
        Row(
            f"p/t/{key}",
            key,
            "",
            tuple(Figure(v, None, c.pair, c.metric, c.beam) for c, v in zip(columns, some, strict=True)),
        )
        for key, some in printed.items()
    )
    return PrintedTable("t", "t", tuple(columns), tuple(rows))


def claim(
    kind: str, rows: tuple[str, ...], columns: tuple[Column, ...], steps: tuple[tuple[str, str], ...] = ()
) -> Claim:
    return Claim("said", "1", "t", kind, rows, steps, columns)


@pytest.mark.parametrize(
    ("column", "kind", "a", "b", "verdict"),
    [
        (SPEED, "above", [2.0, 2.1], [1.0, 1.9], "holds"),
        (SPEED, "above", [2.0, 2.1], [1.0, 2.0], "undecided"),  # a whole range, not a median
        (SPEED, "above", [1.0, 1.1], [1.2, 1.3], "does not hold"),
        (SPEED, "above", [2.0], [1.0], "undecided"),  # one value each has no range
        (SECONDS, "above", [2.0, 2.1], [1.0, 1.9], "does not hold"),  # more seconds are slower
        (SECONDS, "above", [1.0, 1.1], [1.2, 1.3], "holds"),
        (SECONDS, "below", [1.0, 1.1], [1.2, 1.3], "does not hold"),
        (PERPLEXITY, "above", [6.0, 6.1, 6.2], [6.3, 6.4, 6.5], "holds"),
        (PERPLEXITY, "not-above", [6.0, 6.1, 6.2], [7.0, 7.1, 7.2], "does not hold"),
        (AER, "above", [0.0, 0.20], [0.21, 0.30], "holds"),
        (SPEED, "about", [100.0, 101.0], [99.0, 102.0], "holds"),
        (SPEED, "about", [100.0, 101.0], [94.0, 102.0], "undecided"),
        (SPEED, "about", [100.0, 101.0], [90.0, 94.0], "does not hold"),
        (RATE, "above", [80.0, 82.0], [70.0, 79.0], "holds"),
        (RATE, "about", [80.0, 80.2], [80.1, 80.4], "holds"),
        (RATE, "about", [80.0, 80.2], [80.1, 80.6], "undecided"),
        (SPEED, "not-above", [1.0, 1.01], [1.0, 1.02], "holds"),
        (SPEED, "not-above", [1.2, 1.3], [1.0, 1.1], "does not hold"),
    ],
)
def test_verdicts(column: Column, kind: str, a: list[float], b: list[float], verdict: str) -> None:
    found = judge({column: {"a": a, "b": b}}, claim(kind, ("a", "b"), (column,)), table([column], {"a": [1], "b": [2]}))
    assert found.verdict == verdict


def test_the_interval_is_that_of_every_choice_of_values() -> None:
    """By naming all of them: how many times as fast a is as b."""
    a, b = [2.0, 2.5, 2.2], [5.0, 6.0, 4.0]
    every = [y / x for x, y in itertools.product(a, b)]
    here = table([SECONDS], {"a": [0.05], "b": [0.2]})
    (one,) = judge({SECONDS: {"a": a, "b": b}}, claim("above", ("a", "b"), (SECONDS,)), here).tested
    assert one.interval == pytest.approx((min(every), max(every)))
    assert one.value == pytest.approx(5.0 / 2.2)
    assert one.paper == pytest.approx(4.0)
    assert one.ratio
    assert one.text == "a against b"
    assert one.p is None


def test_percentages_are_told_as_differences() -> None:
    here = table([RATE], {"a": [34.0], "b": [30.0]})
    (one,) = judge({RATE: {"a": [28.0, 28.5], "b": [25.0, 26.0]}}, claim("above", ("a", "b"), (RATE,)), here).tested
    assert (one.value, one.interval, one.paper, one.ratio) == (2.75, (2.0, 3.5), 4.0, False)


def test_a_ratio_that_grows_from_the_first_column_to_the_last() -> None:
    said = claim("grows", ("a", "b"), (FOUR, TWENTY))
    here = table([FOUR, TWENTY], {"a": [0.1, 0.3], "b": [0.4, 1.5]})
    values = {FOUR: {"a": [1.0, 1.1], "b": [2.0, 2.1]}, TWENTY: {"a": [3.0, 3.1], "b": [12.0, 12.1]}}
    found = judge(values, said, here)
    (one,) = found.tested
    assert found.verdict == "holds"
    assert one.text == "a against b, seconds/sentence beam=20 over seconds/sentence beam=4"
    assert one.interval == pytest.approx(((12.0 / 3.1) / (2.1 / 1.0), (12.1 / 3.0) / (2.0 / 1.1)))
    assert one.paper == pytest.approx(5 / 4)
    assert judge({FOUR: values[TWENTY], TWENTY: values[FOUR]}, said, here).verdict == "does not hold"


def test_a_gain_is_a_ratio_of_ratios() -> None:
    values = {SPEED: {"a": [1.0, 1.0], "b": [3.0, 3.0], "c": [2.0, 2.0]}}
    said = claim("gain", (), (SPEED,), (("a", "b"), ("b", "c")))
    (one,) = judge(values, said, table([SPEED], {"a": [1], "b": [1], "c": [1]})).tested
    assert one.text == "(b against a) against (c against b)"
    assert one.value == pytest.approx(3 / (2 / 3))
    assert one.verdict == "holds"


def test_each_column_that_measures_the_same_is_tested_whatever_its_pair() -> None:
    other = claim(
        "above", ("a", "b"), (Column("iwslt", "seconds/sentence", 4), Column("iwslt", "seconds/sentence", 20))
    )
    values = {
        FOUR: {"a": [1.0, 1.0], "b": [2.0, 2.0]},
        TWENTY: {"a": [3.0, 3.0], "b": [3.0, 3.1]},
        SPEED: {"a": [1.0], "b": [1.0]},
    }
    found = judge(values, other, table([], {"a": [], "b": []}))
    assert [(one.text, one.verdict, one.paper) for one in found.tested] == [
        ("a against b, seconds/sentence beam=4", "holds", None),
        ("a against b, seconds/sentence beam=20", "undecided", None),
    ]
    assert found.verdict == "undecided"


def test_what_has_no_figure_is_not_tested() -> None:
    here = table([SPEED], {"a": [1], "b": [2]})
    found = judge({SPEED: {"a": [1.0, 1.0]}}, claim("above", ("a", "b"), (SPEED,)), here)
    assert (found.verdict, found.missing) == ("not tested", ("b",))
    memory = Column("wmt", "batch-tokens")
    found = judge({SPEED: {"a": [1.0, 1.0], "b": [1.0]}}, claim("above", ("a", "b"), (memory,)), here)
    assert (found.verdict, found.missing) == ("not tested", ("wmt batch-tokens",))
    found = judge({FOUR: {"a": [1.0, 1.0], "b": [1.0]}}, claim("grows", ("a", "b"), (FOUR, TWENTY)), here)
    assert found.verdict == "not tested"


def test_repeats_are_compared_within_each() -> None:
    slower = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]  # the machine became faster and faster
    faster = [1.1 * value for value in slower]
    said, here = claim("above", ("a", "b"), (SPEED,)), table((SPEED,), {"a": [2.0], "b": [1.0]})
    assert judge({SPEED: {"a": faster, "b": slower}}, said, here).verdict == "undecided"
    paired = claims.judge(said, here, Ranges({SPEED: {"a": faster, "b": slower}}, paired=True))
    assert paired.verdict == "holds"
    assert paired.tested[0].interval == pytest.approx((1.1, 1.1))
    turned = [*faster[:5], 0.9 * slower[5]]
    assert claims.judge(said, here, Ranges({SPEED: {"a": turned, "b": slower}}, paired=True)).verdict == "undecided"


def test_a_table_that_was_timed_says_how_repeats_decide() -> None:
    assert "within each" in Ranges({}, paired=True).rule
    assert "choice of a value" in Ranges({}).rule


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [([4.1, 4.3], "holds"), ([3.9, 4.3], "undecided"), ([3.7, 3.9], "does not hold"), ([0.5, 0.6], "does not hold")],
)
def test_by_more_than_so_many_times(slower: list[float], verdict: str) -> None:
    said = replace(claim("above", ("a", "b"), (SECONDS,)), times=4.0)
    here = table([SECONDS], {"a": [1.0], "b": [5.0]})
    assert judge({SECONDS: {"a": [1.0, 1.0], "b": slower}}, said, here).verdict == verdict
