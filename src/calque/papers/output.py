"""An output folder of `calque reproduce`: its request and corpus, the experiments of its cells, and the models it has trained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from calque.adl.check import CheckedDefinition, check
from calque.data.compiled import prepare
from calque.data.corpus import PreparedCorpus, open_corpus
from calque.experiment import Experiment
from calque.experiment import load as load_experiment
from calque.explain.fit import parameters
from calque.explain.totals import Surroundings, whole
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, help_of, message, read_text
from calque.layers.source import SourceAttention
from calque.ledger.entry import Entry
from calque.papers import recipes
from calque.papers.corpora import TrainingCorpus, corpus_in
from calque.papers.own_tables import keep_copy, read_copy
from calque.papers.paper import PrintedTable, Row
from calque.papers.plan import Texts
from calque.papers.recipes import Budget
from calque.papers.request import (
    CELLS,
    DATA,
    MEMBERS,
    RUNS,
    Request,
    TableCell,
    Tell,
    claim_folder,
    read_members,
    request_in,
)
from calque.run.folder import ARCHITECTURE, EXPERIMENT
from calque.run.tensors import writing
from calque.workflow.api import Run, load
from calque.workflow.plugins import registry_of_run

VOCABULARY = 32_000
"""Entries of a vocabulary that stands for one that nothing has learned yet."""


class NotMeasured(Exception):
    """Something that a table prints and that cannot be measured here; its text says why."""

    @classmethod
    def of(cls, fault: CalqueError) -> "NotMeasured":
        """Faults as the reason why something is not measured."""
        return cls("; ".join(map(_reason, fault.diagnostics)))


def _reason(one: Diagnostic) -> str:
    where = f" ({Path(one.where.file).name})" if isinstance(one.where, Place) else ""
    proposal = help_of(one)
    return message(one) + where + (f": {proposal}" if proposal else "")


@dataclass(frozen=True)
class OutputFolder:
    """An output folder, `out`, and the data root. `recipe` is the name of a recipe, or a file."""

    request: Request
    corpus: TrainingCorpus
    root: Path
    out: Path
    tell: Tell
    recipe: str

    @classmethod
    def opened(cls, out: Path, root: Path, tell: Tell) -> "OutputFolder":
        """A folder that has cells. Raises X706."""
        request = replace(request_in(out), own=read_copy(out))
        recipe = str(out / recipes.COPY) if request.recipe_file else request.recipe
        return cls(request, corpus_in(out, request.corpus), root, out, tell, recipe)

    def claim(self) -> None:
        """Records what is asked for in the folder. Raises X405 and X705 where it holds something else."""
        claim_folder(self.out, self.request, self.corpus)
        with writing(self.out):
            recipes.record(self.recipe, self.out)
            if self.request.own is not None:
                keep_copy(self.out, self.request)

    @property
    def table(self) -> PrintedTable:
        """The paper's table."""
        return self.request.printed

    @property
    def has_cells(self) -> bool:
        """Whether a cell is finished."""
        return any((self.out / CELLS).glob("*.json"))

    # What is to be trained

    @cached_property
    def texts(self) -> Texts:
        """Its rows as definitions. Raises X222, X701, and what is wrong with settings."""
        return Texts(self.request)

    @cached_property
    def sample(self) -> Experiment:
        """What the experiments of all cells have in common. Raises X703, X704, and what is wrong with overrides."""
        return self.experiment("-", 1)

    @cached_property
    def prepared(self) -> PreparedCorpus:
        """The corpus, compiled once for all cells, below the output folder."""
        return prepare(self.sample.data, self.out / DATA, Path(), self.tell)

    def definition(self, row: str, more: Sequence[str] = ()) -> tuple[CheckedDefinition, dict[str, str]]:
        """A row's definition at its size, as `Texts.definition` says; `more` are further settings, which have the last word."""
        request = self.request
        texts = Texts(replace(request, settings=(*request.settings, *more))) if more else self.texts
        return texts.definition(row, self._around)

    def check_definitions(self, rows: Iterable[Row]) -> None:
        """Raises what is wrong with the definitions of rows. Nothing is compiled for it: no fault depends on the vocabularies, and
        neither does whether a row can be as large as another one."""
        self.texts.check((row.key for row in rows), self._within(VOCABULARY, VOCABULARY))

    @property
    def _around(self) -> Surroundings:
        source, target = self.prepared.codecs
        return self._within(source.size, target.size)

    def _within(self, source: int, target: int) -> Surroundings:
        """What is around a definition with vocabularies of these sizes."""
        model = self.sample.model
        return Surroundings(source, target, model.tying, model.output_bias)

    def size(self, checked: CheckedDefinition) -> int:
        """Parameters of a definition with the vocabularies of the corpus around it."""
        return parameters(checked, self._around)

    def state(self, checked: CheckedDefinition) -> int:
        """Bytes of a definition's decoding state behind 25 words, of a source of as many."""
        return whole(checked, self._around).state_bytes()

    def experiment(self, text: str, seed: int, budget: Budget | None = None, tried: Sequence[str] = ()) -> Experiment:
        """The experiment of a cell, from its definition; of a trial, with its own budget and the keys that it tries."""
        request, data = self.request, self.corpus.data(self.root)
        overrides = (*request.of_rows, *tried, *request.overrides)
        return recipes.experiment(self.recipe, budget or request.limits, data, text, seed, overrides)

    # What is trained

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
        checked = check(read_text(str(self.run(cell) / ARCHITECTURE), "X402", "X403"), registry, stored=True)
        return any(issubclass(registry[node.name], SourceAttention) for node in checked.decoder.nodes())

    def load(self, cells: Sequence[TableCell], row: Row) -> Run:
        """The models of trained cells, together as `row` says; each aligns as its own row says, unless an override sets it."""
        given = any(one.partition("=")[0].strip() == "decode.align_row" for one in self.request.overrides)
        align = {c: [] if given else [f"decode.align_row={self.table.row(c.row).decoding.align_row}"] for c in cells}
        first, *others = [load(self.run(cell), overrides=align[cell]) for cell in cells]
        together = replace(first.loaded, others=tuple(o.loaded for o in others), combine=row.decoding.combine)
        return Run(together, first.experiment)


@dataclass(frozen=True)
class FinishedCell:
    """A finished cell of a folder: a trained one, or that of a row decoded otherwise."""

    folder: OutputFolder
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
