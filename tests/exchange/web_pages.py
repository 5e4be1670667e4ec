"""Exported pages: without a browser, their modules in Node.js and their graphs in onnxruntime; or for one, from a web server.

Tests and `benchmarks/web_page.py` use it.
"""

import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.data.codecs import Codec
from calque.exchange.page_text import text_of
from calque.exchange.to_web import NAME, TRANSLATOR
from calque.ground.diagnostics import Place

CHROMIUM = os.environ.get("CALQUE_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
NODE = shutil.which("node")
TYPES = {"int64": np.int64, "bool": np.bool_, "float32": np.float32}


class Page:
    """The modules of a page, which runs in another process."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]"):
        import onnxruntime

        self._process = process
        self.sources: list[list[int]] = []
        """The ids of each sentence that was encoded, its end included."""
        names = ("encoder", "init", "step")
        files = [folder / "model" / f"{name}.onnx" for name in names]
        self._graphs = {file.name: onnxruntime.InferenceSession(file) for file in files if file.exists()}
        self._answered("ready")

    def ask(self, what: str, of: Sequence[Any]) -> list[Any]:
        """What the page makes of each of these."""
        self._write({"can": what, "of": of})
        answers: list[Any] = self._answered("answers")
        return answers

    def _answered(self, key: str) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            if key in found:
                return found[key]
            if "inputs_of" in found:
                graph = self._graphs.get(found["inputs_of"])
                self._write([one.name for one in graph.get_inputs()] if graph else [])
                continue
            graph = self._graphs[found["run"]]
            inputs = {name: _array(one) for name, one in found["inputs"].items()}
            if "source" in inputs:
                self.sources.append(inputs["source"][inputs["mask"]].tolist())
            outputs = graph.run(None, inputs)
            names = [one.name for one in graph.get_outputs()]
            self._write([[name, _described(x)] for name, x in zip(names, outputs, strict=True)])
        raise AssertionError("the page has ended")

    def _write(self, question: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()


def _array(tensor: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(tensor["data"]), TYPES[tensor["type"]]).reshape(tensor["dims"])


def _described(x: Any) -> dict[str, Any]:
    return {"type": str(x.dtype), "data": base64.b64encode(x.tobytes()).decode(), "dims": list(x.shape)}


def text_page(folder: Path, source: Codec, target: Codec | None = None, recase: bool = True) -> Path:
    """A page without graphs, which reads and writes text by codecs."""
    own = resources.files("calque.exchange") / "web"
    for name in TRANSLATOR:
        (folder / "translator").mkdir(exist_ok=True)
        (folder / "translator" / name).write_bytes((own / name).read_bytes())
    each = [("source", source)] if target is None else [("source", source), ("target", target)]
    texts = {side: text_of(codec, side, NAME, Place(str(folder))) for side, codec in each}
    about = {**texts, "decode": {"recase": recase}, "source_positions": 64, "source_end": True, "numbers": ""}
    (folder / "model").mkdir()
    (folder / "model" / "model.json").write_text(json.dumps(about))
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """The page of a folder, until the end of the block; without Node.js the test is skipped."""
    if NODE is None:
        pytest.skip("Node.js is not installed")
    command = [NODE, str(Path(__file__).with_name("web_peer.mjs")), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Page(folder, process)
        finally:
            process.kill()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A web server for files that says nothing."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder until the end of the block."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
