"""The cost table of the page: a row for each layer as it is drawn, with the sums over its copies."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from calque.adl.check import CheckedDefinition
from calque.adl.tree import CheckedChain, Node
from calque.explain import ModelCosts, figures
from calque.explain.node_table import field_text
from calque.explain.paths import path_length
from calque.explain.totals import BYTES
from calque.studio.offsets import Offsets

_COPY = re.compile(r"\[\d+\]")


def stem(path: str) -> str:
    """The path of a layer without the numbers of copies: the same for all of them."""
    return _COPY.sub("", path)


@dataclass(frozen=True)
class _LayerCopies:
    """A layer in all its copies, and how deep inside others it stands."""

    nodes: tuple[Node, ...]
    depth: int


def rows(checked: CheckedDefinition, model: ModelCosts, precision: str, offsets: Offsets) -> list[dict[str, object]]:
    """A row for each layer of the picture: where it is written, its shapes, and its costs over all copies."""
    grouped: dict[str, tuple[list[Node], int]] = {}
    for chain in (checked.encoder, checked.decoder):
        for node, depth in _below(chain, 0):
            grouped.setdefault(stem(node.path), ([], depth))[0].append(node)
    return [_row(key, _LayerCopies(tuple(n), d), model, precision, offsets) for key, (n, d) in grouped.items()]


def _below(chain: CheckedChain, depth: int) -> Iterator[tuple[Node, int]]:
    for item in chain.items.values():
        if isinstance(item, CheckedChain):
            yield from _below(item, depth)
            continue
        yield item, depth
        for part in item.parts.values():
            yield from _below(part, depth + 1)


def _row(key: str, layer: _LayerCopies, model: ModelCosts, precision: str, offsets: Offsets) -> dict[str, object]:
    first = layer.nodes[0]
    # A chain behind a source is a part too, but of the layer itself: it has no box of its own.
    whole = all(part.side != first.side for part in first.parts.values())
    return {
        "key": key,
        "path": first.path,
        "name": first.name,
        "text": first.text.split(" @ ")[0] if whole else first.name,
        "label": first.label and stem(first.label),
        "side": first.side,
        "depth": layer.depth,
        "copies": len(layer.nodes),
        "width": _width(layer.nodes),
        "whole": whole,
        "place": offsets.place(first.call.span),
        "outer": offsets.place(first.call.outer),
        **_sums(layer.nodes, model, precision),
        **_reach(first, model),
    }


def _sums(nodes: tuple[Node, ...], model: ModelCosts, precision: str) -> dict[str, object]:
    """What the copies of a layer cost together."""
    length = _length(nodes[0], model)
    each = [figures(node) for node in nodes]
    products = [one.products.per_position(length, model.source) + one.products.per_place(model.source) for one in each]
    held = [one.state.bytes(model.length, model.source, BYTES[precision]) for one in each]
    return {
        "parameters": sum(one.parameters for one in each),
        "own_parameters": sum(node.parameters for node in nodes),
        "products": sum(products),
        "state_bytes": sum(held) if nodes[0].side == "decoder" else 0,
        "undeclared": sorted(each[0].undeclared),
    }


def _reach(node: Node, model: ModelCosts) -> dict[str, object]:
    """The positions that a layer sees, and its longest path between two of them; nothing where it sees its own alone."""
    costs = figures(node)
    if costs.field == (0, 0):
        return {"sees": "", "order": "", "hops": 0}
    hops = path_length(node, _length(node, model))
    return {
        "sees": field_text(costs.field),
        "order": costs.order,
        "hops": int(hops) if math.isfinite(hops) else None,
    }


def _length(node: Node, model: ModelCosts) -> int:
    return model.source if node.side == "encoder" else model.length


def _width(nodes: tuple[Node, ...]) -> str:
    """The widths of the copies: `512`, `512 -> 1024`; the first and the last where they differ."""
    each = [str(n.width_in) if n.width_in == n.width_out else f"{n.width_in} -> {n.width_out}" for n in nodes]
    return each[0] if len(set(each)) == 1 else f"{each[0]} … {each[-1]}"
