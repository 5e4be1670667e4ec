"""Kinds of weights, which are updated in different ways: matrices, filters, tables of words."""

import torch
from torch import Tensor, nn

from calque.layers.projections import Embedding


def tables_that_hand_over_rows(model: nn.Module) -> list[Embedding]:
    """The tables on a processor, which do so from now on."""
    tables = [m for m in model.modules() if isinstance(m, Embedding) and m.weight.device.type == "cpu"]
    for table in tables:
        table.rows = []
    return tables


def add_rows(table: Embedding) -> None:
    """Adds the gradients of a table's rows to that of the table."""
    weight, rows = table.weight, table.rows or []
    if rows and weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    for numbers, each in rows:
        weight.grad.index_add_(0, numbers, each)  # type: ignore[union-attr]  # it has one by now
    rows.clear()


def filter_factors(model: nn.Module) -> dict[str, float]:
    """By what the gradients of each filter and its bias are multiplied."""
    filters = {n: m for n, m in model.named_modules() if isinstance(m, nn.Conv1d)}
    return {f"{n}.{name}": m.in_channels**-0.5 for n, m in filters.items() for name, _ in m.named_parameters()}


def matrices_of(model: nn.Module) -> frozenset[str]:
    """The paths of the matrices and filters of linear maps, without the output layer and tables that it may share."""
    output = getattr(model, "output", None)
    apart = {id(table) for table in (*embeddings_of(model), getattr(output, "weight", None))}
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d)} - apart
    return frozenset(name for name, p in model.named_parameters() if id(p) in linear)


def embeddings_of(model: nn.Module) -> tuple[Tensor, ...]:
    """Every table, also where it is the output layer too."""
    return tuple(m.weight for m in model.modules() if isinstance(m, nn.Embedding))
