"""The commands that reproduce a paper's tables and figures."""

import dataclasses
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from calque.cli.base import FILE, root, tell
from calque.papers import read_paper, recipes
from calque.papers.corpora import CORPORA
from calque.papers.metrics import METRICS, TIMED, TRAINED

if TYPE_CHECKING:
    from calque.papers.output import OutputFolder
    from calque.papers.report import ReportOptions

Command = TypeVar("Command", bound=Callable[..., None])


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


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help."""

    def add(command: Command) -> Command:
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


@dataclass(frozen=True)
class CellOptions:
    """The options that training and timing have in common, as they are typed."""

    paper: str
    table: str
    data_folder: Path | None
    corpus: str
    rows: list[str]
    recipe: str
    minutes: float | None
    updates: int | None
    match: str | None
    match_to: str | None
    width: int | None
    overrides: tuple[str, ...]
    out: Path | None
    pair: str | None
    metric: str | None
    trials: int = 10_000

    @property
    def report(self) -> "ReportOptions":
        """The options of the report."""
        from calque.papers.report import ReportOptions

        return ReportOptions(self.pair, self.metric, self.trials)

    def folder(self, metrics: tuple[str, ...]) -> "OutputFolder":
        """The output folder that they ask for, at the sizes of the pair whose figures are beside ours, in one of `metrics`.

        Raises UsageError for options that contradict each other, X701, X707, X708, and what is wrong with a corpus."""
        from calque.data.public import data_root
        from calque.papers.corpora import corpus_named
        from calque.papers.output import OutputFolder
        from calque.papers.plan import table_of
        from calque.papers.request import Request, default_folder, divided

        if self.minutes is not None and self.updates is not None:
            raise click.UsageError("expected one of --minutes and --updates, found both")
        if self.match_to is not None and self.match is None:
            raise click.UsageError("--match-to needs --match")
        printed = table_of(self.paper, self.table)
        pair, corpus = self.report.column(self.paper, printed, metrics).pair, corpus_named(self.corpus)
        settings, overrides = divided([*([f"d={self.width}"] if self.width else []), *self.overrides])
        request = Request(
            self.paper,
            self.table,
            corpus.name,
            self.recipe,
            self.minutes,
            self.updates,
            (self.match_to or printed.rows[0].key) if self.match else None,
            settings,
            overrides,
            pair,
            read_paper.paper(self.paper).keys,
            corpus.own_file,
            corpus.digest,
        )
        out = self.out or default_folder(self.paper, self.table)
        return OutputFolder(request, corpus, data_root(self.data_folder), out, tell)


def _of_cells(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of cells, which the command takes as its first argument."""
    names = {option.name for option in dataclasses.fields(CellOptions)}

    @functools.wraps(command)
    def call(**given: object) -> None:
        params = click.get_current_context().params
        cells = CellOptions(**{name: value for name, value in params.items() if name in names})
        command(cells, **{name: value for name, value in given.items() if name not in names})

    return _CELL_OPTIONS(call)


@reproduce.command()
@_of_cells
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Trainings of each row.")
@click.option("--shard", callback=_share, default="1/1", metavar="I/N", help="Run share I of N of the cells.")
@click.option(
    "--metric", type=click.Choice(TRAINED), metavar="METRIC", help="Of the report.  [default: bleu, else the first]"
)
@_TRIALS
def train(cells: CellOptions, seeds: int, shard: tuple[int, int]) -> None:
    """Train the rows of a TABLE, several seeds each, and compare them with the paper's figures and claims.

    The report is printed, and written beside the cells as Markdown, JSON and a picture. A call that was interrupted resumes
    where it stopped; a row that fails does not stop the others. Exit status 1: a cell failed.
    """
    from calque.papers.cells import train_table
    from calque.papers.plan import rows_of
    from calque.papers.trained_report import report_trained

    folder = cells.folder(TRAINED)
    chosen = rows_of(folder.table, cells.paper, cells.rows)
    rows_of(folder.table, cells.paper, [cells.match_to] if cells.match_to else [])
    status = train_table(folder, chosen, seeds, shard)
    if not folder.has_cells:
        tell("no cell is finished, so there is no report")
    elif status < 128:
        click.echo(report_trained(folder.opened(folder.out, folder.root, tell), cells.report), nl=False)
    sys.exit(status)


@reproduce.command()
@_of_cells
@click.option(
    "--metric", type=click.Choice(TIMED), metavar="METRIC", help="Of the report.  [default: the table's first]"
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=3, show_default=True, help="Timings of each row.")
@click.option("--sentences", type=click.IntRange(1, 1_000_000), default=64, show_default=True, help="To translate.")
def time(cells: CellOptions, repeats: int, sentences: int) -> None:
    """Time the rows of a TABLE in turns: the trained ones of the output folder if it has all of them, else random weights."""
    from calque.papers.speed import time_table
    from calque.papers.timed_report import report_timing

    folder = cells.folder(TIMED)
    time_table(folder, cells.rows, repeats, sentences)
    click.echo(report_timing(folder.opened(folder.out, folder.root, tell), cells.report), nl=False)


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
    from calque.papers.output import OutputFolder
    from calque.papers.plan import table_of
    from calque.papers.report import ReportOptions
    from calque.papers.request import default_folder
    from calque.papers.timed_report import report_timing
    from calque.papers.trained_report import report_trained

    timed = ReportOptions(pair, metric).column(paper, table_of(paper, table)).metric in TIMED
    folder = OutputFolder.opened(out or default_folder(paper, table), data_root(data_folder), tell)
    options = ReportOptions(pair, metric, trials, folder.request.pair)
    click.echo((report_timing if timed else report_trained)(folder, options), nl=False)


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
    from calque.papers.compute import compute_table
    from calque.papers.corpora import corpus_named
    from calque.papers.plan import computed_table
    from calque.papers.request import default_folder, divided

    folder, (settings, overrides) = out or default_folder(paper, table), divided(values)
    computed, text = computed_table(paper, table), corpus_named(corpus)
    page = compute_table(paper, computed, settings, text, overrides, data_root(data_folder), folder, tell)
    click.echo(page.write(folder), nl=False)
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
    from calque.papers.drawing import draw_figure
    from calque.papers.plan import figure_of
    from calque.papers.request import default_folder

    folder = out or default_folder(paper, figure)
    click.echo(draw_figure(figure_of(paper, figure), folders, data_root(data_folder), folder, tell))
