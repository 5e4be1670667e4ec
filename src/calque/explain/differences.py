"""The costs of two definitions side by side, and their differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calque.explain.node_table import field_text
from calque.explain.totals import ModelCosts
from calque.ground.table import aligned

Figure = float | tuple[float, float]
"""A number, or the first and the last position that is seen; infinite where there is no bound."""


@dataclass(frozen=True)
class Difference:
    """One cost of two definitions: its name in JSON, its name in words, and both values."""

    key: str
    words: str
    a: Figure
    b: Figure

    @property
    def more(self) -> float | None:
        """The second value minus the first; None for fields and for values without a bound."""
        if isinstance(self.a, tuple) or isinstance(self.b, tuple) or math.isinf(self.a) or math.isinf(self.b):
            return None
        return self.b - self.a


def differences(a: ModelCosts, b: ModelCosts, precision: str = "float32") -> list[Difference]:
    """Parameters, multiply-adds, state, and for each side the field, sequential operations and path length.

    Multiply-adds per token are those of the forward pass in training (an update takes about three times as many) and those of
    decoding step number `length`; the state is that of one row after `length` words.
    """
    first = _all(a, precision)
    second = first if b is a else _all(b, precision)
    return [Difference(key, words, x, y) for (key, words, x), (_, _, y) in zip(first, second, strict=True)]


def _all(of: ModelCosts, precision: str) -> Sequence[tuple[str, str, Figure]]:
    n, s, form = of.length, of.source, of.form
    rows: list[tuple[str, str, Figure]] = [
        ("parameters", "parameters", of.parameters),
        ("per_source_token", "multiply-adds per source token", of.per_source_token),
        ("per_target_token", "multiply-adds per target token, training", of.per_target_token),
        ("step", f"multiply-adds of decoding step {n}", of.step_products(n)),
        ("state_bytes", f"bytes of state in {precision} after {n} words", of.state_bytes(precision)),
    ]
    sides = (("encoder", of.encoder, s), ("decoder", of.decoder, n))
    for side, figures, length in sides:
        waits, path, _ = form[side]
        rows += [
            (f"{side}_field", f"{side}: positions seen", figures.field),
            (f"{side}_sequential", f"{side}: operations in sequence, n = {length}", waits),
            (f"{side}_path", f"{side}: longest path, n = {length}", path),
        ]
    return rows


def differences_text(rows: Sequence[Difference]) -> str:
    """The costs as an aligned table; the last column is the difference, where it is a number."""
    cells = [(d.words, _text(d.a), _text(d.b), f"{d.more:+,.0f}" if d.more else "") for d in rows]
    return "\n".join(aligned(("", "A", "B", "B - A"), cells))


def differences_json(rows: Sequence[Difference]) -> dict[str, list[object]]:
    """Both values by name; a number without a bound is null."""
    return {d.key: [_json(d.a), _json(d.b)] for d in rows}


def _text(figure: Figure) -> str:
    if isinstance(figure, tuple):
        return field_text(figure)
    return f"{figure:,.0f}" if math.isfinite(figure) else "none"


def _json(figure: Figure) -> object:
    if isinstance(figure, tuple):
        return [_json(end) for end in figure]
    return int(figure) if math.isfinite(figure) else None
