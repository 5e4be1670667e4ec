"""Several processes against one: the same lines in the same order, and one error where one of them fails."""

import functools
import itertools
import os
import signal
from dataclasses import replace

import pytest
from decode_oracle import varied

from calque.data.codecs import WordCodec
from calque.data.vocabulary import Vocabulary
from calque.decode.translate import Translator, translate_lines
from calque.decode.workers import AHEAD, WorkerTask, translate_with_workers
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import CalqueError, error

LINES = ["a b c", "", "d", "a a b i h g", "c never-seen", "e f g h i a b", "b", "h h"] * 3


def loaded(sample: bool = False) -> Translator:
    decode = DecodeSettings(beam=2, max_source_tokens=6, sample=sample, batch_tokens=60)
    return Translator(
        varied("transformer"), WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI")), decode
    )


def at_fault(how: str) -> Translator:
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "bug":
        raise ZeroDivisionError("no such thing")
    if how == "exit":
        raise SystemExit(0)
    raise error("K101", None, name="model.json")


def ids(found) -> list[list[tuple[int, ...]]]:
    return [[t.ids for t in translations] for translations in found]


@pytest.mark.medium
@pytest.mark.parametrize("sample", [False, True])
def test_workers_give_what_one_process_gives_in_its_order(sample: bool) -> None:
    warned, alone = [], []
    work = WorkerTask(functools.partial(loaded, sample), n_best=2)
    found = list(translate_with_workers(work, 2, LINES, chunk=5, warn=warned.append))
    assert ids(found) == ids(translate_lines(loaded(sample), LINES, 2, warn=alone.append))
    assert warned == alone
    assert len(warned) == 3


@pytest.mark.medium
def test_lines_are_read_only_so_far_ahead_and_few_need_no_second_worker() -> None:
    read = []

    def endless():
        for line in itertools.cycle(LINES):
            read.append(line)
            yield line

    found = translate_with_workers(WorkerTask(loaded), 2, endless(), chunk=3)
    first = [next(found) for _ in range(4)]
    assert len(read) <= 3 * 2 * AHEAD + 3
    assert ids(first) == ids(translate_lines(loaded(), LINES[:4]))
    found.close()
    assert list(translate_with_workers(WorkerTask(loaded), 2, [])) == []


@pytest.mark.medium
@pytest.mark.parametrize(
    ("how", "code"),
    [("killed", "K401"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("bug", None), ("fault", "K101")))],
)
def test_a_worker_that_fails_is_one_error(how: str, code: str | None) -> None:
    with pytest.raises(CalqueError if code else RuntimeError) as caught:
        list(translate_with_workers(WorkerTask(functools.partial(at_fault, how)), 2, LINES, chunk=2))
    if code:
        assert [d.code for d in caught.value.diagnostics] == [code]
        assert how != "killed" or "SIGKILL" in str(caught.value)
    else:
        assert "ZeroDivisionError: no such thing" in str(caught.value)
        assert "in at_fault" in "".join(caught.value.__notes__)


def test_a_wrong_setting_is_an_error_also_without_a_line() -> None:
    with pytest.raises(CalqueError) as caught:
        list(translate_with_workers(WorkerTask(functools.partial(at_fault, "fault")), 1, []))
    assert [d.code for d in caught.value.diagnostics] == ["K101"]


def explained(fault: BaseException) -> CalqueError | None:
    return error("K311", None) if isinstance(fault, ZeroDivisionError | SystemExit) else None


@pytest.mark.medium
@pytest.mark.parametrize("how", ["exit", pytest.param("bug", marks=pytest.mark.slow)])
def test_a_worker_explains_what_is_no_bug(how: str) -> None:
    work = WorkerTask(functools.partial(at_fault, how), explain=explained)
    with pytest.raises(CalqueError) as caught:
        list(translate_with_workers(work, 2, LINES, chunk=2))
    assert [d.code for d in caught.value.diagnostics] == ["K311"]


@pytest.mark.medium
def test_the_models_of_these_tests_can_be_translated_with_prefixes_too() -> None:
    asked = [(line, "A" if k % 2 else "") for k, line in enumerate(LINES[:8])]
    found = list(translate_with_workers(WorkerTask(loaded), 1, asked, chunk=3))
    assert ids(found) == ids(translate_lines(replace(loaded()), asked))
