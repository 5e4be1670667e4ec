"""A run folder loses nothing: models without a state, restarts, corpora and plugins that moved, killed processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Outcome, Run
from tiny import TEXT, everything, experiment, log, stop_after, text, weights

from calque.run.tensors import read_tensors


def refused(done: Outcome, code: str, status: int = 1) -> None:
    assert done.status == status, done
    assert done.err.count("error[") == 1, done
    assert f"error[{code}]" in done.err, done
    assert "Traceback" not in done.err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.toml, its text, and the finished run `run`."""
    from calque import cli

    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as m:
        m.setattr(sys, "argv", ["calque", "train", str(experiment(folder)), "--out", str(folder / "run")])
        cli.main()
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the finished run; its text and its experiment file are `tiny.toml` beside it."""
    for path in trained.iterdir():
        if path.is_file():
            shutil.copy2(path, tmp_path / path.name)
    shutil.copytree(trained / "run", tmp_path / "run")
    for path in (tmp_path / "run").rglob("*.toml"):
        path.write_text(path.read_text().replace(str(trained), str(tmp_path)))
    return tmp_path / "run"


def empty(run: Path) -> None:
    for path in (run / "checkpoints").iterdir():
        path.unlink()


def without_states(run: Path) -> None:
    for path in (run / "checkpoints").glob("state-*"):
        path.unlink()


def half_a_state(run: Path) -> None:
    empty_of_checkpoints = [p for p in (run / "checkpoints").iterdir() if not p.name.startswith("state-")]
    for path in [*empty_of_checkpoints, *(run / "checkpoints").glob("state-*.json")]:
        path.unlink()


def only_the_model(run: Path) -> None:
    for path in run.iterdir():
        if path.name not in ("experiment.toml", "model.json", "model.safetensors"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


LOSSES: list[Callable[[Path], None]] = [empty, without_states, half_a_state, only_the_model]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda f: f.__name__)
def test_a_model_without_a_state_is_not_replaced(calque: Run, run: Path, lose: Callable[[Path], None]) -> None:
    lose(run)
    before = everything(run)
    other = experiment(run.parent, "other", model__text=TEXT.replace("d = 16", "d = 8"))
    for asked in ([run], [run.parent / "tiny.toml", "--out", run], [other, "--out", run]):
        refused(calque("train", *asked), "K204")
        assert everything(run) == before


def test_a_damaged_state_is_refused_and_can_be_replaced(calque: Run, run: Path) -> None:
    state = run / "checkpoints" / "state-8.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    before = everything(run)
    refused(calque("train", run), "K104")
    assert everything(run) == before
    assert calque("train", run, "--restart").status == 0


@pytest.mark.medium
def test_restart_moves_the_old_run_aside(calque: Run, run: Path) -> None:
    empty(run)
    before = weights(run)
    translated = calque("translate", run, stdin=b"a b c\nh g\n").out
    assert "`--restart`" in calque("train", run).err
    done = calque("train", run, "--restart", "--set", "train.seed=2")
    assert done.status == 0, done
    assert "the model of" in done.err
    assert "8 updates" in done.err
    assert "replaced-0001" in done.err
    aside = run / "replaced-0001"
    assert weights(aside) == before != weights(run)
    assert calque("translate", aside, stdin=b"a b c\nh g\n").out == translated
    assert [line["update"] for line in log(run, "valid")] == [2, 4, 6, 8]
    # The second one goes beside the first, and what was moved with its state can be resumed.
    assert calque("train", run, "--restart").status == 0
    again = calque("train", run / "replaced-0002", "--set", "train.max_updates=10")
    assert again.status == 0, again
    assert weights(aside) == before


def weighted(folder: Path, weight: float) -> str:
    """An override: the text of `folder` with a weight, mixed with that of validation."""
    return f'data.train=[{{source="{folder}/train.source", target="{folder}/train.target", weight={weight}}}, ' + (
        f'{{source="{folder}/valid.source", target="{folder}/valid.target"}}]'
    )


def test_weights_beyond_memory_are_refused_before_the_run_is_written(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for command in ("train", "prepare"):
        done = calque(command, experiment(tmp_path), "--out", run, "--set", weighted(tmp_path, 1e-9))
        refused(done, "D314")
        assert "an epoch has 120,000,000,120 pairs; at most 500,000,000 are possible" in done.err
        assert {path.name for path in run.iterdir()} == {"data"}
    done = calque("train", tmp_path / "tiny.toml", "--out", run, "--set", weighted(tmp_path, 8))
    assert (done.status, "data: up to date" in done.err) == (0, True), done


@pytest.mark.parametrize("given", ["tiny.toml", "run/experiment.toml"])
def test_an_experiment_file_of_the_user_is_not_replaced(calque: Run, tmp_path: Path, given: str) -> None:
    mine = tmp_path / "run" / "experiment.toml"
    mine.parent.mkdir()
    shutil.copy2(experiment(tmp_path), mine)
    before = mine.read_text()
    refused(calque("train", tmp_path / given, "--out", mine.parent), "X418", 2)
    assert mine.read_text() == before
    assert list(mine.parent.iterdir()) == [mine]
    mine.rename(mine.with_name("architecture.adl"))
    for option in ((), ("--restart",)):
        refused(calque("train", tmp_path / "tiny.toml", "--out", mine.parent, *option), "X418", 2)
    assert mine.with_name("architecture.adl").read_text() == before


def test_restart_needs_no_text(calque: Run, run: Path) -> None:
    for path in run.parent.glob("*.source"):
        path.unlink()
    before = weights(run)
    done = calque("train", run, "--restart")
    assert done.status == 0, done
    assert weights(run) == before  # of the same text, with the same seed


@pytest.mark.medium
def test_what_is_wrong_is_said_before_anything_is_moved(calque: Run, run: Path) -> None:
    before = everything(run)
    refused(calque("train", run, "--restart", "--from", run.parent / "none"), "X118", 2)
    for keys, code, status in (
        (["data.joint=false", "model.tying=three-way"], "X225", 2),
        (["data.stream=none"], "D101", 1),
        ([f"data.train=['{run.parent}/none', '{run.parent}/train.target']"], "D101", 1),
        (["data.max_tokens=5", f"data.valid=['none', '{run.parent}/train.target']"], "D101", 1),
    ):
        for asked in ([run], [run.parent / "tiny.toml", "--out", run]):
            done = calque("train", *asked, "--restart", *(word for key in keys for word in ("--set", key)))
            refused(done, code, status)
            assert everything(run) == before
    assert calque("train", run, "--restart", "--set", weighted(run.parent, 1)).status == 0
    before = everything(run)
    refused(calque("train", run, "--restart", "--set", weighted(run.parent, 1e-9)), "D314")
    assert everything(run) == before


def corpus_of(run: Path) -> list[str]:
    """The training text that the compiled corpus of a run names, the same that its experiment does."""
    named: list[str] = json.loads((run / "data" / "corpus.json").read_text())["settings"]["train"]
    assert f"train = {json.dumps(named)}" in (run / "experiment.toml").read_text()
    return named


@pytest.mark.medium
@pytest.mark.parametrize("how", ["restart", "not begun"])
def test_a_run_that_begins_anew_takes_the_text_that_the_call_names(calque: Run, run: Path, how: str) -> None:
    options = ["--restart"]
    if how == "not begun":  # interrupted before its first state
        empty(run)
        (run / "model.json").unlink()
        (run / "model.safetensors").unlink()
        options = []
    wanted = [f"{run.parent}/{one}" for one in text(run.parent, "other", seed=9)]
    for _ in range(2):
        done = calque("train", run, "--set", f"data.train={json.dumps(wanted)}", *options)
        assert (done.status, "learning words" in done.err) == (0, True), done
        assert corpus_of(run) == wanted
        # Files of the same names elsewhere are other text, too.
        (run.parent / "more").mkdir(exist_ok=True)
        wanted = [f"{run.parent}/more/{one}" for one in text(run.parent / "more", "other", seed=10)]
        options = ["--restart"]


def test_a_restart_keeps_text_that_changed_in_its_place(calque: Run, run: Path) -> None:
    assert calque("train", run, "--restart", "--set", "data.max_tokens=9").status == 0  # compiled from here
    before = weights(run)
    text(run.parent, seed=9)
    done = calque("train", run, "--restart")
    assert "the text of the corpus has changed; the compiled one" in done.err
    assert weights(run) == before


def vocabulary(folder: Path) -> bytes:
    return (folder / "codecs" / "vocabulary.joint.txt").read_bytes()


@pytest.mark.medium
def test_a_restart_takes_the_vocabulary_that_the_call_names(calque: Run, run: Path) -> None:
    text(run.parent, "other", seed=9, letters="hgfedcba")
    names = f"data.train=['{run.parent}/other.source', '{run.parent}/other.target']"
    parent = run.parent / "parent"
    assert calque("train", run.parent / "tiny.toml", "--out", parent, "--set", names).status == 0
    own = vocabulary(run)
    assert sorted(own.split()) == sorted(vocabulary(parent).split())
    assert own != vocabulary(parent)
    for more, expected in (
        (["--from", parent], vocabulary(parent)),
        (["--set", "data.vocabulary=own"], own),
        (["--set", "data.vocabulary=parent"], vocabulary(parent)),
    ):
        done = calque("train", run, "--restart", *more)
        assert done.status == 0, done
        assert vocabulary(run) == vocabulary_of_corpus(run) == expected


@pytest.mark.medium
def test_a_restart_takes_the_merges_that_the_call_names(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for name, merge in (("one", "a b</w>\n"), ("two", "c d</w>\n")):
        (tmp_path / name).write_text(merge)
    made = experiment(tmp_path, data__subwords="codes", data__codes="one", max_updates=2)
    assert calque("train", made, "--out", run).status == 0
    named = ("--set", f"data.codes='{tmp_path}/two'")
    refused(calque("train", run, *named), "K201")
    assert calque("train", run, "--restart", *named).status == 0
    assert (run / "codecs" / "merges.joint.codes").read_text() == "c d</w>\n"
    (tmp_path / "two").unlink()
    assert calque("train", run, "--restart").status == 0


def vocabulary_of_corpus(run: Path) -> bytes:
    return (run / "data" / "vocabulary.joint.txt").read_bytes()


@pytest.mark.parametrize("subwords", ["words", "bpe"])
def test_sides_of_the_same_files_may_learn_their_vocabularies_apart(calque: Run, tmp_path: Path, subwords: str) -> None:
    files = text(tmp_path)
    keys = {"subwords": subwords, "vocabulary_size": 18 if subwords == "bpe" else 0, "joint": False}
    same = [files[0], files[0]]
    made = experiment(
        tmp_path, data__train=same, max_updates=2, **{f"data__{key}": value for key, value in keys.items()}
    )
    assert calque("check", made).status == 0
    done = calque("train", made, "--out", tmp_path / "run")
    assert done.status == 0, done
    assert (tmp_path / "run" / "codecs" / "codec.json").read_text().count('"joint": false') == 1


@pytest.mark.medium
def test_a_prepared_corpus_is_no_other_text(calque: Run, run: Path) -> None:
    new = run.parent / "new"
    tiny = run.parent / "tiny.toml"
    assert calque("prepare", tiny, "--out", new).status == 0
    gone(run.parent)
    for name in ("none", f"{run.parent}/other.source"):
        done = calque("train", tiny, "--out", new, "--set", f"data.train=['{name}', '{run.parent}/train.target']")
        assert (done.status, "error[D101]" in done.err) == (1, True), done
    moved = run.parent / "moved"  # the same files elsewhere
    tiny.write_text(tiny.read_text().replace("train.source", f"{moved}/train.source"))
    done = calque("train", tiny, "--out", new)
    assert (done.status, "the text of the corpus is gone" in done.err) == (0, True), done


def test_weights_change_also_where_the_text_is_gone(calque: Run, run: Path) -> None:
    mixed = run.parent / "mixed"
    assert calque("train", run.parent / "tiny.toml", "--out", mixed, "--set", weighted(run.parent, 1)).status == 0
    gone(run.parent)
    more = ("--set", weighted(run.parent, 2), "--set", "train.max_updates=10")
    done = calque("train", mixed, *more)
    assert (done.status, "data.train: weights = [2.0, 1.0]" in done.err) == (0, True), done


def killed(arguments: list[object], function: str, nth: int) -> int:
    """Runs a command in a process that is killed at its n-th call of a function of `os`; its exit status."""
    program = (
        "import os, signal, sys\n"
        "from calque import cli\n"
        f"plain, left = os.{function}, [{nth}]\n"
        "def last(*a, **k):\n"
        "    left[0] -= 1\n"
        "    if not left[0]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return plain(*a, **k)\n"
        f"os.{function} = last\n"
        f"sys.argv = ['calque', *{[str(a) for a in arguments]!r}]\n"
        "cli.main()\n"
    )
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode


@pytest.mark.slow
def test_a_restart_that_is_killed_loses_nothing(calque: Run, trained: Path, tmp_path: Path) -> None:
    before = weights(trained / "run")
    for nth in range(1, 20):
        run = tmp_path / f"run-{nth}"
        shutil.copytree(trained / "run", run)
        status = killed(["train", run, "--restart", "--set", "train.max_updates=2"], "rename", nth)
        places = [run, *run.glob(".replaced.new"), *run.glob("replaced-*")]
        assert any((p / "model.json").exists() and weights(p) == before for p in places)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        # Without the flag nothing is lost either, whatever it does: it continues, begins anew or refuses.
        calque("train", run)
        assert any((p / "model.json").exists() and weights(p) == before for p in [run, *run.glob("*replaced*")])
        done = calque("train", run, "--restart")
        assert done.status == 0, done
        kept = [p for p in run.glob("replaced-*") if (p / "model.json").exists() and weights(p) == before]
        assert kept
        assert read_tensors(kept[0] / "model")
        assert not list(run.glob(".*"))
    else:
        pytest.fail("the command has more renames than this")


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_a_device_that_is_not_there_is_refused_before_any_work(
    calque: Run, run: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    before = everything(run)
    cuda = ("--set", "train.device=cuda", *options)
    refused(calque("train", run, *cuda), "X410", 2)
    refused(calque("train", run.parent / "tiny.toml", "--out", run.parent / "new", *cuda), "X410", 2)
    assert everything(run) == before
    (phase,) = (run / "phases").glob("*.toml")
    phase.write_text(phase.read_text().replace('device = "cpu"', 'device = "cuda"'))
    refused(calque("train", run, "--out", run.parent / "again", *options), "X410", 2)
    assert not [p for p in (run.parent / "new", run.parent / "again") if p.exists()]


def gone(folder: Path) -> None:
    for path in [*folder.glob("*.source"), *folder.glob("*.target")]:
        path.unlink()


@pytest.mark.parametrize("by", ["run", "experiment"])
def test_a_run_continues_without_its_text(calque: Run, run: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    made, half = run.parent / "tiny.toml", run.parent / "half"
    with monkeypatch.context() as m:
        stop_after(m, 3)
        assert calque("train", made, "--out", half).status == 130
    gone(run.parent)
    done = calque("train", half) if by == "run" else calque("train", made, "--out", half)
    assert done.status == 0, done
    assert "the text of the corpus is gone" in done.err
    assert weights(half) == weights(run)


def test_another_architecture_is_refused_with_the_way_to_its_edits(calque: Run, run: Path) -> None:
    other = run.parent / "other.toml"
    other.write_text((run.parent / "tiny.toml").read_text().replace("encoder = pos", "encoder = pos -> norm", 1))
    done = calque("train", other, "--out", run)
    refused(done, "K201")
    assert f"`calque diff {run} NEW` shows the edits" in done.err
    shown = calque("diff", run, other)
    assert (shown.status, "insert `norm" in shown.out) == (0, True), shown


def test_a_run_continues_with_its_own_text(calque: Run, run: Path) -> None:
    text(run.parent, seed=9)
    other = calque("train", run.parent / "tiny.toml", "--out", run)
    refused(other, "K201")
    assert "`train.source, train.target as compiled before`" in other.err
    corpus = json.loads((run / "checkpoints" / "state-8.json").read_text())["identity"]["corpus"]
    done = calque("train", run, "--set", "train.max_updates=10")
    assert done.status == 0, done
    assert "the text of the corpus has changed" in done.err
    assert json.loads((run / "checkpoints" / "state-10.json").read_text())["identity"]["corpus"] == corpus


def test_other_text_in_place_of_text_that_is_gone_is_refused(calque: Run, run: Path) -> None:
    text(run.parent, seed=9)
    (run.parent / "train.target").unlink()
    refused(calque("train", run.parent / "tiny.toml", "--out", run), "D101")
    gone(run.parent)
    done = calque("train", run.parent / "tiny.toml", "--out", run, "--set", "data.max_tokens=5")
    assert (done.status, done.err.count("error[D101]")) == (1, 4)


def test_other_text_that_a_call_names_is_refused_also_for_the_run_itself(calque: Run, run: Path) -> None:
    before = (run / "experiment.toml").read_bytes()
    names = json.dumps([f"{run.parent}/{one}" for one in text(run.parent, "other", seed=9)])
    for key, value in (("train", names), ("valid", names), ("valid", '["none", "none"]')):
        done = calque("train", run, "--set", f"data.{key}={value}", "--set", "train.max_updates=30")
        refused(done, "K201")
        assert f"another corpus: expected `data.{key} = " in done.err
    assert (run / "experiment.toml").read_bytes() == before


def test_a_damaged_corpus_without_text_is_said(calque: Run, run: Path) -> None:
    gone(run.parent)
    file = run / "data" / "train.source.ids"
    file.write_bytes(file.read_bytes()[:-1] + b"\7")
    refused(calque("train", run), "D304")


def test_a_corpus_of_another_run_is_not_replaced(calque: Run, run: Path) -> None:
    before = everything(run / "data")
    other = experiment(run.parent, "other", data__train=text(run.parent, "train2", seed=8))
    refused(calque("prepare", other, "--out", run), "K201")
    empty(run)
    refused(calque("prepare", other, "--out", run), "K201")
    assert everything(run / "data") == before
    assert calque("prepare", run.parent / "tiny.toml", "--out", run).status == 0


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            ["data.vocabulary_size=7"],
            "another corpus: expected `data.vocabulary_size = 0`, found `data.vocabulary_size = 7`",
        ),
        (
            ["data.max_tokens=9", "data.joint=false"],
            "expected `data.joint = true, data.max_tokens = 200`, found `data.joint = false, data.max_tokens = 9`",
        ),
        (["model.tying=none"], 'another shape: expected `model.tying = "three-way"`, found `model.tying = "none"`'),
    ],
)
def test_a_run_with_other_keys_is_refused_by_their_names(calque: Run, run: Path, keys: list[str], told: str) -> None:
    done = calque("train", run.parent / "tiny.toml", "--out", run, *(word for key in keys for word in ("--set", key)))
    refused(done, "K201")
    assert told in done.err


PLUGIN = """
from calque.layers.contract import Stateless

class Twice(Stateless):
    name = "twice"
    def forward(self, x, ctx):
        return 2 * x
"""


def test_plugins_are_found_from_the_experiment(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made" / "layers").mkdir(parents=True)
    (tmp_path / "made" / "layers" / "twice.py").write_text(PLUGIN)
    keys = {
        "model__plugins": ["layers/twice.py"],
        "model__text": TEXT.replace("encoder = pos", "encoder = pos -> twice"),
    }
    experiment(tmp_path / "made", **keys)
    monkeypatch.chdir(tmp_path)
    done = calque("train", "made/tiny.toml", "--out", "run", "--set", "train.max_updates=2")
    assert done.status == 0, done
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert calque("translate", "../run", stdin=b"a b\n").status == 0
    assert calque("train", "../run", "--set", "train.max_updates=3").status == 0
    # What --set names starts from the current folder, as every other path of --set.
    given = ["--set", "model.plugins=['made/layers/twice.py']"]
    monkeypatch.chdir(tmp_path)
    assert calque("train", "made/tiny.toml", "--out", "run2", *given, "--set", "train.max_updates=2").status == 0


@pytest.mark.medium
def test_a_run_keeps_the_files_of_its_plugins(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.py").write_text(PLUGIN)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "twice.py").write_text(PLUGIN.replace('"twice"', '"again"'))
    text = TEXT.replace("encoder = pos", "encoder = pos -> twice -> again")
    experiment(tmp_path, model__plugins=["twice.py", "more/twice.py"], model__text=text)
    assert calque("train", "tiny.toml", "--out", "run", "--set", "train.max_updates=2").status == 0
    assert sorted(f.name for f in (tmp_path / "run" / "plugins").iterdir()) == ["twice-2.py", "twice.py"]
    want = calque("translate", "run", stdin=b"a b\n").out
    # The files change: the run does not, and cannot be trained on with them.
    (tmp_path / "twice.py").write_text(PLUGIN.replace("2 * x", "-9 * x"))
    assert calque("translate", "run", stdin=b"a b\n").out == want
    done = calque("train", "tiny.toml", "--out", "run", "--set", "train.max_updates=3")
    assert (done.status, "K201" in done.err, "set of plugins" in done.err) == (1, True, True), done.err
    assert calque("train", "run", "--set", "train.max_updates=3").status == 0
    # They and the run go elsewhere: the run needs nothing outside its folder, nor does its record.
    (tmp_path / "twice.py").unlink()
    (tmp_path / "run").rename(tmp_path / "moved")
    assert calque("translate", "moved", stdin=b"a b\n").status == 0
    assert calque("train", "moved", "--out", "again").status == 0
    assert (tmp_path / "again" / "plugins" / "twice.py").read_text() == PLUGIN
    # A new training takes the new files, and keeps the old ones beside its old run.
    (tmp_path / "twice.py").write_text(PLUGIN.replace("2 * x", "3 * x"))
    assert calque("train", "tiny.toml", "--out", "moved", "--restart", "--set", "train.max_updates=2").status == 0
    assert "3 * x" in (tmp_path / "moved" / "plugins" / "twice.py").read_text()
    assert (tmp_path / "moved" / "replaced-0001" / "plugins" / "twice.py").read_text() == PLUGIN
    assert calque("translate", "moved/replaced-0001", stdin=b"a b\n").status == 0


def hidden(run: Path) -> list[Path]:
    return sorted(run.rglob(".*"))


LEFT = [
    "codecs/.vocabulary.joint.txt.abcd1234",
    "codecs/.codec.json.abcd_234",
    "phases/.0001-from-update-0.toml.abcd1234",
    "checkpoints/.8.json.abcd1234",
    "checkpoints/.9.safetensors.tmp",
    ".model.json.abcd1234",
    ".model.json.old",
    ".model.safetensors.tmp",
    ".experiment.toml.abcd1234",
    ".log.jsonl.abcd1234",
    ".tune.jsonl.abcd1234",
]


@pytest.mark.parametrize("command", ["translate", "train"])
def test_the_next_command_clears_what_killed_ones_left(calque: Run, run: Path, command: str) -> None:
    for name in LEFT:
        (run / name).write_text("{}")
    before = weights(run)
    assert calque(command, run, stdin=b"a\n").status == 0
    assert hidden(run) == []
    assert weights(run) == before


@pytest.mark.parametrize("command", ["train", "translate", "prepare"])
def test_a_corpus_that_was_half_compiled_is_cleared(calque: Run, run: Path, command: str) -> None:
    for name in (".data.new", ".data.old"):
        (run / name).mkdir()
        (run / name / "train.source.ids").write_text("")
    assert calque(command, run, stdin=b"a\n").status == 0
    assert hidden(run) == []


def test_what_lives_is_not_cleared(calque: Run, run: Path) -> None:
    from calque.ground.files import only, staged

    with only(run / "training.lock"), staged(run / "tune.jsonl", b"") as alive:
        (run / ".model.safetensors.tmp").write_text("of a training that is under way")
        assert calque("translate", run, stdin=b"a\n").status == 0
        assert hidden(run) == sorted([alive, run / ".model.safetensors.tmp"])


def test_a_model_that_names_a_temporary_file_is_read(calque: Run, run: Path) -> None:
    """Older versions took what a killed process had left for a part of the codecs."""
    from calque.data.corpus import seal

    about = json.loads((run / "model.json").read_text())
    about["codecs"][".vocabulary.joint.txt.abcd1234"] = "0" * 64
    (run / "model.json").write_text(json.dumps({**about, "seal": seal(about)}))
    assert calque("translate", run, stdin=b"a\n").status == 0
    (run / "codecs" / ".vocabulary.joint.txt.abcd1234").write_text("")
    assert calque("train", run, "--set", "train.max_updates=9").status == 0
    assert not any(name.startswith(".") for name in json.loads((run / "model.json").read_text())["codecs"])


@pytest.mark.slow
def test_killed_at_every_file_it_clears_up_and_ends_alike(calque: Run, run: Path) -> None:
    whole = run.parent / "whole"
    made = experiment(run.parent, "short", max_updates=2)
    assert calque("train", made, "--out", whole).status == 0
    kills = 0
    for nth in range(1, 60, 2):
        other = run.parent / f"killed-{nth}"
        status = killed(["train", made, "--out", other], "replace", nth)
        kills += status != 0
        assert status in (0, -signal.SIGKILL)
        done = calque("train", made, "--out", other)
        assert done.status == 0, done
        assert hidden(other) == []
        assert weights(other) == weights(whole)
        assert [line["changes"] for line in log(other, "phase")] == [{}]
        if status == 0:
            break
    assert kills > 5


def test_a_model_whose_json_was_being_replaced_comes_back(calque: Run, run: Path) -> None:
    before = everything(run)
    os.rename(run / "model.json", run / ".model.json.old")
    assert calque("translate", run, stdin=b"a\n").status == 0
    assert everything(run) == before


@pytest.mark.medium
def test_reports_are_cleared_too(calque: Run, run: Path) -> None:
    pytest.importorskip("matplotlib")
    out = run.parent / "report"
    (out / "kept").mkdir(parents=True)
    for name in (".curves.svg.abcd1234", "kept/.section-curves.json.abcd1234"):
        (out / name).write_text("")
    done = calque("analyse", run, "--figure", "curves", "--out", out)
    assert done.status == 0, done
    assert hidden(out) == []
