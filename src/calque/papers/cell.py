"""One cell of a table: trained, decoded, scored, and recorded as an entry of a ledger."""

import json
import math
import os
import time
import traceback
from pathlib import Path

from calque.data.corpus import PreparedCorpus
from calque.experiment import TrainSettings
from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import only, write_whole
from calque.ledger.entry import conditions, publish
from calque.papers.plan import CELLS, FAILURES, HYPOTHESES, LOCKS, REFERENCE, RUNS, Plan, TableCell, Tell
from calque.papers.recipes import settings_text
from calque.papers.request import Request
from calque.papers.texts import as_lines, scores
from calque.run.folder import CORPUS, LOG
from calque.run.tensors import writing
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.train.order import layout, updates
from calque.workflow.show import Show
from calque.workflow.steps import run_training

DONE, FINISHED, HELD, FAILED = "done", "finished before", "held", "failed"


def cell_id(asked: Request, cell: TableCell) -> str:
    """The name of a cell's entry: unlike in all ledgers, where paper, sizes, corpus, recipe or budget differ."""
    budget = [f"{asked.minutes:g}", "minutes"] if asked.minutes is not None else []
    budget += [str(asked.updates), "updates"] if asked.updates is not None else []
    row = "-".join([cell.row.replace("+", "_"), *asked.other_pair])
    return "-".join([asked.paper, asked.table, row, asked.corpus, asked.recipe, *budget, "seed", str(cell.seed)])


def run_cell(plan: Plan, cell: TableCell, tell: Tell) -> str | StoppedTraining:
    """Brings a cell to its end, or goes on with it: DONE, or FINISHED, HELD by another process, FAILED, with the reason
    below `failures`; `StoppedTraining` where a signal came.

    The lock of a cell is held by the system for the process: one that was killed has none, whatever file it left.
    """
    name = cell_id(plan.asked, cell)
    with writing(plan.out):
        for folder in (CELLS, LOCKS, FAILURES):
            (plan.out / folder).mkdir(exist_ok=True)
    with only(plan.out / LOCKS / name) as free:
        if (plan.out / CELLS / f"{name}.json").is_file():
            return FINISHED
        if not free:
            return HELD
        failure = plan.out / FAILURES / f"{name}.txt"
        try:
            found = _run(plan, cell, name, tell)
        except CalqueError as fault:
            if {d.code for d in fault.diagnostics} == {"K203"}:
                return HELD
            reason = render_all(fault.diagnostics)
        except Exception:  # whatever one row does, the others are worth having
            reason = traceback.format_exc()
        else:
            failure.unlink(missing_ok=True)
            return found
        tell(reason)
        with writing(failure):
            write_whole(failure, f"{plan.asked.command}\n{cell.row}, seed {cell.seed}\n\n{reason}\n".encode())
        return FAILED


def _run(plan: Plan, cell: TableCell, name: str, tell: Tell) -> str | StoppedTraining:
    checked, settings = plan.definition(cell.row)
    experiment, prepared = plan.experiment(checked.text, cell.seed), plan.prepared
    folder = plan.out / RUNS / cell.row / str(cell.seed)
    _share(prepared, folder)
    with Show(f"{cell.row}, seed {cell.seed}") as show:
        result = run_training(experiment, folder, show, None)
    if isinstance(result, StoppedTraining):
        return result
    began = time.monotonic()
    from calque.workflow.api import load

    sources, references = prepared.lines("test")
    run = load(folder)
    hypotheses = run.translate(sources)
    tell(f"{cell.row}, seed {cell.seed}: {len(sources):,} lines translated in {time.monotonic() - began:.0f} s")
    written = plan.out / HYPOTHESES / cell.row / f"{cell.seed}.txt"
    with writing(written):
        written.parent.mkdir(parents=True, exist_ok=True)
        write_whole(plan.out / REFERENCE, as_lines(references))
        write_whole(written, as_lines(hypotheses))
    scored = scores(plan.corpus, plan.root, hypotheses, references)
    trained, here = run.experiment.train, conditions(run.experiment.train.precision)
    where = {
        **here,
        "threads": trained.threads or here["threads"],
        "row": cell.row,
        "corpus": plan.corpus.title,
        "recipe": plan.asked.recipe,
        "settings": " ".join(settings.values()) or "as in the text",
        "sizes": plan.asked.pair,
        "keys": settings_text(experiment),
        **scored["signatures"],
    }
    row = plan.table.row(cell.row)
    publish(
        plan.out / CELLS,
        name,
        f"{row.label} ({plan.asked.paper} {plan.asked.table}), {plan.corpus.title}, seed {cell.seed}",
        "quality",
        f"{plan.asked.command} --rows {cell.row} --seeds {cell.seed}",
        {**scored["figures"], **_figures(result, folder), "parameters": plan.size(checked)},
        where,
        architecture_hash=checked.hash,
        data_hash=prepared.digest[:12],
        seed=cell.seed,
        notes=scored["notes"],
        validations=validations(folder / LOG, prepared, experiment.train),
    )
    return DONE


def _share(prepared: PreparedCorpus, folder: Path) -> None:
    """Lets a run use the corpus of all cells; where there are no links it compiles its own."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CORPUS).exists():
        try:
            (folder / CORPUS).symlink_to(os.path.relpath(prepared.folder, folder.resolve()), True)
        except OSError:
            return


def _figures(done: FinishedTraining, folder: Path) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    if math.isfinite(done.perplexity):
        found["validation perplexity"] = round(done.perplexity, 4)
    found |= {"updates": done.update, "training seconds": round(done.seconds, 1)}
    if (speed := _speed(folder / LOG)) is not None:
        found["target tokens/s"] = speed
    return found


def validations(log: Path, prepared: PreparedCorpus, train: TrainSettings) -> list[tuple[int, float, float]]:
    """Update, epoch and perplexity of each validation of a log."""
    an_epoch = len(updates(prepared.split("train"), 0, layout(train)))
    found = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if values["kind"] == "valid" and "set" not in values and math.isfinite(values["perplexity"]):
            at = int(values["update"])
            found[at] = at, round(at / an_epoch, 3), round(values["perplexity"], 4)
    return [found[at] for at in sorted(found)]


def _speed(log: Path) -> float | None:
    """Target tokens in a second of training, from the lines of the log."""
    tokens = before = 0.0
    for line in log.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if values["kind"] == "train":
            tokens += values["target_tokens_per_second"] * (values["seconds"] - before)
            before = values["seconds"]
    return round(tokens / before, 1) if before else None
