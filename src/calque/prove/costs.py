"""The law of costs: the declared cost of a layer is its real cost when it runs."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from calque.adl.tree import CheckedChain, Node
from calque.layers.contract import ENCODER, Context, Layer
from calque.layers.cost import FED, Cost, Products
from calque.prove.case import SENTENCES, ProofCase
from calque.prove.laws import held
from calque.prove.outcome import EXACT, Check

T = TypeVar("T")
WITHIN = 0.02
STEPS = 3


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Multiply-adds of all matrix products, by layer: half of what torch's counter counts."""

    def __init__(self, layers: dict[str, Layer]):
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.layers, self.products = layers, dict.fromkeys(layers, 0)
        self._running: list[str] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        out: object = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None and self._running:
            self.products[self._running[-1]] += formula(*args, **(kwargs or {}), out_val=out) // 2
        return out

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts the products of the layers inside the block."""
        names = ("forward", "step", "init_state")
        for path, layer in self.layers.items():
            for name in names:
                object.__setattr__(layer, name, self._within(path, getattr(layer, name)))
        try:
            with self:
                yield
        finally:
            for layer in self.layers.values():
                for name in names:
                    object.__delattr__(layer, name)

    def _within(self, path: str, run: Callable[..., T]) -> Callable[..., T]:
        def counted(*args: object, **kwargs: object) -> T:
            self._running.append(path)
            try:
                return run(*args, **kwargs)
            finally:
                self._running.pop()

        return counted


def costs(s: ProofCase) -> Iterator[Check]:
    """Multiply-adds of both forms, bytes of the state and visible positions are as declared, layer by layer."""
    source, layers = s.source.shape[1], dict(s.layers())
    counted = _counted(s, layers)
    looped = tuple(f"{node.path}." for node, _ in _nodes(s) if node.cost.bodies == FED)
    for node, in_source in _nodes(s):
        cost: Cost = node.cost
        if cost.products is not None and (in_source or node.side == ENCODER):
            expected = SENTENCES * source * cost.products.per_position(source, 0)
            yield _products(f"`{node.text}`", counted[0].products[node.path], expected)
        elif cost.products is not None:
            # Below a layer whose `forward` is the loop over steps, so is theirs.
            together = None if node.path.startswith(looped) else cost.whole
            yield from _both_forms(s, node, cost.products, together or cost.products, counted)
            if cost.state is not None:
                yield _state(s, node, layers, cost)
        if cost.reach is not None and not any(part.side == node.side for part in node.parts.values()):
            yield from _reach(s, node, layers[node.path], cost)


def _both_forms(
    s: ProofCase, node: Node, products: Products, together: Products, counted: tuple[Counter, Counter]
) -> Iterator[Check]:
    """The products of a layer of the decoder, `together` those of one position where all are given."""
    source, length = s.source.shape[1], s.x.shape[1]
    memory = SENTENCES * (source * products.per_source(source) + length * products.per_place(source))
    once = SENTENCES * length * together.per_position(length, source)
    each = sum(SENTENCES * products.per_position(t + 1, source) for t in range(STEPS))
    yield _products(f"`{node.text}`, forward", counted[0].products[node.path], once + memory)
    yield _products(f"`{node.text}`, {STEPS} steps", counted[1].products[node.path], each + memory)


def _counted(s: ProofCase, layers: dict[str, Layer]) -> tuple[Counter, Counter]:
    """What both forms multiply: all positions together, and the first `STEPS` one by one."""
    whole, steps = Counter(layers), Counter(layers)
    with torch.no_grad():
        with whole.counting():
            s.forward(s.x, s.encode(s.source, None))
        with steps.counting():
            state = s.start(s.sources, 1, s.x.shape[1])
            for t in range(STEPS):
                _, state = s.step(s.x[:, t : t + 1], state, t + 1)
    return whole, steps


def _nodes(s: ProofCase) -> Iterator[tuple[Node, bool]]:
    """Every layer, and whether it is in the chain of a source."""
    for chain in (s.checked.encoder, s.checked.decoder):
        for node in chain.nodes():
            yield node, node.side != chain.side


def _products(what: str, counted: int, expected: float) -> Check:
    return Check(f"multiply-adds of {what}", torch.tensor([float(counted)]), torch.tensor([float(expected)]), WITHIN)


def _state(s: ProofCase, node: Node, layers: dict[str, Layer], cost: Cost) -> Check:
    capacity = s.x.shape[1]
    ctx = Context(sources=s.sources, like=s.x.new_empty(0))

    def size(of: Node | CheckedChain) -> int:
        return held(layers[of.path].init_state(SENTENCES, capacity, ctx))

    own = size(node) - sum(size(part) for part in node.parts.values() if part.side == node.side)
    declared = cost.state.bytes(capacity, s.source.shape[1], 8, SENTENCES, SENTENCES, padded=True) if cost.state else 0
    return Check(f"bytes of the state of `{node.text}`", torch.tensor([own]), torch.tensor([declared]), EXACT)


def _reach(s: ProofCase, node: Node, layer: Layer, cost: Cost) -> Iterator[Check]:
    """An output in the middle has no gradient for positions that it does not see."""
    length = s.x.shape[1]
    x = s.normal(1, length, node.width_in).requires_grad_()
    sources = {key: point._replace(value=point.value[:1], mask=None) for key, point in s.sources.items()}
    sources = {
        key: p if p.state is None else p._replace(state=tuple(v[:1] for v in p.state)) for key, p in sources.items()
    }
    y = layer(x, Context(sources=sources, like=x.new_empty(0)))
    if not isinstance(y, Tensor) or not y.requires_grad or cost.reach is None:
        return
    t = length // 2
    (gradient,) = torch.autograd.grad(y[0, t].sum(), x, allow_unused=True)
    if gradient is None:
        return
    first, last = (t + end if math.isfinite(end) else end for end in (cost.reach.first, cost.reach.last))
    unseen = torch.stack([gradient[0, k] for k in range(length) if not first <= k <= last] or [gradient[0, 0] * 0])
    yield Check(f"gradient of what `{node.text}` does not see", unseen, torch.zeros_like(unseen), EXACT)
