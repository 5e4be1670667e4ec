"""Runs another system, as a program under an interpreter that has its packages; Calque need not be installed there.

Reads one JSON object per line and answers each with one: `build` a model with random weights, `decode` batches, `train` on a
batch. All models are Transformers of the same sizes: tied embeddings, inner layers four times as wide. They normalise before
each block, as ours does; Hugging Face's Marian normalises after it. The matrix products are the same.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol, TypedDict

Rows = list[list[int]]
"""A batch: the words of each sentence."""


class PeerSize(TypedDict):
    """What `build` asks for: the sizes of the model, its type, its threads, and how many batches it decodes at a time."""

    width: int
    heads: int
    layers: int
    dropout: float
    vocabulary: int
    precision: str
    threads: int
    workers: int


class PeerSystem(Protocol):
    """A system with a model of the asked size; those of `calque.bench.peers.TRAINED` also have `train`."""

    versions: dict[str, str]

    def __init__(self, size: PeerSize): ...

    def decode(self, batches: list[Rows], beam: int, length: int) -> int:
        """Translates the batches with `length` words per sentence; returns the number of words that it wrote."""


SYSTEMS = {"hf": "HuggingFace", "ctranslate2": "CTranslate2", "sockeye": "Sockeye", "joeynmt": "JoeyNMT"}
"""Systems -> the class in `peer_SYSTEM.py`, beside this file."""


def build(system: str, size: PeerSize) -> PeerSystem:
    """The system, with a model of this size. Its file is loaded by its path, because Calque need not be installed."""
    spec = importlib.util.spec_from_file_location(system, Path(__file__).with_name(f"peer_{system}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    built: PeerSystem = getattr(module, SYSTEMS[system])(size)
    return built


def answer(system: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Does a piece of work and times it, in seconds."""
    began = time.perf_counter()
    if asked["do"] == "decode":
        tokens = system.decode(asked["batches"], asked["beam"], asked["length"])
        return {"seconds": time.perf_counter() - began, "tokens": tokens}
    loss = system.train(asked["pairs"], asked["smoothing"], asked["lr"])
    return {"seconds": time.perf_counter() - began, "loss": loss}


def main() -> None:
    """Answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not an answer
    system = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["do"] == "build":
                system = build(asked["system"], asked)
                reply: dict[str, Any] = system.versions
            else:
                reply = answer(system, asked)
        except Exception as e:
            reply = {"fault": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
