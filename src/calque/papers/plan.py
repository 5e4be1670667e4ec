"""What is to be reproduced: rows, seeds, and the experiment of each cell."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from calque.adl.check import CheckedDefinition
from calque.adl.settings import parse_settings
from calque.adl.signature import SETTINGS
from calque.data.compiled import prepare
from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment
from calque.explain.fit import parameters
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Text, error, nearest
from calque.papers import read_paper, recipes
from calque.papers.corpora import TrainingCorpus
from calque.papers.figure_list import PaperFigure, paper_figures
from calque.papers.layout import DATA, Tell
from calque.papers.paper import ComputedTable, PrintedTable, Row
from calque.papers.recipes import Budget
from calque.papers.request import Request
from calque.papers.row_sizes import by_name, checked_row, matched


@dataclass(frozen=True)
class TableCell:
    """One training: a row and a seed."""

    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.row}, seed {self.seed}"


def table_of(paper: str, name: str) -> PrintedTable:
    """A table of a paper whose rows are trained. Raises X220 (no such paper) and X701."""
    here = read_paper.paper(paper)
    return next((table for table in here.tables if table.name == name), None) or _refuse(paper, name)


def computed_table(paper: str, name: str) -> ComputedTable:
    """A table of a paper that no training fills. Raises X220 (no such paper) and X701."""
    here = read_paper.paper(paper)
    return next((table for table in here.computed if table.name == name), None) or _refuse(paper, name)


def figure_of(paper: str, name: str) -> PaperFigure:
    """A figure of a paper. Raises X220 (no such paper) and X701."""
    read_paper.paper(paper)
    return paper_figures().get(f"{paper}/{name}") or _refuse(paper, name)


def _refuse(paper: str, name: str) -> NoReturn:
    here = read_paper.paper(paper)
    tables = [*(table.name for table in here.tables), *(table.name for table in here.computed)]
    figures = [figure.partition("/")[2] for figure in paper_figures() if figure.startswith(f"{paper}/")]
    names = sorted({*tables, *figures})
    raise error("X701", None, paper=paper, name=name, near=nearest(name, names), names=names)


def named_rows(table: PrintedTable, paper: str, names: Sequence[str]) -> list[Row]:
    """The rows of those names in the table's order, all of them where none is named. Raises X702."""
    known = [row.key for row in table.rows]
    for name in names:
        if name not in known:
            where = f"{paper}/{table.name}"
            raise error("X702", None, table=where, name=name, near=nearest(name, known), names=known)
    return [row for row in table.rows if not names or row.key in names]


def rows_of(table: PrintedTable, paper: str, names: Sequence[str]) -> list[Row]:
    """What is trained of `named_rows`: a row that is another one's model, decoded otherwise, stands for that row. Raises X702."""
    chosen = {row.model_of or row.key for row in named_rows(table, paper, names)}
    return [row for row in table.rows if row.key in chosen]


class Texts:
    """The rows of a table as definitions, at the sizes that are asked for."""

    def __init__(self, request: Request):
        """Raises X222, X701, and what is wrong with settings."""
        self.request, self.table = request, table_of(request.paper, request.table)
        self.settings = by_name(request.settings)
        self._target: int | None = None
        self._refuse_unread()

    def _refuse_unread(self) -> None:
        """X222 for a setting that no row of the table reads; a row may do without some, and one at fault says so later."""
        read: set[str] = set()
        for row in self.table.rows if self.settings else ():
            try:
                read |= checked_row(Text(row.name, row.at(self.request.pair)), self.settings)[1].keys()
            except CalqueError:
                return
        for name, statement in parse_settings(self.request.settings).items():
            if name not in read:
                raise error("X222", statement.name_span, name=name, near=nearest(name, {*read, *SETTINGS}))

    def definition(self, row: str, around: Surroundings) -> tuple[CheckedDefinition, dict[str, str]]:
        """A row's definition, and the settings it took, NAME=VALUE by name; with a row to match, all of the model counts.

        Raises what `check` raises.
        """
        text = Text(
            f"zoo/{self.request.paper}/{self.request.table}/{row}.adl", self.table.row(row).at(self.request.pair)
        )
        if self.request.match in (None, row):
            return checked_row(text, self.settings)
        if self._target is None:
            self._target = parameters(self.definition(str(self.request.match), around)[0], around)
        return matched(text, self.settings, self._target, around)


class Plan:
    """The experiments of an output folder."""

    def __init__(self, request: Request, corpus: TrainingCorpus, root: Path, out: Path, tell: Tell):
        """Raises X222, X701, X703, X704, and what is wrong with settings and overrides: all that concerns every cell."""
        self.request, self.root, self.out, self.tell = request, root, out, tell
        self.corpus = corpus
        self.data = corpus.data(root)
        self.texts = Texts(request)
        self.table = self.texts.table
        self.sample = self.experiment("-", 1)

    @functools.cached_property
    def prepared(self) -> PreparedCorpus:
        """The corpus, compiled once for all cells, below the output folder."""
        return prepare(self.sample.data, self.out / DATA, Path(), self.tell)

    def definition(self, row: str) -> tuple[CheckedDefinition, dict[str, str]]:
        """A row's definition at its size, as `Texts.definition` says."""
        return self.texts.definition(row, self._around)

    @property
    def _around(self) -> Surroundings:
        source, target = self.prepared.codecs
        model = self.sample.model
        return Surroundings(source.size, target.size, model.tying, model.output_bias)

    def size(self, checked: CheckedDefinition) -> int:
        """Parameters of a definition with the vocabularies of the corpus around it."""
        return parameters(checked, self._around)

    def experiment(self, text: str, seed: int) -> Experiment:
        """The experiment of a cell, from its definition."""
        budget = Budget(self.request.minutes, self.request.updates)
        return recipes.experiment(self.request.recipe, budget, self.data, text, seed, self.request.all_overrides)


def cells_of(rows: Sequence[Row], seeds: int, shard: tuple[int, int] = (1, 1)) -> list[TableCell]:
    """Share i of n of all cells, the first seed of every row before the second."""
    cells = [TableCell(row.key, seed) for seed in range(1, seeds + 1) for row in rows]
    return cells[shard[0] - 1 :: shard[1]]
