"""Encoding of a batch of sentences of different lengths without computing on padding."""

from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from calque.data.vocabulary import PAD
from calque.layers.contract import Point
from calque.model import Model, Sources

GROUP_TOKENS = 256
"""Tokens that a processor encodes together: enough rows for its products, few enough for its caches."""


BUCKET = 16
"""What lengths are rounded up to a multiple of where shapes must come again: on an accelerator, and for invariant decoding."""


def rounded(length: int) -> int:
    """The next multiple of BUCKET."""
    return -(-length // BUCKET) * BUCKET


def encode(model: Model, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], whole: bool = False) -> Sources:
    """`model.encode`; on a processor, for some sentences of similar length at a time.

    `whole`: for all sentences together, so that shapes do not depend on the lengths of the others.
    """
    if source.device.type != "cpu" and model.programs is not None:
        more = rounded(source.shape[1]) - source.shape[1]
        source, mask = F.pad(source, (0, more), value=PAD), F.pad(mask, (0, more))
    if whole or source.device.type != "cpu" or model.programs is not None:
        return model.encode(source, mask)
    lengths = mask.sum(1)
    if bool((lengths == source.shape[1]).all()):
        return model.encode(source)  # a mask would only cost operations
    order = lengths.argsort(descending=True, stable=True)
    parts = []
    while len(order):
        longest = max(1, int(lengths[order[0]]))  # a blank line takes one, masked, position
        rows, order = order.split_with_sizes([n := min(len(order), max(1, GROUP_TOKENS // longest)), len(order) - n])
        within = mask[rows, :longest]
        parts.append((rows, model.encode(source[rows, :longest], None if bool(within.all()) else within)))
    return {key: _joined([(rows, taps[key]) for rows, taps in parts], mask) for key in parts[0][1]}


def _joined(parts: list[tuple[Tensor, Point]], mask: Tensor) -> Point:
    some = parts[0][1]
    value = some.value.new_zeros(*mask.shape, some.value.shape[2])
    states = None if some.state is None else tuple(s.new_empty(len(mask), *s.shape[1:]) for s in some.state)
    for rows, point in parts:
        value[rows, : point.value.shape[1]] = point.value
        for whole, part in zip(states or (), point.state or (), strict=True):
            whole[rows] = part
    return Point(value, mask, states)
