"""The cells of a table: trained, decoded, scored, and recorded as entries of a ledger."""

import contextlib
import math
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment, TrainSettings
from calque.ground.diagnostics import CalqueError, Place, error, render_all
from calque.ground.files import only, sync_folder, write_whole
from calque.ledger.entry import conditions
from calque.papers.metrics import REFERENCE, STATE
from calque.papers.output import OutputFolder
from calque.papers.paper import Row
from calque.papers.plan import cells_of
from calque.papers.recipes import settings_text
from calque.papers.request import CELLS, FAILURES, LOCKS, TableCell
from calque.papers.scoring import publish_cell, write_lines
from calque.run.folder import CORPUS
from calque.run.log import mean_speed, read_log
from calque.run.tensors import writing
from calque.train.log import Progress, Validation, Watcher
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.train.order import layout, updates
from calque.workflow.api import load
from calque.workflow.jobs.worker import noting, sole_work
from calque.workflow.show import Show
from calque.workflow.steps import run_training

DONE, FINISHED, HELD, FAILED = "done", "finished before", "held", "failed"
DIVERGED = 1e9
"""Stands in a learning curve for a perplexity that is no finite number."""
RESULT = "result"
"""In the run folder of a cell that a job trains: its entry, until who asked for it takes it into the ledger."""


def train_table(folder: OutputFolder, rows: Sequence[Row], seeds: int, shard: tuple[int, int]) -> int:
    """Runs a shard's cells that are neither finished nor locked by another process, after `begin`; returns the exit status.

    0: done; 1: a cell failed; 128 plus the number of the signal that stopped it.
    """
    tell = folder.tell
    failed: list[TableCell] = []
    locked: list[TableCell] = []
    cells = cells_of(rows, seeds, shard)
    for k, cell in enumerate(cells, 1):
        tell(f"[{k}/{len(cells)}] {cell}")
        outcome = run_cell(folder, cell)
        if isinstance(outcome, StoppedTraining):
            tell(f"stopped after update {outcome.update} of {cell}; the same call resumes it")
            return 128 + outcome.signal
        tell(f"[{k}/{len(cells)}] {cell}: {outcome}")
        failed += [cell] * (outcome == FAILED)
        locked += [cell] * (outcome == HELD)
    # The other process may have finished some of them since.
    locked = [cell for cell in locked if not finished(folder, cell)]
    for title, some in (("held by another process", locked), ("failed", failed)):
        if some:
            tell(f"{title}: " + "; ".join(map(str, some)))
    return 1 if failed else 0


def begin(folder: OutputFolder, rows: Sequence[Row]) -> None:
    """What comes before the cells of some rows: everything is checked, then the request is written.

    Raises X405, X705, and what is wrong with the request, the rows under its settings, or the corpus.
    """
    _ = folder.texts, folder.sample
    folder.check_definitions(rows)
    folder.corpus.check()
    folder.claim()


def run_cell(folder: OutputFolder, cell: TableCell, own: bool = True) -> str | StoppedTraining:
    """Trains a cell, or resumes it: DONE, or FINISHED, HELD by another process, FAILED, with the reason below `failures`;
    `StoppedTraining` where a signal came. Without `own` its entry stays in the run folder, for who asked for it.

    The system holds the lock of a cell for the process: a killed process holds none, whatever file it left. The lease says the
    same to other machines.
    """
    name = cell.name(folder.request)
    with writing(folder.out):
        for below in (CELLS, LOCKS, FAILURES):
            (folder.out / below).mkdir(exist_ok=True)
    with only(folder.out / LOCKS / name) as free:
        if finished(folder, cell, own):
            return FINISHED
        if not free:
            return HELD
        with sole_work(folder.out / LOCKS / name, folder.tell) as lease:
            # Another machine may have finished it in the meantime.
            if lease is None or finished(folder, cell, own):
                return HELD if lease is None else FINISHED
            return _trained(folder, cell, own, noting(lease))


def finished(folder: OutputFolder, cell: TableCell, own: bool = True) -> bool:
    """Whether a cell is finished; with `own`, an entry that a job has left in its run folder is taken into the ledger."""
    name = f"{cell.name(folder.request)}.json"
    left = folder.run(cell) / RESULT
    if (folder.out / CELLS / name).is_file() or not (left / name).is_file():
        return (folder.out / CELLS / name).is_file()
    if own:
        # Moved, by one of two calls that come here: who lists a folder may miss a file that is replaced meanwhile.
        with writing(folder.out), contextlib.suppress(FileNotFoundError):
            (folder.out / CELLS).mkdir(exist_ok=True)
            os.rename(left / name, folder.out / CELLS / name)
            sync_folder(folder.out / CELLS)
    return True


def _trained(folder: OutputFolder, cell: TableCell, own: bool, watcher: Watcher) -> str | StoppedTraining:
    """Trains a cell that nobody else trains; whatever goes wrong is written below `failures`."""
    failure = folder.out / FAILURES / f"{cell.name(folder.request)}.txt"
    try:
        outcome = _train(folder, cell, folder.out / CELLS if own else folder.run(cell) / RESULT, watcher)
    except CalqueError as fault:
        if {d.code for d in fault.diagnostics} == {"K203"}:
            return HELD
        reason = render_all(fault.diagnostics)
    except Exception:  # whatever one row does, the others are worth having
        reason = traceback.format_exc()
    else:
        failure.unlink(missing_ok=True)
        return outcome
    folder.tell(reason)
    with writing(failure):
        write_whole(failure, f"{folder.request.command}\n{cell}\n\n{reason}\n".encode())
    return FAILED


def _train(folder: OutputFolder, cell: TableCell, into: Path, watcher: Watcher) -> str | StoppedTraining:
    """Trains a cell, translates the test set, and records both in a folder of entries. Raises K109 where it has diverged."""
    checked, settings = folder.definition(cell.row)
    experiment = folder.experiment(checked.text, cell.seed)
    run = folder.run(cell)
    result = train_run(folder, experiment, run, str(cell), watcher)
    if isinstance(result, StoppedTraining):
        return result
    if result.diverged:
        raise error("K109", Place(str(run)), skipped=result.skipped, updates=result.update, row=cell.row)
    here = conditions(experiment.train.precision)
    publish_cell(
        folder,
        cell,
        _translate(folder, cell),
        f"--rows {cell.row} --seeds {cell.seed}",
        {**_figures(result, run), "parameters": folder.size(checked), STATE: folder.state(checked)},
        {
            **here,
            "threads": experiment.train.threads or here["threads"],
            "row": cell.row,
            "corpus": folder.corpus.title,
            "recipe": folder.request.recipe,
            "settings": " ".join(settings.values()) or "as in the text",
            "sizes": folder.request.sizes,
            "keys": settings_text(experiment),
        },
        checked.hash,
        folder.prepared.digest[:12],
        validations(run, folder.prepared, experiment.train),
        into,
    )
    return DONE


def train_run(
    folder: OutputFolder, experiment: Experiment, run: Path, title: str, *watchers: Watcher
) -> FinishedTraining | StoppedTraining:
    """Trains the model of a cell or of a trial in its run folder, on the corpus of the output folder, or resumes it."""
    _share(folder.prepared, run)
    with Show(title) as show:
        all_of_them: list[Watcher] = [show, *watchers]

        def watch(event: Progress | Validation) -> None:
            for watcher in all_of_them:
                watcher(event)

        return run_training(experiment, run, watch, None)


def _translate(folder: OutputFolder, cell: TableCell) -> list[str]:
    """The translations of the test set, whose references are kept beside them."""
    began = time.monotonic()
    sources, references = folder.test
    hypotheses = load(folder.run(cell)).translate(sources)
    folder.tell(f"{cell}: {len(sources):,} lines translated in {time.monotonic() - began:.0f} s")
    write_lines(folder.out / REFERENCE, references)
    return hypotheses


def _share(prepared: PreparedCorpus, folder: Path) -> None:
    """Lets a run use the corpus of all cells; on a system without links the run compiles its own."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CORPUS).exists():
        try:
            (folder / CORPUS).symlink_to(os.path.relpath(prepared.folder, folder.resolve()), True)
        except OSError:
            return


def _figures(done: FinishedTraining, run: Path) -> dict[str, int | float]:
    figures: dict[str, int | float] = {"validation perplexity": round(done.perplexity, 4), "updates": done.update}
    figures["training seconds"] = round(done.seconds, 1)
    if (speed := mean_speed(read_log(run))) is not None:
        figures["target tokens/s"] = round(speed, 1)
    return figures


def updates_per_epoch(prepared: PreparedCorpus, train: TrainSettings) -> int:
    """How many updates the first epoch of a training has."""
    return len(updates(prepared.split("train"), 0, layout(train)))


def validations(run: Path, prepared: PreparedCorpus, train: TrainSettings) -> list[tuple[int, float, float]]:
    """Update, epoch and perplexity of each validation of a run. The ledger has finite numbers: an infinite one is `DIVERGED`."""
    an_epoch = updates_per_epoch(prepared, train)
    points = {}
    for values in read_log(run):
        if values["kind"] == "valid" and "set" not in values:
            at, perplexity = int(values["update"]), values.get("perplexity")  # null where it was infinite
            known = DIVERGED if perplexity is None or not math.isfinite(perplexity) else round(perplexity, 4)
            points[at] = at, round(at / an_epoch, 3), known
    return [points[at] for at in sorted(points)]
