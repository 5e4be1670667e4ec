"""A sweep with an executor that does as it is told: what is lost, held, failed and stopped."""

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from calque.ground.diagnostics import CalqueError, error, render
from calque.ground.lease import Holder
from calque.workflow.jobs import sweep as sweeps
from calque.workflow.jobs.board import Board, time_left
from calque.workflow.jobs.command import HELD, Job
from calque.workflow.jobs.sweep import Sweep, Task, TaskState, failures


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK", "LOOK", "AGAIN"):
        monkeypatch.setattr(sweeps, name, 0.01)


class Scripted:
    """Ends the jobs of each name with the statuses given for it, one after the other; a status 0 finishes it."""

    leaves = False

    def __init__(self, folder: Path, capacity: int | None = 2, **statuses: list[int | None]):
        self.folder, self.capacity, self.statuses = folder, capacity, statuses
        self.running: list[str] = []
        self.started: list[str] = []
        self.most = 0
        self.stopped = False
        self.before: Callable[[str], None] = lambda name: None

    def start(self, job: Job) -> None:
        self.started.append(job.name)
        self.running.append(job.name)
        self.most = max(self.most, len(self.running))

    def ended(self) -> Mapping[str, int | None]:
        ended = {}
        for name in self.running:
            self.before(name)
            ended[name] = self.statuses[name].pop(0)
            if ended[name] == 0:
                (self.folder / f"{name}.done").write_text("BLEU 1.00")
        self.running.clear()
        return ended

    def stop(self) -> None:
        self.stopped = True


def tasks(folder: Path, *names: str) -> list[Task]:
    def outcome(name: str) -> Callable[[], str | None]:
        file = folder / f"{name}.done"
        return lambda: file.read_text() if file.is_file() else None

    return [Task(Job(name, name, (), folder / f"{name}.txt"), folder / f"{name}", outcome(name)) for name in names]


def states(sweep: Sweep) -> dict[str, TaskState]:
    return {name: one.state for name, one in sweep.progress.items()}


def lease(path: Path, number: int = 1, **values: object) -> None:
    holder = Holder("token", "far", 1, "far 0", "1", **values)  # type: ignore[arg-type]
    path.with_name(f"{path.name}.lease-{number:04}").write_text(json.dumps(dataclasses.asdict(holder)))


def test_what_is_finished_is_not_started_and_no_more_run_than_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "b.done").write_text("BLEU 2.00")
    executor = Scripted(tmp_path, 2, a=[0], b=[], c=[0], d=[0], e=[0])
    sweep = Sweep(tasks(tmp_path, *"abcde"), executor)
    assert sweep.run() is None
    assert executor.started == ["a", "c", "d", "e"]
    assert executor.most == 2
    assert set(states(sweep).values()) == {TaskState.DONE}
    assert sweep.progress["b"].outcome == "BLEU 2.00"
    assert failures(sweep) is None


def test_a_lost_process_is_replaced_and_a_failed_one_is_not(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, None, a=[-9, None, 0], b=[1], c=[0])
    sweep = Sweep(tasks(tmp_path, *"abc"), executor)
    assert sweep.run() is None
    assert states(sweep) == {"a": TaskState.DONE, "b": TaskState.FAILED, "c": TaskState.DONE}
    assert executor.started.count("a") == 3
    assert executor.started.count("b") == 1
    fault = failures(sweep)
    assert fault is not None
    (one,) = fault.diagnostics
    assert one.code == "K409"
    text = render(one)
    assert f"1 of 3 cells failed: `b: its command ended with status 1: {tmp_path / 'b.txt'}`" in text


def test_it_is_given_up_only_where_nothing_is_saved_between_losses(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, None, a=[-9] * 6 + [0], b=[-9] * 6)
    beats = 0

    def save(name: str) -> None:
        nonlocal beats
        beats += 1
        if name == "a":
            lease(tmp_path / "a", beats, free=True, note={"saved": beats})

    executor.before = save
    sweep = Sweep(tasks(tmp_path, "a", "b"), executor)
    assert sweep.run() is None
    assert states(sweep) == {"a": TaskState.DONE, "b": TaskState.FAILED}
    assert executor.started.count("a") == 7
    assert executor.started.count("b") == 3
    assert "lost 3 times" in sweep.progress["b"].outcome


@pytest.mark.parametrize("capacity", [None, 1])
def test_a_result_may_come_into_sight_late_and_one_that_never_does_is_a_failure(
    tmp_path: Path, capacity: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Scripted(tmp_path, capacity, a=[0], b=[0])
    late, never = tasks(tmp_path, "a", "b")
    answers = iter([None] * 5 + ["BLEU 1.00"])
    late = dataclasses.replace(late, outcome=lambda: next(answers))
    never = dataclasses.replace(never, outcome=lambda: None)
    monkeypatch.setattr(sweeps, "VISIBLE", 0.5)
    sweep = Sweep([late, never], executor)
    assert sweep.run() is None
    assert states(sweep) == {"a": TaskState.DONE, "b": TaskState.FAILED}
    assert "without a result" in sweep.progress["b"].outcome
    assert executor.started == ["a", "b"]


def test_what_another_call_works_on_is_left_to_it_until_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease(tmp_path / "a")
    lease(tmp_path / "b")
    executor = Scripted(tmp_path, None, a=[], b=[HELD, 0])
    sweep = Sweep(tasks(tmp_path, "a", "b"), executor)
    looks = 0

    def looked() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            assert set(states(sweep).values()) == {TaskState.HELD}
            (tmp_path / "a.done").write_text("BLEU 3.00")
            lease(tmp_path / "b", 2, free=True)

    sweep.looked = looked
    assert sweep.run() is None
    assert executor.started == ["b", "b"]
    assert set(states(sweep).values()) == {TaskState.DONE}


def test_a_signal_stops_it_and_the_jobs(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, 1, a=[0], b=[0])
    executor.before = lambda name: os.kill(os.getpid(), signal.SIGTERM)
    sweep = Sweep(tasks(tmp_path, "a", "b"), executor)
    assert sweep.run() == signal.SIGTERM
    assert executor.stopped
    assert executor.started == ["a"]


def test_an_executor_that_refuses_stops_the_others(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, None, a=[0], b=[0])

    def refuse(job: Job) -> None:
        raise error("K410", None, what="Slurm", reason="invalid partition")

    executor.start = refuse  # type: ignore[method-assign]
    with pytest.raises(CalqueError, match="invalid partition"):
        Sweep(tasks(tmp_path, "a"), executor).run()
    assert executor.stopped


def test_a_log_that_cannot_be_made_stops_the_others(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, None, a=[0], b=[0])

    def refuse(job: Job) -> None:
        raise FileExistsError(17, "File exists", str(job.log))

    executor.start = refuse  # type: ignore[method-assign]  # one start of this executor alone fails
    with pytest.raises(FileExistsError):
        Sweep(tasks(tmp_path, "a"), executor).run()
    assert executor.stopped


def test_the_table_and_the_time_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    executor = Scripted(tmp_path, 2, a=[0], b=[1], c=[], d=[])
    sweep = Sweep(tasks(tmp_path, *"abcd"), executor)
    with Board(sweep, told.append) as board:
        assert time_left(sweep) is None
        sweep.progress["a"].state, sweep.progress["a"].began, sweep.progress["a"].ended = TaskState.DONE, 10.0, 110.0
        lease(tmp_path / "c", note={"update": 30, "done": 0.5, "left": 50.0, "perplexity": 7.125, "bleu": 21.5})
        sweep.progress["c"].state, sweep.progress["c"].began = TaskState.RUNNING, 5.0
        sweep.progress["c"].holder = sweep.progress["c"].observer.holder()
        # Two queued ones of about 100 seconds each, and 50 of the running one, by two.
        assert time_left(sweep) == pytest.approx(125.0)
        assert board.summary() == "2 queued, 1 running, 1 finished; about 2:05 left"
        rows = {one.task.job.title: row for one, row in board.rows()}
        assert rows["c"] == ("c", "running", "50%", "7.12", "21.5", "0:50", "far, update 30")
        assert rows["d"] == ("d", "queued", "", "", "", "", "")
        monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((100, 9)))
        assert board._table().row_count == 3


def test_at_a_terminal_the_table_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    sweep = Sweep(tasks(tmp_path, "a", "b"), Scripted(tmp_path, 2, a=[0], b=[-9, 0]))
    with Board(sweep, lambda line: None):
        assert sweep.run() is None
    shown = capsys.readouterr().err  # type: ignore[attr-defined]
    assert "perplexity" in shown
    assert "2 finished" in shown
    assert "b: queued: its process was lost" in shown
