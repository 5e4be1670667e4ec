"""What is to be reproduced: the rows of a table by name, their definitions at the sizes asked for, and their cells."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.adl.signature import SETTINGS
from calque.adl.syntax import Number
from calque.experiment import ModelSettings
from calque.explain.fit import fit, parameters
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Diagnostic, Text, error, nearest
from calque.layers.contract import Registry
from calque.layers.registry import builtin
from calque.papers.figures import PaperFigure, paper_figures
from calque.papers.paper import ComputedTable, Paper, PrintedTable, Row
from calque.papers.request import Request, TableCell
from calque.workflow.plugins import registry_of

HEADS = 8
"""Heads of a text that sets no other number."""
WIDTH, STEP = "d", 8
"""The setting by which rows are matched unless their table names another, whose values are multiples of the second."""
_HEADS = re.compile(r"^heads = .+$", re.MULTILINE)


def table_of(paper: Paper, name: str) -> PrintedTable:
    """A table of a paper whose rows are trained. Raises X701."""
    return next((table for table in paper.tables if table.name == name), None) or _refuse(paper, name, "train")


def computed_table(paper: Paper, name: str) -> ComputedTable:
    """A table of a paper that no training fills. Raises X701."""
    return next((table for table in paper.computed if table.name == name), None) or _refuse(paper, name, "compute")


def figure_of(paper: Paper, name: str) -> PaperFigure:
    """A figure of a paper. Raises X701."""
    return paper_figures().get(f"{paper.name}/{name}") or _refuse(paper, name, "draw")


def _refuse(paper: Paper, name: str, kind: str) -> NoReturn:
    figures = [figure.partition("/")[2] for figure in paper_figures() if figure.startswith(f"{paper.name}/")]
    known = {
        "train": [table.name for table in paper.tables],
        "compute": [table.name for table in paper.computed],
        "draw": figures,
    }
    command = next((command for command, names in known.items() if name in names), None)
    names = sorted(known[kind])
    what = {"train": "table to train", "compute": "table to compute", "draw": "figure"}[kind]
    where, near = paper.file or paper.name, nearest(name, names)
    raise error("X701", None, paper=where, kind=what, name=name, command=command, near=near, names=names or None)


def named_rows(table: PrintedTable, paper: str, names: Sequence[str]) -> list[Row]:
    """The rows of those names in the table's order, all of them where none is named. Raises X702."""
    known = [row.key for row in table.rows]
    for name in names:
        if name not in known:
            where = f"{paper}/{table.name}"
            raise error("X702", None, table=where, name=name, near=nearest(name, known), names=known)
    return [row for row in table.rows if not names or row.key in names]


def rows_of(table: PrintedTable, paper: str, names: Sequence[str]) -> list[Row]:
    """The rows to train for `named_rows`: instead of a row that decodes another row's model, that other row. Raises X702."""
    chosen = {row.model_of or row.key for row in named_rows(table, paper, names)}
    return [row for row in table.rows if row.key in chosen]


def checked_row(
    text: Text, settings: Mapping[str, str], library: Registry | None = None
) -> tuple[CheckedDefinition, dict[str, str]]:
    """A row's definition under `settings`, NAME=VALUE by name, and those of them that it reads; layers are those of Calque unless
    there is a `library`.

    Raises what `check` raises.
    """
    given = dict(settings)
    while True:
        try:
            return check(text, library or builtin(), reader("calque", parse_settings(list(given.values())))), given
        except CalqueError as fault:
            unread = {str(d.fields.get("name")) for d in fault.diagnostics if d.code in ("C127", "X222")}
            if not unread & given.keys():
                raise
            given = {name: one for name, one in given.items() if name not in unread}


def by_name(settings: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE texts by name, the last of each. Raises X221."""
    return {name: one for one in settings for name in parse_settings([one])}


def heads_of(text: Text, settings: Mapping[str, str]) -> int:
    """The number of heads, where `settings`, or else the text, name it as a plain number."""
    written = settings.get("heads") or next(iter(_HEADS.findall(text.body)), None)
    value = parse_settings([written])["heads"].value if written else None
    return int(value.value) if isinstance(value, Number) else HEADS


def matched(
    text: Text,
    settings: Mapping[str, str],
    target: int,
    around: Surroundings,
    setting: str = WIDTH,
    library: Registry | None = None,
) -> tuple[CheckedDefinition, dict[str, str]]:
    """A row at the value of a setting at which it has nearest to `target` parameters in all: the width, a multiple of twice the
    heads, or the other setting that its table names, a multiple of 8.

    Raises what `check` and `calque.explain.fit` raise.
    """
    taken = checked_row(text, settings, library)[1]
    step = 2 * heads_of(text, settings) if setting == WIDTH else STEP
    value = fit(text, target, setting, step, around, tuple(taken.values()), library=library)
    return checked_row(text, {**settings, setting: f"{setting}={value}"}, library)


class Texts:
    """The rows of a table as definitions, at the sizes that are asked for."""

    def __init__(self, request: Request):
        """Raises X222, X701, and what is wrong with settings."""
        self.request, self.table = request, table_of(request.whole, request.table)
        self.library = registry_of(ModelSettings(plugins=request.whole.plugins))
        self.settings = by_name(request.settings)
        self._targets: dict[Surroundings, int] = {}
        self._refuse_unread()

    def _refuse_unread(self) -> None:
        """Raises X222 for a setting that no row of the table reads; a faulty row raises later, when its own turn comes."""
        read: set[str] = set()
        for row in self.table.rows if self.settings else ():
            try:
                read |= self._checked(row)[1].keys()
            except CalqueError:
                return
        for name, statement in parse_settings(self.request.settings).items():
            if name not in read:
                raise error("X222", statement.name_span, name=name, near=nearest(name, {*read, *SETTINGS} - {name}))

    def definition(self, row: str, around: Surroundings) -> tuple[CheckedDefinition, dict[str, str]]:
        """A row's definition, and the settings that it reads, NAME=VALUE by name. A row to match has as many parameters in all.

        Raises what `check` raises.
        """
        if self.request.match in (None, row):
            return self._checked(self.table.row(row))
        if around not in self._targets:
            self._targets[around] = parameters(self.definition(str(self.request.match), around)[0], around)
        setting = self.table.match.setting if self.table.match is not None else WIDTH
        text = self._text(self.table.row(row))
        return matched(text, self.settings, self._targets[around], around, setting, self.library)

    def _text(self, row: Row) -> Text:
        """The text of a row, at the sizes that are asked for."""
        return Text(row.place or f"zoo/{row.name}.adl", row.at(self.request.pair))

    def _checked(self, row: Row) -> tuple[CheckedDefinition, dict[str, str]]:
        return checked_row(self._text(row), self.settings, self.library)

    def check(self, rows: Iterable[str], around: Surroundings) -> None:
        """Raises what is wrong with the definitions of rows, everything together and once."""
        faults: list[Diagnostic] = []
        for row in rows:
            try:
                self.definition(row, around)
            except CalqueError as fault:
                faults += [one for one in fault.diagnostics if one not in faults]
        if faults:
            raise CalqueError(faults)


def cells_of(rows: Sequence[Row], seeds: int, shard: tuple[int, int] = (1, 1)) -> list[TableCell]:
    """Share i of n of all cells, the first seed of every row before the second."""
    cells = [TableCell(row.key, seed) for seed in range(1, seeds + 1) for row in rows]
    return cells[shard[0] - 1 :: shard[1]]
