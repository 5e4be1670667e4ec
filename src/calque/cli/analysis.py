"""Commands that analyse trained models."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import FILE, INTERRUPTED, THREADS, folders, from_options, root, set_threads, tell

if TYPE_CHECKING:
    from calque.analyse.analysis import AnalysisSettings
    from calque.analyse.pieces import Piece

EQUAL = ("size", "width")


@dataclass(frozen=True)
class AnalysisOptions:
    """The options of `calque analyse`."""

    figures: tuple[str, ...]
    text: tuple[Path, Path] | None
    lines: int
    base: str | None
    buckets: int | None
    equal: str | None
    layers: tuple[str, ...]
    line: int | None
    gold: Path | None
    pairs: Path | None
    most: int | None
    dictionary: Path | None
    ledger: tuple[Path, ...]

    def settings(self) -> "AnalysisSettings":
        """The settings of the analysis, with its defaults."""
        from calque.analyse.analysis import AnalysisSettings

        return AnalysisSettings(
            self.text,
            self.lines,
            self.base,
            self.buckets or AnalysisSettings.buckets,
            self.equal or AnalysisSettings.equal,
            self.layers,
            self.line,
            self.pairs,
            self.gold,
            self.ledger,
            self.most or AnalysisSettings.pairs,
            self.dictionary,
        )

    def pieces(self) -> "Mapping[str, Piece]":
        """The sections that --figure names; empty for the whole report."""
        from calque.papers.drawing import chosen

        return chosen(self.figures, [name for name in ("buckets", "equal") if getattr(self, name) is not None])

    def needs_runs(self) -> bool:
        """Whether a section needs a run: all do except those of a ledger and some figures of papers."""
        from calque.papers.figures import paper_figures

        known = paper_figures()
        return not self.ledger and (
            not self.figures or any(name not in known or known[name].needs_runs for name in self.figures)
        )


@root.command()
@click.argument("runs", type=FILE, nargs=-1, metavar="RUN...", callback=folders)
@click.option("--out", type=FILE, required=True, help="The folder of the report.")
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="Only this section or PAPER/figureN; repeat.")
@click.option(
    "--text", type=(FILE, FILE), metavar="SOURCE TARGET", help="The text to translate; default: the runs' test text."
)
@click.option(
    "--lines", type=click.IntRange(1), default=1000, show_default=True, help="Read the first N lines of the text."
)
@click.option("--base", help="The run that the others are compared with; default: the first.")
@click.option(
    "--buckets", type=click.IntRange(1, 100), help="Buckets of source length.  [default: 10, or as the paper]"
)
@click.option("--equal", type=click.Choice(EQUAL), help="What all buckets share.  [default: size, or as the paper]")
@click.option("--layer", "layers", multiple=True, metavar="PATH[#HEAD]", help="Attention to draw; repeat.")
@click.option(
    "--line", type=click.IntRange(1), help="The line whose attention is drawn; default: one of about ten words."
)
@click.option("--gold", type=FILE, help="Links by hand for the text: i-j sure, ipj possible.")
@click.option("--contrast", "pairs", type=FILE, help="A contrastive set: a folder, or LingEval97's JSON.")
@click.option(
    "--pairs", "most", type=click.IntRange(1), help="Contrastive pairs of each kind of error, at most.  [default: 400]"
)
@click.option("--dictionary", type=FILE, help="A lexical table that translates unknown words.")
@click.option("--ledger", type=FILE, multiple=True, help="A folder of ledger entries, for sweeps; repeat.")
@THREADS
def analyse(runs: tuple[Path, ...], out: Path, threads: int | None, **options: object) -> None:
    """Analyse RUNs in one HTML report, with pictures and tables beside it.

    It shows learning curves, quality by length, decoding time, attention, alignment, contrastive pairs, and the cost of quality,
    for several runs of any architecture side by side. Where the data for a section are missing, the report says which. It is
    written again after each section; the same command continues an analysis that was stopped.
    """
    from calque.analyse.analysis import Analysis
    from calque.analyse.cache import KEPT, AnalysisCache
    from calque.analyse.pieces import PIECES
    from calque.analyse.write_report import REPORT, write_report

    chosen = from_options(AnalysisOptions, options)
    pieces = chosen.pieces()
    if not runs and chosen.needs_runs():
        raise click.UsageError("expected a RUN, or --ledger")
    set_threads(threads)
    command = _command(click.get_current_context())
    analysis = Analysis(runs, chosen.settings(), command, tell, AnalysisCache(out / KEPT))
    before = _written(out / REPORT)
    try:
        path = write_report(analysis, out, pieces or PIECES, alone=bool(pieces))
    except KeyboardInterrupt:
        finished = f"what is finished: {out / REPORT}" if _written(out / REPORT) != before else "no section is finished"
        tell(f"interrupted; {finished}. The same command continues")
        sys.exit(INTERRUPTED)
    click.echo(path)


def _written(path: Path) -> int | None:
    """When a file was written, in nanoseconds; None where there is no file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _command(context: click.Context) -> str:
    """The command line without --figure and without options that have their defaults."""
    words = ["calque", "analyse", *map(str, context.params["runs"])]
    for option in context.command.params:
        value = context.params[str(option.name)]
        if isinstance(option, click.Option) and option.name != "figures" and value not in (None, (), option.default):
            for one in value if option.multiple else [value]:
                words += [option.opts[0], *map(str, one if isinstance(one, tuple) else [one])]
    return shlex.join(words)


@root.command()
@click.argument("runs", type=FILE, nargs=-1, metavar="RUN...", callback=folders)
@click.argument("pairs", type=FILE, metavar="SET")
@click.option(
    "--most", type=click.IntRange(1), help="Pairs of each kind of error, at most, evenly spaced; default: all."
)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@THREADS
def contrast(runs: tuple[Path, ...], pairs: Path, most: int | None, as_json: bool, threads: int | None) -> None:
    """Count how often RUNs give the correct translation of a contrastive SET a higher probability than the one with an error.

    SET is a folder of NAME.src.*, NAME.correct.* and NAME.incorrect.*, or the JSON of LingEval97. The translation
    with the lower mean cross-entropy per token counts as preferred. Accuracy is in per cent, with its 95 % interval.
    """
    from calque.analyse.contrast import by_distance, by_kind, decide, read_set
    from calque.analyse.runs import names_of

    if not runs:
        raise click.UsageError(f"expected runs and, last, a contrastive set, found `{pairs}` alone")
    names = names_of(runs)
    contrastive = read_set(pairs, most)
    set_threads(threads)
    from calque.workflow.api import load

    decided = {name: decide(load(run), contrastive) for name, run in zip(names, runs, strict=True)}
    tables = [by_kind(contrastive, decided), by_distance(contrastive, decided)]
    if as_json:
        click.echo(json.dumps([row for table in tables for row in table.records()], indent=1))
        return
    for table in tables:
        if table.rows:
            click.echo(table.text(decimals=1))
