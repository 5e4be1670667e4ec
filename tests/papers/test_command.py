"""`calque reproduce` on a corpus of a few words, from the command line to the report."""

import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.experiment import Experiment
from calque.ground.diagnostics import CalqueError, error
from calque.ledger import entry as ledger
from calque.papers.cells import train_run
from calque.papers.commands import request_of
from calque.papers.corpora import CORPORA
from calque.papers.output import OutputFolder
from calque.papers.request import LOCKS
from calque.train.log import Watcher

SMALL = [
    *("--d", 16, "--set", "n=1", "--set", "heads=2", "--set", "train.batch_tokens=64", "--set", "train.threads=1"),
    *("--updates", 3, "--trials", 100),
]
SPEC = ["domhan2018", "table3"]
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, spec: list[str] = SPEC) -> Result:
        given = [*words(spec, arguments), "--data", str(corpora), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(root, given)

    return run


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


def times(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file() and "locks" not in file.parts}


@pytest.mark.medium
@pytest.mark.usefixtures("learned")
def test_two_rows_by_two_seeds(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = call("--rows", "rnn,rnn+mh", "--seeds", 2, *SMALL)
    assert found.exit_code == 0, found.output
    entries = ledger.read(out / "cells")
    assert [(e.conditions["row"], e.seed) for e in entries] == [("rnn", 1), ("rnn", 2), ("rnn+mh", 1), ("rnn+mh", 2)]
    one = entries[-1]
    assert {"BLEU", "validation perplexity", "updates", "training seconds", "target tokens/s", "parameters"} <= set(
        one.figures
    )
    assert one.figures["updates"] == 3
    assert "METEOR" not in one.figures
    assert "METEOR is left out" in one.notes
    assert one.conditions["settings"] == "d=16 n=1 heads=2" or one.conditions["settings"] == "d=16 heads=2 n=1"
    assert "train.max_updates=3" in str(one.conditions["keys"])
    assert one.conditions["threads"] == 1
    assert one.architecture_hash
    assert one.data_hash
    run = json.loads((out / "runs" / "rnn+mh" / "2" / "model.json").read_text())
    assert run["architecture_hash"] == one.architecture_hash
    assert run["figures"]["parameters"] == one.figures["parameters"]
    for seed in (1, 2):
        lines = (out / "hypotheses" / "rnn" / f"{seed}.txt").read_text(encoding="utf-8").split("\n")
        assert len(lines) == 13
    # The report on stdout, as a page, as JSON and as a picture.
    assert "RNN + mh" in found.stdout
    assert "23.7 ± 0.4" in found.stdout
    assert "with a single attention layer, several heads help" in found.stdout
    assert f"tok:{CORPORA['multi30k'].tokenize}" in found.stdout
    page = (out / "report.md").read_text(encoding="utf-8")
    assert "| RNN + mh | rnn+mh | 2 |" in page
    assert "![the figures](report.png)" in page
    told = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [line["row"] for line in told["lines"]] == ["rnn", "rnn+mh"]
    claim = next(c for c in told["claims"] if c["claim"]["text"].startswith("with a single attention layer"))
    assert claim["tested"][0]["paper"] == pytest.approx(0.9)
    assert claim["verdict"] in ("holds", "does not hold", "undecided")
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    # Called again, with settings in another order, it trains nothing and says the same.
    before = times(out / "runs") | times(out / "cells") | times(out / "hypotheses")
    again = call("--rows", "rnn,rnn+mh", "--seeds", 2, *SMALL[:2], *SMALL[6:10], *SMALL[2:6], *SMALL[10:])
    assert again.exit_code == 0
    assert again.stdout == found.stdout
    assert before == times(out / "runs") | times(out / "cells") | times(out / "hypotheses")
    # A cell that was killed after its training is scored anew, the same.
    lost = out / "cells" / f"{one.id}.json"
    lost.unlink()
    assert call("--rows", "rnn,rnn+mh", "--seeds", 2, *SMALL).exit_code == 0
    assert ledger.read(out / "cells")[-1].figures == one.figures
    # Its report alone needs neither corpus nor options.
    (out / "report.md").unlink()
    alone = call("report", "--trials", 100, "--pair", "wmt17-ende")
    assert alone.exit_code == 0
    assert "24.4 ± 0.1" in alone.stdout
    assert (out / "report.md").is_file()
    # Another recipe is another folder.
    assert code(call("--rows", "rnn", "--recipe", "domhan2018", *SMALL)) == "X705"


@pytest.mark.medium
def test_a_row_that_fails_is_told_and_loses_no_other(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short_of_memory(folder: OutputFolder, experiment: Experiment, run: Path, title: str, *more: Watcher) -> object:
        if title.startswith("rnn+mh"):
            raise error("K311", None)
        return train_run(folder, experiment, run, title, *more)

    monkeypatch.setattr("calque.papers.cells.train_run", short_of_memory)
    found = call("--rows", "rnn,rnn+mh", "--seeds", 1, *SMALL)
    assert found.exit_code == 1
    assert [e.conditions["row"] for e in ledger.read(tmp_path / "out" / "cells")] == ["rnn"]
    assert "failed: rnn+mh, seed 1" in found.stderr.split("\n")
    assert "Failed cells" in found.stdout
    assert "K311" in next((tmp_path / "out" / "failures").iterdir()).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["p=2"], ["C404"]),  # once, though every row reads it
        (["d=33"], ["C203", "C203", "C117"]),
        (["heads=5"], ["C205"] * 2),
        (["heads=0"], ["C403"]),
        (["n=1.5"], ["C108"] * 4),
        (["n=1.5", "p=2"], ["C404", *["C108"] * 4]),
    ],
)
def test_what_is_wrong_with_rows_is_told_together_before_anything_is_written(
    call: Call, tmp_path: Path, given: list[str], expected: list[str]
) -> None:
    arguments = [word for one in given for word in ("--set", one)]
    found = call("--rows", "rnn,transformer", "--seeds", 1, *SMALL, *arguments)
    assert isinstance(found.exception, CalqueError)
    assert sorted(one.code for one in found.exception.diagnostics) == sorted(expected)
    assert found.exception.exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.medium
def test_a_setting_that_the_rows_asked_for_do_not_read_is_no_fault(call: Call) -> None:
    assert call("--rows", "rnn", "--seeds", 1, *SMALL, "--set", "heads=5").exit_code == 0


def test_a_faulty_row_is_told_with_the_others_it_is_asked_for_with(call: Call, tmp_path: Path) -> None:
    """`combined` divides n by 3. A recipe may have settings of rows as well, a tuning is of one row, and a size may be matched."""
    table5, given = ["domhan2018", "table5"], ["--seeds", 1, *SMALL]
    assert code(call("--rows", "self-combined,self-none", *given, spec=table5)) == "C117"
    (tmp_path / "own.toml").write_text('[model]\ntext = "x"\n')
    assert code(call("--rows", "rnn", "--recipe", "own.toml", *given)) == "X859"
    (tmp_path / "own.toml").write_text("[settings]\np = 2\n")
    assert code(call("--rows", "rnn", "--recipe", "own.toml", *given)) == "C404"
    assert code(call("tune", *SMALL[:-2], spec=[*table5, "self-combined"])) == "C117"
    sizes = ["--rows", "rnn,transformer", "--match", "params", "--match-to", "rnn"]
    assert code(call(*sizes, *given, "--set", "p=2")) == "C404"
    assert not (tmp_path / "out").exists()


@pytest.mark.medium
def test_equal_epochs_and_until_convergence(call: Call, tmp_path: Path) -> None:
    small = SMALL[:-4]
    common = ["--rows", "rnn", "--seeds", 1, *small, "--trials", 100]
    assert call(*common, "--epochs", 2, "--updates", 3).exit_code == 2
    found = call(*common, "--epochs", 3, "--patience", 1, "--set", "train.lr=1e-9")
    assert found.exit_code == 0, found.output
    (one,) = ledger.read(tmp_path / "out" / "cells")
    assert one.id == "domhan2018-table3-rnn-multi30k-budget-3-epochs-patience-1-seed-1"
    assert "--epochs 3 --patience 1" in one.command
    assert [epoch for _, epoch, _ in one.validations] == [float(n) for n in range(1, len(one.validations) + 1)]
    asked = request_of(one.command)
    assert asked is not None
    assert (asked.epochs, asked.patience, asked.command) == (3, 1, one.command.partition(" --rows")[0])
    assert code(call(*common, "--epochs", 2)) == "X705"


@pytest.mark.medium
def test_a_training_that_diverges_fails(call: Call, tmp_path: Path) -> None:
    """Where every cell fails there is no report."""
    common = ["--rows", "rnn", "--seeds", 1, *SMALL, "--set", "train.lr=1e38"]
    found = call(*common)
    assert found.exit_code == 1
    assert found.stdout == ""
    assert "no cell is finished" in found.stderr
    assert not (tmp_path / "out" / "report.md").exists()
    assert "failed: rnn, seed 1" in found.stderr.split("\n")
    failure = next((tmp_path / "out" / "failures").iterdir())
    assert "K109" in failure.read_text(encoding="utf-8")
    # It is not taken for finished by the next call, nor by `record`.
    again = call(*common)
    assert (again.exit_code, "K109" in again.stderr, failure.exists()) == (1, True, True)
    recorded = CliRunner().invoke(
        root, ["reproduce", "record", str(tmp_path / "out"), "--docs", str(tmp_path / "docs")]
    )
    assert code(recorded) == "X706"


@pytest.mark.medium
def test_a_bug_in_one_cell_loses_no_other(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.papers import cells

    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("out of memory")

    monkeypatch.setattr(cells, "run_training", broken)
    found = call("--rows", "rnn", "--seeds", 2, *SMALL)
    assert found.exit_code == 1
    assert [e.seed for e in ledger.read(tmp_path / "out" / "cells")] == [2]
    assert "out of memory" in next((tmp_path / "out" / "failures").iterdir()).read_text(encoding="utf-8")
    # The next call tries it again; the reason goes when it succeeds.
    again = call("--rows", "rnn", "--seeds", 2, *SMALL)
    assert again.exit_code == 0, again.output
    assert not list((tmp_path / "out" / "failures").iterdir())


@pytest.mark.medium
def test_shards_and_locks(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    common = ["--rows", "rnn", "--seeds", 2, *SMALL]
    name = "domhan2018-table3-rnn-multi30k-budget-3-updates-seed-1"
    assert call(*common, "--shard", "2/2").exit_code == 0
    assert [e.seed for e in ledger.read(out / "cells")] == [2]
    with open(out / LOCKS / name, "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = call(*common)
        assert found.exit_code == 0
        assert "held by another process: rnn, seed 1" in found.stderr.split("\n")
        assert [e.seed for e in ledger.read(out / "cells")] == [2]
    # Whoever held it is gone: its file is no lock.
    assert call(*common, "--shard", "1/2").exit_code == 0
    assert [e.seed for e in ledger.read(out / "cells")] == [1, 2]
    assert (out / "cells" / f"{name}.json").is_file()


@pytest.mark.medium
def test_a_call_waits_for_another_that_measures_a_cell(call: Call, tmp_path: Path) -> None:
    out, common = tmp_path / "out", ["--rows", "rnn", "--seeds", 1, *SMALL]
    assert call(*common).exit_code == 0
    (entry,) = ledger.read(out / "cells")
    ledger.record(out / "cells", replace(entry, figures={k: x for k, x in entry.figures.items() if k != "chrF"}))
    held = open(out / LOCKS / entry.id, "w", encoding="utf-8")  # noqa: SIM115
    fcntl.flock(held, fcntl.LOCK_EX)
    Timer(1, held.close).start()
    found = call(*common)
    assert found.exit_code == 0
    assert "waiting for another process that writes here" in found.stderr
    assert ledger.read(out / "cells") == [entry]


@pytest.mark.medium
def test_a_cell_that_a_signal_stopped_is_continued_exactly(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calque.train.log import Validation
    from calque.workflow.show import Show

    def interrupting(self: Show, event: object) -> None:
        if isinstance(event, Validation) and event.update == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    common = ["--rows", "rnn", "--seeds", 1, *SMALL]
    with monkeypatch.context() as patched:
        patched.setattr(Show, "__call__", interrupting)
        found = call(*common)
    assert found.exit_code == 128 + signal.SIGTERM
    assert "stopped after update 2 of rnn, seed 1" in found.stderr
    assert found.stdout == ""
    assert not list((tmp_path / "out" / "cells").iterdir())
    assert call(*common).exit_code == 0
    model = Path("runs", "rnn", "1", "model.safetensors")
    continued = (tmp_path / "out" / model).read_bytes()
    shutil.move(tmp_path / "out", tmp_path / "stopped")
    assert call(*common).exit_code == 0
    assert (tmp_path / "out" / model).read_bytes() == continued


@pytest.mark.medium
def test_rows_of_equal_size(call: Call, tmp_path: Path) -> None:
    found = call("--rows", "rnn", "--seeds", 1, "--match", "params", "--match-to", "rnmt", *SMALL)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert str(entry.conditions["settings"]).startswith("d=")
    assert "--match params --match-to rnmt" in entry.command


@pytest.mark.medium
def test_meteor_where_its_word_lists_are(call: Call, corpora: Path, tmp_path: Path) -> None:
    (corpora / "meteor").mkdir()
    (corpora / "meteor" / "german.words").write_text("der\nein\n", encoding="utf-8")
    found = call("--rows", "rnn", "--seeds", 1, "--metric", "meteor", *SMALL)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert 0 <= entry.figures["METEOR"] <= 100
    assert "version:1.4" in str(entry.conditions["METEOR signature"])
    assert "43.3 ± 0.1" in found.stdout
    assert "paper METEOR" in found.stdout


@pytest.mark.medium
def test_without_a_picture_library_the_rest_is_there(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    found = call("--rows", "rnn", "--seeds", 1, *SMALL)
    assert found.exit_code == 0
    assert "X301" in found.stderr
    assert (tmp_path / "out" / "report.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "spec", "expected"),
    [
        ((), ["domhan2018", "tabel3"], "X701"),
        ((), ["domhan", "table3"], "X220"),
        (("--rows", "rnn+mhh"), SPEC, "X702"),
        (("--rows", ""), SPEC, "X702"),
        (("--rows", "rnn,"), SPEC, "X702"),
        (("--match", "params", "--match-to", "nmt"), SPEC, "X702"),
        (("--match", "params", "--match-to", ""), SPEC, "X702"),
        (("time", "--match", "params", "--match-to", "nmt"), ["you2020", "table3"], "X702"),
        (("tune", "--updates", "3", "--match", "params", "--match-to", "nmt"), [*SPEC, "rnn"], "X702"),
        (("--updates", "3", "--corpus", "envi"), SPEC, "X703"),
        ((), SPEC, "X704"),
        (("report",), SPEC, "X706"),
        (("--pair", "wmt14-ende"), SPEC, "X707"),
        (("--metric", "meteor"), ["domhan2018", "table2"], "X707"),
        (("--set", "d="), SPEC, "X221"),
        (("--updates", "3", "--set", "train.lrr=1"), SPEC, "X105"),
        (("--updates", "3", "--set", "head=4"), SPEC, "X222"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], spec: list[str], expected: str
) -> None:
    found = call(*arguments, spec=spec)
    assert code(found) == expected
    assert not (tmp_path / "out").exists()


def test_a_setting_that_no_row_reads_is_not_proposed(call: Call) -> None:
    """Another table has it."""
    found = call("--updates", "3", "--set", "heads=4", spec=["you2020", "figure7"])
    assert code(found) == "X222"
    assert "did you mean `heads`" not in found.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--shard", "3/2"), ("--shard", "x"), ("--minutes", "1", "--updates", "2"), ("--match-to", "rnn")],
)
def test_bad_usage(call: Call, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (SPEC, ["train", "--rows", "rnn"]),
        ([*SPEC, "rnn"], ["tune"]),
        (["you2020", "table3"], ["time", "--rows", "base"]),
    ],
)
def test_a_folder_with_files_of_another_kind_stays_as_it_is(
    call: Call, tmp_path: Path, spec: list[str], arguments: list[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.md").write_text("mine")
    assert code(call(*arguments, *SMALL[:-2], spec=spec)) == "X405"
    assert {file.name: file.read_text() for file in out.iterdir()} == {"report.md": "mine"}


@pytest.mark.medium
def test_a_first_call_that_was_killed_is_begun_again(call: Call, tmp_path: Path) -> None:
    """Of a request that was not written whole, its temporary file is there."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".reproduce.json.ab12_xyz").write_text('{"paper":')
    assert call("--rows", "rnn", "--seeds", 1, *SMALL).exit_code == 0
    assert not list((tmp_path / "out").glob(".reproduce.json.*"))


@pytest.mark.medium
def test_a_report_of_a_folder_without_cells(call: Call, tmp_path: Path) -> None:
    call("--rows", "rnn", "--seeds", 1, *SMALL)
    shutil.rmtree(tmp_path / "out" / "cells")
    assert code(call("report")) == "X706"
