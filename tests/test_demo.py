"""`calque demo`: its recipe, what it says in the end, and that the command which it proposes works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calque.cli import root
from calque.demo import generator as embedded
from calque.demo import run as demo
from calque.experiment import load
from calque.train.loop import FinishedTraining
from calque.train.schedule import Plateau, horizon, rate

RESULTS = Path(__file__).parent.parent / "docs" / "results"
FEW = embedded.generate(pairs=3600)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The demo with a ceiling of one second, on a small corpus."""
    folder = tmp_path_factory.mktemp("demo") / "a run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "generate", lambda: FEW)
        patch.setattr(sys, "argv", [sys.argv[0]])
        return folder, CliRunner().invoke(root, ["demo", str(folder), "--seconds", "1"], catch_exceptions=False)


@pytest.mark.medium
def test_a_ceiling_that_is_hit_is_announced_with_what_a_free_machine_reaches(ended: tuple[Path, Result]) -> None:
    folder, result = ended
    assert result.exit_code == 0
    figures = json.loads((folder / "model.json").read_text())["figures"]
    assert figures["limit"] == "max_seconds"
    assert f"training for {demo.UPDATES:,} updates, or 0:01 minutes on a slow machine" in result.stderr
    said = next(line for line in result.stderr.split("\n") if line.startswith("stopped after"))
    score = float(next(line for line in result.stdout.split("\n") if line.startswith("BLEU ")).removeprefix("BLEU "))
    assert f"0:01 minutes of training at BLEU {score:.1f}, update {figures['update']} of {demo.UPDATES:,};" in said
    assert f"trains for {demo.REFERENCE.minutes:.1f} minutes and reaches BLEU {demo.REFERENCE.bleu:.1f}" in said
    # The rate has come down in the time that there was.
    rates = [json.loads(line)["lr"] for line in (folder / "log.jsonl").read_text().split("\n") if '"train"' in line]
    assert rates[-1] < demo.experiment(folder).train.lr


def test_the_end_says_how_many_are_correct_and_what_to_type_next(ended: tuple[Path, Result]) -> None:
    folder, result = ended
    translated = [line.removeprefix("wrong    source       ") for line in result.stdout.split("\n")]
    assert FEW.test[0][0] in translated
    count = len(FEW.test)
    assert f"0 of {count} test sentences correct, {count} wrong" in result.stdout
    assert result.stdout.rstrip().split("\n")[-1].startswith("BLEU ")
    assert f"the run is in {folder}" in result.stderr
    assert (folder / "attention.png").is_file()


@pytest.mark.medium
def test_the_next_command_works(ended: tuple[Path, Result]) -> None:
    """As a shell runs it; the folder's name has a space in it."""
    folder, result = ended
    command = result.stderr.rstrip().split("\n")[-1].strip()
    assert command == demo.following(command.partition("| ")[2].rpartition(" translate")[0], folder)
    name = demo.following(f"{sys.executable} -m calque.cli", folder)
    done = subprocess.run(name, shell=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().split("\n")) == 1


@pytest.mark.parametrize(
    ("argv", "path", "expected"),
    [
        ("bin/calque", "bin", "calque"),
        ("bin/calque", "other", "bin/calque"),
        ("x/__main__.py", "bin", " -m calque.cli"),
    ],
)
def test_a_command_to_type_names_the_program_as_the_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: str, path: str, expected: str
) -> None:
    from calque.cli.base import program

    monkeypatch.chdir(tmp_path)
    for folder in ("bin", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "calque").write_text("#!/bin/sh\n")
        (tmp_path / folder / "calque").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / path))
    monkeypatch.setattr(sys, "argv", [argv])
    assert program().endswith(expected)


def test_a_whole_recipe_says_nothing_of_a_ceiling() -> None:
    done = FinishedTraining(800, 1, 61.0, 1.5, None, "max_seconds", (800,))
    said = demo.ceiling(done, 81.04, "calque", Path("my demo"))
    assert said.startswith(f"stopped after 1:01 minutes of training at BLEU 81.0, update 800 of {demo.UPDATES:,}; ")
    assert said.endswith("`calque demo 'my demo' --seconds 122` continues")


def test_translations_are_called_correct_or_wrong_and_differences_stand_in_brackets() -> None:
    sources = [f"s{k}" for k in range(14)]
    references = [f"Der Bus fährt um {k} Uhr ab." for k in range(14)]
    hypotheses = [
        r if k % 2 else r.replace(" um", " nicht um").replace("Uhr", "Stunden") for k, r in enumerate(references)
    ]
    lines = demo.examples(sources, references, hypotheses)
    correct = [line for line in lines if line.startswith("correct")]
    wrong = [line for line in lines if line.startswith("wrong")]
    assert [line.split()[-1] for line in correct] == ["s1", "s3", "s5", "s7", "s9"]
    assert [line.split()[-1] for line in wrong] == ["s0", "s2", "s4", "s6", "s8"]
    at = lines.index(wrong[0])
    assert lines[at + 1] == "         reference    Der Bus fährt um 0 [Uhr] ab."
    assert lines[at + 2] == "         translation  Der Bus fährt [nicht] um 0 [Stunden] ab."
    at = lines.index(correct[0])
    assert lines[at + 1] == "         translation  Der Bus fährt um 1 Uhr ab."
    assert "differs" in " ".join(lines)
    assert "differs" not in " ".join(demo.examples(sources[1:2], references[1:2], hypotheses[1:2]))


def test_two_sentences_that_share_nothing_and_an_empty_one() -> None:
    assert demo.differences("a b", "c") == ("[a b]", "[c]")
    assert demo.differences("a b", "a") == ("a [b]", "a")
    assert demo.differences("a", "") == ("[a]", "")


def test_the_schedule_depends_on_the_machine_only_where_the_ceiling_is_nearer(tmp_path: Path) -> None:
    settings = demo.experiment(tmp_path).train
    pace = demo.CEILING / demo.UPDATES
    for update in range(1, demo.UPDATES, 10):
        fast = horizon(settings, update, 0.0, update * pace * 0.99)
        assert rate(settings, update, 1, Plateau(), fast) == rate(settings, update, 1, Plateau())
    slow = horizon(settings, 50, 0.0, 50 * pace * 2)
    assert slow == pytest.approx(demo.UPDATES / 2)


def test_the_figures_that_it_names_are_those_of_the_ledger() -> None:
    figures = json.loads((RESULTS / "demo.json").read_text())["figures"]
    assert pytest.approx(figures["two cores, BLEU"], abs=0.05) == demo.REFERENCE.bleu
    assert pytest.approx(figures["two cores, training seconds"] / 60, abs=0.05) == demo.REFERENCE.minutes


def test_the_experiment_file_in_the_folder_is_the_demos(ended: tuple[Path, Result]) -> None:
    folder, _ = ended
    assert load(folder / "demo.toml") == demo.experiment(folder, 1.0)
    assert (folder / "corpus" / "test.en").read_text(encoding="utf-8").splitlines() == [
        source for source, _ in FEW.test
    ]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_threads_that_wait_go_to_sleep_unless_the_environment_says_otherwise(
    given: dict[str, str], expected: str
) -> None:
    """Before torch is there to read it."""
    program = (
        "import os, sys, calque.cli; sys.argv = ['calque', 'explain-error', 'X208']\n"
        "try: calque.cli.main()\n"
        "finally: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    )
    plain = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", program], env={**plain, **given}, capture_output=True, text=True)
    assert done.stdout.rstrip().split("\n")[-1] == f"{expected} False"
