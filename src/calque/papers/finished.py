"""A finished cell as what it can be request: its models, loaded when first needed, and its texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from calque.adl.check import check
from calque.data.corpus import open_corpus
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, help_of, message, read_text
from calque.layers.source import SourceAttention
from calque.ledger.entry import Entry
from calque.papers import read_paper
from calque.papers.convergence import MEMBERS
from calque.papers.corpora import TrainingCorpus
from calque.papers.layout import DATA, RUNS, Tell
from calque.papers.own_corpus import corpus_in
from calque.papers.paper import PrintedTable, Row
from calque.papers.plan import TableCell
from calque.papers.request import Request, request_in
from calque.run.folder import ARCHITECTURE, EXPERIMENT
from calque.workflow.api import Run, load
from calque.workflow.plugins import registry_of_run


class NotMeasured(Exception):
    """Something that a table prints and that cannot be measured here; its text says why."""


def reason(fault: CalqueError) -> str:
    """Faults as the reason why something is not measured."""
    return "; ".join(map(_told, fault.diagnostics))


def _told(one: Diagnostic) -> str:
    where = f" ({Path(one.where.file).name})" if isinstance(one.where, Place) else ""
    proposal = help_of(one)
    return message(one) + where + (f": {proposal}" if proposal else "")


@dataclass(frozen=True)
class Folder:
    """An output folder whose cells are looked at, and the data root."""

    out: Path
    root: Path
    tell: Tell

    @cached_property
    def request(self) -> Request:
        """What it is about. Raises X706."""
        return request_in(self.out)

    @cached_property
    def table(self) -> PrintedTable:
        """The paper's table."""
        return read_paper.paper(self.request.paper).table(self.request.table)

    @cached_property
    def corpus(self) -> TrainingCorpus:
        """What its cells are trained on."""
        return corpus_in(self.out, self.request.corpus)

    @cached_property
    def test(self) -> tuple[list[str], list[str]]:
        """Sources and references."""
        return open_corpus(self.out / DATA).lines("test")

    def run(self, cell: TableCell) -> Path:
        """The run folder of a trained cell."""
        return self.out / RUNS / cell.row / str(cell.seed)

    def words(self, cell: TableCell) -> bool:
        """Whether a trained cell knows words and no pieces of them."""
        return load_experiment(self.run(cell) / EXPERIMENT).data.subwords == "words"

    def attends(self, cell: TableCell) -> bool:
        """Whether a trained cell has a layer that aligns."""
        registry = registry_of_run(self.run(cell))
        checked = check(read_text(str(self.run(cell) / ARCHITECTURE), "X402", "X403"), registry)
        return any(issubclass(registry[node.name], SourceAttention) for node in checked.decoder.nodes())

    def load(self, cells: Sequence[TableCell], row: Row) -> Run:
        """The models of trained cells, together as `row` says; each aligns as its own row says, unless all were told otherwise."""
        told = any(one.partition("=")[0].strip() == "decode.align_row" for one in self.request.overrides)
        align = {c: [] if told else [f"decode.align_row={self.table.row(c.row).decoding.align_row}"] for c in cells}
        first, *others = [load(self.run(cell), overrides=align[cell]) for cell in cells]
        loaded = replace(first.loaded, others=tuple(o.loaded for o in others), combine=row.decoding.combine)
        return Run(loaded, first.experiment)


@dataclass(frozen=True)
class FinishedCell:
    """A finished cell of a folder: a trained one, or that of a row decoded otherwise."""

    folder: Folder
    entry: Entry

    @property
    def cell(self) -> TableCell:
        """Its row and seed."""
        return TableCell(str(self.entry.conditions["row"]), int(str(self.entry.seed)))

    @property
    def row(self) -> Row:
        """Its row in the paper."""
        return self.folder.table.row(self.cell.row)

    @property
    def members(self) -> list[TableCell]:
        """The trained cells whose models it decodes: itself, unless its entry names others."""
        named = self.entry.conditions.get(MEMBERS)
        return [self.cell] if named is None else read_members(str(named))

    @cached_property
    def run(self) -> Run:
        """Its models."""
        return self.folder.load(self.members, self.row)

    @property
    def words(self) -> bool:
        """Whether it was trained on words, so that some are unknown."""
        return self.folder.words(self.members[0])


def write_members(cells: Sequence[TableCell]) -> str:
    """Cells as a condition: `ROW SEED, ROW SEED`."""
    return ", ".join(f"{cell.row} {cell.seed}" for cell in cells)


def read_members(text: str) -> list[TableCell]:
    """What `write_members` wrote."""
    return [TableCell(row, int(seed)) for row, _, seed in (one.rpartition(" ") for one in text.split(", "))]
