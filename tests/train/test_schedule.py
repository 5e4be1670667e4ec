import math
from dataclasses import replace
from typing import Any

import pytest

from calque.experiment import TrainSettings
from calque.train.order import Layout
from calque.train.schedule import Plateau, first_horizon, horizon, rate, warm_up
from calque.train.standing import TrainingPosition


@pytest.mark.parametrize(
    ("schedule", "update", "expected"),
    [
        ("constant", 1, 0.02),
        ("constant", 100, 2.0),
        ("constant", 5000, 2.0),
        ("inverse-sqrt", 25, 0.5),
        ("inverse-sqrt", 100, 2.0),
        ("inverse-sqrt", 400, 1.0),
        ("inverse-sqrt", 10000, 0.2),
        ("linear", 50, 1.0),
        ("linear", 100, 2.0),
        ("linear", 550, 1.1),
        ("linear", 1000, 0.2),
        ("linear", 1200, 0.2),
    ],
)
def test_by_update(schedule: str, update: int, expected: float) -> None:
    settings = TrainSettings(schedule=schedule, lr=2.0, warmup_updates=100, max_updates=1000, final_lr=0.2)
    assert rate(settings, update, 1, Plateau()) == pytest.approx(expected)


@pytest.mark.parametrize(("epoch", "expected"), [(1, 1.0), (5, 1.0), (6, 0.5), (8, 0.125)])
def test_by_epoch(epoch: int, expected: float) -> None:
    settings = TrainSettings(schedule="epoch", lr=1.0, warmup_updates=10, decay=0.5, decay_from_epoch=5)
    assert rate(settings, 10, epoch, Plateau()) == pytest.approx(expected)
    assert rate(settings, 5, epoch, Plateau()) == pytest.approx(expected / 2)


def test_without_warm_up() -> None:
    for schedule in ("constant", "inverse-sqrt", "linear", "plateau", "epoch"):
        settings = TrainSettings(schedule=schedule, lr=1.0, warmup_updates=0, max_updates=4)
        assert rate(settings, 1, 1, Plateau()) == pytest.approx(0.75 if schedule == "linear" else 1.0)


def test_plateau_drops_after_patience_and_again() -> None:
    settings = TrainSettings(schedule="plateau", lr=1.0, warmup_updates=0, decay=0.5)
    memory, rates = Plateau(), []
    for perplexity in (9.0, 8.0, 8.0, 8.5, 7.0, 7.5, math.inf, 7.1, 7.0):
        memory = memory.after(perplexity, patience=2)
        rates.append(rate(settings, 1, 1, memory))
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert memory.best == 7.0


@pytest.mark.parametrize(
    ("first", "epochs", "expected"),
    [
        (6, 10, [1, 1, 1, 1, 1, 1, 0.5, 0.25, 0.125, 0.0625]),
        (9, 12, [1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.25, 0.125]),
    ],
)
def test_luongs_schedules_as_their_code_has_them(first: int, epochs: int, expected: list[float]) -> None:
    """5/10 and 8/12: halved at the ends of epochs 6 and 9, one later than the paper's "after 5 epochs" is read."""
    settings = TrainSettings(schedule="epoch", lr=1.0, warmup_updates=0, decay=0.5, decay_from_epoch=first)
    assert [rate(settings, 1, epoch, Plateau()) for epoch in range(1, epochs + 1)] == expected


def test_anneal_falls_at_every_validation_behind_the_first_drop() -> None:
    settings = TrainSettings(schedule="anneal", lr=0.1, warmup_updates=0, decay=0.1, decay_patience=1, min_lr=1e-4)
    memory, rates = Plateau(), []
    for perplexity in (9.0, 8.0, 8.0, 7.0, 6.0, 5.0):
        memory = memory.after(perplexity, 1, anneal=True)
        rates.append(rate(settings, 1, 1, memory))
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.001, 1e-4, 1e-5])
    # An epoch at 1e-4 itself is trained, as in Gehring 2017 ("until it falls below").
    assert [r < settings.min_lr for r in rates] == [False, False, False, False, False, True]
    assert memory.best == 5.0


def test_a_standing_of_before_there_were_such_counters_is_read() -> None:
    values = TrainingPosition(update=3, group=2).to_json()
    del values["validated_seconds"]
    values["layout"] = values["layout"][:4]
    assert TrainingPosition.from_json(values) == TrainingPosition(update=3, group=2)


@pytest.mark.parametrize(
    ("settings", "standing", "due"),
    [
        ({"validate_every_updates": 5}, TrainingPosition(update=10, group=1), True),
        ({"validate_every_updates": 5}, TrainingPosition(update=10, group=1, validated=10), False),
        ({"validate_every_updates": 5}, TrainingPosition(update=0), False),
        ({"validate_every_epochs": 2}, TrainingPosition(update=9, epoch=2), True),
        ({"validate_every_epochs": 2}, TrainingPosition(update=9, epoch=3), False),
        ({"validate_every_epochs": 2}, TrainingPosition(update=9, epoch=2, earlier=[(Layout(), 3)]), False),
        (
            {"validate_every_seconds": 60.0},
            TrainingPosition(update=9, group=1, seconds=70.0, validated_seconds=10.0),
            True,
        ),
        (
            {"validate_every_seconds": 60.0},
            TrainingPosition(update=9, group=1, seconds=69.0, validated_seconds=10.0),
            False,
        ),
        ({}, TrainingPosition(update=9, epoch=2, seconds=1e6), False),
    ],
)
def test_when_a_validation_is_due(settings: dict[str, Any], standing: TrainingPosition, due: bool) -> None:
    assert standing.due(TrainSettings(**{"validate_every_updates": 0, **settings})) == due


LINEAR = TrainSettings(schedule="linear", lr=2.0, warmup_updates=100, final_lr=0.2)
BUDGETS = [{"max_updates": 1000}, {"max_epochs": 10}, {"max_seconds": 500.0}]


def at(settings: TrainSettings, update: int, epochs_each: float = 0.01, seconds_each: float = 0.5) -> float:
    """The rate of an update where all before it took so many epochs and seconds each."""
    done = update - 1
    return rate(settings, update, 1, Plateau(), horizon(settings, done, done * epochs_each, done * seconds_each))


@pytest.mark.parametrize("budget", BUDGETS)
def test_linear_falls_over_whatever_limits_the_training(budget: dict[str, Any]) -> None:
    """Each budget is 1,000 updates long at the pace of `at`."""
    settings = replace(LINEAR, **budget)
    for update, expected in ((50, 1.0), (100, 2.0), (550, 1.1), (1000, 0.2), (1200, 0.2)):
        assert at(settings, update) == pytest.approx(expected, rel=1e-9)


def test_by_updates_linear_is_bit_for_bit_what_it_was_on_every_machine() -> None:
    settings = replace(LINEAR, max_updates=1000, max_seconds=500.0)
    for update in range(101, 1000, 7):
        expected = 0.2 + (2.0 - 0.2) * ((1000 - update) / (1000 - 100))
        assert rate(settings, update, 1, Plateau()) == expected
        for seconds_each in (0.01, 0.1, 0.49):  # fast enough: max_updates comes first
            assert at(settings, update, 0.01, seconds_each) == expected


def test_a_slow_machine_falls_to_the_end_in_the_time_that_it_has() -> None:
    settings = replace(LINEAR, max_updates=1000, max_seconds=500.0, final_lr=0.0)
    rates = [at(settings, update, 0.01, 1.0) for update in range(1, 501)]
    assert max(rates) == rates[99] == 2.0
    assert rates[99:] == sorted(rates[99:], reverse=True)
    assert rates[-1] == pytest.approx(0.0, abs=2.0 / 400 + 1e-9)
    assert rates[299] == pytest.approx(1.0, abs=2.0 / 400)


def test_a_machine_that_becomes_slow_still_reaches_the_end() -> None:
    settings = replace(LINEAR, max_updates=1000, max_seconds=500.0, final_lr=0.0)
    seconds, update, rates = 0.0, 0, []
    while seconds < 500 and update < 1000:
        end = horizon(settings, update, 0.0, seconds)
        update += 1
        rates.append(rate(settings, update, 1, Plateau(), end))
        seconds += 0.4 if update < 400 else 2.0
    assert update < 600
    assert rates[300] == pytest.approx(2.0 * (1000 - 301) / 900)
    assert rates[400:] == sorted(rates[400:], reverse=True)
    assert rates[-1] < 0.05


def test_without_a_budget_the_rate_stays_at_its_peak() -> None:
    settings = replace(LINEAR, patience=3)
    assert horizon(settings, 500, 3.0, 60.0) == math.inf
    assert at(settings, 50) == 1.0
    assert at(settings, 5000) == 2.0


def test_nothing_is_known_of_the_pace_before_the_first_update() -> None:
    assert horizon(replace(LINEAR, max_seconds=10.0), 0, 0.0, 0.0) == math.inf
    assert horizon(replace(LINEAR, max_seconds=10.0, max_updates=7), 0, 0.0, 0.0) == 7


def test_slow_first_updates_do_not_bend_the_line() -> None:
    """The first updates prepare products and memory: with `max_updates` nearer at the usual pace, they must change no rate."""
    settings = replace(LINEAR, max_updates=1000, max_seconds=500.0)
    assert horizon(settings, 1, 0.01, 24.0) == 1000
    assert horizon(settings, 2, 0.02, 40.0) == 25
    assert horizon(replace(settings, max_updates=0), 1, 0.01, 20.0) == 25


@pytest.mark.parametrize("budget", BUDGETS)
def test_warm_up_as_a_share(budget: dict[str, Any]) -> None:
    settings = replace(LINEAR, **budget, warmup_share=0.25, final_lr=0.0)
    for update, expected in ((125, 1.0), (250, 2.0), (625, 1.0), (1000, 0.0)):
        assert at(settings, update) == pytest.approx(expected, rel=1e-9)
    assert warm_up(settings, 400) == 100
    rising = replace(settings, schedule="constant")
    assert [at(rising, update) for update in (125, 250, 900)] == pytest.approx([1.0, 2.0, 2.0])


@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt", "linear", "plateau", "epoch"])
@pytest.mark.parametrize("budget", BUDGETS[1:])
def test_the_first_update_has_a_rate_before_anything_shows_the_pace(budget: dict[str, Any], schedule: str) -> None:
    settings = replace(LINEAR, **budget, schedule=schedule, warmup_share=0.25)
    first, second = rate(settings, 1, 1, Plateau(), first_horizon(settings, 100)), at(settings, 2)
    assert 0 < first <= second
    if settings.max_epochs:  # the plan of the epoch says all
        assert first == pytest.approx(2.0 / 250)
    assert first_horizon(replace(settings, max_updates=1000), 1000) == 1000


def test_a_limit_changed_on_the_way_bends_the_line_from_there() -> None:
    """The rate is a function of the counters and of the limits that hold now."""
    before, after = replace(LINEAR, max_updates=1000), replace(LINEAR, max_updates=2000)
    assert rate(before, 550, 1, Plateau()) == pytest.approx(1.1)
    assert rate(after, 550, 1, Plateau()) == pytest.approx(0.2 + 1.8 * 1450 / 1900)


def test_epochs_done_count_what_earlier_layouts_did() -> None:
    standing = TrainingPosition(epoch=2, group=3)
    assert standing.epochs(6) == 2.5
    standing.lay_out(Layout(batch_tokens=9))
    assert standing.group == 0
    assert standing.epochs(1) == 2.75
