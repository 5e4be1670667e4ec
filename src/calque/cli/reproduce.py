"""The commands that reproduce a paper's tables and figures."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import FILE, Number, root, tell
from calque.cli.reproduce_options import (
    CORPUS,
    DATA,
    DOCS,
    EXECUTOR,
    OUT,
    PAIR,
    PAPER,
    PAPER_OR_NONE,
    SIZES,
    TABLE,
    TRIALS,
    CellOptions,
    of_cells,
    recipe_option,
)
from calque.papers.metrics import METRICS, TIMED, TRAINED

if TYPE_CHECKING:
    from calque.papers.halving import Tuning
    from calque.papers.paper import Paper
    from calque.workflow.jobs.spec import ExecutorSpec


def _share(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """I and N of I/N."""
    first, _, of = value.partition("/")
    if not (first.isascii() and first.isdigit() and of.isascii() and of.isdigit() and 1 <= int(first) <= int(of)):
        raise click.BadParameter(f"expected I/N with I from 1 to N, found {value}")
    return int(first), int(of)


FROM = click.option(
    "--from",
    "others",
    type=FILE,
    multiple=True,
    metavar="FOLDER",
    help="An output folder that has trained rows, of this table or of another with the same rows; repeat.",
)


@root.group()
def reproduce() -> None:
    """Reproduce a PAPER's TABLE: train or time its rows, and compare them with the paper's figures and claims.

    A table of orders or counts is computed; a figure is drawn from trained rows. A FILE.toml in place of a paper has tables of your
    own, with your definitions as rows.
    """


@reproduce.command()
@of_cells
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Trainings of each row.")
@click.option("--shard", callback=_share, default="1/1", metavar="I/N", help="Run share I of N of the cells.")
@click.option(
    "--metric", type=click.Choice(TRAINED), metavar="METRIC", help="Of the report.  [default: bleu, else the first]"
)
@TRIALS
@EXECUTOR
@FROM
def train(
    cells: CellOptions, seeds: int, shard: tuple[int, int], executor: "ExecutorSpec | None", others: tuple[Path, ...]
) -> None:
    """Train the rows of a TABLE, several seeds each, and compare them with the paper's figures and claims.

    The report is printed, and written beside the cells as Markdown, JSON and a picture. A call that was interrupted resumes
    where it stopped; a row that fails does not stop the others. Exit status 1: a cell failed. Models of --from that were trained
    in the same way are taken over.
    """
    from calque.papers.cells import begin, train_table
    from calque.papers.plan import cells_of, rows_of
    from calque.papers.side_by_side import train_side_by_side
    from calque.papers.taken_over import take_over
    from calque.papers.trained_report import report_trained
    from calque.workflow.jobs.executors import SweepEnd

    folder = cells.folder(TRAINED)
    chosen = rows_of(folder.table, cells.paper.name, cells.rows)
    there = [folder.opened(other, folder.root, tell) for other in others]
    end, status = SweepEnd(), 0
    begin(folder, chosen)
    if there:
        take_over(folder, cells_of(chosen, seeds, shard), there)
    if executor is None:
        status = train_table(folder, chosen, seeds, shard)
    else:
        end = train_side_by_side(folder, chosen, seeds, shard, executor)
        status = 0 if end.signal is None else 128 + end.signal
    if not folder.has_cells:
        tell("no cell is finished, so there is no report")
    elif status < 128:
        click.echo(report_trained(folder.opened(folder.out, folder.root, tell), cells.report), nl=False)
    if end.failed is not None:
        raise end.failed
    sys.exit(status)


@reproduce.command()
@PAPER
@TABLE
@click.argument("row")
@DATA
@CORPUS
@recipe_option("linear", "What is tried is changed in it")
@click.option("--updates", type=click.IntRange(1), help="Updates of each trial of the first rung.")
@click.option("--epochs", type=click.IntRange(1), help="Epochs of each trial of the first rung.")
@click.option("--eta", type=click.IntRange(2), default=3, show_default=True, help="Budgets grow so, 1/ETA is kept.")
@click.option("--rungs", type=click.IntRange(1, 20), default=3, show_default=True, help="Rungs, at most.")
@click.option(
    "--lr",
    type=Number(0, min_open=True),
    multiple=True,
    default=(0.0005, 0.001, 0.002, 0.004),
    show_default=True,
    help="Peaks of the rate to try; repeat.",
)
@click.option(
    "--warmup-share",
    type=Number(0, 0.99),
    multiple=True,
    default=(0.1, 0.3),
    show_default=True,
    help="Shares of the budget over which the rate rises, to try.",
)
@click.option(
    "--dropout",
    type=Number(0, 0.99),
    multiple=True,
    help="Dropout rates to try.  [default: 0.1, 0.3; none where the row has no such setting or --set gives it]",
)
@SIZES
@click.option("--out", type=FILE, help="The output folder.  [default: runs/tune/PAPER/TABLE]")
@PAIR
@EXECUTOR
def tune(
    paper: "Paper",
    table: str,
    row: str,
    recipe: str,
    eta: int,
    rungs: int,
    lr: tuple[float, ...],
    warmup_share: tuple[float, ...],
    dropout: tuple[float, ...],
    out: Path | None,
    executor: "ExecutorSpec | None",
    **cells: Any,
) -> None:
    """Find a recipe for a ROW of a TABLE on a corpus: a grid, tried on validation perplexity by successive halving.

    Each rung trains the settings that are left anew, with ETA times the budget, and keeps the best 1/ETA. The table of all trials
    is printed, and the best setting written as a recipe file, which `calque reproduce train --recipe` takes. A call that was
    interrupted resumes; finished trials are not repeated. Exit status 1: no setting learned anything.
    """
    from calque.papers.halving import tuning_of
    from calque.papers.plan import named_rows, table_of
    from calque.papers.request import tuning_folder
    from calque.papers.side_by_side import ahead_by
    from calque.papers.trials import SettingGrid

    if (cells["updates"] is None) == (cells["epochs"] is None):
        raise click.UsageError("expected one of --updates and --epochs, the budget of the first rung")
    named_rows(table_of(paper, table), paper.name, [row])
    folder = out or tuning_folder(paper.name, table)
    options = CellOptions(paper=paper, table=table, rows=[row], recipe=recipe, out=folder, **cells)
    ahead = None if executor is None else ahead_by(executor)
    tuning = tuning_of(options.folder(TRAINED), row, SettingGrid(lr, warmup_share, dropout), eta, rungs, ahead)
    if (stopped := tuning.run()) is not None:
        sys.exit(128 + stopped.signal)
    _print_recipe(tuning)


def _print_recipe(tuning: "Tuning") -> None:
    """Prints what a tuning has found, and writes the recipe."""
    from calque.papers.found_recipe import trials_table, write_recipe
    from calque.papers.trials import setting_of

    click.echo("\n".join(trials_table(tuning)))
    if tuning.winner is None:
        tell("no setting has learned anything, so there is no recipe")
        sys.exit(1)
    for edge in tuning.grid.edges(setting_of(tuning.winner)):
        tell(f"{edge}: the best may lie beyond it; a call with more values repeats no trial")
    click.echo(f"\n{write_recipe(tuning, tuning.winner)}")


@reproduce.command()
@of_cells
@click.option(
    "--metric", type=click.Choice(TIMED), metavar="METRIC", help="Of the report.  [default: the table's first]"
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=3, show_default=True, help="Timings of each row.")
@click.option(
    "--sentences",
    type=click.IntRange(1, 1_000_000),
    default=64,
    show_default=True,
    help="The number of sentences to translate.",
)
@FROM
def time(cells: CellOptions, repeats: int, sentences: int, others: tuple[Path, ...]) -> None:
    """Time the rows of a TABLE in turns: trained ones, if the output folders have all of them, else random weights."""
    from calque.papers.speed import time_table
    from calque.papers.timed_report import report_timing

    folder = cells.folder(TIMED)
    time_table(folder, cells.rows, repeats, sentences, others)
    click.echo(report_timing(folder.opened(folder.out, folder.root, tell), cells.report, others), nl=False)


@reproduce.command()
@PAPER_OR_NONE
@click.argument("table", required=False)
@DATA
@OUT
@PAIR
@click.option("--metric", type=click.Choice(list(METRICS)), metavar="METRIC", help="[default: bleu, else the first]")
@TRIALS
@click.option(
    "--all", "everything", is_flag=True, help="Instead of a TABLE: write every page of results from the ledger."
)
@DOCS
def report(
    paper: "Paper | None",
    table: str | None,
    data_folder: Path | None,
    out: Path | None,
    pair: str | None,
    metric: str | None,
    trials: int,
    everything: bool,
    docs: Path,
) -> None:
    """Measure what finished cells of a TABLE lack, and write the report again; of a speed, the report of the timing.

    With --all: from the entries, the numbers of sentences and the notes below DOCS/results, and nothing else, write the pages and
    pictures of all papers, the page of all claims, and the other pages of results.
    """
    from calque.data.public import data_root
    from calque.papers.output import OutputFolder
    from calque.papers.plan import table_of
    from calque.papers.report import ReportOptions
    from calque.papers.request import default_folder
    from calque.papers.timed_report import report_timing
    from calque.papers.trained_report import report_trained

    if everything != (paper is None) or (paper is None) != (table is None):
        raise click.UsageError("expected PAPER and TABLE, or --all")
    if paper is None or table is None:
        _write_pages(docs)
        return
    timed = ReportOptions(pair, metric).column(paper, table_of(paper, table)).metric in TIMED
    folder = OutputFolder.opened(out or default_folder(paper.name, table), data_root(data_folder), tell)
    options = ReportOptions(pair, metric, trials, folder.request.pair)
    click.echo((report_timing if timed else report_trained)(folder, options), nl=False)


def _write_pages(docs: Path) -> None:
    from calque.papers.results import LEDGER, write_pages

    if not (docs / LEDGER).is_dir():
        raise click.UsageError(f"there is no folder {docs / LEDGER}; name that of the documents with --docs")
    for file in write_pages(docs):
        click.echo(file)


@reproduce.command()
@click.argument("folders", nargs=-1, required=True, type=FILE)
@DATA
@DOCS
@click.option("--beside", is_flag=True, help="Keep entries of the same rows that were trained in another way.")
def record(folders: tuple[Path, ...], data_folder: Path | None, docs: Path, beside: bool) -> None:
    """Take finished cells and timings of output FOLDERS into the ledger, DOCS/results, with what claims need of each sentence.

    What cells lack is measured first. Entries that new ones replace are removed. `calque reproduce report --all` writes the pages.
    """
    from calque.data.public import data_root
    from calque.papers.output import OutputFolder
    from calque.papers.recorded import record_folder
    from calque.papers.results import LEDGER

    opened = [OutputFolder.opened(folder, data_root(data_folder), tell) for folder in folders]
    for folder in opened:
        record_folder(folder, docs / LEDGER, beside, tell)


@reproduce.command()
@PAPER
@TABLE
@DATA
@CORPUS
@click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="n=LENGTH, d=WIDTH, or SECTION.KEY=VALUE; repeat."
)
@OUT
def compute(
    paper: "Paper", table: str, data_folder: Path | None, corpus: str, values: tuple[str, ...], out: Path | None
) -> None:
    """Compute a TABLE that no training fills: orders of complexity, or counts of a corpus.

    Exit status 1: an order is not as the paper prints it.
    """
    from calque.data.public import data_root
    from calque.papers.compute import compute_table
    from calque.papers.corpora import corpus_named
    from calque.papers.plan import computed_table
    from calque.papers.request import default_folder, divided

    folder, (settings, overrides) = out or default_folder(paper.name, table), divided(values)
    computed, text = computed_table(paper, table), corpus_named(corpus)
    page = compute_table(paper.name, computed, settings, text, overrides, data_root(data_folder), folder, tell)
    click.echo(page.write(folder), nl=False)
    if page.faults:
        sys.exit(1)


@reproduce.command()
@PAPER
@click.argument("figure")
@DATA
@click.option(
    "--from",
    "folders",
    type=FILE,
    multiple=True,
    metavar="FOLDER",
    help="Runs, or output folders of tables, to draw; repeat.  [default: runs/reproduce/PAPER/TABLE]",
)
@click.option("--out", type=FILE, help="The output folder.  [default: runs/reproduce/PAPER/FIGURE]")
def draw(paper: "Paper", figure: str, data_folder: Path | None, folders: tuple[Path, ...], out: Path | None) -> None:
    """Draw a FIGURE of a PAPER, as `calque analyse` does, from trained rows or from architectures alone."""
    from calque.data.public import data_root
    from calque.papers.drawing import draw_figure
    from calque.papers.plan import figure_of
    from calque.papers.request import default_folder

    folder = out or default_folder(paper.name, figure)
    click.echo(draw_figure(figure_of(paper, figure), folders, data_root(data_folder), folder, tell))
