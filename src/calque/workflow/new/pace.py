"""How fast this machine trains a size: a few updates of it on the corpus' own sentences."""

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
"""Multiply-adds a second where nothing is measured: about what two cores without matrix units reach."""
SECONDS = 3.0
"""For the updates of one measurement, warm-up left out."""
UPDATES = 12
"""At most, for one measurement."""


def text_of(size: Size, dropout: float) -> str:
    """The definition of a size."""
    return (
        "# A Transformer with normalisation before each block (Domhan 2018, section 2.4).\n"
        f"d = {size.width}\nheads = {size.heads}\np = {dropout}\n\n"
        f"encoder = pos -> repeat({size.blocks}, tenc) -> norm\ndecoder = pos -> repeat({size.blocks}, tdec) -> norm\n"
    )


def checked_of(size: Size, dropout: float = 0.1) -> CheckedDefinition:
    return check(Text("model.adl", text_of(size, dropout)), builtin())


def weights(size: Size, vocabulary: int) -> int:
    """Parameters of the whole model, one vocabulary for both sides."""
    return parameters(checked_of(size), Surroundings(vocabulary, vocabulary))


class Assumed:
    """A pace that nobody measured, from the number of weights."""

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary

    def __call__(self, size: Size, batch: int) -> float:
        # Two passes back for one forward, and a multiply-add per weight.
        return ASSUMED / (3 * weights(size, self.vocabulary))


@dataclass
class MeasuredPace:
    """The pace of sizes in training, measured once each."""

    pairs: Pairs
    vocabulary: int
    settings: TrainSettings
    spent: float = 0.0
    """Seconds that measuring took, starts of models included."""
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
        """A larger batch is measured only where the one of the smallest says that it takes seconds."""
        from calque.train.timed_updates import measure

        smallest = next((n for (s, _), n in self._known.items() if s == size), None)
        if smallest is not None and 3 * batch / smallest > 2 * SECONDS:
            return smallest
        settings = replace(self.settings, batch_tokens=batch, precision=self.precision or self.settings.precision)
        shape = Shape(self.vocabulary, self.vocabulary)
        batches = self._batches(batch)
        first = measure(checked_of(size), shape, settings, batches, 1, 1)
        self.precision = first.precision
        settings = replace(settings, precision=first.precision)
        updates = max(1, min(UPDATES, int(SECONDS / first.seconds[0])))
        self.updates = updates
        found = measure(checked_of(size), shape, settings, batches, updates, 1)
        # The median: one update that waits for another process does not distort it.
        return statistics.median(n / s for n, s in zip(found.target_tokens, found.seconds, strict=True))

    def _batches(self, batch: int) -> list[Batch]:
        rows = plan(self.pairs, batch, 0, self.settings.seed, 0)
        return [collate(self.pairs, each, True) for each in rows[: UPDATES + 1]]
