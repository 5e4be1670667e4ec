"""Cells of a table and trials of a tuning as jobs of an executor, and what each job does.

A job trains one cell or trial and leaves what came of it in its run folder. The one who asked takes that into the ledger or the
journal, so a call that comes later finds it too.
"""

import json
from collections.abc import Sequence

from calque.ground.diagnostics import CalqueError
from calque.ground.files import only, write_whole
from calque.papers.cells import FAILED, HELD, finished, run_cell
from calque.papers.halving import TRIAL, Ahead, TrialRun, Tuning, outcome_of, tuning_of
from calque.papers.output import OutputFolder
from calque.papers.paper import Row
from calque.papers.plan import cells_of, named_rows, rows_of
from calque.papers.request import CELLS, LOCKS, TableCell
from calque.papers.trials import SettingGrid, TrialSetting
from calque.run.tensors import writing
from calque.train.loop import StoppedTraining
from calque.workflow.jobs import command
from calque.workflow.jobs.command import Job
from calque.workflow.jobs.executors import SweepEnd, run_tasks
from calque.workflow.jobs.spec import ExecutorSpec
from calque.workflow.jobs.sweep import Task
from calque.workflow.jobs.worker import noting, sole_work

LOGS, JOBS = "logs", "jobs"
"""Folders below an output folder: what jobs print, and the files of Slurm's jobs."""


# The one who asks


def train_side_by_side(
    folder: OutputFolder, rows: Sequence[Row], seeds: int, shard: tuple[int, int], spec: ExecutorSpec
) -> SweepEnd:
    """Runs a shard's cells by an executor, after `begin`. Raises X301, K408 and K410."""
    _ = folder.prepared  # compiled once, before the jobs
    tasks = [_cell_task(folder, cell) for cell in cells_of(rows, seeds, shard)]
    _make(folder)
    return run_tasks(tasks, spec, folder.out / JOBS, folder.sample.train.threads, folder.tell)


def ahead_by(spec: ExecutorSpec) -> Ahead:
    """What trains the trials of a rung by an executor, for `tuning_of`."""

    def train(tuning: Tuning, trials: Sequence[TrialRun]) -> StoppedTraining | None:
        """Trains what the journal lacks. Raises K409 where a job ends without a record: its setting has not lost."""
        folder = tuning.folder
        _make(folder)
        tasks = [_trial_task(tuning, one) for one in trials if tuning.journal.record(tuning.hash(one)) is None]
        end = run_tasks(tasks, spec, folder.out / JOBS, folder.sample.train.threads, folder.tell)
        if end.failed is not None:
            raise end.failed
        return None if end.signal is None else StoppedTraining(0, end.signal)

    return train


def _cell_task(folder: OutputFolder, cell: TableCell) -> Task:
    name = cell.name(folder.request)
    arguments = ("reproduce", "cell", str(folder.out), cell.row, "--seed", str(cell.seed), "--data", str(folder.root))

    def outcome() -> str | None:
        if not finished(folder, cell):
            return None
        figures = json.loads((folder.out / CELLS / f"{name}.json").read_bytes())["figures"]
        return f"BLEU {figures['BLEU']:.2f}"

    return Task(Job(name, str(cell), arguments, folder.out / LOGS / f"{name}.txt"), folder.out / LOCKS / name, outcome)


def _trial_task(tuning: Tuning, trial: TrialRun) -> Task:
    folder, setting, name = tuning.folder, trial.setting, f"trial-{tuning.hash(trial)}"
    arguments = ["reproduce", "trial", str(folder.out), tuning.row, "--data", str(folder.root)]
    arguments += ["--rung", str(trial.rung), "--eta", str(tuning.eta), "--lr", repr(setting.lr)]
    arguments += ["--warmup-share", repr(setting.warmup_share)]
    arguments += [] if setting.dropout is None else ["--dropout", repr(setting.dropout)]

    def outcome() -> str | None:
        record = tuning.left(trial)
        if record is None:
            return None
        return outcome_of(record)

    job = Job(name, str(trial), tuple(arguments), folder.out / LOGS / f"{name}.txt")
    return Task(job, folder.out / LOCKS / name, outcome)


def _make(folder: OutputFolder) -> None:
    with writing(folder.out):
        for below in (LOGS, JOBS, LOCKS):
            (folder.out / below).mkdir(exist_ok=True)


# The jobs


def cell_job(folder: OutputFolder, row: str, seed: int) -> int:
    """Trains a cell, or resumes it, and leaves its entry in its run folder; returns the exit status. Raises X702.

    Of a row that decodes another row's model, that other row is trained.
    """
    (trained,) = rows_of(folder.table, folder.request.paper, [row])
    cell = TableCell(trained.key, seed)
    outcome = run_cell(folder, cell, own=False)
    if isinstance(outcome, StoppedTraining):
        folder.tell(f"stopped after update {outcome.update} of {cell}; the same call resumes it")
        return 128 + outcome.signal
    folder.tell(f"{cell}: {outcome}")
    return {FAILED: 1, HELD: command.HELD}.get(outcome, 0)


def trial_job(folder: OutputFolder, row: str, setting: TrialSetting, rung: int, eta: int) -> int:
    """Trains a trial of a rung, the first of which is 1, and leaves its record in its run folder; returns the exit status.

    Raises X702.
    """
    named_rows(folder.table, folder.request.paper, [row])
    dropout = () if setting.dropout is None else (setting.dropout,)
    tuning = tuning_of(folder, row, SettingGrid((setting.lr,), (setting.warmup_share,), dropout), eta, rung)
    trial = tuning.trial(rung - 1, setting)
    path = folder.out / LOCKS / f"trial-{tuning.hash(trial)}"
    _make(folder)
    with only(path) as free, sole_work(path, folder.tell) as lease:
        if not free or lease is None:
            return command.HELD
        if tuning.left(trial) is not None:
            return 0
        try:
            record = tuning.train(trial, noting(lease))
        except CalqueError as fault:
            if {d.code for d in fault.diagnostics} == {"K203"}:
                return command.HELD
            raise
        if isinstance(record, StoppedTraining):
            return 128 + record.signal
        kept = tuning.run_folder(trial) / TRIAL
        with writing(kept):
            write_whole(kept, (json.dumps(record) + "\n").encode())
    return 0
