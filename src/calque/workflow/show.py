"""What a person sees of work that takes long: a live line at a terminal, plain lines elsewhere or nothing. All of it on stderr."""

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from calque.ground.diagnostics import printable
from calque.train.log import Progress, SampleTranslation, Validation

WIDTH = 200
"""Characters of a sentence that are shown, at most."""


class _Live:
    """A bar of rich at a terminal; `live` is None elsewhere."""

    def __init__(self, title: str, wanted: bool = True, transient: bool = False):
        self.title, self.wanted, self.transient = title, wanted, transient
        self.live: Any = None
        self.task: Any = None

    def start(self, total: float | None) -> None:
        if not (self.wanted and sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = [SpinnerColumn(), TextColumn("[bold]{task.description}"), TimeElapsedColumn()]
        if total is not None:
            columns[2:2] = [BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f}%")]
        self.live = Bar(
            *columns,
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=self.transient,
            redirect_stdout=False,  # rich would write it to the terminal, wherever it leads
        )
        self.live.start()
        self.task = self.live.add_task(escape(self.title), total=total, status="")

    def update(self, completed: float, status: str) -> None:
        if self.live is not None:
            self.live.update(self.task, completed=completed, status=status)

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def line(self, text: str) -> None:
        """A line above the bar; plain on stderr where there is none."""
        if self.live is not None:
            self.live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)


class Show:
    """A watcher of a training. On a terminal a progress bar with ETA, loss, speed and the last validation."""

    def __init__(self, title: str):
        self._bar = _Live(title)
        self._last, self._told = "", 0.0

    def __enter__(self) -> "Show":
        self._bar.start(1.0)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, event: Progress | Validation) -> None:
        if isinstance(event, Validation):
            score = "" if event.bleu is None else f" BLEU {event.bleu:.1f}"
            self._last = f"valid ppl {event.perplexity:.2f}{score}"
            self._bar.line(f"update {event.update:>6}  {self._last}{'  best' if event.best else ''}")
            if self._bar.live is not None:
                for line in sample_lines(event.samples):
                    self._bar.line(line)
            return
        eta = "" if event.eta_seconds is None else f"ETA {clock(event.eta_seconds)} "
        status = (
            f"{eta}update {event.update} epoch {event.epoch} loss {event.loss:.3f} "
            f"{event.tokens_per_second:,.0f} tok/s {self._last}"
        )
        if self._bar.live is not None:
            self._bar.update(event.fraction or 0.0, status)
        elif event.update >= self._told * 1.5 + 10:  # ever more rarely: a log, not a film
            self._told = event.update
            self._bar.line(status)


class LineProgress:
    """Lines done, lines a second and, where their number is known, the time left; at a terminal, and nowhere else.

    Where stdout is that terminal too, what is printed there is shown instead of the bar, unless it is printed in `aside`.
    """

    def __init__(self, title: str, total: int | None, aside: bool = False):
        self.total, self.done = total, 0
        self._bar = _Live(title, wanted=aside or not sys.stdout.isatty(), transient=True)
        self._began = time.monotonic()

    def __enter__(self) -> "LineProgress":
        self._bar.start(self.total)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, lines: int) -> None:
        """So many more lines are done."""
        self.done += lines
        speed = self.done / max(1e-9, time.monotonic() - self._began)
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.total is None else f", {clock(max(0, self.total - self.done) / max(speed, 1e-9))} left"
        self._bar.update(self.done, f"{self.done:,}{of} lines, {speed:,.1f} lines/s{left}")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """The bar is off the terminal meanwhile."""
        self._bar.stop()
        try:
            yield
        finally:
            if self._bar.live is not None:
                self._bar.live.start()


def sample_lines(samples: tuple[SampleTranslation, ...]) -> Iterator[str]:
    """Source, reference and translation of each sample, a line each."""
    for sample in samples:
        for name, text in (
            ("source", sample.source),
            ("reference", sample.reference),
            ("translation", sample.translation),
        ):
            yield f"    {name:<11}  {printable(text, WIDTH)}"


def clock(seconds: float) -> str:
    """m:ss, or h:mm:ss."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
