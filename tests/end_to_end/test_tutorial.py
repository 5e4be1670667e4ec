"""Every block of docs/tutorial.md runs, in order, in one folder. Comments `<!-- test: ... -->` make trainings short.

The layers of docs/own-layer.md pass the laws.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"^<!-- test: (?P<test>.*?) -->$"
    r"|^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$"
    r"|^ {4}(?P<command>[^\n]+)$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    kind: str
    body: str
    title: str
    test: str
    """What the comment before it says."""


def blocks(page: str = "tutorial.md") -> Iterator[Block]:
    """The blocks of the page in order; a comment holds for the command behind it."""
    test = ""
    for match in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        if match["test"] is not None:
            test = match["test"]
            continue
        kind = "command" if match["command"] else match["kind"]
        yield Block(kind, match["command"] or match["body"], match["title"] or "", test)
        test = ""


def shell(block: Block, folder: Path) -> str:
    """Runs a command as a reader would type it; what it prints."""
    status = 0
    line = block.body
    if block.test.startswith("status "):
        status = int(block.test.removeprefix("status "))
    elif block.test.startswith("--"):
        line = f"{line} {block.test}"
    line = re.sub(r"\bcalque (?=[a-z])", f"{sys.executable} -m calque.cli ", line)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == status, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
def test_every_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    printed = ""
    for block in blocks():
        if block.title:
            (tmp_path / block.title).write_text(block.body, encoding="utf-8")
        elif block.kind == "command":
            printed = shell(block, tmp_path)
        elif block.kind == "text":
            for line in block.body.strip().splitlines():
                assert line in printed, f"{line}\nis not in\n{printed}"
        elif block.kind == "python":
            done = subprocess.run(
                [sys.executable, "-c", block.body], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip()


def test_the_tutorial_has_blocks_of_every_kind() -> None:
    kinds = [block.kind for block in blocks()]
    assert kinds.count("command") >= 12
    assert {"adl", "python", "text"} <= set(kinds)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["square.py", "power.py"])
def test_a_layer_of_the_page_on_layers_passes_the_laws(tmp_path: Path, name: str) -> None:
    (body,) = [block.body for block in blocks("own-layer.md") if block.title == name]
    (tmp_path / name).write_text(body, encoding="utf-8")
    printed = shell(Block("command", f"calque prove {name}", "", ""), tmp_path)
    assert "ok   model" in printed
