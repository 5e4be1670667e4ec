"""Commands that use a model."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import BEAM, FILE, PRECISION, RUN, RUNS, SET, THREADS, loading, reading, root, set_threads
from calque.cli.decode_options import INVARIANT, TABLES, TAG
from calque.cli.process import told_fault
from calque.ground.diagnostics import CalqueError, Place, error, reason_of

if TYPE_CHECKING:
    from calque.data.repair import Repairs
    from calque.decode.translate import InputLine, Translation, Translator
    from calque.experiment.toml import KeyEntry

CHUNK = 2000
"""Lines that are read, computed together and printed before the next are read."""


@root.command()
@RUNS
@SET
@BEAM
@PRECISION
@THREADS
@click.option("--n-best", type=click.IntRange(1, 1000), default=1, show_default=True, help="Translations per line.")
@click.option("--scores", is_flag=True, help="Each line: score, tab, translation.")
@TAG
@click.option(
    "--sentences", is_flag=True, help="Lines of several sentences: translate each by itself. One line stays one."
)
@INVARIANT
@click.option("--sample", is_flag=True, help="Sample words at random: N samples per line with --n-best N.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of samples; needs --sample.")
@click.option(
    "--prefix",
    type=FILE,
    help="What each translation begins with, line by line; lines may be empty. Subwords may continue the last word.",
)
@TABLES
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option(
    "--buffer-size",
    type=click.IntRange(1, 1_000_000),
    help="Lines that are read before they are translated together; 1: each is answered at once.  [default: 2000; at a terminal 1]",
)
def translate(
    runs: tuple[Path, ...],
    overrides: tuple[str, ...],
    beam: int | None,
    precision: str | None,
    threads: int | None,
    n_best: int,
    scores: bool,
    tag: str | None,
    sentences: bool,
    invariant: bool,
    sample: bool,
    seed: int | None,
    prefix: Path | None,
    combine: str,
    workers: int,
    buffer_size: int | None,
    **tables: Any,
) -> None:
    """Translate stdin to stdout, line by line (with --n-best N, N lines for each). Several RUNs are one ensemble.

    Compressed text is unpacked. --set replaces keys of [decode]: word penalty, temperature, top_k, top_p and the others.

    Bytes that are not UTF-8 are read as U+FFFD: the line is translated, its number is reported, and the exit status is 1.
    """
    _check_sentences(sentences, n_best > 1 or scores or prefix is not None)
    with loading():
        from calque.workflow.api import Tables, open_loaded
        from calque.workflow.show import LineProgress
    options = {"beam": beam, "precision": precision, "sample": sample or None, "seed": seed, "tag": tag}
    decode = decode_entries(runs[0], overrides, options)
    opened = functools.partial(open_loaded, runs, combine, Tables(**tables), decode, scores)
    with reading() as repairs:
        source = Input(repairs, prefix, buffer_size, sentences)
        progress = LineProgress("translating", None if sentences else _lines_ahead())
        translations = _translations(opened, source, n_best, invariant, workers, threads, progress)
        with contextlib.closing(translations), progress:
            _print(translations, source, n_best, scores)
        source.check()


def _check_sentences(sentences: bool, of_lines: bool) -> None:
    if sentences and of_lines:
        raise click.UsageError("--sentences puts lines together again: without --n-best, --scores and --prefix")


def decode_entries(run: Path, overrides: tuple[str, ...], options: Mapping[str, object]) -> "list[KeyEntry]":
    """What --set and options replace in [decode]. A usage error for a seed where neither they nor the run ask for samples."""
    from calque.experiment import load, override, setting_entry
    from calque.run.folder import EXPERIMENT

    entries = [setting_entry("decode", key, value) for key, value in options.items() if value is not None]
    decode = [*map(override, overrides), *entries]
    if options.get("seed") is not None and not load(run / EXPERIMENT, decode).decode.sample:
        raise click.UsageError("--seed needs --sample")
    return decode


def opened(
    runs: Sequence[Path],
    overrides: tuple[str, ...],
    beam: int | None,
    precision: str | None,
    threads: int | None,
    tag: str | None,
    combine: str,
    **tables: Any,
) -> "Translator":
    """The runs as one translator, without scores; sets the number of threads."""
    from calque.workflow.api import Tables, open_loaded

    decode = decode_entries(runs[0], overrides, {"beam": beam, "precision": precision, "tag": tag})
    set_threads(threads)
    return open_loaded(runs, combine, Tables(**tables), decode, False)


def _translations(
    open_runs: "Callable[[], Translator]",
    source: "Input",
    n_best: int,
    invariant: bool,
    workers: int,
    threads: int | None,
    progress: Callable[[int], None],
) -> "Generator[list[Translation], None, None]":
    """The hypotheses of each line, by this process or by several workers."""
    from calque.decode.translate import translate_stream
    from calque.decode.workers import WorkerTask, translate_with_workers

    warn = source.warn
    if workers > 1 and source.chunk > 1:  # a line that is typed is answered at once, by one process
        each = threads or max(1, (os.cpu_count() or 1) // workers)
        task = WorkerTask(open_runs, n_best, invariant, each, told_fault)
        return translate_with_workers(task, workers, source, warn=warn, progress=progress)
    set_threads(threads)
    return translate_stream(open_runs(), source, n_best, invariant, source.chunk, warn, progress)


def _print(translations: "Iterator[list[Translation]]", source: "Input", n_best: int, scores: bool) -> None:
    """Prints the translations of all lines, those of sentences together."""
    if source.divided is not None:
        for line in source.divided.together(hypotheses[0].text for hypotheses in translations):
            click.echo(line)
    for hypotheses in translations:
        _print_hypotheses(hypotheses, n_best, scores)


def _print_hypotheses(hypotheses: "list[Translation]", n_best: int, scores: bool) -> None:
    """Prints `n_best` lines; those for which there is no hypothesis are empty, with a score of -inf."""
    for k in range(n_best):
        score, text = (hypotheses[k].score, hypotheses[k].text) if k < len(hypotheses) else (float("-inf"), "")
        click.echo(f"{score:.6f}\t{text}" if scores else text)


def _lines_ahead() -> int | None:
    """The lines that are left in stdin, for a progress bar; None where stdin is no plain file or stderr no terminal."""
    import stat

    from calque.data.packed import kind_of

    if not sys.stderr.isatty() or sys.stdin is None:
        return None
    try:
        number = sys.stdin.buffer.fileno()
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        at, lines, last = os.lseek(number, 0, os.SEEK_CUR), 0, b"\n"
        while block := os.pread(number, 1 << 20, at):
            if not lines and kind_of(block):
                return None
            at, lines, last = at + len(block), lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n")
    except (OSError, AttributeError):
        return None


class Input:
    """The lines of stdin, each with its prefix where there is a file of prefixes.

    The input ends where a line cannot be read, so that the lines before it are translated and printed; `check` then raises the
    fault.
    """

    def __init__(self, repairs: "Repairs", prefixes: Path | None, chunk: int | None = None, sentences: bool = False):
        """`sentences`: what is given are the sentences of the lines, which `divided` puts together again."""
        from calque.decode.divided import DividedLines

        if sys.stdin is None:
            raise error("X402", Place("stdin"), reason="it is closed")
        self.repairs, self._prefix_file = repairs, prefixes
        self._lines = repairs.standard_input()
        self._prefixes = None if prefixes is None else repairs.lines(prefixes)
        self.divided = DividedLines(self._lines) if sentences else None
        self.warn = repairs.note if self.divided is None else self.divided.warnings_of_lines(repairs.note)
        self.fault: CalqueError | None = None
        # At a terminal each line is translated before the next one is read.
        self.chunk = chunk or (1 if sys.stdin.isatty() else CHUNK)

    def __iter__(self) -> Iterator["InputLine"]:
        try:
            yield from self.divided or (self._lines if self._prefixes is None else self._with_prefixes(self._prefixes))
        except CalqueError as fault:
            self.fault = fault
        except OSError as e:
            self.fault = error("X402", Place("stdin"), reason=reason_of(e))

    def _with_prefixes(self, prefixes: Iterator[str]) -> Iterator[tuple[str, str]]:
        number = 0
        for number, line in enumerate(self._lines, 1):
            if (prefix := next(prefixes, None)) is None:
                raise error("D605", Place(str(self._prefix_file), number), ended="prefixes", n=number - 1)
            yield line, prefix
        if next(prefixes, None) is not None:
            raise error("D605", Place(str(self._prefix_file), number + 1), ended="input", n=number)

    def check(self) -> None:
        """Raises the fault that ended the input early, if there is one."""
        if self.fault is not None:
            raise self.fault


@root.command()
@RUN
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@PRECISION
@THREADS
@TAG
def score(run: Path, source: Path, target: Path, precision: str | None, threads: int | None, tag: str | None) -> None:
    """Print the score of each given translation, normalised as `translate --scores` does; `-` is standard input.

    Sources are read whole, where `translate` cuts lines of more than max_source_tokens subwords: of such a line both scores
    differ. Lines that are not UTF-8 are read and reported as by `translate`.
    """
    with loading():
        from calque.workflow.api import load

    with reading() as repairs:
        sources, targets = repairs.pairs(source, target)
        set_threads(threads)
        given = {"precision": precision, "tag": tag}
        loaded = load(run, overrides=decode_entries(run, (), given))
        for k in range(0, len(sources), CHUNK):
            for value in loaded.scores(sources[k : k + CHUNK], targets[k : k + CHUNK]):
                click.echo(f"{value:.6f}")
