"""Rows of equal size: the width with which one definition has as many parameters as another."""

from collections.abc import Callable, Mapping

from calque.adl.check import Checked, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.adl.syntax import Number, Statement
from calque.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.model import Shape

HEADS = 8
"""Of texts that say nothing else."""


def parameters(checked: Checked, shape: Shape) -> int:
    """Numbers that the whole model learns: both sides, embeddings, output layer; a matrix that is shared counts once."""
    matrices = {
        "three-way": shape.target_size * checked.width,
        "target": (shape.source_size + shape.target_size) * checked.width,
        "none": (shape.source_size + shape.target_size) * checked.width + shape.target_size * checked.decoder.width_out,
    }
    bias = shape.target_size if shape.output_bias else 0
    return checked.encoder.parameters + checked.decoder.parameters + matrices[shape.tying] + bias


def checked_row(text: Text, settings: Mapping[str, Statement]) -> tuple[Checked, frozenset[str]]:
    """A row's definition under `settings`, and which of them it took: those that nothing in it reads are left out.

    Raises what `check` raises.
    """
    given = dict(settings)
    while True:
        try:
            return check(text, builtin(), reader("calque", given)), frozenset(given)
        except CalqueError as fault:
            unread = {str(d.fields.get("name")) for d in fault.diagnostics if d.code in ("C127", "X222")}
            if not unread & given.keys():
                raise
            given = {name: value for name, value in given.items() if name not in unread}


def heads_of(settings: Mapping[str, Statement]) -> int:
    """The number of heads, where `settings` name it as a plain number."""
    value = settings["heads"].value if "heads" in settings else None
    return int(value.value) if isinstance(value, Number) else HEADS


def matched(
    text: Text, settings: Mapping[str, Statement], target: int, count: Callable[[Checked], int]
) -> tuple[Checked, frozenset[str], int]:
    """The definition at the width `d`, a multiple of twice the heads, at which `count` is nearest to `target`; with `d`.

    `count` has to grow with `d`. Raises what `check` raises.
    """
    step = 2 * heads_of(settings)

    def at(multiple: int) -> tuple[int, Checked, frozenset[str]]:
        made = checked_row(text, {**settings, **parse_settings([f"d={multiple * step}"])})
        return count(made[0]), *made

    low, high = 0, 1
    while at(high)[0] < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle)[0] < target else (low, middle)
    nearest = min((m for m in (low, high) if m), key=lambda m: abs(at(m)[0] - target))
    _, checked, taken = at(nearest)
    return checked, taken, nearest * step
