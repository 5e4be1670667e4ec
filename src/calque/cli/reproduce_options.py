"""The options that the commands of `calque reproduce` share."""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from calque.cli.base import FILE, Number, tell
from calque.papers import read_paper, recipes
from calque.papers.corpora import CORPORA

if TYPE_CHECKING:
    from calque.papers.output import OutputFolder
    from calque.papers.paper import Paper, PrintedTable
    from calque.papers.report import ReportOptions
    from calque.workflow.jobs.spec import ExecutorSpec

Command = TypeVar("Command", bound=Callable[..., None])


def _corpus(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A public corpus, or a file."""
    if value not in CORPORA and not value.endswith(".toml"):
        raise click.BadParameter(f"expected one of {', '.join(CORPORA)}, or a file FILE.toml, found {value}")
    return value


def _paper(ctx: click.Context, param: click.Parameter, value: str | None) -> "Paper | None":
    """A paper of the zoo, or tables of the user's. Raises X220, and what `read_tables` raises."""
    if value is None or not value.endswith(".toml"):
        return None if value is None else read_paper.paper(value)
    from calque.papers.own_tables import read_tables

    return read_tables(Path(value))


def _recipe(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A recipe of Calque, or a file whose name is none of theirs."""
    known, file = recipes.names(), Path(value).name
    if value not in known and not (recipes.FILE_NAME.fullmatch(file) and file.removesuffix(".toml") not in known):
        raise click.BadParameter(
            f"expected one of {', '.join(known)}, or FILE.toml in lower case with another name, found {value}"
        )
    return value


def _executor(ctx: click.Context, param: click.Parameter, value: str | None) -> "ExecutorSpec | None":
    """An executor that this machine can use, also where nothing is left for it to do. Raises X444 to X446, X301 and K408."""
    if value is None:
        return None
    from calque.workflow.jobs.spec import read_executor

    spec = read_executor(value)
    from calque.workflow.jobs.executors import check_executor

    check_executor(spec)
    return spec


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    """Names as they stand: an empty one, as of a shell variable that is not set, is none that is known, and does not mean all."""
    return [] if value is None else value.split(",")


def _together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


PAPER = click.argument("paper", callback=_paper, metavar="PAPER|FILE.toml")
PAPER_OR_NONE = click.argument("paper", required=False, callback=_paper, metavar="[PAPER|FILE.toml]")
TABLE = click.argument("table")
OUT = click.option("--out", type=FILE, help="The output folder.  [default: runs/reproduce/PAPER/TABLE]")
DATA = click.option("--data", "data_folder", type=FILE, help="The data root.  [default: $CALQUE_DATA, else data]")
CORPUS = click.option(
    "--corpus",
    callback=_corpus,
    default="multi30k",
    show_default=True,
    metavar="NAME|FILE.toml",
    help=f"The text: {', '.join(CORPORA)}, or your own, which a file describes.",
)
PAIR = click.option(
    "--pair", help="The paper's language pair: its sizes, and its figures beside ours; default: the table's first."
)
DOCS = click.option(
    "--docs",
    type=FILE,
    default=Path("docs"),
    show_default=True,
    help="The folder of documents; `results` in it is the ledger.",
)
TRIALS = click.option(
    "--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Trials of each test."
)
EXECUTOR = click.option(
    "--executor",
    callback=_executor,
    metavar="NAME[:...]",
    help="Run them side by side: local:2, slurm:partition=NAME,gpus=1, ray[:ADDRESS].  [default: one after the other]",
)
SIZES = _together(
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
)


def recipe_option(default: str, text: str) -> Callable[[Command], Command]:
    """The option that names a recipe."""
    help_text = f"{text}: {', '.join(recipes.names())}, or a file, such as `calque reproduce tune` writes."
    return click.option(
        "--recipe", callback=_recipe, default=default, show_default=True, metavar="NAME|FILE.toml", help=help_text
    )


_CELL_OPTIONS = _together(
    PAPER,
    TABLE,
    DATA,
    CORPUS,
    click.option("--rows", callback=_names, help="Rows of the table, joined by commas; default: all."),
    recipe_option("budget", "How to train"),
    click.option("--minutes", type=Number(0, min_open=True), help="Training time of each cell."),
    click.option("--updates", type=click.IntRange(1), help="Updates of each cell."),
    click.option("--epochs", type=click.IntRange(1), help="Epochs of each cell."),
    click.option(
        "--patience", type=click.IntRange(1), help="End after so many epochs without a better validation perplexity."
    ),
    SIZES,
    OUT,
    PAIR,
)


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """The options that training, timing and tuning have in common, as they are typed."""

    paper: "Paper"
    table: str
    data_folder: Path | None
    corpus: str
    rows: list[str]
    recipe: str
    minutes: float | None = None
    updates: int | None
    epochs: int | None
    patience: int | None = None
    match: str | None
    match_to: str | None
    width: int | None
    overrides: tuple[str, ...]
    out: Path | None
    pair: str | None
    metric: str | None = None
    trials: int = 10_000

    @property
    def report(self) -> "ReportOptions":
        """The options of the report."""
        from calque.papers.report import ReportOptions

        return ReportOptions(self.pair, self.metric, self.trials)

    def _matched_row(self, printed: "PrintedTable") -> str | None:
        """The row that all others match in size: as asked for, or as the table itself does. Raises X702."""
        from calque.papers.plan import named_rows

        if self.match_to is not None:
            return named_rows(printed, self.paper.name, [self.match_to])[0].key
        if self.match is None:
            return None if printed.match is None else printed.match.row
        return printed.match.row if printed.match is not None else printed.rows[0].key

    def _refuse_contradictions(self) -> None:
        if sum(amount is not None for amount in (self.minutes, self.updates, self.epochs)) > 1:
            raise click.UsageError("expected one of --minutes, --updates and --epochs, found several")
        if self.match_to is not None and self.match is None:
            raise click.UsageError("--match-to needs --match")

    def folder(self, metrics: tuple[str, ...]) -> "OutputFolder":
        """The output folder that they ask for, at the sizes of the pair whose figures are beside ours, in one of `metrics`.

        Raises UsageError for options that contradict each other, X701, X702, X707, X708, and what is wrong with a corpus."""
        from calque.data.public import data_root
        from calque.ground.files import portable
        from calque.papers.corpora import corpus_named
        from calque.papers.output import OutputFolder
        from calque.papers.plan import table_of
        from calque.papers.request import Request, default_folder, divided, with_recipe

        self._refuse_contradictions()
        printed = table_of(self.paper, self.table)
        pair, corpus = self.report.column(self.paper, printed, metrics).pair, corpus_named(self.corpus)
        settings, overrides = divided([*([f"d={self.width}"] if self.width else []), *self.overrides])
        request = Request(
            self.paper.name,
            self.table,
            corpus.name,
            Path(self.recipe).name.removesuffix(".toml"),
            self.minutes,
            self.updates,
            self._matched_row(printed),
            with_recipe(recipes.row_settings(self.recipe), settings),
            overrides,
            pair,
            self.paper.keys,
            corpus.own_file,
            corpus.digest,
            self.epochs,
            self.patience,
            "" if self.recipe in recipes.names() else portable(self.recipe),
            recipes.digest(self.recipe),
            portable(self.paper.file),
            self.paper if self.paper.file else None,
        )
        out = self.out or default_folder(self.paper.name, self.table)
        return OutputFolder(request, corpus, data_root(self.data_folder), out, tell, self.recipe)


def of_cells(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of cells, which the command takes as its first argument."""
    names = {option.name for option in dataclasses.fields(CellOptions)}

    @functools.wraps(command)
    def call(**given: object) -> None:
        params = click.get_current_context().params
        cells = CellOptions(**{name: value for name, value in params.items() if name in names})
        command(cells, **{name: value for name, value in given.items() if name not in names})

    return _CELL_OPTIONS(call)
