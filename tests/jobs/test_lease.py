"""Leases: one holder at a time, whatever dies, on one machine and as if on several."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calque.ground import lease
from calque.ground.lease import Holder, Observer, leased

HOLDING = """
import sys, time
from pathlib import Path
from calque.ground.lease import leased
with leased(Path(sys.argv[1]), lambda: None) as held:
    print(held is not None, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "EVERY", 0.05)


def never() -> None:
    raise AssertionError("the lease was lost")


def elsewhere(path: Path, number: int = 1, beat: int = 0) -> None:
    """The file of a holder on another machine."""
    written = dataclasses.asdict(Holder("other", "far", 1, "far 0 pid:[1]", "1", beat))
    path.with_name(f"{path.name}.lease-{number:04}").write_text(json.dumps(written))


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_one_holder_at_a_time_and_the_next_number_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    with leased(path, never) as first:
        assert first is not None
        with leased(path, never) as second:
            assert second is None
        first.note(update=7)
        watching = Observer(path)
        until = time.monotonic() + 5
        while not ((holder := watching.holder()) and holder.note) and time.monotonic() < until:
            time.sleep(0.02)
        assert holder is not None
        assert (holder.pid, holder.note) == (os.getpid(), {"update": 7})
    assert watching.holder() is None
    assert watching.last is not None
    assert watching.last.note == {"update": 7}
    with leased(path, never) as third:
        assert third is not None
        assert files(tmp_path) == ["cell.lease-0001", "cell.lease-0002"]


def test_of_many_that_want_it_one_gets_it(tmp_path: Path) -> None:
    path, inside = tmp_path / "cell", threading.Lock()
    taken = 0

    def take(_: int) -> bool:
        nonlocal taken
        with leased(path, never) as held:
            if held is None:
                return False
            assert inside.acquire(blocking=False)
            taken += 1
            time.sleep(0.002)
            inside.release()
            return True

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(take, range(200)))
    assert any(results)
    assert sum(results) == taken
    assert files(tmp_path) == [f"cell.lease-{number:04}" for number in range(1, taken + 1)]


def test_the_lease_of_a_killed_process_of_this_machine_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([sys.executable, "-c", HOLDING, path], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    with leased(path, never) as held:
        assert held is None
    process.send_signal(signal.SIGKILL)
    with process.stdout:
        process.wait()
    began = time.monotonic()
    with leased(path, never) as held:
        assert held is not None
    assert time.monotonic() - began < 2


def test_a_dead_holder_on_another_machine_blocks_only_for_its_time(tmp_path: Path) -> None:
    path, told = tmp_path / "cell", list[str]()
    elsewhere(path, 3)
    observer = Observer(path, 0.4)
    assert observer.holder() is not None
    began = time.monotonic()
    with leased(path, never, told.append, 0.4) as held:
        assert held is not None
    assert 0.4 < time.monotonic() - began < 3
    assert len(told) == 1
    assert "process 1 on far" in told[0]
    assert files(tmp_path) == ["cell.lease-0003", "cell.lease-0004"]
    # Its clock may be wrong: only a change counts.
    elsewhere(path, 5)
    os.utime(tmp_path / "cell.lease-0005", (1, 1))
    observer = Observer(path, 0.3)
    assert observer.holder() is not None
    time.sleep(0.4)
    assert observer.holder() is None
    elsewhere(path, 5, beat=1)
    assert observer.holder() is not None


def test_a_living_holder_on_another_machine_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    elsewhere(path)
    beating = threading.Timer(0.1, elsewhere, (path, 1, 1))
    beating.start()
    with leased(path, never, patience=1.0) as held:
        assert held is None
    beating.join()


def test_a_file_that_cannot_be_read_is_that_of_a_process_that_may_live(tmp_path: Path) -> None:
    path = tmp_path / "cell"
    path.with_name("cell.lease-0001").write_text("")
    began = time.monotonic()
    with leased(path, never, patience=0.3) as held:
        assert held is not None
    assert time.monotonic() - began > 0.3


def test_a_holder_that_was_suspended_learns_that_it_has_lost(tmp_path: Path) -> None:
    path, lost = tmp_path / "cell", threading.Event()
    with leased(path, lost.set) as held:
        assert held is not None
        elsewhere(path, 2)
        assert lost.wait(5)
        before = (tmp_path / "cell.lease-0002").read_bytes()
    assert (tmp_path / "cell.lease-0002").read_bytes() == before
