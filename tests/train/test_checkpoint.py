import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calque.experiment import TrainSettings
from calque.ground.diagnostics import CalqueError
from calque.run.tensors import read_tensors, write_tensors
from calque.train.checkpoint import Checkpoint, Checkpoints, average, best


def tensors(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"a.weight": torch.randn(4, 3, generator=generator), "b": torch.randn(5, generator=generator)}


def code(caught: "pytest.ExceptionInfo[CalqueError]") -> str:
    assert str(caught.value)  # every field of the sentence is there
    return caught.value.diagnostics[0].code


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "5", tensors(1), {"update": 5})
    found, about = read_tensors(tmp_path / "5")
    assert about["update"] == 5
    assert all(torch.equal(t, found[name]) for name, t in tensors(1).items())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["5.json", "5.safetensors"]


@pytest.mark.parametrize("part", ["safetensors", "json"])
def test_every_flipped_byte_is_seen(tmp_path: Path, part: str) -> None:
    write_tensors(tmp_path / "5", tensors(1), {"update": 5})
    path = tmp_path / f"5.{part}"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        if part == "json" and same_json(path.read_bytes(), whole):
            continue  # white space is nobody's
        with pytest.raises(CalqueError) as caught:
            read_tensors(tmp_path / "5")
        assert code(caught) in {"K102", "K103", "K104", "K105"}
        assert caught.value.exit_code == 1


def same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_missing_and_short_files(tmp_path: Path) -> None:
    with pytest.raises(CalqueError) as caught:
        read_tensors(tmp_path / "5")
    assert code(caught) == "K101"
    write_tensors(tmp_path / "5", tensors(1), {})
    weights = tmp_path / "5.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CalqueError) as caught:
        read_tensors(tmp_path / "5")
    assert code(caught) == "K104"
    weights.unlink()
    with pytest.raises(CalqueError) as caught:
        read_tensors(tmp_path / "5")
    assert code(caught) == "K101"


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "5", tensors(1), {})
    about = json.loads((tmp_path / "5.json").read_text())
    (tmp_path / "5.json").write_text(json.dumps({**about, "format": 2}))
    with pytest.raises(CalqueError) as caught:
        read_tensors(tmp_path / "5")
    assert code(caught) == "K103"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CalqueError) as caught:
        write_tensors(tmp_path / "file" / "5", tensors(1), {})
    assert code(caught) == "K301"


def kept(tmp_path: Path, perplexities: Mapping[int, float], **settings: Any) -> tuple[Checkpoints, list[str]]:
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path, TrainSettings(**settings))
    for update, perplexity in perplexities.items():
        checkpoints.save(tensors(update), update, {"perplexity": perplexity})
    return checkpoints, sorted(p.name for p in (tmp_path / "checkpoints").glob("*.safetensors"))


LINE = {1: 9.0, 2: 4.0, 3: 5.0, 4: None, 5: 6.0, 6: 8.0}


def test_the_best_and_the_newest_stay(tmp_path: Path) -> None:
    checkpoints, names = kept(tmp_path, LINE, keep_checkpoints=2, average_count=2)
    assert names == ["2.safetensors", "3.safetensors", "6.safetensors"]
    assert [c.update for c in checkpoints.averaged()] == [2, 3]
    again = Checkpoints(tmp_path, TrainSettings(keep_checkpoints=2, average_count=2))
    again.open(6)
    assert again.held == checkpoints.held
    again = Checkpoints(tmp_path, TrainSettings())
    again.open(3)  # what came after the state is done anew
    assert [c.update for c in again.held] == [2, 3]
    assert not (tmp_path / "checkpoints" / "6.json").exists()


def test_the_last_stay_where_they_are_averaged(tmp_path: Path) -> None:
    checkpoints, names = kept(tmp_path, LINE, keep_checkpoints=1, average="last", average_count=3)
    assert names == ["2.safetensors", "4.safetensors", "5.safetensors", "6.safetensors"]
    assert [c.update for c in checkpoints.averaged()] == [4, 5, 6]


def test_no_average_is_the_newest(tmp_path: Path) -> None:
    checkpoints, _ = kept(tmp_path, LINE, keep_checkpoints=1, average="none", average_count=3)
    assert [c.update for c in checkpoints.averaged()] == [6]


def test_best_prefers_the_later_of_equals() -> None:
    assert best([Checkpoint(1, 2.0), Checkpoint(2, 2.0), Checkpoint(3, 2.5)], 1) == [Checkpoint(2, 2.0)]


def test_average_is_the_mean(tmp_path: Path) -> None:
    paths = [tmp_path / str(n) for n in range(3)]
    for n, path in enumerate(paths):
        write_tensors(path, tensors(n), {})
    found = average(paths)
    for name, t in found.items():
        exact = np.mean([tensors(n)[name].numpy().astype(np.float64) for n in range(3)], 0).astype(np.float32)
        assert t.dtype == torch.float32
        assert np.array_equal(t.numpy(), exact)
    write_tensors(tmp_path / "other", {"a.weight": torch.zeros(4, 3)}, {})
    with pytest.raises(CalqueError) as caught:
        average([paths[0], tmp_path / "other"])
    assert code(caught) == "K106"
    with pytest.raises(CalqueError) as caught:
        average([])
    assert code(caught) == "K108"


@pytest.mark.parametrize("at", [1, 2])
def test_killed_before_a_rename_the_old_one_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoints = Checkpoints(tmp_path, TrainSettings(keep_checkpoints=1))
    checkpoints.save(tensors(1), 1, {"perplexity": 5.0})
    checkpoints.save_state(tensors(1), 1, {"n": 1})
    rename, left = os.replace, [at]

    def dies(*paths: Any) -> None:
        left[0] -= 1
        if not left[0]:
            os._exit(9)
        rename(*paths)

    def save(name: str) -> None:
        if name == "2":
            checkpoints.save(tensors(2), 2, {"perplexity": 4.0})
        else:
            checkpoints.save_state(tensors(2), 2, {"n": 2})

    for name in ("2", "state-2"):
        left[0] = at
        with warnings.catch_warnings():  # later Pythons warn of threads, and torch has some; the child uses none
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            monkeypatch.setattr(os, "replace", dies)
            save(name)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        names = {p.name for p in (tmp_path / "checkpoints").iterdir()}
        assert any(n.startswith(f".{name}.") or n == f"{name}.safetensors" for n in names)
        assert f"{name}.json" not in names
    later = Checkpoints(tmp_path, TrainSettings())
    state = later.load_state()
    assert state is not None
    assert state[1]["n"] == 1
    later.open(1)
    assert torch.equal(read_tensors(later.path(1))[0]["b"], tensors(1)["b"])
    names = {p.name for p in (tmp_path / "checkpoints").iterdir()}
    assert names == {"1.json", "1.safetensors", "state-1.json", "state-1.safetensors"}


def test_checkpoints_without_a_state_are_not_overwritten(tmp_path: Path) -> None:
    kept(tmp_path, {1: 3.0})
    with pytest.raises(CalqueError) as caught:
        Checkpoints(tmp_path, TrainSettings()).load_state()
    assert code(caught) == "K202"
