"""Each measurement runs on tiny sizes and gives complete JSON; what cannot be measured is told in one sentence."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from click.testing import CliRunner

from calque.bench import peer_runner, peers
from calque.bench.crew import Crew
from calque.bench.decode import subject, timed
from calque.bench.inputs import words_file
from calque.cli import root
from calque.ground.diagnostics import CalqueError, error
from calque.ledger.entry import CONDITIONS, read


def ran(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(root, ["bench", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert set(CONDITIONS) <= set(found["conditions"])
    assert found["timed"]
    return found


SMALL = ("--vocabulary", 40, "--threads", 1, "--device", "cpu")


@pytest.mark.medium
def test_decoding_every_beam_with_every_length(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "results" / "tiny.json"
    shape = ("--sentences", 5, "--batch", 3, "--beam", "1,2", "--length", "3,6", "--repeats", 2)
    found = ran("decode", text, *SMALL, *shape, "--uncached", "--plot", tmp_path / "p.svg")
    assert [(c["system"], c["beam"], c["length"]) for c in found["cells"]] == [
        (system, beam, length) for beam in (1, 2) for length in (3, 6) for system in ("calque", "calque uncached")
    ]
    for cell in found["cells"]:
        assert cell["target_tokens"] == 5 * cell["length"]
        for key in ("target_tokens_per_second", "source_tokens_per_second", "sentences_per_second"):
            assert 0 < cell[key]["slowest"] <= cell[key]["median"] <= cell[key]["fastest"]
    first = found["cells"][0]
    assert {"ms_per_step", "step_limit", "share_of_limit", "state_bytes", "operators"} <= set(first)
    assert first["share_of_limit"] > 0
    # Steps are those of the batch of three; the two sentences that are left have others.
    case = subject(str(text), 40, None, 5, torch.device("cpu"))
    assert timed(case, 3, 1, 6).steps == timed(replace(case, sentences=case.sentences[:3]), 3, 1, 6).steps
    assert found["cells"][0]["state_bytes"] < found["cells"][2]["state_bytes"]
    assert set(first["operators"]) == {"model_step", "search_step"}
    assert {"batch", "sentences", "padding_share", "vocabulary", "architecture", "weights"} <= set(found["conditions"])
    assert (tmp_path / "p.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert not out.exists()


@pytest.mark.medium
def test_a_picture_that_cannot_be_drawn_loses_no_figures(text: Path, tmp_path: Path) -> None:
    asked = ["bench", "decode", text, *SMALL, "--sentences", 2, "--batch", 2, "--length", 2, "--repeats", 1, "--plot"]
    with pytest.raises(CalqueError) as failed:
        ran(*asked[1:], tmp_path / "nowhere" / "p.svg")
    assert [d.code for d in failed.value.diagnostics] == ["X408"]
    told = CliRunner().invoke(root, [*map(str, asked), str(tmp_path / "nowhere" / "p.svg")])
    assert json.loads(told.stdout)["cells"]
    other = CliRunner().invoke(root, [*map(str, asked), str(tmp_path / "p.txt")])
    assert (other.exit_code, other.stdout) == (2, "")


@pytest.mark.medium
def test_workers_share_the_batches(text: Path) -> None:
    found = ran(
        "decode", text, *SMALL, "--sentences", 5, "--batch", 2, "--length", "2,3", "--repeats", 2, "--workers", 2
    )
    assert [c["target_tokens"] for c in found["cells"]] == [10, 15]
    assert all(c["target_tokens_per_second"]["median"] > 0 for c in found["cells"])
    assert found["conditions"]["workers"] == 2
    assert "ms_per_step" not in found["cells"][0]
    told = CliRunner().invoke(root, ["bench", "decode", str(text), "--workers", "2", "--uncached"])
    assert told.exit_code == 2
    assert "--uncached" in told.stderr


@pytest.mark.medium
def test_a_worker_that_ends_is_told() -> None:
    with pytest.raises(CalqueError, match="K401"), Crew(2, 1, _ending):
        pass


def _ending() -> NoReturn:
    os._exit(3)


@pytest.mark.medium
def test_a_fault_in_a_worker_is_explained() -> None:
    with pytest.raises(CalqueError, match="X412"), Crew(2, 1, _exiting, _explained):
        pass


def _exiting() -> NoReturn:
    raise SystemExit(0)


def _explained(fault: BaseException) -> CalqueError:
    return error("X412", None, kind=type(fault).__name__, reason=str(fault))


@pytest.mark.medium
def test_the_lengths_of_a_file_and_the_zoo(tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_text("a b c d\na b\n")
    shape = ("--sentences", 5, "--batch", 2, "--length", 2, "--repeats", 1)
    found = ran("decode", "domhan2018/transformer-post", *SMALL, *shape, "--source", file)
    assert found["conditions"]["sentences"] == 2
    assert found["conditions"]["padding_share"] == 0.2


def test_a_text_without_lines_is_told(text: Path, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_text("")
    done = CliRunner().invoke(root, ["bench", "decode", str(text), "--vocabulary", "40", "--source", str(file)])
    assert isinstance(done.exception, CalqueError)
    assert done.exception.diagnostics[0].code == "D106"


def test_a_run_has_lengths_of_its_own(tmp_path: Path) -> None:
    from calque.experiment import DataSettings, Experiment, ModelSettings, TrainSettings
    from calque.workflow.steps import run_training

    lines = tmp_path / "text"
    lines.write_text("".join(f"{w} {v} {w}\n" for w in "abcdef" for v in "abcdef"))
    pair = (str(lines), str(lines))
    model = ModelSettings(text="d = 16\nheads = 2\nencoder = pos -> tenc\ndecoder = pos -> tdec\n")
    settings = TrainSettings(max_updates=2, precision="float32", validate_every_updates=2, average="none", device="cpu")
    run = tmp_path / "run"
    run_training(Experiment(DataSettings(train=pair, valid=pair, subwords="words"), model, settings), run)
    found = ran("decode", run, "--source", lines, "--sentences", 6, "--repeats", 1, "--beam", 2, "--device", "cpu")
    (cell,) = found["cells"]
    assert cell["length"] is None
    assert cell["ms_per_step"] > 0
    assert cell["share_of_limit"] is None  # its batches shrink
    assert cell["target_tokens"] >= 6
    assert found["conditions"]["weights"] == "trained"
    assert found["conditions"]["sentences"] == 6
    untold = CliRunner().invoke(root, ["bench", "decode", str(run), "--against", "hf"])
    assert untold.exit_code == 2
    assert "--length" in untold.stderr
    assert ran("decode", run, "--length", 4, "--sentences", 3, "--repeats", 1)["cells"][0]["target_tokens"] == 12


@pytest.mark.medium
def test_training(text: Path, tmp_path: Path) -> None:
    shape = ("--pairs", 30, "--batch-tokens", 100, "--updates", 2, "--warm-up", 1, "--repeats", 2)
    found = ran("train", text, *SMALL, *shape)
    (ours,) = found["systems"]
    for key in (
        "source_tokens_per_second",
        "padded_tokens_per_second",
        "share_of_limit",
        "peak_bytes",
        "padding_share",
    ):
        assert ours[key] > 0
    assert sum(ours["phases_share"].values()) == pytest.approx(1, abs=0.01)
    assert len(ours["losses"]) == 2
    lines = tmp_path / "lines"
    lines.write_text("a b c\n" * 8)
    again = ran("train", text, *SMALL, *shape, "--like", lines, lines)
    assert again["systems"][0]["padding_share"] < 0.2


@pytest.mark.medium
def test_training_on_the_words_of_a_text(text: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a b c\n\na a b\nd e f\n" * 8)
    assert [s.tolist() for s in words_file(lines, 4, 6)] == [[4, 5, 3, 2], [3, 2], [4, 4, 5, 2], [3, 3, 3, 2]]
    shape = ("--batch-tokens", 60, "--updates", 40, "--warm-up", 0, "--repeats", 1)
    (ours,) = ran("train", text, *SMALL, *shape, "--like", lines, lines, "--words")["systems"]
    assert ours["loss"]["updates to 40"] < ours["loss"]["updates to 20"]
    told = CliRunner().invoke(root, ["bench", "train", str(text), "--words"])
    assert told.exit_code == 2
    assert "--like" in told.stderr


def columns(table: str) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a printed table: cells are apart by two spaces at least."""
    head, *rows = [re.split(r" {2,}", line) for line in table.split("\n\n")[0].split("\n")]
    return head, rows


@pytest.mark.medium
def test_decoding_and_training_as_tables(text: Path, tmp_path: Path) -> None:
    shape = ["--sentences", "5", "--batch", "3", "--beam", "1,2", "--length", "3", "--repeats", "1", "--uncached"]
    record = ["--table", "--record", str(tmp_path / "results" / "tiny.json")]
    done = CliRunner().invoke(root, ["bench", "decode", str(text), *map(str, SMALL), *shape, *record])
    assert done.exit_code == 0, done.output
    head, rows = columns(done.stdout)
    assert head[:4] == ["system", "beam", "length", "target tokens/s"]
    assert [row[:3] for row in rows] == [
        ["calque", "1", "3"],
        ["calque uncached", "1", "3"],
        ["calque", "2", "3"],
        ["calque uncached", "2", "3"],
    ]
    kept = {name: value for entry in read(tmp_path / "results") for name, value in entry.figures.items()}
    speed = kept["system calque, beam 1, length 3, target tokens per second, median"]
    assert float(rows[0][3].replace(",", "")) == pytest.approx(speed, rel=1e-3)
    assert "threads 1" in done.stdout
    assert "vocabulary 40" in done.stdout
    shape = ["--pairs", "30", "--batch-tokens", "100", "--updates", "2", "--warm-up", "1", "--repeats", "1", "--table"]
    done = CliRunner().invoke(root, ["bench", "train", str(text), *map(str, SMALL), *shape])
    assert done.exit_code == 0, done.output
    head, ((system, *_, other),) = columns(done.stdout)
    assert {"ms/update", "forward", "backward"} <= set(head)
    assert (system, other[-1]) == ("calque", "%")


def test_files_that_cannot_be_used_are_errors(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.bench import operators

    (tmp_path / "one").write_text("a b\n")
    (tmp_path / "two").write_text("a b\nc\n")
    like = ["bench", "train", str(text), "--like", str(tmp_path / "one"), str(tmp_path / "two")]
    monkeypatch.setattr(operators, "every_count", dict)
    monkeypatch.setattr(operators, "to_text", lambda counts: "{}\n")
    for arguments, code in ((like, "D102"), (["bench", "operators", "--write", str(tmp_path)], "X408")):
        done = CliRunner().invoke(root, arguments)
        assert isinstance(done.exception, CalqueError)
        assert [d.code for d in done.exception.diagnostics] == [code]


@pytest.mark.medium
def test_the_machine_and_the_start_of_commands(tmp_path: Path) -> None:
    out = tmp_path / "start.json"
    found = ran("start", "--repeats", 1, "--record", out)
    assert set(found["commands"]) == {"python", "help", "check"}
    assert read(tmp_path)[0].figures["commands, help, median"] > 0


def test_operators_are_written_for_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.bench import operators

    monkeypatch.setattr(operators, "architecture_counts", lambda name: {"beam 1": name})
    for target in ([], ["--write", str(tmp_path / "o.json")]):
        done = CliRunner().invoke(root, ["bench", "operators", *target], catch_exceptions=False)
        assert done.exit_code == 0
    assert "domhan2018/transformer" in json.loads((tmp_path / "o.json").read_text())["architectures"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--beam", "1,x"], "positive numbers"),
        (["--length", "0"], "positive numbers"),
        (["--against", "moses"], "hf:float32"),
        (["--against", "hf:int4"], "hf:float32"),
    ],
)
def test_wrong_usage(text: Path, arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(root, ["bench", "decode", str(text), "--vocabulary", "40", *arguments])
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_peer_that_is_not_there_is_told(text: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare-python"  # without the packages that are installed here
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    shape = ["bench", "decode", str(text), "--vocabulary", "40", "--sentences", "2", "--peer-python"]
    for python, reason in ((str(bare), "ModuleNotFoundError"), ("no-such-python", "no such file")):
        done = CliRunner().invoke(root, [*shape, python, "--against", "ctranslate2"])
        assert isinstance(done.exception, CalqueError)
        (fault,) = done.exception.diagnostics
        assert fault.code == "X601"
        assert reason in str(fault.fields["reason"])
    gone = CliRunner().invoke(root, [*shape, str(bare), "--against", "ctranslate2", "--threads", "1"])
    assert isinstance(gone.exception, CalqueError)


RUNNER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    told = {"seconds": 0.5, "loss": 1.0, "tokens": sum(map(len, asked.get("batches", []))) * asked.get("length", 0)}
    print(json.dumps(told), flush=True)
"""


def test_peers_are_measured_in_turn(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in that answers as the runner does."""
    stand_in = tmp_path / "runner.py"
    stand_in.write_text(RUNNER)
    monkeypatch.setattr(peers.peer_runner, "__file__", str(stand_in))
    against = ("--against", "hf:bfloat16", "--peer-python", "no-such-python", "--peer-python", f"hf={sys.executable}")
    found = ran("decode", text, *SMALL, "--sentences", 4, "--batch", 2, "--length", 5, "--repeats", 1, *against)
    assert [c["system"] for c in found["cells"]] == ["calque", "hf:bfloat16"]
    assert found["cells"][1]["target_tokens_per_second"]["median"] == 40.0
    shape = ("--pairs", 10, "--updates", 1, "--warm-up", 1, "--repeats", 1)
    trained = ran("train", text, *SMALL, *shape, *against)
    assert [s["system"] for s in trained["systems"]] == ["calque", "hf:bfloat16"]
    assert trained["systems"][1]["losses"] == [1.0]


def test_peers_have_what_they_are_asked_for(text: Path) -> None:
    for arguments, told in (
        (["train", str(text), "--against", "ctranslate2"], "ctranslate2 is not trained"),
        (["decode", str(text), "--workers", "2", "--against", "ctranslate2,sockeye"], "--workers"),
        (["decode", str(text), "--against", "sockeye:bfloat16"], "sockeye:int8"),
    ):
        done = CliRunner().invoke(root, ["bench", *arguments, "--vocabulary", "40"])
        assert done.exit_code == 2
        assert told in done.stderr
    assert set(peers.TRAINED) <= set(peers.PRECISIONS) == set(peer_runner.SYSTEMS)
    for system, name in peer_runner.SYSTEMS.items():
        file = Path(peer_runner.__file__).with_name(f"peer_{system}.py")
        assert f"\nclass {name}:" in file.read_text(encoding="utf-8")


def test_a_peer_that_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "runner.py"
    stand_in.write_text("import sys; sys.stdin.readline()")
    monkeypatch.setattr(peers.peer_runner, "__file__", str(stand_in))
    with pytest.raises(CalqueError, match=r"X601|without an answer"):
        peers.Peer("hf", sys.executable, peers.Sizes(16, 2, 2, 0.1, 40), 1)
