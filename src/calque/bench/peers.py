"""Other systems to compare with: each runs in a process of its own, under an interpreter that has its packages."""

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from calque.adl.check import CheckedDefinition, check
from calque.bench import peer_runner
from calque.ground.diagnostics import Text, error, reason_of
from calque.layers.registry import builtin

PRECISIONS = {
    "hf": ("float32", "bfloat16"),
    "ctranslate2": ("float32", "int8", "bfloat16"),
    "sockeye": ("float32", "int8"),
    "joeynmt": ("float32",),
}
"""Peers -> the types of weights that they support, as in `hf:bfloat16`; the first is the default."""
TRAINED = ("hf", "sockeye")
"""The peers that can be trained."""
_STANDARD = """\
d = {width}
heads = {heads}
p = {dropout}
encoder = pos -> repeat({layers}, tenc) -> norm
decoder = pos -> repeat({layers}, tdec) -> norm
"""


class Sizes(NamedTuple):
    """The sizes of a Transformer that every system can build; its inner layers are four times as wide as the others."""

    width: int
    heads: int
    layers: int
    dropout: float
    vocabulary: int


def sizes_of(checked: CheckedDefinition, vocabulary: int) -> Sizes:
    """The sizes of a standard pre-norm Transformer. Raises X602 where the definition is another architecture."""
    heads, layers, dropout = (
        re.search(p, checked.text) for p in (r"heads=(\d+)", r"repeat\((\d+),", r"dropout\(p=([\d.]+)")
    )
    if heads and layers and dropout:
        sizes = Sizes(checked.width, int(heads[1]), int(layers[1]), float(dropout[1]), vocabulary)
        if check(Text("standard", _STANDARD.format(**sizes._asdict())), builtin()) == checked:
            return sizes
    raise error("X602", None)


class Peer:
    """A running peer: `ask` sends it a request and waits for its answer."""

    def __init__(self, name: str, python: str, sizes: Sizes, threads: int, workers: int = 1):
        """`name`: a key of `PRECISIONS`, with a type or without; `workers` batches at a time. Raises X601 where it cannot run."""
        system, _, precision = name.partition(":")
        self.name = name
        precision = precision or PRECISIONS[system][0]
        count = {key: str(threads) for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        try:
            self._process = subprocess.Popen(
                [python, "-I", str(Path(peer_runner.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **count},
                text=True,
            )
        except OSError as e:
            raise error("X601", None, name=name, reason=f"`{python}`: {reason_of(e)}") from None
        build = {"do": "build", "system": system, "precision": precision, "threads": threads, "workers": workers}
        self.ask({**build, **sizes._asdict()})

    def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """The answer to a request. Raises X601 where the peer reports a fault or ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:  # the process has ended, so there is no answer
            pass
        reply: dict[str, Any] = json.loads(answer) if answer else {"fault": "its process ended without an answer"}
        if "fault" in reply:
            self._end()
            raise error("X601", None, name=self.name, reason=reply["fault"])
        return reply

    def _end(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # a buffered request cannot reach a process that has ended
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()
