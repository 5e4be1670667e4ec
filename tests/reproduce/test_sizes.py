"""Parameters of a row, and rows of equal size."""

import pytest

from calque import zoo
from calque.adl.settings import parse_settings
from calque.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.reproduce.sizes import checked_row, matched, parameters

SMALL = parse_settings(["d=16", "n=2", "heads=4"])


def row(name: str) -> Text:
    return zoo.read(f"domhan2018/table3/{name}")


@pytest.mark.parametrize("tying", ["three-way", "target", "none"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["transformer", "rnn+mh", "rnmt"])
def test_parameters_are_those_of_the_model(name: str, tying: str, bias: bool) -> None:
    checked, _ = checked_row(row(name), SMALL)
    shape = Shape(11, 11 if tying == "three-way" else 13, tying, bias)
    built = Model(checked, shape, builtin())
    assert parameters(checked, shape) == sum(p.numel() for p in built.parameters())


def test_settings_that_nothing_reads_are_left_out() -> None:
    checked, taken = checked_row(row("rnn"), SMALL)
    assert taken == {"d", "n"}
    assert checked.width == 16
    assert checked_row(row("transformer"), SMALL)[1] == {"d", "n", "heads"}
    with pytest.raises(CalqueError):
        checked_row(Text("x", "adl = 0\nencoder = idd\ndecoder = id\n"), SMALL)


@pytest.mark.parametrize("name", ["rnn", "rnn+ff", "rnn+mh", "rnmt-no-feed"])
def test_the_matched_width_is_the_nearest_of_all_multiples(name: str) -> None:
    shape = Shape(50, 50)

    def count(checked: object) -> int:
        return parameters(checked, shape)  # type: ignore[arg-type]

    target = count(checked_row(row("transformer"), parse_settings(["d=48", "n=2", "heads=4"]))[0])
    checked, taken, width = matched(row(name), SMALL, target, count)
    assert checked.width == width
    assert "d" in taken

    def off(d: int) -> int:
        return abs(count(checked_row(row(name), {**SMALL, **parse_settings([f"d={d}"])})[0]) - target)

    assert off(width) == min(off(d) for d in range(8, 200, 8))
