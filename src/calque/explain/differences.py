"""The figures of two definitions side by side, and what the second costs more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calque.explain.node_table import field_text
from calque.explain.totals import ModelCosts

Figure = float | tuple[float, float]
"""A number, or the first and the last position that is seen; infinite where there is no bound."""


@dataclass(frozen=True)
class Difference:
    """One figure of two definitions: its name in JSON, in words, and both values."""

    key: str
    words: str
    a: Figure
    b: Figure

    @property
    def more(self) -> float | None:
        """How much more the second has; None of fields, and where one has no bound."""
        if isinstance(self.a, tuple) or isinstance(self.b, tuple) or math.isinf(self.a) or math.isinf(self.b):
            return None
        return self.b - self.a


def differences(a: ModelCosts, b: ModelCosts, precision: str = "float32") -> list[Difference]:
    """Parameters, multiply-adds, state, and of each side the field, operations in sequence and path length.

    Multiply-adds per token are those of the forward pass in training (an update takes about three times as many) and of the
    decoding step whose number is `length`; the state is that of one row after as many words.
    """
    return [
        Difference(key, words, x, y)
        for (key, words, x), (_, _, y) in zip(_all(a, precision), _all(b, precision), strict=True)
    ]


def _all(of: ModelCosts, precision: str) -> Sequence[tuple[str, str, Figure]]:
    n, s = of.length, of.source
    rows: list[tuple[str, str, Figure]] = [
        ("parameters", "parameters", of.parameters),
        ("per_source_token", "multiply-adds per source token", of.per_source_token),
        ("per_target_token", "multiply-adds per target token, training", of.per_target_token),
        ("step", f"multiply-adds of decoding step {n}", of.step_products(n)),
        ("state_bytes", f"bytes of state in {precision} after {n} words", of.state_bytes(precision)),
    ]
    sides = (("encoder", of.encoder, s), ("decoder", of.decoder, n))
    for side, figures, length in sides:
        waits, path, _ = of.form[side]
        rows += [
            (f"{side}_field", f"{side}: positions seen", figures.field),
            (f"{side}_sequential", f"{side}: operations in sequence, n = {length}", waits),
            (f"{side}_path", f"{side}: longest path, n = {length}", path),
        ]
    return rows


def differences_text(found: Sequence[Difference]) -> str:
    """The figures as aligned text; the last column says what the second has more, where that is a number."""
    more = [(d, d.more) for d in found]
    cells = [("", "A", "B", "B - A")]
    cells += [(d.words, _text(d.a), _text(d.b), f"{m:+,.0f}" if m else "") for d, m in more]
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    lines = ["  ".join([row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in (1, 2, 3))]) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def differences_json(found: Sequence[Difference]) -> dict[str, list[object]]:
    """Both values by name; a number that has no bound is null."""
    return {d.key: [_json(d.a), _json(d.b)] for d in found}


def _text(figure: Figure) -> str:
    if isinstance(figure, tuple):
        return field_text(figure)
    return f"{figure:,.0f}" if math.isfinite(figure) else "none"


def _json(figure: Figure) -> object:
    if isinstance(figure, tuple):
        return [_json(end) for end in figure]
    return int(figure) if math.isfinite(figure) else None
