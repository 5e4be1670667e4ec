"""The costs of a definition as a table of at most 120 columns: a line for each node, then the totals.

Equal copies of a repetition have one line, with their number.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from calque.adl.check import CheckedDefinition
from calque.adl.tree import CheckedChain, Node
from calque.explain.node_costs import Figures, figures
from calque.explain.paths import path_order
from calque.explain.totals import BYTES, ORIGIN, POSITIONS, ModelCosts, whole
from calque.ground.table import aligned

COLUMNS = 120
HEAD = ("path", "layer", "width", "parameters", "products", "state", "sees", "waits", "hops")
COPY = re.compile(r"^(.*)\[(\d+)\]$")


@dataclass(frozen=True)
class NodeRow:
    """A node's line: its path and depth, its term, and its costs as text."""

    path: str
    depth: int
    text: str
    figures: tuple[str, ...]


def table(
    checked: CheckedDefinition, model: ModelCosts | None = None, precision: str = "float32", every: bool = False
) -> str:
    """The costs as an aligned table. With `every`, each copy of a repetition has its own lines."""
    model = model or whole(checked)
    rows = [
        row for chain in (checked.encoder, checked.decoder) for row in _NodeRows(model, precision, every).chain(chain)
    ]
    cells = [HEAD, *((r.path, "  " * r.depth + r.text, *r.figures) for r in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(HEAD))]
    room = COLUMNS - sum(widths) - 2 * (len(HEAD) - 1) + widths[1]
    widths[1] = min(widths[1], max(room, 20))
    cut = [[t if len(t) <= w else t[: w - 1] + "…" for t, w in zip(row, widths, strict=True)] for row in cells]
    lines = aligned(cut[0], cut[1:], (0, 1))
    unknown = sorted(model.encoder.undeclared | model.decoder.undeclared)
    notes = (
        [f"not declared by {', '.join(f'`{name}`' for name in unknown)}: figures are lower bounds"] if unknown else []
    )
    return "\n".join([*lines, "", *_summary(model, precision), *notes])


class _NodeRows:
    def __init__(self, model: ModelCosts, precision: str, every: bool):
        self.model, self.item, self.every = model, BYTES[precision], every

    def chain(self, chain: CheckedChain, depth: int = 0) -> Iterator[NodeRow]:
        """The lines of a chain. Neighbouring copies with equal lines are joined."""
        copies: list[tuple[str, list[NodeRow], str, str]] = []
        for name, item in chain.items.items():
            made = list(self.chain(item, depth) if isinstance(item, CheckedChain) else self.node(item, depth))
            copy = COPY.match(name)
            if copy is None or self.every:
                yield from self.joined(copies)
                copies = []
                yield from made
                continue
            stem = f"{chain.path}.{copy[1]}"
            if copies and copies[0][0] != stem:
                yield from self.joined(copies)
                copies = []
            if copies and not _alike(copies[-1], (stem, made, copy[2], copy[2])):
                yield from self.joined(copies)
                copies = []
            copies.append((stem, made, copy[2], copy[2]))
        yield from self.joined(copies)

    def joined(self, copies: list[tuple[str, list[NodeRow], str, str]]) -> Iterator[NodeRow]:
        if not copies:
            return
        stem, rows, first, _ = copies[0]
        last = copies[-1][2]
        if first == last:
            yield from rows
            return
        for row in rows:
            yield replace(row, path=row.path.replace(f"{stem}[{first}]", f"{stem}[{first}-{last}]", 1))

    def node(self, node: Node, depth: int) -> Iterator[NodeRow]:
        costs = figures(node)
        label = re.sub(r"\[\d+\]$", "", node.label or "")
        text = node.name if node.parts else node.text.split(" @ ")[0]
        width = str(node.width_in) if node.width_in == node.width_out else f"{node.width_in} -> {node.width_out}"
        yield NodeRow(node.path, depth, text + (f" @ {label}" if label else ""), (width, *self.cells(node, costs)))
        copies: list[tuple[str, list[NodeRow], str, str]] = []
        for name, part in node.parts.items():
            made, copy = list(self.chain(part, depth + 1)), COPY.match(name)
            if copy is None or self.every:
                yield from made
            else:  # copies of one chain are alike
                copies.append((f"{node.path}.{copy[1]}", made, copy[2], copy[2]))
        yield from self.joined(copies)

    def cells(self, node: Node, costs: Figures) -> tuple[str, ...]:
        n = self.model.source if node.side == "encoder" else self.model.length
        products = costs.products.per_position(n, self.model.source) + costs.products.per_place(self.model.source)
        held = costs.state.bytes(self.model.length, self.model.source, self.item) if node.side == "decoder" else 0
        unknown = node.name in costs.undeclared
        mixes = costs.field != (0, 0)
        return (
            f"{costs.parameters:,}" if costs.parameters else "shared" if _learns(node) else "",
            "?" if unknown else short(products) if products else "",
            "?" if unknown else short(held) if held else "",
            field_text(costs.field) if mixes else "",
            costs.order if mixes else "",
            _path(node) if mixes else "",
        )


def _learns(node: Node) -> bool:
    """Whether it has weights, its own or those of another copy."""
    return bool(node.cost.parameters) or any(_learns(n) for part in node.parts.values() for n in part.nodes())


def _alike(a: tuple[str, list[NodeRow], str, str], b: tuple[str, list[NodeRow], str, str]) -> bool:
    def without(copy: tuple[str, list[NodeRow], str, str]) -> list[NodeRow]:
        stem, rows, number, _ = copy
        return [replace(r, path=r.path.replace(f"{stem}[{number}]", stem, 1)) for r in rows]

    return without(a) == without(b)


def _path(of: Node | CheckedChain) -> str:
    order = path_order(of)
    return "" if order == "none" else order


def field_text(field: tuple[float, float]) -> str:
    """The visible positions as `-2..0`; `-∞` where there is no bound."""
    first, last = (("-∞" if end < 0 else "+∞") if math.isinf(end) else f"{end:+.0f}" if end else "0" for end in field)
    return f"{first}..{last}"


def short(number: float) -> str:
    """A number in four figures: 950, 12.3k, 3.15M."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size * (10 if unit == "k" else 1):
            return f"{number / size:.3g}{unit}"
    return f"{number:,.0f}"


def _summary(model: ModelCosts, precision: str) -> list[str]:
    """The totals: both sides, embeddings and output layer, a step, its state, a sentence."""
    n, s = model.length, model.source
    return [
        f"products: multiply-adds per token, n = {n} target and S = {s} source tokens; state: bytes in {precision}",
        _side_line(model, "encoder"),
        _side_line(model, "decoder"),
        *_around_lines(model),
        *_decoding_lines(model, precision),
        f"hash     {model.checked.hash}",
    ]


def _side_line(model: ModelCosts, name: str) -> str:
    if name == "encoder":
        side, chain, whose, cost = model.encoder, model.checked.encoder, "source", model.per_source_token
    else:
        side, chain, whose = model.decoder, model.checked.decoder, "target"
        cost = side.products.per_position(model.length, model.source) + model.per_place
    operations, path, _ = model.form[name]
    active = f", {side.active:,} active" if side.active != side.parameters else ""
    form = f"waits {operations:,}" + (f", hops {path:,.0f}" if math.isfinite(path) else "")
    return (
        f"{name:<9}{side.parameters:>14,} parameters{active}  {short(cost):>6} per {whose} token  sees {field_text(side.field)}, "
        f"{form}, width {chain.width_in} -> {chain.width_out}"
    )


def _around_lines(model: ModelCosts) -> list[str]:
    """Embeddings and output layer, where the vocabulary sizes are known, and the sum."""
    if not model.around.target_size:
        return [f"{'together':<9}{model.parameters:>14,} without embeddings and output layer"]
    return [
        f"{'output':<9}{model.output:>14,} parameters  {short(model.output_products):>6} per target token",
        f"{'input':<9}{model.embeddings:>14,} parameters of embeddings that are not the output layer's",
        f"{'together':<9}{model.parameters:>14,} parameters",
    ]


def _decoding_lines(model: ModelCosts, precision: str) -> list[str]:
    """A step as a function of t and S, its state, and a whole sentence."""
    n, s = model.length, model.source
    products, held, item = model.decoder.products, model.decoder.state, BYTES[precision]
    step = [short(products.position + model.output_products)]
    step += [f"{short(c)} {x}" for c, x in ((products.visible, "t"), (products.source, "S")) if c]
    kept = [f"{POSITIONS + held.row * item + held.exact * max(4, item):,}"]
    grows = ((held.place, "(t + 1)"), (held.memory, "S"), (held.ahead, "t"))
    kept += [f"{c * item:,} {x}" for c, x in grows if c]
    place = f"; each place once, {short(model.per_place)}" if model.per_place else ""
    return [
        f"step t   {' + '.join(step)} multiply-adds; at t = {n}: {short(model.step_products(n))}",
        f"state    {' + '.join(kept)} bytes for t words; at t = {n}: {model.state_bytes(precision):,}"
        f" (beams: {ORIGIN} t more a row, S{' and t' * bool(held.ahead)} once)",
        f"sentence {short(model.sentence)} multiply-adds to write {n} words for {s}; the source once, "
        f"{short(model.per_source_token)} per token{place}",
    ]
