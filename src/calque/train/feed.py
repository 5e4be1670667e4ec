"""Where the pairs of a training come from: the compiled corpus, or a stream."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from calque.data.stream import PairStream
from calque.train.call import TrainingTask
from calque.train.order import Group, Layout, layout, updates
from calque.train.standing import TrainingPosition

Yielding = Callable[[], AbstractContextManager[None]]


class Feed:
    """The pairs of the compiled corpus, and the updates of each epoch."""

    ended = False
    """Whether there are no more pairs."""

    def __init__(self, task: TrainingTask):
        self.task = task
        self.pairs = task.prepared.split("train")

    @property
    def layout(self) -> Layout:
        """How the experiment cuts an epoch into updates."""
        return layout(self.task.experiment.train, self.task.experiment.data.weights)

    def updates(self, standing: TrainingPosition, yielding: Yielding) -> list[Group]:
        """The updates of the current epoch that remain; a signal may end it inside `yielding()`."""
        with yielding():
            return updates(self.pairs, standing.epoch, standing.layout, standing.earlier)


class StreamFeed(Feed):
    """The windows of a stream, each of which is an epoch. The leader reads it and sends every window to the other processes."""

    def __init__(self, task: TrainingTask):
        super().__init__(task)
        self.stream = PairStream(task.experiment.data, task.prepared.codecs)
        self._reported = self._skipped = 0

    @property
    def layout(self) -> Layout:
        """As of a corpus of one text."""
        return layout(self.task.experiment.train)

    def updates(self, standing: TrainingPosition, yielding: Yielding) -> list[Group]:
        """The updates of the present window; none where the stream has ended."""
        if standing.epoch and not self.stream.lines:
            lines = standing.epoch * self.task.experiment.data.stream_window
            self._skipped = lines
            self.task.call.tell(f"stream: the first {lines:,} lines have been used and are skipped")
        with yielding():
            window = self.stream.window(standing.epoch)
        self._report(window is None)
        if window is None and not standing.update:
            raise self.stream.without_pairs()
        if window is None:
            self.ended = True
            return []
        self.pairs = window
        self.task.call.ranks.send("window", window)
        return updates(window, standing.epoch, standing.layout, standing.earlier)

    def _report(self, ended: bool) -> None:
        """Says what was left out, each time that it has doubled, and at the end of the stream."""
        total = self.stream.left_out.total()
        if total > (1 if ended else 2) * self._reported:
            self._reported = total
            read = self.stream.lines - self._skipped
            self.task.call.tell(f"stream: of {read:,} lines left out: {self.stream.reasons}")


def feed_of(task: TrainingTask) -> Feed:
    """The feed that the experiment of a training asks for."""
    return StreamFeed(task) if task.experiment.data.stream else Feed(task)
