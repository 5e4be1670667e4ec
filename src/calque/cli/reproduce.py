"""The command that reproduces a paper's table or figure."""

import sys
from pathlib import Path

import click

from calque.cli.base import FILE, root, tell
from calque.papers import read_paper

RECIPES = (
    "budget",
    "domhan2018",
    "domhan2018-code",
    "gehring2017",
    "gehring2017-bilstm",
    "luong2015",
    "luong2015-dropout",
    "you2020-iwslt",
    "you2020-wmt",
    "zhang2018",
)
CORPORA = ("multi30k", "envi")
METRICS = (
    *("bleu", "uncased-bleu", "unk-bleu", "nist-bleu", "meteor", "perplexity", "accuracy", "aer"),
    *("seconds/sentence", "sentences/s", "source-words/s", "target-words/s", "updates/s", "batch-tokens"),
)


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


@root.command()
@click.argument("paper")
@click.argument("table", metavar="TABLE|FIGURE")
@click.option("--data", "data_folder", type=FILE, help="The data root.  [default: $CALQUE_DATA, else data]")
@click.option(
    "--corpus",
    callback=_corpus,
    default="multi30k",
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Text to train on: multi30k, envi, or your own, which a file describes.",
)
@click.option("--rows", help="Rows of the table, joined by commas; default: all.")
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="Trainings, or timings, of each row."
)
@click.option("--recipe", type=click.Choice(RECIPES), default="budget", show_default=True, help="How to train.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Training time of each cell.")
@click.option("--updates", type=click.IntRange(1), help="Updates of each cell.")
@click.option("--match", type=click.Choice(["params"]), help="Set `d` of each row so that all have as many parameters.")
@click.option("--match-to", metavar="ROW", help="As many as this row; default: the first of the table.")
@click.option("--d", "width", type=click.IntRange(1), help="The width: --set d=D.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set d, heads, p, n of the rows, or, as SECTION.KEY=VALUE, a key of the experiment.",
)
@click.option(
    "--from",
    "folders",
    type=FILE,
    multiple=True,
    metavar="FOLDER",
    help="Of a figure: runs, or outputs of tables, to draw; repeat.  [default: runs/reproduce/PAPER/TABLE]",
)
@click.option("--shard", callback=_share, default="1/1", metavar="I/N", help="Run share I of N of the cells.")
@click.option("--out", type=FILE, help="The output folder.  [default: runs/reproduce/PAPER/TABLE]")
@click.option("--report", "report_only", is_flag=True, help="Train nothing: measure what cells lack, and report.")
@click.option(
    "--pair", help="The paper's language pair: its sizes, and its figures beside ours; default: the first of the table."
)
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    metavar="METRIC",
    help="Of the report; with a speed the rows are timed, not trained.  [default: bleu, else the table's first]",
)
@click.option(
    "--sentences", type=click.IntRange(1, 1_000_000), default=64, show_default=True, help="Of a timing, to translate."
)
@click.option("--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Of each test.")
def reproduce(
    paper: str,
    table: str,
    data_folder: Path | None,
    corpus: str,
    rows: str | None,
    seeds: int,
    recipe: str,
    minutes: float | None,
    updates: int | None,
    match: str | None,
    match_to: str | None,
    width: int | None,
    overrides: tuple[str, ...],
    folders: tuple[Path, ...],
    shard: tuple[int, int],
    out: Path | None,
    report_only: bool,
    pair: str | None,
    metric: str | None,
    sentences: int,
    trials: int,
) -> None:
    """Train the rows of a PAPER's TABLE, several seeds each, and set them beside the paper's figures and claims.

    Where the metric is a speed, the rows are timed instead, in turns: trained ones where the output folder has them. A table of
    orders or of counts is computed. A FIGURE is drawn, of the trained rows that it shows.

    The report is printed, and written beside the cells as Markdown, JSON and a picture. A call that was cut off goes on where
    it stopped; a row that fails loses no other. Exit status 1: a cell failed.
    """
    if minutes is not None and updates is not None:
        raise click.UsageError("expected one of --minutes and --updates, found both")
    if match_to is not None and match is None:
        raise click.UsageError("--match-to needs --match")
    from calque.data.public import data_root
    from calque.papers.own_corpus import OwnCorpus, corpus_named
    from calque.papers.plan import CELLS, table_of
    from calque.papers.request import Request, held_pair

    written = (*([f"d={width}"] if width else []), *overrides)
    if _untrained(paper, table, written, folders, corpus, data_root(data_folder), out):
        return
    here = table_of(paper, table)
    folder = out or Path("runs") / "reproduce" / paper / table
    below = data_root(data_folder)
    from calque.papers.report import ReportOptions, write_report
    from calque.papers.speed import TIMED, time_table
    from calque.papers.speed_report import write_speed_report
    from calque.papers.train_cells import reproduce_table

    shown = ReportOptions(pair, metric, trials, held_pair(folder) if report_only else None)
    column = shown.column(paper, here)
    if report_only:
        speed = column.metric in TIMED
        click.echo(write_speed_report(folder, column) if speed else write_report(folder, below, shown, tell), nl=False)
        return
    text = corpus_named(corpus)
    own = isinstance(text, OwnCorpus)
    asked = Request(
        paper,
        table,
        text.name,
        recipe,
        minutes,
        updates,
        (match_to or here.rows[0].key) if match else None,
        tuple(one for one in written if "." not in one.partition("=")[0]),
        tuple(one for one in written if "." in one.partition("=")[0]),
        column.pair,
        read_paper.paper(paper).keys,
        text.option if own else "",
        text.digest if isinstance(text, OwnCorpus) else "",
    )
    names = [name for name in (rows or "").split(",") if name]
    if column.metric in TIMED:
        if shard != (1, 1):
            raise click.UsageError("--shard divides trainings; all rows are timed by one process")
        time_table(asked, text, below, folder, names, seeds, sentences, tell)
        click.echo(write_speed_report(folder, column), nl=False)
        return
    status = reproduce_table(asked, text, below, folder, names, seeds, shard, tell)
    if not any((folder / CELLS).glob("*.json")):
        tell("no cell is finished, so there is no report")
    elif status < 128:
        click.echo(write_report(folder, below, shown, tell), nl=False)
    sys.exit(status)


def _untrained(
    paper: str,
    name: str,
    written: tuple[str, ...],
    folders: tuple[Path, ...],
    corpus: str,
    root: Path,
    out: Path | None,
) -> bool:
    """Whether it is a figure, or a table that no training fills: then it is drawn, or computed. Exit status 1: not as printed."""
    from calque.papers.compute import compute_table, computed_table, write_computed
    from calque.papers.figures import default_folder, draw_figure, figure_of, is_trained
    from calque.papers.own_corpus import corpus_named

    folder = out or default_folder(paper, name)
    if (table := computed_table(paper, name)) is not None:
        _only("corpus", "width", "overrides")
        settings = tuple(one for one in written if "." not in one.partition("=")[0])
        overrides = tuple(one for one in written if one not in settings)
        page = compute_table(paper, table, settings, corpus_named(corpus), overrides, root, folder, tell)
        click.echo(write_computed(page, folder), nl=False)
        if page.faults:
            sys.exit(1)
        return True
    figure = figure_of(paper, name)
    if figure is None or (is_trained(paper, name) and not folders):
        if folders:
            raise click.UsageError("--from is of figures")
        return False
    _only("folders")
    click.echo(draw_figure(figure, folders, root, folder, tell))
    return True


def _only(*names: str) -> None:
    """Refuses options that say nothing of what is asked for."""
    context, known = click.get_current_context(), ("paper", "table", "data_folder", "out", *names)
    for option in context.command.params:
        name = str(option.name)
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE and name not in known:
            raise click.UsageError(f"{option.opts[0]} says nothing of what is not trained")
