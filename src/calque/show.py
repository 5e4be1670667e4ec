"""What a person sees of a training: a live line on a terminal, plain lines elsewhere. All of it on stderr."""

import sys
from types import TracebackType
from typing import Any

from calque.train.report import Progress, Validation


class Show:
    """A watcher of a training. On a terminal a progress bar with ETA, loss, speed and the last validation."""

    def __init__(self, title: str):
        self.title, self._last, self._told = title, "", 0.0
        self._live: Any = None
        self._task: Any = None

    def __enter__(self) -> "Show":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                SpinnerColumn(),
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[status]}"),
            )
            self._live = Bar(*columns, console=Console(stderr=True))
            self._live.start()
            self._task = self._live.add_task(escape(self.title), total=1.0, status="")
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Progress | Validation) -> None:
        if isinstance(event, Validation):
            score = "" if event.bleu is None else f" BLEU {event.bleu:.1f}"
            self._last = f"valid ppl {event.perplexity:.2f}{score}"
            self._line(f"update {event.update:>6}  {self._last}{'  best' if event.best else ''}")
            return
        eta = "" if event.eta_seconds is None else f"ETA {clock(event.eta_seconds)} "
        status = (
            f"{eta}update {event.update} epoch {event.epoch} loss {event.loss:.3f} "
            f"{event.tokens_per_second:,.0f} tok/s {self._last}"
        )
        if self._live is not None:
            self._live.update(self._task, completed=event.fraction or 0.0, status=status)
        elif event.update >= self._told * 1.5 + 10:  # ever more rarely: a log, not a film
            self._told = event.update
            self._line(status)

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """m:ss, or h:mm:ss."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
