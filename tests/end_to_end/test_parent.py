"""`calque train --from RUN`: a training that starts from the weights of another run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Run
from tiny import TEXT, experiment, log, stop_after, text, weights

from calque.experiment import load
from calque.run.tensors import read_tensors


def done(calque: Run, *arguments: object, status: int = 0) -> str:
    """What a command that ends so writes to stderr."""
    found = calque(*arguments)
    assert found.status == status, found
    assert "Traceback" not in found.err
    return found.err


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run `run` on the letters a to h."""
    import sys

    from calque import cli

    folder = tmp_path_factory.mktemp("parent")
    with pytest.MonkeyPatch.context() as m:
        m.setattr(sys, "argv", ["calque", "train", str(experiment(folder)), "--out", str(folder / "run")])
        cli.main()
    return folder / "run"


def child(folder: Path, **keys: Any) -> Path:
    """An experiment on other text with fewer letters."""
    for split, pairs in (("train", 80), ("valid", 15)):
        folder.mkdir(exist_ok=True)
        keys.setdefault(f"data__{split}", text(folder, f"other-{split}", pairs, 5, "abcd"))
    return experiment(folder, "child", **keys)


def test_everything_fits_the_same_architecture(calque: Run, parent: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # With a rate of 0 the weights stay those that were taken over.
    told = done(calque, "train", child(tmp_path, lr=0.0, max_updates=1), "--from", parent, "--out", run)
    count = json.loads((parent / "model.json").read_text())["figures"]["parameters"]
    assert f"{count:,} of {count:,} parameters" in told
    assert "starts anew" not in told
    assert "the vocabulary is that of" in told
    assert weights(run) == weights(parent)
    assert (run / "codecs" / "vocabulary.joint.txt").read_bytes() == (
        parent / "codecs" / "vocabulary.joint.txt"
    ).read_bytes()
    theirs = json.loads((parent / "model.json").read_text())
    about = json.loads((run / "model.json").read_text())
    assert about["parent"]["architecture_hash"] == theirs["architecture_hash"]
    assert about["parent"]["sha256"] == theirs["sha256"]
    assert about["parent"]["parameters"] == [count, count]
    made = load(run / "experiment.toml")
    assert made.model.parent == str(parent)
    (start,) = log(run, "start")
    assert sum(start["parent"]["matched"].values()) == count
    assert calque("translate", run, stdin=b"a b c\n").out == calque("translate", parent, stdin=b"a b c\n").out


def test_the_keys_of_the_vocabulary_are_those_of_the_parent(calque: Run, parent: Path, tmp_path: Path) -> None:
    made = child(tmp_path, data__subwords="bpe", data__vocabulary_size=60, max_updates=2)
    done(calque, "train", made, "--from", parent, "--out", tmp_path / "run")
    data = load(tmp_path / "run" / "experiment.toml").data
    assert (data.subwords, data.vocabulary_size) == ("words", 0)
    # Compiling it alone gives the same corpus.
    assert "up to date" in done(calque, "prepare", tmp_path / "run", "--out", tmp_path / "run")


def test_sources_end_as_those_of_the_parent(calque: Run, tmp_path: Path) -> None:
    made = experiment(tmp_path, "open", data__source_end=False, max_updates=2)
    done(calque, "train", made, "--out", tmp_path / "open")
    begun = child(tmp_path, lr=0.0, max_updates=1)
    done(calque, "train", begun, "--from", tmp_path / "open", "--out", tmp_path / "run")
    assert load(tmp_path / "run" / "experiment.toml").data.source_end is False
    assert (
        calque("translate", tmp_path / "run", stdin=b"a b\n").out
        == calque("translate", tmp_path / "open", stdin=b"a b\n").out
    )
    # A run that has begun is compiled without its parent.
    shutil.rmtree(tmp_path / "open")
    assert "up to date" in done(calque, "prepare", tmp_path / "run", "--out", tmp_path / "run")


def test_parts_that_fit_are_taken_and_others_named(calque: Run, parent: Path, tmp_path: Path) -> None:
    wider = TEXT.replace("decoder = pos -> repeat(1, tdec)", "decoder = pos -> repeat(1, tdec) -> res(ff(16))")
    run = tmp_path / "run"
    told = done(calque, "train", child(tmp_path, model__text=wider, max_updates=2), "--from", parent, "--out", run)
    new = [line for line in told.split("\n") if "starts anew" in line]
    assert new
    assert all("decoder." in line for line in new)
    (start,) = log(run, "start")
    matched, others = start["parent"]["matched"], start["parent"]["others"]
    assert len(others) == len(new)
    held = read_tensors(run / "model")[0]
    assert matched.keys() | others.keys() == held.keys()
    assert "source_embedding.weight" in matched
    assert start["parent"]["parameters"] == [sum(matched.values()), sum(t.numel() for t in held.values())]


def test_a_vocabulary_of_its_own_has_embeddings_of_its_own(calque: Run, parent: Path, tmp_path: Path) -> None:
    run, keys = tmp_path / "run", {"data__vocabulary": "own", "max_updates": 1, "lr": 0.0}
    told = done(calque, "train", child(tmp_path, **keys), "--from", parent, "--out", run)
    assert "source_embedding.weight starts anew: the vocabulary is another" in told
    mine, theirs = (read_tensors(folder / "model")[0] for folder in (run, parent))
    assert mine["source_embedding.weight"].shape == (8, 16)
    inner = [name for name in mine if name.startswith(("encoder", "decoder"))]
    assert inner
    assert all(torch.equal(mine[name], theirs[name]) for name in inner)


def test_matrices_that_were_one_may_be_several(calque: Run, parent: Path, tmp_path: Path) -> None:
    run = tmp_path / "several"
    done(calque, "train", child(tmp_path, model__tying="none", max_updates=1, lr=0.0), "--from", parent, "--out", run)
    mine, theirs = (read_tensors(folder / "model")[0] for folder in (run, parent))
    for name in ("source_embedding.weight", "target_embedding.weight", "output.weight"):
        assert torch.equal(mine[name], theirs["source_embedding.weight"])
    # And several cannot become one unless they are alike.
    told = done(calque, "train", child(tmp_path, max_updates=1), "--from", run, "--out", tmp_path / "one")
    assert "source_embedding.weight starts anew: the parent has several matrices instead of one" in told


@pytest.mark.medium
def test_it_is_resumed_without_its_parent(
    calque: Run, parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(parent, mine)
    made = child(tmp_path)
    done(calque, "train", made, "--from", mine, "--out", tmp_path / "whole")
    for name in ("a", "b", "c"):
        with monkeypatch.context() as m:
            stop_after(m, 3)
            done(calque, "train", made, "--from", mine, "--out", tmp_path / name, status=130)
    shutil.rmtree(mine)
    done(calque, "train", tmp_path / "a")
    done(calque, "train", made, "--out", tmp_path / "b")
    done(calque, "train", made, "--from", mine, "--out", tmp_path / "c")
    for name in ("a", "b", "c"):
        assert weights(tmp_path / name) == weights(tmp_path / "whole")
        assert len(log(tmp_path / name, "phase")) == 1
        about = json.loads((tmp_path / name / "model.json").read_text())
        assert about["parent"]["sha256"] == weights(parent)
    told = done(calque, "train", tmp_path / "a", "--out", tmp_path / "again", status=1)
    assert "error[K205]" in told
    shutil.copytree(parent, mine)
    assert "bit for bit" in done(calque, "train", tmp_path / "a", "--out", tmp_path / "again")


@pytest.mark.medium
def test_another_parent_is_another_run(calque: Run, parent: Path, tmp_path: Path) -> None:
    made, other = child(tmp_path), tmp_path / "other"
    done(calque, "train", experiment(tmp_path, seed=2), "--out", other)
    done(calque, "train", made, "--from", parent, "--out", tmp_path / "run")
    done(calque, "train", made, "--out", tmp_path / "plain")
    for run, before_it, asked in ((tmp_path / "run", parent, other), (tmp_path / "plain", "none", parent)):
        before = weights(run)
        told = done(calque, "train", made, "--from", asked, "--out", run, status=1)
        assert "error[K201]" in told
        assert f"another parent: expected `{before_it}`, found `{asked}`" in told
        assert weights(run) == before


def test_nothing_that_fits_is_an_error(calque: Run, parent: Path, tmp_path: Path) -> None:
    made = child(tmp_path, model__text=TEXT.replace("d = 16", "d = 8"), model__output_bias=False)
    told = done(calque, "train", made, "--from", parent, "--out", tmp_path / "run", status=2)
    assert "error[X441]" in told
    assert not (tmp_path / "run" / "model.json").exists()


@pytest.mark.parametrize("damage", ["missing", "changed", "codecs"])
def test_a_parent_that_is_not_whole_is_an_error(calque: Run, parent: Path, tmp_path: Path, damage: str) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(parent, mine)
    file = mine / ("codecs/vocabulary.joint.txt" if damage == "codecs" else "model.safetensors")
    file.unlink() if damage == "missing" else file.write_bytes(file.read_bytes()[:-1] + b"\7")
    told = done(calque, "train", child(tmp_path), "--from", mine, "--out", tmp_path / "run", status=1)
    assert told.count("error[") == 1
    assert "error[K10" in told


def test_keys_that_contradict_those_of_the_parent_are_said(calque: Run, parent: Path, tmp_path: Path) -> None:
    made = child(tmp_path, data__vocabulary="own", max_updates=2, data__subwords="bpe", data__vocabulary_size=13)
    done(calque, "train", made, "--out", tmp_path / "pieces")
    made = child(tmp_path, decode__replace_unknown=True)
    told = done(calque, "train", made, "--from", tmp_path / "pieces", "--out", tmp_path / "run", status=2)
    assert "error[X801]" in told


def test_a_run_that_is_moved_aside_is_no_parent(calque: Run, parent: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done(calque, "train", child(tmp_path, max_updates=1), "--from", parent, "--out", run)
    before = weights(run)
    refused = calque("train", child(tmp_path, max_updates=1), "--from", run, "--out", run, "--restart")
    assert (refused.status, refused.err.count("error[X447]")) == (2, 1), refused.err
    assert weights(run) == before
