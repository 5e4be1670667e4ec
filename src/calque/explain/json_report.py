"""All costs of a definition as JSON."""

import math

from calque.adl.check import CheckedDefinition
from calque.adl.tree import CheckedChain, Node
from calque.explain.node_costs import Figures, figures
from calque.explain.paths import path_length, path_order, waits
from calque.explain.totals import BYTES, ModelCosts, whole


def explanation(checked: CheckedDefinition, model: ModelCosts | None = None) -> dict[str, object]:
    """Path, canonical text, widths and costs of every node; costs of the sides and of the whole; hash and canonical text.

    Products and states are coefficients, named as in `calque.layers.cost`. A number without a bound is null.
    """
    model = model or whole(checked)
    lengths = {"encoder": model.source, "decoder": model.length}
    return {
        "hash": checked.hash,
        "text": checked.text,
        "width": checked.width,
        "length": model.length,
        "source_length": model.source,
        "encoder": _side(checked.encoder, model.encoder, model.source),
        "decoder": _side(checked.decoder, model.decoder, model.length),
        "embeddings": {"parameters": model.embeddings},
        "output": {"parameters": model.output, "products": model.output_products},
        "parameters": model.parameters,
        "per_source_token": model.per_source_token,
        "per_target_token": model.per_target_token,
        "step": model.step_products(model.length),
        "state_bytes": {precision: model.state_bytes(precision) for precision in BYTES},
        "nodes": [
            _node(node, lengths[node.side]) for chain in (checked.encoder, checked.decoder) for node in chain.nodes()
        ],
    }


def _side(chain: CheckedChain, costs: Figures, length: int) -> dict[str, object]:
    return {
        "parameters": costs.parameters,
        "active_parameters": costs.active,
        "d_in": chain.width_in,
        "d_out": chain.width_out,
        **_figures(chain, costs, length),
    }


def _node(node: Node, length: int) -> dict[str, object]:
    costs = figures(node)
    own = {
        "path": node.path,
        "name": node.name,
        "text": node.text,
        "d_in": node.width_in,
        "d_out": node.width_out,
        "parameters": costs.parameters,
        "active_parameters": costs.active,
        "own_parameters": node.parameters,
        "shared": node.shared,
        **_figures(node, costs, length),
    }
    return own if node.label is None else {**own, "label": node.label}


def _figures(of: CheckedChain | Node, costs: Figures, length: int) -> dict[str, object]:
    return {
        "products": costs.products._asdict(),
        "state": costs.state._asdict(),
        "field": [_bounded(end) for end in costs.field],
        "sequential": {"order": costs.order, "operations": waits(of, length)},
        "hops": {"order": path_order(of), "operations": _bounded(path_length(of, length))},
        "undeclared": sorted(costs.undeclared),
    }


def _bounded(number: float) -> int | None:
    return int(number) if math.isfinite(number) else None
