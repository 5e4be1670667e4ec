"""Settings of a row, and rows of equal size."""

import pytest

from calque import zoo
from calque.explain.fit import parameters
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Text
from calque.papers.plan import by_name, checked_row, matched

SMALL = by_name(["d=64", "d=16", "n=2", "heads=4"])


def row(name: str) -> Text:
    return zoo.read(f"domhan2018/table3/{name}")


def test_settings_that_nothing_reads_are_left_out() -> None:
    checked, taken = checked_row(row("rnn"), SMALL)
    assert taken.keys() == {"d", "n"}
    assert checked.width == 16
    assert checked_row(row("transformer"), SMALL)[1].keys() == {"d", "n", "heads"}
    with pytest.raises(CalqueError):
        checked_row(Text("x", "adl = 0\nencoder = idd\ndecoder = id\n"), SMALL)


@pytest.mark.parametrize("name", ["rnn", "rnn+ff", "rnn+mh", "rnmt-no-feed"])
def test_the_matched_width_is_the_nearest_of_all_multiples(name: str) -> None:
    around = Surroundings(50, 50)
    target = parameters(checked_row(row("transformer"), by_name(["d=48", "n=2", "heads=4"]))[0], around)
    checked, taken = matched(row(name), SMALL, target, around)
    assert taken["d"] == f"d={checked.width}"

    def off(d: int) -> int:
        return abs(parameters(checked_row(row(name), {**SMALL, "d": f"d={d}"})[0], around) - target)

    assert off(checked.width) == min(off(d) for d in range(8, 200, 8))
