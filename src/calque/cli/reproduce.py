"""The commands that reproduce a paper's tables and figures."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import FILE, root, tell
from calque.papers import read_paper, recipes
from calque.papers.corpora import CORPORA
from calque.papers.metrics import METRICS, TIMED, TRAINED

if TYPE_CHECKING:
    from calque.papers.corpora import TrainingCorpus
    from calque.papers.report import ReportOptions
    from calque.papers.request import Request


def _share(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """I and N of I/N."""
    first, _, of = value.partition("/")
    if not (first.isascii() and first.isdigit() and of.isascii() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise click.BadParameter(f"expected I/N with I from 1 to N, found {value}")
    return int(first), int(of)


def _corpus(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A public corpus, or a file."""
    if value not in CORPORA and not value.endswith(".toml"):
        raise click.BadParameter(f"expected one of {', '.join(CORPORA)}, or a file FILE.toml, found {value}")
    return value


def _names(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    return [name for name in value.split(",") if name]


def _together(
    *options: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Several options as one decorator, in the order of the help."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_PAPER = click.argument("paper")
_TABLE = click.argument("table")
_OUT = click.option("--out", type=FILE, help="The output folder.  [default: runs/reproduce/PAPER/TABLE]")
_DATA = click.option("--data", "data_folder", type=FILE, help="The data root.  [default: $CALQUE_DATA, else data]")
_CORPUS = click.option(
    "--corpus",
    callback=_corpus,
    default="multi30k",
    show_default=True,
    metavar="NAME|FILE.toml",
    help=f"The text: {', '.join(CORPORA)}, or your own, which a file describes.",
)
_PAIR = click.option(
    "--pair", help="The paper's language pair: its sizes, and its figures beside ours; default: the table's first."
)
_TRIALS = click.option(
    "--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Trials of each test."
)
_CELL_OPTIONS = _together(
    _PAPER,
    _TABLE,
    _DATA,
    _CORPUS,
    click.option("--rows", callback=_names, default="", help="Rows of the table, joined by commas; default: all."),
    click.option(
        "--recipe", type=click.Choice(recipes.names()), default="budget", show_default=True, help="How to train."
    ),
    click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Training time of each cell."),
    click.option("--updates", type=click.IntRange(1), help="Updates of each cell."),
    click.option(
        "--match", type=click.Choice(["params"]), help="Choose `d` of each row so that all have as many parameters."
    ),
    click.option("--match-to", metavar="ROW", help="As many as this row; default: the table's first."),
    click.option("--d", "width", type=click.IntRange(1), help="The width: --set d=D."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set d, heads, p, n of the rows, or, as SECTION.KEY=VALUE, a key of the experiment.",
    ),
    _OUT,
    _PAIR,
)


@root.group()
def reproduce() -> None:
    """Reproduce a PAPER's TABLE: train or time its rows, and compare them with the paper's figures and claims.

    A table of orders or counts is computed; a figure is drawn from trained rows.
    """


def _folder(out: Path | None, paper: str, table: str) -> Path:
    return out or Path("runs") / "reproduce" / paper / table


def _requested(metrics: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options that all cells have in common, and calls the command with what they ask for.

    The command takes `request`, `text` (the corpus), `options` (of the report), `data` and `folder`, and its own options. The
    sizes are those of the pair that the report stands beside, in one of `metrics`.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(
            paper: str,
            table: str,
            data_folder: Path | None,
            corpus: str,
            recipe: str,
            minutes: float | None,
            updates: int | None,
            match: str | None,
            match_to: str | None,
            width: int | None,
            overrides: tuple[str, ...],
            out: Path | None,
            pair: str | None,
            metric: str | None = None,
            trials: int = 10_000,
            **own: object,
        ) -> None:
            if minutes is not None and updates is not None:
                raise click.UsageError("expected one of --minutes and --updates, found both")
            if match_to is not None and match is None:
                raise click.UsageError("--match-to needs --match")
            from calque.data.public import data_root
            from calque.papers.own_corpus import corpus_named
            from calque.papers.plan import table_of
            from calque.papers.report import ReportOptions
            from calque.papers.request import Request, divided

            printed, options = table_of(paper, table), ReportOptions(pair, metric, trials)
            column = options.column(paper, printed, metrics)
            text = corpus_named(corpus)
            settings, keys = divided([*([f"d={width}"] if width else []), *overrides])
            request = Request(
                paper,
                table,
                text.name,
                recipe,
                minutes,
                updates,
                (match_to or printed.rows[0].key) if match else None,
                settings,
                keys,
                column.pair,
                read_paper.paper(paper).keys,
                text.own_file,
                text.digest,
            )
            data, folder = data_root(data_folder), _folder(out, paper, table)
            command(request=request, text=text, options=options, data=data, folder=folder, **own)

        return _CELL_OPTIONS(call)

    return add


@reproduce.command()
@_requested(TRAINED)
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Trainings of each row.")
@click.option("--shard", callback=_share, default="1/1", metavar="I/N", help="Run share I of N of the cells.")
@click.option(
    "--metric", type=click.Choice(TRAINED), metavar="METRIC", help="Of the report.  [default: bleu, else the first]"
)
@_TRIALS
def train(
    request: "Request",
    text: "TrainingCorpus",
    options: "ReportOptions",
    data: Path,
    folder: Path,
    rows: list[str],
    seeds: int,
    shard: tuple[int, int],
) -> None:
    """Train the rows of a TABLE, several seeds each, and compare them with the paper's figures and claims.

    The report is printed, and written beside the cells as Markdown, JSON and a picture. A call that was interrupted resumes
    where it stopped; a row that fails does not stop the others. Exit status 1: a cell failed.
    """
    from calque.papers.cells import train_table
    from calque.papers.layout import CELLS
    from calque.papers.plan import Plan, rows_of
    from calque.papers.trained_report import report_trained

    chosen = rows_of(request.printed, request.paper, rows)
    rows_of(request.printed, request.paper, [request.match] if request.match else [])
    status = train_table(Plan(request, text, data, folder, tell), chosen, seeds, shard)
    if not any((folder / CELLS).glob("*.json")):
        tell("no cell is finished, so there is no report")
    elif status < 128:
        click.echo(report_trained(folder, data, options, tell), nl=False)
    sys.exit(status)


@reproduce.command()
@_requested(TIMED)
@click.option(
    "--metric", type=click.Choice(TIMED), metavar="METRIC", help="Of the report.  [default: the table's first]"
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=3, show_default=True, help="Timings of each row.")
@click.option("--sentences", type=click.IntRange(1, 1_000_000), default=64, show_default=True, help="To translate.")
def time(
    request: "Request",
    text: "TrainingCorpus",
    options: "ReportOptions",
    data: Path,
    folder: Path,
    rows: list[str],
    repeats: int,
    sentences: int,
) -> None:
    """Time the rows of a TABLE in turns: the trained ones of the output folder if it has all of them, else random weights."""
    from calque.papers.timed_report import report_timing
    from calque.papers.timing import time_table

    time_table(request, text, data, folder, rows, repeats, sentences, tell)
    click.echo(report_timing(folder, options, tell), nl=False)


@reproduce.command()
@_PAPER
@_TABLE
@_DATA
@_OUT
@_PAIR
@click.option("--metric", type=click.Choice(list(METRICS)), metavar="METRIC", help="[default: bleu, else the first]")
@_TRIALS
def report(
    paper: str,
    table: str,
    data_folder: Path | None,
    out: Path | None,
    pair: str | None,
    metric: str | None,
    trials: int,
) -> None:
    """Measure what finished cells of a TABLE lack, and write the report again; of a speed, the report of the timing."""
    from calque.data.public import data_root
    from calque.papers.plan import table_of
    from calque.papers.report import ReportOptions
    from calque.papers.request import held_pair
    from calque.papers.timed_report import report_timing
    from calque.papers.trained_report import report_trained

    printed, folder = table_of(paper, table), _folder(out, paper, table)
    options = ReportOptions(pair, metric, trials, held_pair(folder))
    if options.column(paper, printed).metric in TIMED:
        click.echo(report_timing(folder, options, tell), nl=False)
    else:
        click.echo(report_trained(folder, data_root(data_folder), options, tell), nl=False)


@reproduce.command()
@_PAPER
@_TABLE
@_DATA
@_CORPUS
@click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="n=LENGTH, d=WIDTH, or SECTION.KEY=VALUE; repeat."
)
@_OUT
def compute(
    paper: str, table: str, data_folder: Path | None, corpus: str, values: tuple[str, ...], out: Path | None
) -> None:
    """Compute a TABLE that no training fills: orders of complexity, or counts of a corpus.

    Exit status 1: an order is not as the paper prints it.
    """
    from calque.data.public import data_root
    from calque.papers.compute import compute_table, write_computed
    from calque.papers.own_corpus import corpus_named
    from calque.papers.plan import computed_table
    from calque.papers.request import divided

    folder, (settings, overrides) = _folder(out, paper, table), divided(values)
    computed, text = computed_table(paper, table), corpus_named(corpus)
    page = compute_table(paper, computed, settings, text, overrides, data_root(data_folder), folder, tell)
    click.echo(write_computed(page, folder), nl=False)
    if page.faults:
        sys.exit(1)


@reproduce.command()
@_PAPER
@click.argument("figure")
@_DATA
@click.option(
    "--from",
    "folders",
    type=FILE,
    multiple=True,
    metavar="FOLDER",
    help="Runs, or output folders of tables, to draw; repeat.  [default: runs/reproduce/PAPER/TABLE]",
)
@click.option("--out", type=FILE, help="The output folder.  [default: runs/reproduce/PAPER/FIGURE]")
def draw(paper: str, figure: str, data_folder: Path | None, folders: tuple[Path, ...], out: Path | None) -> None:
    """Draw a FIGURE of a PAPER, as `calque analyse` does, from trained rows or from architectures alone."""
    from calque.data.public import data_root
    from calque.papers.figures import draw_figure
    from calque.papers.plan import figure_of

    drawn = figure_of(paper, figure)
    click.echo(draw_figure(drawn, folders, data_root(data_folder), _folder(out, paper, figure), tell))
