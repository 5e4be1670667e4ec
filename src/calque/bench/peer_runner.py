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
    """The request `build`: the sizes of the model, its type, its threads, and how many batches it decodes at a time."""

    width: int
    heads: int
    layers: int
    dropout: float
    vocabulary: int
    precision: str
    threads: int
    workers: int


class PeerSystem(Protocol):
    """A system with a model of the requested size; those of `calque.bench.peers.TRAINED` also have `train`."""

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


def answer(system: Any, request: dict[str, Any]) -> dict[str, float]:
    """Does what a request asks for and times it, in seconds."""
    began = time.perf_counter()
    if request["do"] == "decode":
        tokens = system.decode(request["batches"], request["beam"], request["length"])
        return {"seconds": time.perf_counter() - began, "tokens": tokens}
    loss = system.train(request["pairs"], request["smoothing"], request["lr"])
    return {"seconds": time.perf_counter() - began, "loss": loss}


def main() -> None:
    """Answers requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not an answer
    system = None
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, float] | dict[str, str] = {}
        try:
            if request["do"] == "build":
                system = build(request["system"], request)
            else:
                reply = answer(system, request)
        except Exception as e:
            reply = {"fault": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
