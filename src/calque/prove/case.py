"""The case of a proof: the model of a text in float64 with random parameters, and its inputs."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from calque.adl.check import CheckedDefinition
from calque.layers.contract import Context, Layer, Point, Recorder, Registry
from calque.layers.state import State
from calque.layers.stepping import begin, proceed
from calque.model import Model, Shape

SENTENCES, BEAMS, SOURCE_LENGTH, TARGET_LENGTH = 3, 3, 5, 6
SOURCE_WORDS, TARGET_WORDS = 11, 13
POISON = 1e3

Sources = dict[str, Point]


class ProofCase:
    """A model and its inputs: hidden states of a batch of sentences for both sides, with masks of prefixes.

    All random numbers come from one generator, so that the seed determines the case. `x` is [B, T, d], `source` [B, S, d].
    """

    def __init__(self, checked: CheckedDefinition, registry: Registry, seed: int):
        self.checked, self.registry, self.seed = checked, registry, seed
        self.generator = torch.Generator().manual_seed(seed)
        shape = Shape(SOURCE_WORDS, TARGET_WORDS, "none", gamma=SOURCE_LENGTH / TARGET_LENGTH)
        self.model = Model(checked, shape, registry).double().eval()
        self.randomise()
        self.source = self.normal(SENTENCES, SOURCE_LENGTH, checked.width)
        self.source_mask = self.prefixes(SENTENCES, SOURCE_LENGTH)
        self.x = self.normal(SENTENCES, TARGET_LENGTH, checked.width)
        self.mask = self.prefixes(SENTENCES, TARGET_LENGTH)
        with torch.no_grad():
            self.sources = self.encode(self.source, self.source_mask)
            self.tamed = map_points(self.sources, _tamed)

    # -- draws

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers in float64."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers in [low, high]."""
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return int(self.integers(low, high))

    def prefixes(self, rows: int, length: int) -> Bool[Tensor, "B T"]:
        """A mask of prefixes: the first row is complete, the second is shorter, none is empty."""
        lengths = self.integers(1, length, rows)
        lengths[0] = length
        lengths[1] = self.integer(1, length - 1)
        return torch.arange(length) < lengths[:, None]

    def chunks(self, length: int, most: int = 3) -> list[int]:
        """A partition of `length` into chunks of 1 to `most`."""
        sizes: list[int] = []
        while sum(sizes) < length:
            sizes.append(self.integer(1, min(most, length - sum(sizes))))
        return sizes

    def partitions(self, length: int) -> dict[str, list[int]]:
        """Each kind of partition: one by one, whole, random chunks."""
        return {"one by one": [1] * length, "whole": [length], "in chunks": self.chunks(length)}

    def randomise(self) -> None:
        """Gives all parameters, gains and biases included, random values that are not all near zero."""
        for p in self.model.parameters():
            if p.dim() > 1:
                p.data = self.normal(*p.shape) / p[0].numel() ** 0.5
            else:
                size = 0.3 + torch.rand(p.shape, generator=self.generator, dtype=torch.float64)
                p.data = torch.where(self.normal(*p.shape) < -0.5, -size, size)

    # -- runs

    def encode(self, x: Float[Tensor, "B S D"], mask: Tensor | None, record: Recorder | None = None) -> Sources:
        """Every labelled point and the end, as by `Model.encode`."""
        taps: Sources = {}
        end = self.model.encoder(x, Context(mask=mask, taps=taps, record=record, like=x.new_empty(0)))
        taps["end"] = Point(end, mask)
        return taps

    def forward(
        self, x: Float[Tensor, "B T D"], sources: Sources, mask: Tensor | None = None, record: Recorder | None = None
    ) -> Tensor:
        """The decoder, all positions at once."""
        ctx = Context(mask=mask, sources=sources, record=record, like=x.new_empty(0))
        y: Tensor = self.model.decoder(x, ctx)
        return y

    def start(self, sources: Sources, beams: int, capacity: int, record: Recorder | None = None) -> State:
        """The decoder's state before the first position."""
        end = sources["end"].value
        ctx = Context(beams=beams, sources=sources, record=record, like=end.new_empty(0))
        return begin(self.model.decoder, end.shape[0] * beams, capacity, ctx)

    def step(
        self,
        x: Float[Tensor, "B n D"],
        state: State,
        visible: int,
        beams: int = 1,
        mask: Tensor | None = None,
        record: Recorder | None = None,
    ) -> tuple[Tensor, State]:
        """The decoder's next positions. The context has no sources: the state has everything that is needed of them."""
        ctx = Context(beams=beams, record=record, like=x.new_empty(0))
        return proceed(self.model.decoder, x, state, ctx, mask, visible)

    def stepped(
        self, x: Tensor, sources: Sources, chunks: list[int], beams: int = 1, record: Recorder | None = None
    ) -> Tensor:
        """The decoder, chunk by chunk. `visible` is at random the exact number of positions or the capacity."""
        length = x.shape[1]
        state, at, outputs = self.start(sources, beams, length, record), 0, []
        for n in chunks:
            visible = at + n if self.integer(0, 1) else length
            y, state = self.step(x[:, at : at + n], state, visible, beams, record=record)
            outputs.append(y)
            at += n
        return torch.cat(outputs, 1)

    def layers(self) -> Mapping[str, Layer]:
        """The model's layers by path."""
        return {name: module for name, module in self.model.named_modules() if isinstance(module, Layer)}

    def words(self, rows: int, length: int, size: int) -> Int[Tensor, "B T"]:
        """Word numbers."""
        return self.integers(0, size - 1, rows, length)


def _tamed(t: Tensor) -> Tensor:
    """Scaled to a mean square of at most 1: a random encoder may multiply by 10^9, which makes a softmax depend on rounding."""
    return t / max(1.0, float(t.square().mean().sqrt())) if t.is_floating_point() else t


def map_points(sources: Sources, change: Callable[[Tensor], Tensor]) -> Sources:
    """The points with `change` applied to every tensor: values, masks, states."""
    return {
        key: Point(
            change(p.value),
            None if p.mask is None else change(p.mask),
            None if p.state is None else tuple(change(s) for s in p.state),
        )
        for key, p in sources.items()
    }


def widened(sources: Sources, beams: int) -> Sources:
    """Every sentence repeated for each of its hypotheses, as `forward` reads them."""
    return map_points(sources, lambda t: t.repeat_interleave(beams, 0))


def sentence(sources: Sources, row: int, length: int) -> Sources:
    """One sentence without its padding."""
    return {
        key: Point(
            p.value[row : row + 1, :length], None, None if p.state is None else tuple(s[row : row + 1] for s in p.state)
        )
        for key, p in sources.items()
    }


def poisoned(x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], poison: Tensor) -> Tensor:
    """`x` with `poison` wherever the mask is False."""
    return torch.where(mask[:, :, None], x, poison)
