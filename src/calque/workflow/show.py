"""Progress of long work, on stderr: a bar at a terminal, plain lines or nothing elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from calque.ground.diagnostics import printable
from calque.train import log

if TYPE_CHECKING:
    from rich.progress import Progress

WIDTH = 200
"""At most so many characters of a sentence are shown."""


class _TerminalBar:
    """A progress bar at a terminal; elsewhere `bar` is None."""

    def __init__(self, title: str, wanted: bool = True, transient: bool = False):
        self.title, self.wanted, self.transient = title, wanted, transient
        self.bar: Progress | None = None

    def start(self, total: float | None) -> None:
        """Shows the bar, where stderr is a terminal; without a total it has no percentage."""
        if not (self.wanted and sys.stderr.isatty()):
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("[bold]{task.description}"), TimeElapsedColumn()]
        if total is not None:
            columns[2:2] = [BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f}%")]
        self.bar = Progress(
            *columns,
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=self.transient,
            redirect_stdout=False,  # rich would write it to the terminal even where it is redirected
        )
        self.bar.start()
        self.bar.add_task(escape(self.title), total=total, status="")

    def update(self, completed: float, status: str) -> None:
        """Moves the bar, and shows the status beside it."""
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=completed, status=status)

    def stop(self) -> None:
        """Removes or freezes the bar."""
        if self.bar is not None:
            self.bar.stop()

    def line(self, text: str) -> None:
        """Prints a line above the bar; where there is none, plainly on stderr."""
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)


class Show:
    """A watcher of a training: at a terminal a progress bar with ETA, loss, speed and the last validation."""

    def __init__(self, title: str):
        self._bar = _TerminalBar(title)
        self._validation, self._printed = "", 0.0

    def __enter__(self) -> "Show":
        self._bar.start(1.0)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, event: log.Progress | log.Validation) -> None:
        if isinstance(event, log.Validation):
            score = "" if event.bleu is None else f" BLEU {event.bleu:.1f}"
            self._validation = f"valid ppl {event.perplexity:.2f}{score}"
            self._bar.line(f"update {event.update:>6}  {self._validation}{'  best' if event.best else ''}")
            if self._bar.bar is not None:
                for line in sample_lines(event.samples):
                    self._bar.line(line)
            return
        eta = "" if event.eta_seconds is None else f"ETA {clock(event.eta_seconds)} "
        status = (
            f"{eta}update {event.update} epoch {event.epoch} loss {event.loss:.3f} "
            f"{event.tokens_per_second:,.0f} tok/s {self._validation}"
        )
        if self._bar.bar is not None:
            self._bar.update(event.fraction or 0.0, status)
        elif event.update >= self._printed * 1.5 + 10:  # less and less often
            self._printed = event.update
            self._bar.line(status)


class LineProgress:
    """Lines done, lines per second and, where the total is known, the time left; at a terminal only.

    Where stdout is that terminal too, there is no bar between the lines printed there, unless they are printed in `aside`.
    """

    def __init__(self, title: str, total: int | None, aside: bool = False):
        self.total, self.done = total, 0
        self._bar = _TerminalBar(title, wanted=aside or not sys.stdout.isatty(), transient=True)
        self._began = time.monotonic()

    def __enter__(self) -> "LineProgress":
        self._bar.start(self.total)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, lines: int) -> None:
        """Counts lines that are done."""
        self.done += lines
        speed = self.done / max(1e-9, time.monotonic() - self._began)
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.total is None else f", {clock(max(0, self.total - self.done) / max(speed, 1e-9))} left"
        self._bar.update(self.done, f"{self.done:,}{of} lines, {speed:,.1f} lines/s{left}")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Removes the bar from the terminal inside a `with`."""
        self._bar.stop()
        try:
            yield
        finally:
            if self._bar.bar is not None:
                self._bar.bar.start()


def sample_lines(samples: tuple[log.SampleTranslation, ...]) -> Iterator[str]:
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
