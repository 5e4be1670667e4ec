"""Lines of many requests, translated together: one thread puts them into batches of equal shape."""

import contextlib
import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import NamedTuple

import torch

from calque.decode.again import searched
from calque.decode.attention import word_shares
from calque.decode.encode import BUCKET
from calque.decode.sentences import EMPTY, Sentence, Translation, lengths_of, sentences_of
from calque.decode.translate import alike, in_letters_of, translate_batch
from calque.decode.unknown import replace_unknown
from calque.ground.diagnostics import Diagnostic
from calque.ground.exits import exits_as_errors
from calque.ground.languages import LanguagePair
from calque.serve.apart import ServedRun, sizes
from calque.serve.runs import OpenRuns, RunUnavailable
from calque.workflow.document.inline import Shares


class QueueFull(Exception):
    """There is no room for the lines of a request."""


class LineTooLong(Exception):
    """A line has more subwords than the run reads; `line` is its number in the request, from 0."""

    def __init__(self, line: int, found: int, most: int):
        super().__init__(line, found, most)
        self.line, self.found, self.most = line, found, most


class Order:
    """The lines of one request, and later their translations."""

    def __init__(self, pair: LanguagePair, lines: Sequence[str], n_best: int, aligned: Collection[int] = ()):
        self.pair, self.lines, self.n_best, self.aligned = pair, list(lines), n_best, aligned
        self.shares: dict[int, list[Shares | None]] = {}
        """Of the lines `aligned`: where the words of each translation come from."""
        self.answer: Future[list[list[Translation]]] = Future()
        self.came = time.monotonic()
        self.left = len(self.lines)
        self.results: list[list[Translation]] = [[EMPTY] for _ in self.lines]

    def fail(self, fault: BaseException) -> None:
        """Ends the order with a fault."""
        with contextlib.suppress(InvalidStateError):  # the client has left
            self.answer.set_exception(fault)

    def put(self, number: int, translations: list[Translation]) -> None:
        """The translations of one line. The last line completes the answer."""
        self.results[number] = translations or [EMPTY]
        self.left -= 1
        if not self.left:
            with contextlib.suppress(InvalidStateError):
                self.answer.set_result(self.results)


class _Waiting(NamedTuple):
    """A line that waits for its batch."""

    order: Order
    number: int
    sentence: Sentence
    loaded: ServedRun


_Shape = tuple[int, int, tuple[int, ...]]
"""Of a batch: the identity of its model, `n_best`, and the rounded lengths of sources and prefix."""


class Batcher:
    """A bounded queue of lines and the thread that translates them.

    A batch has lengths rounded up to the next multiple of BUCKET, as with `calque translate --invariant`, and up to `batch` lines,
    filled up to a number of rows with which translations have been tried to be the same (`sizes`), or to the one that every batch
    of a run must have (`ServedRun.rows`). So a translation depends on its line alone, bit for bit. The oldest line goes first, with
    others of its shape. It waits `window` seconds for them, unless the batch is full before, or as many lines wait as were under
    way when the last batch began: then there is nobody to wait for.
    """

    def __init__(
        self,
        runs: OpenRuns,
        most: int = 1000,
        batch: int = 16,
        window: float = 0.005,
        threads: int | None = None,
        observe: Callable[[int, float], None] = lambda rows, seconds: None,
        report: Callable[..., None] = lambda event, **fields: None,
    ):
        self.runs, self.most, self.batch, self.window = runs, most, batch, window
        self._threads, self._observe, self._report = threads, observe, report
        self._came = threading.Condition()
        self._new: deque[Order] = deque()
        self._shapes: OrderedDict[_Shape, deque[_Waiting]] = OrderedDict()
        self.waiting = 0
        """Lines that no batch has taken yet."""
        self._ending = False
        self._free = 0.0
        """When the last batch ended."""
        self._under_way = 0
        """Lines that were translated or waited when the last batch began."""
        self._news = False
        """Whether something has happened since new orders were last looked at."""
        runs.on_change = self._wake
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread and that of the runs work."""
        return self._thread.is_alive() and self.runs.alive

    def submit(self, pair: LanguagePair, lines: Sequence[str], n_best: int, aligned: Collection[int] = ()) -> Order:
        """Queues the lines of a request, some of which are to be aligned. Raises QueueFull, at once."""
        order = Order(pair, lines, n_best, aligned)
        if not lines:
            order.answer.set_result([])
            return order
        with self._came:
            if self._ending or self.waiting + len(lines) > self.most:
                raise QueueFull
            self.waiting += len(lines)
            self._new.append(order)
            self._news = True
            self._came.notify_all()
        return order

    def leave(self, order: Order) -> None:
        """Frees the places of a request whose client has left; what has begun is finished and dropped."""
        with self._came:
            order.answer.cancel()
            self._drop(order)

    def close(self) -> None:
        """Translates what is in the queue, then ends the thread."""
        with self._came:
            self._ending = True
            self._came.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _fail(self, order: Order, fault: Exception) -> None:
        with self._came:
            self._drop(order)
        order.fail(fault)

    def _drop(self, order: Order) -> None:
        """Takes the waiting lines of an order from the queue; the caller holds the lock."""
        if order in self._new:
            self._new.remove(order)
            self.waiting -= len(order.lines)
        for shape, held in list(self._shapes.items()):
            kept = deque(one for one in held if one.order is not order)
            self.waiting -= len(held) - len(kept)
            self._put(shape, kept)

    def _put(self, shape: _Shape, held: deque[_Waiting]) -> None:
        if held:
            self._shapes[shape] = held
        else:
            self._shapes.pop(shape, None)

    def _wake(self) -> None:
        with self._came:
            self._news = True
            self._came.notify_all()

    def _work(self) -> None:
        if self._threads:
            torch.set_num_threads(self._threads)
        while True:
            with self._came:
                self._news, new = False, list(self._new)
            self._admit(new)
            with self._came:
                batch = None if self._news else self._take()
                if batch is None:
                    if self._news:
                        continue
                    if self._ending and not self.waiting:
                        return
                    self._came.wait(self._patience())
                    continue
            self._translate(batch)
            self._free = time.monotonic()
            del batch  # so that a closed run leaves memory

    def _admit(self, new: Sequence[Order]) -> None:
        """Encodes new orders whose runs are in memory; has the others opened."""
        closed: dict[LanguagePair, RunUnavailable] = {}
        for order in new:
            try:
                if order.pair in closed:
                    raise closed[order.pair]
                loaded = self.runs.ready(order.pair)
                if loaded is None:
                    continue
                with exits_as_errors():
                    waiting = self._encoded(order, loaded)
            except Exception as fault:
                if isinstance(fault, RunUnavailable):
                    closed[order.pair] = fault
                elif not isinstance(fault, LineTooLong):
                    self._report("encoding_failed", level="error", kind=type(fault).__name__)
                self._fail(order, fault)
                continue
            with self._came:
                if order not in self._new:  # its client has left
                    continue
                self._new.remove(order)
                self.waiting -= len(order.lines) - len(waiting)
                for one in waiting:
                    self._shapes.setdefault(self._shape(one), deque()).append(one)
            for number in {*range(len(order.lines))} - {one.number for one in waiting}:
                order.put(number, [EMPTY])

    def _encoded(self, order: Order, loaded: ServedRun) -> list[_Waiting]:
        """The lines with words. Raises LineTooLong."""
        long: list[Diagnostic] = []
        sentences = sentences_of(loaded, order.lines, warn=long.append)
        if long:
            place, fields = long[0].where, long[0].fields
            number = (getattr(place, "line", None) or 1) - 1
            raise LineTooLong(number, int(str(fields["found"])), int(str(fields["most"])))
        return [
            _Waiting(order, number, sentence._replace(line=1), loaded)  # samples do not depend on the request
            for number, sentence in enumerate(sentences)
            if all(map(len, sentence.sources))
        ]

    def _shape(self, one: _Waiting) -> _Shape:
        lengths = tuple(-(-n // BUCKET) for n in lengths_of(one.loaded, one.sentence))
        return id(one.loaded), one.order.n_best, lengths

    def _oldest(self) -> tuple[_Shape, deque[_Waiting]] | None:
        return min(self._shapes.items(), key=lambda item: item[1][0].order.came, default=None)

    def _patience(self) -> float | None:
        """How long to wait for the next event; the caller holds the lock."""
        oldest = self._oldest()
        return None if oldest is None else max(0.0, self._due(oldest[1]) - time.monotonic())

    def _due(self, held: deque[_Waiting]) -> float:
        """When a batch begins that is not full. Clients that have just been answered may ask again at once: they have this time."""
        return max(held[0].order.came, self._free) + self.window

    def _take(self) -> list[_Waiting] | None:
        """The next batch; None where there is none, or while its first line still waits for others."""
        if (oldest := self._oldest()) is None:
            return None
        shape, held = oldest
        most = held[0].loaded.rows or self.batch
        ready = len(held) >= most or self.waiting >= self._under_way or self._ending
        if not ready and self._due(held) > time.monotonic():
            return None
        batch = list(itertools.islice(held, most))
        self._put(shape, deque(itertools.islice(held, most, None)))
        self._under_way = self.waiting
        self.waiting -= len(batch)
        return batch

    def _translate(self, batch: Sequence[_Waiting]) -> None:
        began = time.monotonic()
        try:
            with exits_as_errors():
                results = self._results(batch)
        except Exception as fault:  # of the model or the machine; the next batch may fare better
            self._report("batch_failed", level="error", kind=type(fault).__name__)
            for one in batch:
                self._fail(one.order, fault)
            return
        self._observe(len(batch), time.monotonic() - began)
        for one, translations in zip(batch, results, strict=True):
            one.order.put(one.number, translations)

    def _results(self, batch: Sequence[_Waiting]) -> list[list[Translation]]:
        loaded = batch[0].loaded
        results = self._searched(loaded, [one.sentence for one in batch], batch[0].order.n_best)
        if loaded.decode.replace_unknown:
            results = replace_unknown(loaded, [one.order.lines[one.number] for one in batch], results, True)
        for one, translations in zip(batch, results, strict=True):
            if one.number in one.order.aligned:
                line = one.order.lines[one.number]
                one.order.shares[one.number] = word_shares(loaded, line, translations)
        lines = (one.order.lines[one.number] for one in batch)
        return [in_letters_of(loaded, line, each) for line, each in zip(lines, results, strict=True)]

    def _searched(self, loaded: ServedRun, sentences: Sequence[Sentence], n_best: int) -> list[list[Translation]]:
        """The translations of sentences with equal shapes."""

        def search(given: list[Sentence], numbers: list[int]) -> Iterator[tuple[list[int], list[list[Translation]]]]:
            for together in alike(loaded, given, numbers, n_best):
                rows = loaded.rows or next(size for size in sizes(self.batch) if size >= len(together))
                yield together, translate_batch(loaded, [given[i] for i in together], n_best, rows)

        return searched(loaded.target, sentences, [*range(len(sentences))], search)
