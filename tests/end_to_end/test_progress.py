"""What a person sees at a terminal while a command works, and that nothing of it is seen elsewhere."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from command import Run
from test_command_line import experiment
from test_ways_to_translate import LINES, STDIN, make_run

from calque.decode.translate import translate_lines, translate_stream
from calque.train.log import Log, Progress, SampleTranslation, Validation
from calque.workflow.api import load
from calque.workflow.show import LineProgress, Part, Show, fitting
from calque.workflow.validation import samples_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"), "one", 1)


def at_a_terminal(arguments: Sequence[object], stdin: Path | None, stdout: Path) -> str:
    """Runs a command whose stderr alone is a terminal; what was written there."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 4096):
                shown.append(part)
        except OSError:  # the other end is closed
            return

    reader = threading.Thread(target=read)
    with open(stdin or os.devnull, "rb") as source, open(stdout, "wb") as target:
        words = [sys.executable, "-m", "calque.cli", *map(str, arguments)]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(words, stdin=source, stdout=target, stderr=theirs, env=environment)
        os.close(theirs)
        reader.start()
        assert process.wait(timeout=120) == 0
    reader.join()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(shown).decode())


@pytest.mark.medium
def test_translate_shows_lines_done_and_time_left_at_a_terminal(calque: Run, run: Path, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(STDIN * 40)
    shown = at_a_terminal(["translate", run, "--threads", 1], tmp_path / "input", tmp_path / "output")
    plain = calque("translate", run, "--threads", 1, stdin=STDIN * 40)
    assert (tmp_path / "output").read_text() == plain.out
    assert plain.err == ""
    assert "translating" in shown
    assert re.search(rf"of {40 * len(LINES)} lines, [\d,.]+ lines/s, \d:\d\d left", shown)


@pytest.mark.medium
def test_translate_knows_no_end_of_what_is_no_file(run: Path, tmp_path: Path) -> None:
    shown = at_a_terminal(["translate", run, "--threads", 1], None, tmp_path / "output")
    assert "left" not in shown
    assert "%" not in shown


@pytest.mark.medium
def test_tune_shows_its_progress_and_prints_the_same_rows(calque: Run, run: Path, tmp_path: Path) -> None:
    valid = []
    for side in ("src", "tgt"):
        valid.append(tmp_path / f"valid.{side}")
        valid[-1].write_text("".join(f"{line or 'a'}\n" for line in LINES))
    asked = ["tune", run, "--valid", *valid, "--beam", 1, "--beam", 2, "--word-penalty", 0, "--threads", 1]
    shown = at_a_terminal(asked, None, tmp_path / "output")
    assert f"of {2 * len(LINES)} lines" in shown
    assert "tuning" in shown
    plain = calque(*asked)
    assert plain.err == ""
    assert (tmp_path / "output").read_text() == plain.out
    assert plain.out.startswith("beam  word_penalty")


def test_progress_counts_every_line_once(run: Path) -> None:
    loaded, counts = load(run).loaded, []
    translate_lines(loaded, LINES, progress=counts.append)
    assert sum(counts) == len(LINES)
    counts.clear()
    list(translate_stream(loaded, LINES, chunk=3, progress=counts.append))
    assert sum(counts) == len(LINES)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


SAMPLES = (SampleTranslation("un [b]deux", "one two", "one\x1b[2J two"), SampleTranslation("trois", "three", "four"))


def test_samples_stand_below_a_validation_at_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}
    for kind in (Terminal, io.StringIO):
        monkeypatch.setattr(sys, "stderr", kind())
        with Show("run") as show:
            show(Validation(7, 2.0, 12.5, True, SAMPLES))
        shown[kind] = sys.stderr.getvalue()  # type: ignore[attr-defined]  # one of the two above
    assert shown[io.StringIO] == "update      7  valid ppl 2.00 BLEU 12.5  best\n"
    for line in (
        "source       un [b]deux",
        "reference    one two",
        r"translation  one\x1b[2J two",
        "translation  four",
    ):
        assert line in shown[Terminal]


@pytest.mark.parametrize("columns", [200, 120, 80, 60, 40])
def test_the_bar_of_a_training_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Show("multi30k-transformer") as show:
        show(Validation(1000, 12.34, 20.5, True, ()))
        show(Progress(12345, 3, 4.321, 1e-4, 98765.4, 0.37, 754.0))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())  # type: ignore[attr-defined]  # a Terminal
    drawn = [line for line in re.split(r"[\r\n]+", shown) if "ETA" in line]
    assert drawn
    for line in drawn:
        assert len(line.rstrip()) <= columns
        assert "multi30k" in line
        assert "37%" in line
        assert re.search(r"0:00:0\d", line)
        assert "ETA 12:34" in line
        assert ("update 12345" in line) == (columns >= 80)
        assert ("\u2501" in line) == (columns >= 60)
        assert ("update 12345 epoch 3 loss 4.321 98,765 tok/s valid ppl 12.34 BLEU 20.5" in line) == (columns == 200)


def test_parts_are_left_out_by_their_importance() -> None:
    parts = Part(1, "bb"), Part(2, "cccccc"), Part(0, "a"), Part(3, "")
    assert [fitting(parts, width) for width in (0, 1, 3, 4, 9, 11, 99)] == [
        *("", "a", "a", "bb a", "bb a", "bb cccccc a", "bb cccccc a")
    ]
    assert fitting(parts, 12, ", ") == "bb, a"


def test_a_terminal_that_shows_the_product_too_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    for aside in (False, True):
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setattr(sys, "stdout", Terminal())
        with LineProgress("work", 3, aside=aside) as progress:
            progress(2)
            with progress.aside():
                before = sys.stderr.getvalue()
                print("product")
                assert sys.stderr.getvalue() == before
        assert ("work" in sys.stderr.getvalue()) is aside
        assert sys.stdout.getvalue() == "product\n"


@pytest.mark.medium
@pytest.mark.parametrize("bleu", [0, 20])
def test_training_logs_two_sample_translations_at_each_validation(calque: Run, tmp_path: Path, bleu: int) -> None:
    file = experiment(
        tmp_path, train__max_updates=20, train__validate_every_updates=10, train__validate_bleu_sentences=bleu
    )
    done = calque("train", file, "--out", tmp_path / "run", "--set", "train.tensorboard=true")
    assert done.status == 0, done.err
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    samples = [line for line in logged if line["kind"] == "sample"]
    assert [(line["update"], line["number"]) for line in samples] == [(10, 1), (10, 2), (20, 1), (20, 2)]
    for one, other in zip(samples[:2], samples[2:], strict=True):
        assert one["reference"] == " ".join(reversed(one["source"].split()))
        assert (one["source"], one["reference"]) == (other["source"], other["reference"])
    # The run's model is that of the last update: it says the same, greedily.
    asked = "".join(f"{line['source']}\n" for line in samples[2:])
    greedy = calque("translate", tmp_path / "run", "--beam", 1, stdin=asked.encode()).out
    assert greedy == "".join(f"{line['translation']}\n" for line in samples[2:])
    assert {line["bleu"] is None for line in logged if line["kind"] == "valid"} == {bleu == 0}
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert {"sample/1/text_summary", "sample/2/text_summary"} <= set(events.Tags()["tensors"])


def test_a_log_that_is_continued_drops_the_samples_of_lost_updates(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl", tensorboard=False, after=0)
    for update in (5, 10):
        log.write_samples(update, SAMPLES)
    log.close()
    Log(tmp_path / "log.jsonl", tensorboard=False, after=5).close()
    kept = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["update"], line["translation"]) for line in kept] == [(5, s.translation) for s in SAMPLES]


def test_samples_are_sentences_that_a_person_reads_at_a_glance() -> None:
    long, fits, short = "w " * 30, "w " * 8, "w w"
    assert list(samples_of([long, short, fits, "", fits, fits])) == [2, 4]
    assert list(samples_of(["", short, long, fits])) == [1, 3]
    assert list(samples_of(["", "w"])) == [1]
    assert list(samples_of([""])) == []
