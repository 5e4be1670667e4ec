"""The speeds of a table: all its rows side by side in one process, timed with the parts of `calque bench`."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import torch

from calque.adl.check import CheckedDefinition
from calque.bench.clock import digits
from calque.bench.decode import LENGTH, DecodeCase, DecodePass, random_subject, subject, timed
from calque.bench.inputs import synthetic
from calque.bench.train import batches
from calque.data.batches import Batch
from calque.decode.prepare import prepare_for_decoding
from calque.experiment import DataSettings, Experiment, TrainSettings
from calque.experiment import load as load_experiment
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import Place, error
from calque.ledger.entry import Entry, conditions, publish
from calque.ledger.entry import read as read_entries
from calque.model import Shape
from calque.papers import recipes
from calque.papers.decoded import selecting
from calque.papers.metrics import DECODING, TIMED
from calque.papers.output import OutputFolder
from calque.papers.paper import Column, PrintedTable, Row
from calque.papers.plan import named_rows, rows_of
from calque.papers.recipes import Budget, settings_text
from calque.papers.request import MODELS, RUNS, SPEED, TIME, Request, TableCell, Tell, request_in
from calque.run.folder import EXPERIMENT, MODEL
from calque.run.tensors import writing
from calque.train.precision import pick_device, processor
from calque.train.timed_updates import TrainingSpeed, measure

VOCABULARY, PAIRS = 32_000, 2_000
"""With random weights: entries of a vocabulary, unless `data.vocabulary_size` is set; sentence pairs to train on."""
UPDATES, WARM_UP = 3, 1
"""Of training in each repeat."""
LOWEST, HIGHEST, REPEAT = "lowest", "highest", "repeat"
_NO_TEXT = DataSettings(train=("-", "-"), valid=("-", "-"), subwords="words", vocabulary_size=VOCABULARY)

Times = dict[str, dict[Column, list[float]]]
"""Row -> column, its pair left out -> a figure for each repeat."""


Repeats = dict[Column, dict[str, tuple[float, ...]]]
"""Column -> row -> median, lowest and highest of the repeats; the median alone of one repeat."""


def columns_of(table: PrintedTable) -> list[Column]:
    """What the table's columns of speed measure, each once, with no pair: that of the data is another."""
    return list(dict.fromkeys(dataclasses.replace(c, pair="") for c in table.columns if c.metric in TIMED))


def figure_name(row: str, column: Column, which: str = "") -> str:
    """What a figure is called in an entry; without `which` the median of the repeats."""
    return f"{row}, {column.what}" + (f", {which}" if which else "")


def time_table(
    folder: OutputFolder, rows: Sequence[str], repeats: int, sentences: int, others: Sequence[Path] = ()
) -> Path:
    """Times rows of a table, all of them where none is named, and writes the figures as an entry below its `speed`.

    Each repeat times every row, so that all of them see the same machine: some updates of training, on random words, and for
    each beam that the columns name (the recipe's where they name none) a pass over the sentences. Where each row has a trained
    first seed in the folder, or in one of the output folders `others`, these models translate the corpus as they like; else all
    weights are random, and each sentence gets 25 words. Rows that select words do so by a table of the training text; of random
    weights, which have none, such rows are left out for the same models choosing among all words. Precision, batches and threads
    are those of the recipe.

    Raises X222, X701, X702, X705, X842 for a folder among `others` that is none, and what is wrong with settings and
    overrides, before anything is timed.
    """
    request = folder.request
    experiment = recipes.experiment(folder.recipe, Budget(updates=1), _NO_TEXT, "-", 1, request.all_overrides)
    selection = _select(folder, rows, experiment, others)
    device = pick_device(experiment.train.device)
    with processor(experiment.train.threads):
        source = Path(folder.corpus.data(folder.root).test[0]) if selection.runs else None
        folder.claim()
        cases = selection.cases(folder, experiment, source, sentences, device)
        figures = _Timing(folder.table, selection.rows, cases, experiment, folder.tell).repeat(repeats)
        here = conditions(f"{experiment.train.precision} in training, {experiment.decode.precision} in decoding")
    where = {
        **here,
        "device": device.type,
        "threads": experiment.train.threads or here["threads"],
        **selection.conditions,
        **_about(list(cases.values())),
        "beam": experiment.decode.beam,
        "repeats": repeats,
        "settings": " ".join(request.settings) or "as in the texts",
        "sizes": request.pair,
        "keys": settings_text(next(map(_experiment, selection.runs.values()), experiment)),
    }
    command = f"--rows {','.join(cases)} --repeats {repeats} --sentences {sentences}"
    return _publish(request, folder.out, command, device.type, _figures(figures), where)


def _publish(
    request: Request,
    out: Path,
    options: str,
    device: str,
    figures: Mapping[str, float],
    where: Mapping[str, str | int | float | None],
) -> Path:
    """Records the timing of an output folder."""
    weights = str(where["weights"])
    name = [request.paper, request.table, *request.other_pair, SPEED, weights, request.recipe, device]
    with writing(out):
        return publish(
            out / SPEED,
            "-".join(name),
            f"Speed of {request.paper} {request.table}, {weights} weights, {device}",
            "speed",
            f"{request.command_to(TIME)} {options}",
            figures,
            where,
            notes="Medians of the repeats, in each of which every row was timed. Decoding: encoder, states, search.",
        )


@dataclass(frozen=True)
class _Selection:
    """The rows to be timed, their definitions, and the run folders of their trained models, if all have one."""

    rows: Sequence[Row]
    checked: Mapping[str, CheckedDefinition]
    runs: Mapping[str, Path]
    models: Sequence[str] = ()
    """The names of the cells whose models are timed."""

    @property
    def conditions(self) -> dict[str, str | int | float | None]:
        """What the entry says about the rows."""
        return {
            "rows": ", ".join(row.key + " (uncached)" * row.decoding.uncached for row in self.rows),
            "words selected": ", ".join(row.key for row in self.rows if row.decoding.selected) or None,
            "weights": "trained" if self.runs else "random",
            MODELS: ", ".join(dict.fromkeys(self.models)) or None,
            "words of a translation": "as the models like" if self.runs else LENGTH,
        }

    def cases(
        self, folder: OutputFolder, experiment: Experiment, source: Path | None, sentences: int, device: torch.device
    ) -> dict[str, DecodeCase]:
        """Trained models and sentences of `source`, or models with random weights and random words."""
        size, model = experiment.data.vocabulary_size, experiment.model
        if source is None:
            shape, words = Shape(size, size, model.tying, model.output_bias), synthetic(sentences, size)
            return {key: random_subject(text, shape, words, device) for key, text in self.checked.items()}
        cases = {row: subject(str(self.runs[row.key]), size, source, sentences, device) for row in self.rows}
        for row, case in cases.items():
            if case.loaded is not None and row.decoding.selected:
                cases[row] = dataclasses.replace(case, loaded=selecting(folder, case.loaded))
        return {row.key: case for row, case in cases.items()}


def _experiment(run: Path) -> Experiment:
    return load_experiment(run / EXPERIMENT)


def _select(folder: OutputFolder, rows: Sequence[str], experiment: Experiment, others: Sequence[Path]) -> _Selection:
    """The rows of those names; rows that select words only where all rows are trained."""
    table, paper = folder.texts.table, folder.request.paper
    chosen = named_rows(table, paper, rows)
    for other in others:
        if not (other / RUNS).is_dir():
            raise error("X842", Place(str(other)))
    size, model = experiment.data.vocabulary_size, experiment.model
    around = Surroundings(size, size, model.tying, model.output_bias)
    found = {row.key: _trained(folder, TableCell(_model_row(folder, row, around), 1), others) for row in chosen}
    runs = {key: one[0] for key, one in found.items() if one is not None}
    models = [one[1] for one in found.values() if one is not None]
    if len(runs) < len(chosen):
        if selected := ", ".join(row.key for row in chosen if row.decoding.selected):
            folder.tell(
                f"{selected}: words are selected only for trained rows; with random weights, rows choose among all words"
            )
        chosen, runs, models = rows_of(table, paper, rows), {}, []
    return _Selection(chosen, {row.key: folder.texts.definition(row.key, around)[0] for row in chosen}, runs, models)


def _model_row(folder: OutputFolder, row: Row, around: Surroundings) -> str:
    """The row whose model a row decodes: another one where it says so, or is a reading of a trained one with the same text."""
    if row.model_of or not row.reading_of or folder.texts.table.row(row.reading_of).model_of:
        return row.model_of or row.key
    hashes = {folder.texts.definition(key, around)[0].hash for key in (row.key, row.reading_of)}
    return row.reading_of if len(hashes) == 1 else row.key


def _trained(folder: OutputFolder, cell: TableCell, others: Sequence[Path]) -> tuple[Path, str] | None:
    """The run folder of a trained cell and the name of its entry: of the output folder, else of the first other one that has it."""
    if (folder.run(cell) / f"{MODEL}.json").is_file():
        return folder.run(cell), cell.name(folder.request)
    for other in others:
        if (run := other / RUNS / cell.row / str(cell.seed)).joinpath(f"{MODEL}.json").is_file():
            return run, cell.name(request_in(other))
    return None


def _about(subjects: Sequence[DecodeCase]) -> dict[str, str | int | float]:
    sentences = subjects[0].sentences
    return {
        "architectures": ", ".join(one.model.checked.hash for one in subjects),
        "vocabulary": subjects[0].model.shape.target_size,
        "sentences": len(sentences),
        "source tokens a sentence": digits(sum(map(len, sentences)) / len(sentences)),
    }


class _Timing:
    """The rows of a table, timed side by side."""

    def __init__(
        self,
        table: PrintedTable,
        rows: Sequence[Row],
        subjects: Mapping[str, DecodeCase],
        experiment: Experiment,
        tell: Tell,
    ):
        self.rows, self.subjects, self.tell = rows, subjects, tell
        self.train, self.decode = experiment.train, experiment.decode
        self.columns = columns_of(table)
        self.figures: Times = {row.key: {column: [] for column in self.columns} for row in rows}
        decoding = [column for column in self.columns if column.of.kind == DECODING]
        self.beams = sorted({column.beam or self.decode.beam for column in decoding})
        self.data = _training_data(subjects, self.train) if len(decoding) < len(self.columns) else []

    def repeat(self, repeats: int) -> Times:
        """The figures of all repeats."""
        prepared = {
            key: dataclasses.replace(one, model=prepare_for_decoding(one.model, self.decode.precision))
            for key, one in self.subjects.items()
        }
        for row in self.rows if self.beams else ():
            self._translate(row, prepared[row.key], self.beams[0])  # warms up
        for number in range(1, repeats + 1):
            trained: dict[str, TrainingSpeed] = {}
            for row in self.rows if self.data else ():
                model = self.subjects[row.key].model
                if model.checked.hash not in trained:  # keeping states or not makes no difference to training
                    settings = dataclasses.replace(self.train, warmup_updates=1)
                    trained[model.checked.hash] = measure(
                        model.checked, model.shape, settings, self.data, UPDATES, WARM_UP
                    )
                self._note(row.key, _training_speeds(trained[model.checked.hash]))
            for beam in self.beams:
                for row in self.rows:
                    taken = self._translate(row, prepared[row.key], beam)
                    self._note(row.key, _decoding_speeds(taken, prepared[row.key].sentences), beam)
            self.tell(f"[{number}/{repeats}] {', '.join(row.key for row in self.rows)}")
        return self.figures

    def _translate(self, row: Row, given: DecodeCase, beam: int) -> DecodePass:
        batch = max(1, self.decode.batch_tokens // (beam * max(map(len, given.sentences))))
        return timed(given, batch, beam, 0 if given.loaded else LENGTH, row.decoding.uncached)

    def _note(self, row: str, speeds: Mapping[str, float], beam: int | None = None) -> None:
        """Adds speeds to the columns of their metrics and, of decoding, of their beam."""
        for column in self.columns:
            if column.metric in speeds and beam in (None, column.beam or self.decode.beam):
                self.figures[row][column].append(speeds[column.metric])


def _training_speeds(taken: TrainingSpeed) -> dict[str, float]:
    seconds = sum(taken.seconds)
    return {"updates/s": UPDATES / seconds, "target-words/s": sum(taken.target_tokens) / seconds}


def _decoding_speeds(taken: DecodePass, sentences: Sequence[Sized]) -> dict[str, float]:
    words = sum(len(sentence) - 1 for sentence in sentences)  # the end symbol is none
    return {
        "seconds/sentence": taken.seconds / len(sentences),
        "sentences/s": len(sentences) / taken.seconds,
        "source-words/s": words / taken.seconds,
    }


def _training_data(subjects: Mapping[str, DecodeCase], settings: TrainSettings) -> list[Batch]:
    """The first batches of an epoch of random words: as many as a repeat takes."""
    size = min(one.model.shape.target_size for one in subjects.values())
    sources, targets = (synthetic(PAIRS, size, seed) for seed in (1, 2))
    return batches(sources, targets, settings)[: settings.accumulate * (UPDATES + WARM_UP)]


def _figures(repeats: Times) -> dict[str, float]:
    figures: dict[str, float] = {}
    first = next(iter(repeats))
    for row, columns in repeats.items():
        for column, values in columns.items():
            median = statistics.median(values)
            figures[figure_name(row, column)] = digits(median)
            if len(values) > 1:
                figures[figure_name(row, column, LOWEST)] = digits(min(values))
                figures[figure_name(row, column, HIGHEST)] = digits(max(values))
                figures |= {figure_name(row, column, f"{REPEAT} {k}"): digits(x) for k, x in enumerate(values, 1)}
            if row != first:
                ratio = times(median, statistics.median(repeats[first][column]), column)
                figures[figure_name(row, column, f"times as fast as {first}")] = digits(ratio, 3)
    return figures


def times(one: float, other: float, column: Column) -> float:
    """How many times as good the first figure is as the second."""
    return other / one if column.of.lower else one / other


def timing_in(out: Path) -> Entry:
    """The entry of an output folder: that of trained models where there are two. Raises X706 where there is none."""
    entries = read_entries(out / SPEED)
    if not entries:
        raise error("X706", Place(str(out)))
    return max(entries, key=lambda e: (e.conditions.get("weights") == "trained", e.date))


def measured(entry: Entry, table: PrintedTable) -> Repeats:
    """What an entry has for the columns of a table, each with no pair."""
    repeats: Repeats = {}
    for column in columns_of(table):
        repeats[column] = {}
        for row in table.rows:
            names = [figure_name(row.key, column, which) for which in ("", LOWEST, HIGHEST)]
            if names[0] in entry.figures:
                repeats[column][row.key] = tuple(float(entry.figures[n]) for n in names if n in entry.figures)
    return repeats


def repeated(entry: Entry, table: PrintedTable) -> Repeats:
    """The values of all repeats in their order, where an entry has them for every row that was timed; else empty."""
    repeats: Repeats = {}
    for column, rows in measured(entry, table).items():
        numbers = range(1, int(str(entry.conditions.get("repeats") or 0)) + 1)
        names = {row: [figure_name(row, column, f"{REPEAT} {k}") for k in numbers] for row in rows}
        if not all(name in entry.figures for some in names.values() for name in some):
            return {}
        repeats[column] = {row: tuple(float(entry.figures[name]) for name in some) for row, some in names.items()}
    return repeats
