"""A training of a second, for tests of what is around it."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

TEXT = (
    "d = 16\nheads = 2\np = 0.1\nencoder = pos -> repeat(1, tenc) -> norm\ndecoder = pos -> repeat(1, tdec) -> norm\n"
)
PLAIN: dict[str, Any] = {
    "threads": 1,
    "device": "cpu",
    "precision": "float32",
    "batch_tokens": 200,
    "lr": 0.01,
    "warmup_updates": 4,
    "schedule": "plateau",
    "decay_patience": 1,
    "max_updates": 8,
    "validate_every_updates": 2,
    "log_every_updates": 2,
    "average_count": 2,
}


def text(folder: Path, name: str = "train", pairs: int = 120, seed: int = 3, letters: str = "abcdefgh") -> list[str]:
    """Two files, letters and the same backwards; their names."""
    draw = random.Random(seed)
    lines = [[draw.choice(letters) for _ in range(draw.randint(1, 6))] for _ in range(pairs)]
    files = folder / f"{name}.source", folder / f"{name}.target"
    for file, step in zip(files, (1, -1), strict=True):
        file.write_text("".join(" ".join(words[::step]) + "\n" for words in lines))
    return [file.name for file in files]


def experiment(folder: Path, name: str = "tiny", **keys: Any) -> Path:
    """An experiment file on the text `train` and `valid` of a folder; `keys` as section__key, or keys of [train]."""
    folder.mkdir(parents=True, exist_ok=True)
    sections: dict[str, dict[str, Any]] = {
        "data": {"subwords": "words", "vocabulary_size": 0},
        "model": {"text": TEXT},
        "train": dict(PLAIN),
        "decode": {"beam": 2},
    }
    for key, value in keys.items():
        section, _, own = key.rpartition("__")
        sections[section or "train"][own] = value
    for split, pairs in (("train", 120), ("valid", 15)):
        if split not in sections["data"]:
            sections["data"][split] = text(folder, split, pairs)
    if "file" in sections["model"]:
        del sections["model"]["text"]
    path = folder / f"{name}.toml"
    body = [
        f"[{s}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()) for s, values in sections.items()
    ]
    path.write_text("\n".join(body))
    return path


def log(run: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of a kind in the log of a run."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def weights(run: Path, name: str = "model") -> str:
    """The checksum of the weights of a run."""
    found: str = json.loads((run / f"{name}.json").read_text())["sha256"]
    return found


def everything(folder: Path) -> dict[str, bytes]:
    """All files of a folder, but for the lock."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "training.lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def stop_after(monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    """Has the person press Ctrl-C once, when so many updates are done."""
    pressed: list[int] = []

    def see(self: object, event: Any) -> None:
        if event.update >= update and not pressed:
            pressed.append(update)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("calque.train.progress.WATCH_SECONDS", -1.0)
    monkeypatch.setattr("calque.workflow.show.Show.__call__", see)
