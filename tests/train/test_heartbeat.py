"""When a process counts as hanging, and what the variable may say."""

import pytest

from calque.ground.diagnostics import CalqueError
from calque.train import heartbeat
from calque.train.heartbeat import FIRST, Heartbeat


class Shared(dict[str, str]):
    """A store in memory."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def get(self, key: str) -> bytes:  # type: ignore[override]  # as torch's store has it
        return self[key].encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("calque.train.heartbeat.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> tuple[Heartbeat, Heartbeat]:
    """Two processes that only look when they are told to."""
    store = Shared()
    monkeypatch.setattr(heartbeat, "connect", lambda hosts: store)
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    return Heartbeat(0, 2, 20.0), Heartbeat(1, 2, 20.0)


def hangs(pair: tuple[Heartbeat, Heartbeat], clock: list[float], seconds: float, beats: bool = True) -> bool:
    """Whether the first process ends the second, which does nothing for so long."""
    one, other = pair
    for _ in range(int(seconds)):
        clock[0] += 1.0
        if beats:
            other.beat()
        if one.hanging():
            return True
    return False


def work(process: Heartbeat, clock: list[float], seconds: float) -> None:
    for _ in range(FIRST + 1):
        clock[0] += seconds
        process.progress()


def test_a_process_that_stops_working_hangs(pair: tuple[Heartbeat, Heartbeat], clock: list[float]) -> None:
    pair[1].count()
    work(pair[1], clock, 1.0)
    assert not hangs(pair, clock, 19)
    assert hangs(pair, clock, 5)


def test_a_process_that_never_begins_hangs_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    store, ended = Shared(), []
    monkeypatch.setattr(heartbeat, "connect", lambda hosts: store)
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    monkeypatch.setattr("calque.train.heartbeat.os._exit", ended.append)
    one = Heartbeat(0, 2, 20.0)
    assert one.hanging() == []
    clock[0] = 59.0
    assert one.hanging() == []
    clock[0] = 61.0
    assert one.hanging() == [1]
    one._end([1])
    assert ended == [1]
    assert "process 1 of the training has made no progress for at least 60 s" in capsys.readouterr().err


def test_one_that_is_frozen_in_its_first_second_hangs_after_the_limit(
    pair: tuple[Heartbeat, Heartbeat], clock: list[float]
) -> None:
    assert not hangs(pair, clock, 19, beats=False)
    assert hangs(pair, clock, 5, beats=False)


def test_one_with_long_batches_may_take_five_times_as_long(
    pair: tuple[Heartbeat, Heartbeat], clock: list[float]
) -> None:
    pair[1].count()
    work(pair[1], clock, 30.0)
    assert not hangs(pair, clock, 140)
    assert hangs(pair, clock, 20)


def test_its_first_batches_may_take_any_time(pair: tuple[Heartbeat, Heartbeat], clock: list[float]) -> None:
    pair[1].count()
    pair[1].progress()
    assert not hangs(pair, clock, 500)


def test_one_that_waits_does_not_hang_unless_it_is_frozen(
    pair: tuple[Heartbeat, Heartbeat], clock: list[float]
) -> None:
    pair[1].count()
    work(pair[1], clock, 1.0)
    with pair[1].uncounted():
        assert not hangs(pair, clock, 500)
        assert hangs(pair, clock, 25, beats=False)


def test_waiting_does_not_raise_the_limit(pair: tuple[Heartbeat, Heartbeat], clock: list[float]) -> None:
    pair[1].count()
    work(pair[1], clock, 1.0)
    with pair[1].uncounted():
        clock[0] += 1000.0
    assert hangs(pair, clock, 25)


@pytest.mark.parametrize("text", ["soon", "", "0", "-1", "inf", "nan"])
def test_a_limit_that_is_none_is_one_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(heartbeat.VARIABLE, text)
    with pytest.raises(CalqueError) as caught:
        heartbeat.limit()
    assert [d.code for d in caught.value.diagnostics] == ["X443"]
