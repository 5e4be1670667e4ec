"""Whatever is written, a tree or diagnostics come back, soon; and what is valid survives being printed and read."""

import gc
import random
import time

import pytest
from adl_corpus import VALID, checked, read
from adl_texts import PIECES, any_text, program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calque.ground.diagnostics import CalqueError, Diagnostic, render_all

SECONDS = 1.0  # a hang; the 50 ms that are promised are counted by benchmarks/soak.py on a quiet machine
VALID_TEXTS = [read(path) for path in VALID]


def judge(body: str) -> float:
    """Checks a text, renders what is wrong with it, and returns the seconds of the check. Any other exception escapes."""
    start = time.thread_time()  # the processor's time: other processes may keep it waiting
    told: tuple[Diagnostic, ...] | None = None
    try:
        found = checked(body)
    except CalqueError as error:
        told = error.diagnostics
    seconds = time.thread_time() - start
    if told is None:
        assert checked(found.text).text == found.text
    else:
        assert told
        assert all(line.isprintable() for line in render_all(told).split("\n"))
    return seconds


def run(seed: int, count: int) -> float:
    draw, slowest = random.Random(seed), 0.0
    gc.collect()
    gc.freeze()  # what other tests left behind is not looked through at our expense
    for _ in range(count):
        body = any_text(draw, VALID_TEXTS)
        try:
            seconds = judge(body)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {body[:2000]!r}") from error
        assert seconds <= SECONDS, f"seed {seed}: {seconds:.3f} s: {body[:2000]!r}"
        slowest = max(slowest, seconds)
    return slowest


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("seed", range(1))
def test_random_texts(seed: int) -> None:
    run(seed, 300)


@pytest.mark.slow
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("seed", [1, 2, *range(100, 120)])
def test_random_texts_at_length(seed: int) -> None:
    print(f"slowest {run(seed, 1000) * 1000:.1f} ms")


@pytest.mark.medium
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PIECES), max_size=60).map("".join)))
def test_texts_of_any_characters(body: str) -> None:
    judge(body)


@pytest.mark.medium
def test_random_programs_are_often_valid() -> None:
    """The generator would prove little if its programs were refused."""
    draw, valid = random.Random(1), 0
    for _ in range(100):
        body = program(draw)
        try:
            found = checked(body)
        except CalqueError:
            continue
        valid += 1
        again = checked(found.text)
        assert again.text == found.text
        assert [node.path for node in again.encoder.nodes()] == [node.path for node in found.encoder.nodes()]
    assert valid > 20
