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
from calque.ledger.entry import conditions, publish
from calque.model import Shape
from calque.papers import recipes
from calque.papers.decoded import selecting
from calque.papers.metrics import DECODING
from calque.papers.output import VOCABULARY, OutputFolder
from calque.papers.paper import Column, PrintedTable, Row
from calque.papers.plan import named_rows, rows_of
from calque.papers.recipes import Budget, settings_text
from calque.papers.request import MODELS, RUNS, SPEED, TIME, Request, TableCell, Tell, request_in
from calque.papers.timings import HIGHEST, LOWEST, REPEAT, columns_of, figure_name, times
from calque.run.folder import EXPERIMENT, MODEL
from calque.run.tensors import writing
from calque.train.precision import pick_device, processor
from calque.train.timed_updates import TrainingSpeed, measure

PAIRS = 2_000
"""With random weights: sentence pairs to train on."""
UPDATES, WARM_UP = 3, 1
"""Of training in each repeat."""
LINES = 10_000
"""Of the test text, among which sentences of a length are looked for."""
_NO_TEXT = DataSettings(train=("-", "-"), valid=("-", "-"), subwords="words", vocabulary_size=VOCABULARY)

Times = dict[str, dict[Column, list[float]]]
"""Row -> column, its pair left out -> a figure for each repeat."""
Pass = tuple[int, int]
"""A beam and the tokens of the sources; 0: of any length."""


def time_table(
    folder: OutputFolder, rows: Sequence[str], repeats: int, sentences: int, others: Sequence[Path] = ()
) -> Path:
    """Times rows of a table, all of them where none is named, and writes the figures as an entry below its `speed`.

    Each repeat times every row, so that all of them see the same machine: some updates of training, on random words, and for
    each beam that the columns name (else the recipe's) a pass over the first sentences of the test text, or those nearest to the
    length that a column names. Where each row has a trained first seed in the folder, or in one of the output folders `others`,
    these models translate as they like; else weights and words are random, and each sentence gets 25 words, or as many as the
    length. Rows that select words do so by a table of the training text; with random weights they are left out for the same
    models choosing among all words. Precision, batches and threads are those of the recipe.

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
        timing = _Timing(folder.table, selection.rows, cases, experiment, sentences, folder.tell)
        figures = _figures(timing.repeat(repeats))
        here = conditions(f"{experiment.train.precision} in training, {experiment.decode.precision} in decoding")
    where = {
        **here,
        "device": device.type,
        "threads": experiment.train.threads or here["threads"],
        **selection.conditions,
        **timing.conditions,
        "beam": experiment.decode.beam,
        "repeats": repeats,
        "settings": " ".join(request.settings) or "as in the texts",
        "sizes": request.sizes,
        "keys": settings_text(next(map(_experiment, selection.runs.values()), experiment)),
    }
    command = f"--rows {','.join(cases)} --repeats {repeats} --sentences {sentences}"
    return _publish(request, folder.out, command, device.type, figures, where)


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
        }

    def cases(
        self, folder: OutputFolder, experiment: Experiment, source: Path | None, sentences: int, device: torch.device
    ) -> dict[str, DecodeCase]:
        """Trained models and sentences of `source`, or models with random weights and random words."""
        size, model = experiment.data.vocabulary_size, experiment.model
        if source is None:
            shape, words = Shape(size, size, model.tying, model.output_bias), synthetic(sentences, size)
            return {key: random_subject(text, shape, words, device) for key, text in self.checked.items()}
        lines = LINES if any(column.length for column in columns_of(folder.table)) else sentences
        cases = {row: subject(str(self.runs[row.key]), size, source, lines, device) for row in self.rows}
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
        return folder.run(cell), cell.name(folder.request, whole=True)
    for other in others:
        if (run := other / RUNS / cell.row / str(cell.seed)).joinpath(f"{MODEL}.json").is_file():
            return run, cell.name(request_in(other), whole=True)
    return None


def _of_length(case: DecodeCase, length: int, count: int) -> DecodeCase:
    """A case with so many sentences, of a length in tokens: those of the text that are nearest to it, or random ones."""
    if not length:
        return dataclasses.replace(case, sentences=case.sentences[:count])
    if case.loaded is None:
        sentences = synthetic(count, case.model.shape.source_size, length=length)
    else:
        sentences = sorted(case.sentences, key=lambda one: abs(len(one) - 1 - length))[:count]
    return dataclasses.replace(case, sentences=sentences)


class _Timing:
    """The rows of a table, timed side by side."""

    def __init__(
        self,
        table: PrintedTable,
        rows: Sequence[Row],
        subjects: Mapping[str, DecodeCase],
        experiment: Experiment,
        sentences: int,
        tell: Tell,
    ):
        self.rows, self.subjects, self.tell = rows, subjects, tell
        self.train, self.decode = experiment.train, experiment.decode
        self.columns = columns_of(table)
        self.figures: Times = {row.key: {column: [] for column in self.columns} for row in rows}
        decoding = [column for column in self.columns if column.of.kind == DECODING]
        self.passes = sorted({self._pass(column) for column in decoding})
        self.data = _training_data(subjects, self.train) if len(decoding) < len(self.columns) else []
        lengths = dict.fromkeys(length for _, length in self.passes) or (0,)
        self.cases = {key: {n: _of_length(one, n, sentences) for n in lengths} for key, one in subjects.items()}

    @property
    def conditions(self) -> dict[str, str | int | float]:
        """What the entry says about the models and the sentences."""
        subjects = list(self.subjects.values())
        chosen = [case.sentences for case in next(iter(self.cases.values())).values()]
        tokens = [digits(sum(map(len, some)) / len(some)) for some in chosen]
        forced = "as many as of the source" if any(length for _, length in self.passes) else LENGTH
        return {
            "words of a translation": "as the models like" if subjects[0].loaded else forced,
            "architectures": ", ".join(one.model.checked.hash for one in subjects),
            "vocabulary": subjects[0].model.shape.target_size,
            "sentences": len(chosen[0]),
            "source tokens a sentence": tokens[0] if len(tokens) == 1 else ", ".join(map(str, tokens)),
        }

    def repeat(self, repeats: int) -> Times:
        """The figures of all repeats."""
        prepared = {key: prepare_for_decoding(one.model, self.decode.precision) for key, one in self.subjects.items()}
        cases = {
            (key, n): dataclasses.replace(case, model=prepared[key])
            for key, some in self.cases.items()
            for n, case in some.items()
        }
        for beam, length in self.passes[:1]:
            for row in self.rows:
                self._translate(row, cases[row.key, length], (beam, length))  # warms up
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
            for one in self.passes:
                for row in self.rows:
                    case = cases[row.key, one[1]]
                    taken = self._translate(row, case, one)
                    self._note(row.key, _decoding_speeds(taken, case.sentences), one)
            self.tell(f"[{number}/{repeats}] {', '.join(row.key for row in self.rows)}")
        return self.figures

    def _pass(self, column: Column) -> Pass:
        return column.beam or self.decode.beam, column.length or 0

    def _translate(self, row: Row, given: DecodeCase, one: Pass) -> DecodePass:
        beam, length = one
        batch = max(1, self.decode.batch_tokens // (beam * max(map(len, given.sentences))))
        return timed(given, batch, beam, 0 if given.loaded else length or LENGTH, row.decoding.uncached)

    def _note(self, row: str, speeds: Mapping[str, float], one: Pass | None = None) -> None:
        """Adds speeds to the columns of their metrics and, of decoding, of their beam and length."""
        for column in self.columns:
            if column.metric in speeds and one in (None, self._pass(column)):
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
