"""The pace at which this machine trains a size, from a few updates on sentences of the corpus."""

import statistics
import time
from dataclasses import dataclass, field, replace

from calque.adl.check import CheckedDefinition, check
from calque.data.batches import Batch, collate, plan
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.explain import Surroundings, parameters
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.model import Shape
from calque.workflow.new.choices import Size

ASSUMED = 20e9
"""Multiply-adds per second where nothing is measured: about those of two cores without matrix units."""
SECONDS = 3.0
"""Seconds for the updates of one measurement, without warm-up."""
UPDATES = 12
"""The largest number of updates of one measurement."""


_BESIDE = {
    "plain": ("mh_dot_self_att", "mh_dot_self_att"),
    "relative": ("mh_dot_self_att(relative=t5)", "mh_dot_self_att(relative=t5)"),
    "hard-coded": ("hc_self_att(-1, 1)", "hc_self_att(-1, 0)"),
}
"""Self-attention of encoder and decoder."""


def text_of(size: Size, dropout: float) -> str:
    """The definition of a size."""
    head = "# A Transformer with normalisation before each block (Domhan 2018, section 2.4).\n"
    encoder, decoder = "tenc", "tdec"
    if size.inner or size.attention != "plain":
        one, other = _BESIDE[size.attention]
        encoder, decoder = (_block(*layers, size.inner) for layers in ((one, ""), (other, "mh_dot_src_att")))
    if size.attention == "relative":
        head += "# Scores of self-attention gain a learned number for each distance, in place of positions (Raffel et al. 2020).\n"
    if size.attention == "hard-coded":
        head += "# Self-attention has fixed weights: beside a word, in the decoder also at it (HC-SA of You 2020, section 3.1).\n"
    first = f"scale({size.width**0.5:.6g}) -> dropout" if size.attention == "relative" else "pos"
    return (
        f"{head}"
        f"d = {size.width}\nheads = {size.heads}\np = {dropout}\n\n"
        f"encoder = {first} -> repeat({size.blocks}, {encoder}) -> norm\n"
        f"decoder = {first} -> repeat({size.blocks}, {decoder}) -> norm\n"
    )


def _block(beside: str, source: str, inner: int) -> str:
    """A block of a layer that looks at its own side, in the decoder one that looks at the source, and feed-forward layers."""
    layers = (beside, source, f"ffl({inner})" if inner else "ffl")
    return " -> ".join(f"res_nd({layer})" for layer in layers if layer)


def checked_of(size: Size, dropout: float = 0.1) -> CheckedDefinition:
    """The checked tree of a size."""
    return check(Text("model.adl", text_of(size, dropout)), builtin())


def weights(size: Size, vocabulary: int) -> int:
    """Parameters of the whole model, with one vocabulary for both sides."""
    return parameters(checked_of(size), Surroundings(vocabulary, vocabulary))


class AssumedPace:
    """A pace that is not measured, but follows from the number of weights."""

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary

    def __call__(self, size: Size, batch: int) -> float:
        # The backward pass costs twice the forward one, which takes a multiply-add per weight; R-Drop takes both twice.
        return ASSUMED / (3 * weights(size, self.vocabulary)) / (2 if size.r_drop else 1)


@dataclass
class MeasuredPace:
    """The pace of sizes in training, each measured once."""

    pairs: Pairs
    vocabulary: int
    settings: TrainSettings
    spent: float = 0.0
    """Seconds spent on measurements, including the starts of models."""
    updates: int = 0
    precision: str = ""
    _known: dict[tuple[Size, int], float] = field(default_factory=dict)

    def __call__(self, size: Size, batch: int) -> float:
        if (size, batch) not in self._known:
            began = time.perf_counter()
            self._known[size, batch] = self._measure(size, batch)
            self.spent += time.perf_counter() - began
        return self._known[size, batch]

    def _measure(self, size: Size, batch: int) -> float:
        """Target tokens per second; a larger batch takes the pace of the smallest one where its measurement would take long."""
        from calque.train.timed_updates import measure

        smallest = next((n for (s, _), n in self._known.items() if s == size), None)
        if smallest is not None and 3 * batch / smallest > 2 * SECONDS:
            return smallest
        precision = self.precision or self.settings.precision
        settings = replace(
            self.settings, batch_tokens=batch, precision=precision, optimiser=size.optimiser, r_drop=size.r_drop
        )
        shape = Shape(self.vocabulary, self.vocabulary)
        batches = self._batches(batch)
        first = measure(checked_of(size), shape, settings, batches, 1, 1)
        self.precision = first.precision
        settings = replace(settings, precision=first.precision)
        updates = max(1, min(UPDATES, int(SECONDS / first.seconds[0])))
        self.updates = updates
        speed = measure(checked_of(size), shape, settings, batches, updates, 1)
        # The median: an update that waits for another process does not distort it.
        return statistics.median(n / s for n, s in zip(speed.target_tokens, speed.seconds, strict=True))

    def _batches(self, batch: int) -> list[Batch]:
        rows = plan(self.pairs, batch, 0, self.settings.seed, 0)
        return [collate(self.pairs, each, True) for each in rows[: UPDATES + 1]]
