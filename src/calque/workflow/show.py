"""Progress of long work, on stderr: a bar at a terminal, plain lines or nothing elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from calque.ground.diagnostics import printable
from calque.train import log

if TYPE_CHECKING:
    from rich.progress import Progress, TextColumn

WIDTH = 200
"""At most so many characters of a sentence are shown."""


BARS = ((120, 24), (60, 10))
"""The columns of a terminal from which there is a bar of so many columns."""
CLOCK = 8


class Part(NamedTuple):
    """A part of a status; the lowest number is the most important."""

    number: int
    text: str


def fitting(parts: Sequence[Part], width: int, between: str = " ") -> str:
    """The most important parts that fit into so many columns, in their order."""
    shown: set[Part] = set()
    for part in sorted(filter(lambda part: part.text, parts)):
        if sum(len(between) + len(one.text) for one in (*shown, part)) - len(between) <= width:
            shown.add(part)
    return between.join(part.text for part in parts if part in shown)


def _column(text: str) -> "TextColumn":
    from rich.progress import TextColumn
    from rich.table import Column

    return TextColumn(text, table_column=Column(no_wrap=True, overflow="ellipsis"))


class _TerminalBar:
    """A progress bar at a terminal; elsewhere `bar` is None."""

    def __init__(self, title: str, wanted: bool = True, transient: bool = False):
        self.title, self.wanted, self.transient = title, wanted, transient
        self.bar: Progress | None = None
        self._taken = 0
        """Columns of all but the status."""

    def start(self, total: float | None) -> None:
        """Shows the bar, where stderr is a terminal; without a total it has no percentage."""
        if not (self.wanted and sys.stderr.isatty()):
            return
        from rich.cells import cell_len, set_cell_size
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        title = set_cell_size(self.title, min(cell_len(self.title), max(8, console.width // 5)))
        bar = next((bar for least, bar in BARS if console.width >= least), 0)
        columns: list[ProgressColumn] = [SpinnerColumn(), _column("[bold]{task.description}"), TimeElapsedColumn()]
        self._taken = 1 + 1 + cell_len(title) + 1 + CLOCK + 1
        if total is not None:
            columns[2:2] = [*([BarColumn(bar_width=bar)] if bar else []), TextColumn("{task.percentage:>3.0f}%")]
            self._taken += (bar + 1 if bar else 0) + 4 + 1
        self.bar = Progress(
            *columns,
            _column("{task.fields[status]}"),
            console=console,
            transient=self.transient,
            redirect_stdout=False,  # rich would write it to the terminal even where it is redirected
        )
        self.bar.start()
        self.bar.add_task(escape(title), total=total, status="")

    def update(self, completed: float, parts: Sequence[Part], between: str = " ") -> None:
        """Moves the bar, and shows beside it the most important parts of the status for which there is room."""
        if self.bar is not None:
            status = fitting(parts, self.bar.console.width - self._taken, between)
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
        parts = (
            Part(0, "" if event.eta_seconds is None else f"ETA {clock(event.eta_seconds)}"),
            Part(1, f"update {event.update}"),
            Part(5, f"epoch {event.epoch}"),
            Part(2, f"loss {event.loss:.3f}"),
            Part(4, f"{event.tokens_per_second:,.0f} tok/s"),
            Part(3, self._validation),
        )
        if self._bar.bar is not None:
            self._bar.update(event.fraction or 0.0, parts)
        elif event.update >= self._printed * 1.5 + 10:  # less and less often
            self._printed = event.update
            self._bar.line(" ".join(part.text for part in parts if part.text))


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

    def of(self, total: int) -> "LineProgress":
        """The same, of which the total is known now."""
        self.total = total
        self._bar.stop()
        self._bar.start(total)
        return self

    def __call__(self, lines: int) -> None:
        """Counts lines that are done."""
        self.done += lines
        speed = self.done / max(1e-9, time.monotonic() - self._began)
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.total is None else f"{clock(max(0, self.total - self.done) / max(speed, 1e-9))} left"
        parts = Part(0, f"{self.done:,}{of} lines"), Part(2, f"{speed:,.1f} lines/s"), Part(1, left)
        self._bar.update(self.done, parts, ", ")

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
