"""A training repeated as it happened: `calque train RUN --out NEW`.

Each phase has its own experiment and ends at the same update as in the first training; validations happen after the same updates.
The record replaces all decisions that the first training made by time, by a signal or by the limits of one call. With the same
processor, threads and version of torch the weights are the same bit for bit.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.data.compiled import corpus_digest, link_corpus
from calque.data.corpus import INDEX, open_corpus
from calque.ground.diagnostics import CalqueError, Place, error
from calque.run.folder import CORPUS, LOG, MODEL, sole_training
from calque.run.log import LogLine, read_log
from calque.run.tensors import read_about, writing
from calque.train.call import ReplayPlan, TrainingCall
from calque.train.checkpoint import newest_state
from calque.train.log import Watcher
from calque.train.loop import FinishedTraining, StoppedTraining
from calque.train.parent import named
from calque.train.phases import Phase, changes, phases_of
from calque.train.precision import pick_device
from calque.train.restart import move_aside
from calque.workflow.steps import run_training

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Record:
    """The record of a training in its run folder."""

    run: Path
    phases: list[Phase]
    validations: dict[int, frozenset[int]]
    """The updates of validations, by phase. A validation that a signal prevented happens in the next phase, with its settings."""
    rates: dict[int, float]
    """The learning rates of updates, where they followed the clock."""
    machines: list[LogLine]
    """The conditions of each call that decide how sums are rounded."""
    end: int | None
    """The last update of a finished training."""
    limit: str
    reached: int
    """The last recorded update."""
    corpus: str
    """The digest of its corpus."""
    parent: dict[str, Any]


def read_record(run: Path) -> Record:
    """The record of a run folder. Raises K205 where it is not complete."""
    phases = phases_of(run)
    if not phases:
        raise error("K205", Place(str(run)), reason="it was trained by a version that recorded no phases", run=run)
    if unknown := next((p for p in phases if not p.known), None):
        reason = f"the settings before update {phases[phases.index(unknown) + 1].update} were not recorded"
        raise error("K205", Place(str(run)), reason=reason, run=run)
    state, model = _about(lambda: newest_state(run)), _about(lambda: read_about(run / MODEL))
    lines = read_log(run)
    validations = _validations(lines)
    figures: dict[str, Any] = model.get("figures", {})
    validated = state.get("standing", {}).get("validated", figures.get("update", 0))
    if validated and not any(validated in updates for updates in validations.values()):
        raise error("K205", Place(str(run)), reason=f"`{LOG}` does not hold its validations", run=run)
    reached = max(state.get("standing", {}).get("update", 0), figures.get("update", 0), phases[-1].update)
    finished = figures.get("update") == reached and "limit" in figures
    return Record(
        run,
        phases,
        validations,
        _rates(lines),
        [v for v in lines if v.get("kind") == "start"],
        reached if finished else None,
        figures.get("limit", ""),
        reached,
        state.get("identity", {}).get("corpus") or model.get("data", ""),
        state.get("parent") or model.get("parent") or {},
    )


def _validations(lines: Sequence[LogLine]) -> dict[int, frozenset[int]]:
    validations: dict[int, frozenset[int]] = {}
    phase = 1
    for line in lines:
        if line.get("kind") == "start":
            phase = line["phase"]
        elif line.get("kind") == "valid" and "set" not in line:
            validations[phase] = validations.get(phase, frozenset()) | {line["update"]}
    return validations


def _rates(lines: Sequence[LogLine]) -> dict[int, float]:
    rates: dict[int, float] = {}
    for line in lines:  # later ones are of updates that were made again behind a loss
        each = line.get("rates", [])
        rates |= dict(zip(range(line["update"] - len(each) + 1, line["update"] + 1), each, strict=True))
    return rates


def _about(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The description in a state or model file; empty where it cannot be read. A finished run may have no state."""
    try:
        return read()
    except CalqueError:
        return {}


def repeat(
    run: Path, folder: Path, watcher: Watcher, tell: Tell, restart: bool = False
) -> FinishedTraining | StoppedTraining:
    """Repeats the training of `run` in `folder`; resumes a repetition that was stopped there.

    An unfinished run is repeated up to its last recorded update, and then trained by its last experiment. Raises X410 before
    anything changes, K205 where the record of `run` is not enough, K206 where `folder` holds something else, and what
    `run_training` raises.
    """
    record = read_record(run)
    for phase in record.phases:
        pick_device(phase.experiment.train.device)
    _check_parent(record)
    _check_corpus(record)
    if restart:
        with sole_training(folder):
            move_aside(folder, tell)
            _forget_corpus(folder / CORPUS)
    done = _repeated(record, folder)
    _take_corpus(record, folder)
    if len(record.phases) > 1:
        after = ", ".join(str(phase.update) for phase in record.phases[1:])
        tell(f"repeating {run}: {len(record.phases)} phases, the later ones after updates {after}")
    for k, phase in enumerate(record.phases):
        if k < done - 1:
            continue
        last = k == len(record.phases) - 1
        until = record.end if last else record.phases[k + 1].update
        validated, limit = record.validations.get(phase.number, frozenset()), record.limit if last else ""
        plan = ReplayPlan(validated, record.reached, until, limit, record.rates)
        result = run_training(phase.experiment, folder, watcher, tell, TrainingCall(plan=plan), own=True)
        if isinstance(result, StoppedTraining) and (result.signal or last):
            return result
    _compare(record, folder, tell)
    return result


def _repeated(record: Record, folder: Path) -> int:
    """The number of phases that `folder` has begun to repeat. Raises K206 where it holds something else."""
    state, done = newest_state(folder), phases_of(folder)
    same = all(
        a.update == b.update and not changes(a.experiment, b.experiment)
        for a, b in zip(done, record.phases, strict=False)
    )
    if len(done) > len(record.phases) or not same or (state and not done):
        raise error("K206", Place(str(folder)), run=record.run)
    return len(done)


def _forget_corpus(data: Path) -> None:
    """Removes the corpus, to make room for that of the repeated run."""
    with writing(data):
        if data.is_symlink():
            data.unlink()
        elif data.is_dir():
            shutil.rmtree(data)


def _check_parent(record: Record) -> None:
    """Raises K205 where the run's parent is gone or has changed."""
    path = record.phases[0].experiment.model.parent
    if not path:
        return
    try:
        weights = named(Path(path))["sha256"]
    except CalqueError:
        raise error("K205", Place(str(record.run)), reason=f"its parent {path} is gone", run=record.run) from None
    if weights != record.parent.get("sha256"):
        raise error("K205", Place(str(record.run)), reason=f"its parent {path} was trained again", run=record.run)


def _check_corpus(record: Record) -> None:
    """Raises K205 where the compiled corpus of the run is gone and its text has changed."""
    if (record.run / CORPUS / INDEX).is_file():
        return
    if corpus_digest(record.phases[0].experiment.data, Path()) != record.corpus:
        raise error("K205", Place(str(record.run)), reason="its corpus changed or is gone", run=record.run)


def _take_corpus(record: Record, folder: Path) -> None:
    """Links the compiled corpus of the run into `folder`, if it is there. Raises K206 where `folder` has another."""
    source = record.run / CORPUS
    if (source / INDEX).is_file():
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            link_corpus(source.resolve(), folder / CORPUS)
        if open_corpus(folder / CORPUS).digest != record.corpus:
            raise error("K206", Place(str(folder)), run=record.run)


def _compare(record: Record, folder: Path, tell: Tell) -> None:
    """Reports whether the repetition gave the same weights and, if not, the possible reasons."""
    try:
        before, now = (read_about(one / MODEL) for one in (record.run, folder))
    except CalqueError:
        return
    if record.end is None:
        return
    if before["sha256"] == now["sha256"]:
        tell(f"the weights are those of {record.run}, bit for bit")
        return
    keys = ("device", "threads", "processor", "torch")
    here = [v for v in read_log(folder) if v.get("kind") == "start"][-1]
    others = {k: sorted({str(m.get(k)) for m in record.machines} - {str(here.get(k))}) for k in keys}
    why = "; ".join(f"{k} {', '.join(values)} there, {here.get(k)} here" for k, values in others.items() if values)
    tell(f"the weights are not bit for bit those of {record.run}: {why or 'the record shows no difference'}")
