"""The cells of a table: trained, decoded, scored, and recorded as entries of a ledger."""

import json
import math
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from calque.data.corpus import PreparedCorpus
from calque.experiment import TrainSettings
from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import only, write_whole
from calque.ledger.entry import conditions, publish
from calque.papers.layout import CELLS, FAILURES, LOCKS, REFERENCE, RUNS, Tell
from calque.papers.paper import Row
from calque.papers.plan import Plan, TableCell, cells_of
from calque.papers.recipes import settings_text
from calque.papers.request import Request, claim_folder
from calque.papers.scoring import scores, translations, write_lines
from calque.run.folder import CORPUS, LOG
from calque.run.tensors import writing
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.train.order import layout, updates
from calque.workflow.show import Show
from calque.workflow.steps import run_training

DONE, FINISHED, HELD, FAILED = "done", "finished before", "held", "failed"


def cell_id(request: Request, cell: TableCell) -> str:
    """The name of a cell's entry: unlike in all ledgers, where paper, sizes, corpus, recipe or budget differ."""
    budget = [f"{request.minutes:g}", "minutes"] if request.minutes is not None else []
    budget += [str(request.updates), "updates"] if request.updates is not None else []
    row = "-".join([cell.row.replace("+", "_"), *request.other_pair])
    return "-".join(
        [request.paper, request.table, row, request.corpus, request.recipe, *budget, "seed", str(cell.seed)]
    )


def train_table(plan: Plan, rows: Sequence[Row], seeds: int, shard: tuple[int, int]) -> int:
    """Runs a shard's cells that are neither finished nor locked by another process; returns the exit status.

    0: done; 1: a cell failed; 128 plus the number of the signal that stopped it. Raises X705, and what is wrong with the corpus.
    """
    tell, out = plan.tell, plan.out
    plan.corpus.check()
    claim_folder(out, plan.request, plan.corpus)
    failed: list[TableCell] = []
    locked: list[TableCell] = []
    cells = cells_of(rows, seeds, shard)
    for k, cell in enumerate(cells, 1):
        tell(f"[{k}/{len(cells)}] {cell}")
        outcome = run_cell(plan, cell, tell)
        if isinstance(outcome, StoppedTraining):
            tell(f"stopped after update {outcome.update} of {cell}; the same call resumes it")
            return 128 + outcome.signal
        tell(f"[{k}/{len(cells)}] {cell}: {outcome}")
        failed += [cell] * (outcome == FAILED)
        locked += [cell] * (outcome == HELD)
    # The other process may have finished some of them since.
    locked = [cell for cell in locked if not (out / CELLS / f"{cell_id(plan.request, cell)}.json").is_file()]
    for title, some in (("held by another process", locked), ("failed", failed)):
        if some:
            tell(f"{title}: " + "; ".join(map(str, some)))
    return 1 if failed else 0


def run_cell(plan: Plan, cell: TableCell, tell: Tell) -> str | StoppedTraining:
    """Brings a cell to its end, or goes on with it: DONE, or FINISHED, HELD by another process, FAILED, with the reason
    below `failures`; `StoppedTraining` where a signal came.

    The lock of a cell is held by the system for the process: one that was killed has none, whatever file it left.
    """
    name = cell_id(plan.request, cell)
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
            write_whole(failure, f"{plan.request.command}\n{cell}\n\n{reason}\n".encode())
        return FAILED


def _run(plan: Plan, cell: TableCell, name: str, tell: Tell) -> str | StoppedTraining:
    """Trains a cell, translates the test set, and records both."""
    checked, settings = plan.definition(cell.row)
    experiment = plan.experiment(checked.text, cell.seed)
    folder = plan.out / RUNS / cell.row / str(cell.seed)
    _share(plan.prepared, folder)
    with Show(str(cell)) as show:
        result = run_training(experiment, folder, show, None)
    if isinstance(result, StoppedTraining):
        return result
    hypotheses, references = _translate(plan, cell, folder, tell)
    scored = scores(plan.corpus, plan.root, hypotheses, references)
    here = conditions(experiment.train.precision)
    row = plan.table.row(cell.row)
    publish(
        plan.out / CELLS,
        name,
        f"{row.label} ({plan.request.paper} {plan.request.table}), {plan.corpus.title}, seed {cell.seed}",
        "quality",
        f"{plan.request.command} --rows {cell.row} --seeds {cell.seed}",
        {**scored.figures, **_figures(result, folder), "parameters": plan.size(checked)},
        {
            **here,
            "threads": experiment.train.threads or here["threads"],
            "row": cell.row,
            "corpus": plan.corpus.title,
            "recipe": plan.request.recipe,
            "settings": " ".join(settings.values()) or "as in the text",
            "sizes": plan.request.pair,
            "keys": settings_text(experiment),
            **scored.signatures,
        },
        architecture_hash=checked.hash,
        data_hash=plan.prepared.digest[:12],
        seed=cell.seed,
        notes=scored.notes,
        validations=validations(folder / LOG, plan.prepared, experiment.train),
    )
    return DONE


def _translate(plan: Plan, cell: TableCell, folder: Path, tell: Tell) -> tuple[list[str], list[str]]:
    """The translations of the test set, which are kept, and the references."""
    from calque.workflow.api import load

    began = time.monotonic()
    sources, references = plan.prepared.lines("test")
    hypotheses = load(folder).translate(sources)
    tell(f"{cell}: {len(sources):,} lines translated in {time.monotonic() - began:.0f} s")
    write_lines(plan.out / REFERENCE, references)
    write_lines(translations("bleu", plan.out, cell.row, cell.seed), hypotheses)
    return hypotheses, references


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
