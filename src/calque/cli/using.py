"""Commands that use a model."""

import contextlib
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import BEAM, FILE, PRECISION, RUN, SET, THREADS, load_run, root, set_threads, tell
from calque.diagnostics import Diagnostic, Place, error, render

if TYPE_CHECKING:
    from calque.decode.translate import Translation


@root.command()
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN...")
@SET
@BEAM
@PRECISION
@THREADS
@click.option("--n-best", type=click.IntRange(1, 1000), default=1, show_default=True, help="Translations per line.")
@click.option("--scores", is_flag=True, help="Each line: score, tab, translation.")
@click.option("--invariant", is_flag=True, help="Bit for bit the same whatever stands around a line; slower.")
@click.option("--sample", is_flag=True, help="Draw words by chance: N samples per line with --n-best N.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Of samples.")
@click.option("--prefix", type=FILE, help="What each translation begins with, line by line; lines may be empty.")
@click.option("--select", type=FILE, help="A lexical table: only words that it offers can be chosen.")
@click.option("--dictionary", type=FILE, help="A lexical table by which unknown words are replaced, else copied.")
@click.option(
    "--combine",
    type=click.Choice(["probs", "logits", "logprobs"]),
    default="probs",
    show_default=True,
    help="Several runs: the mean of what.",
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
def translate(
    runs: tuple[Path, ...],
    overrides: tuple[str, ...],
    beam: int | None,
    precision: str | None,
    threads: int | None,
    n_best: int,
    scores: bool,
    invariant: bool,
    sample: bool,
    seed: int | None,
    prefix: Path | None,
    select: Path | None,
    dictionary: Path | None,
    combine: str,
    workers: int,
) -> None:
    """Translate stdin to stdout, line by line (with --n-best N, N lines for each). Several RUNs are one ensemble.

    --set replaces keys of [decode]: word penalty, temperature, top_k, top_p and the others.
    """
    import functools
    import os

    from calque.api import open_loaded
    from calque.decode.translate import translate_stream
    from calque.decode.workers import Work, translate_with_workers
    from calque.show import LineProgress

    given = {"beam": beam, "precision": precision and f'"{precision}"', "sample": sample and "true", "seed": seed}
    written = [*overrides, *(f"decode.{key}={value}" for key, value in given.items() if value not in (None, False))]
    opened = functools.partial(open_loaded, runs, combine, select, dictionary, written, scores)
    asked = _stdin() if prefix is None else _with_prefixes(prefix)
    every: Generator[list[Translation], None, None]
    progress = LineProgress("translating", _lines_ahead())
    if workers > 1:
        work = Work(opened, n_best, invariant, threads or max(1, (os.cpu_count() or 1) // workers))
        every = translate_with_workers(work, workers, asked, warn=_tell_one, progress=progress)
    else:
        set_threads(threads)
        every = translate_stream(opened(), asked, n_best, invariant, warn=_tell_one, progress=progress)
    with contextlib.closing(every), progress:
        for found in every:
            padded = [*found, *[None] * (n_best - len(found))]  # always as many lines as promised
            for one in padded:
                text = "" if one is None else one.text
                click.echo(f"{one.score if one else float('-inf'):.6f}\t{text}" if scores else text)


def _lines_ahead() -> int | None:
    """The lines that stdin still has where it is a file and stderr a terminal that asks for them."""
    import os
    import stat

    if not sys.stderr.isatty() or sys.stdin is None:
        return None
    try:
        number = sys.stdin.buffer.fileno()
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        at, lines, last = os.lseek(number, 0, os.SEEK_CUR), 0, b"\n"
        while block := os.pread(number, 1 << 20, at):
            at, lines, last = at + len(block), lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n")
    except (OSError, AttributeError):
        return None


def _tell_one(found: Diagnostic) -> None:
    tell(render(found))


def _with_prefixes(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of stdin and those of a file of prefixes, side by side."""
    from calque.data.text import Lines

    prefixes = iter(Lines(path))
    number = 0
    for number, line in enumerate(_stdin(), 1):
        if (prefix := next(prefixes, None)) is None:
            raise error("D605", Place(str(path), number), ended="prefixes", n=number - 1)
        yield line, prefix
    if next(prefixes, None) is not None:
        raise error("D605", Place(str(path), number + 1), ended="input", n=number)


def _stdin() -> Iterator[str]:
    from calque.data.text import MARK

    if sys.stdin is None:
        raise error("X402", Place("stdin"), reason="it is closed")
    try:
        for number, line in enumerate(sys.stdin.buffer, 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as e:
                raise error("X403", Place("stdin", number), offset=e.start) from None
            yield (text.removeprefix(MARK) if number == 1 else text).removesuffix("\n").removesuffix("\r")
    except OSError as e:
        raise error("X402", Place("stdin"), reason=(e.strerror or str(e)).lower()) from None


@root.command()
@RUN
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@PRECISION
@THREADS
def score(run: Path, source: Path, target: Path, precision: str | None, threads: int | None) -> None:
    """Print the score of each given translation, normalised as `translate --scores` does."""
    from calque.data.text import Lines, check_corpus

    check_corpus(source, target)
    set_threads(threads)
    here = load_run(run, None, precision)
    for value in here.score(list(zip(Lines(source), Lines(target), strict=True))):
        click.echo(f"{value:.6f}")
