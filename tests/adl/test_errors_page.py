"""`docs/errors.md` shows what is really printed."""

import re
from pathlib import Path

import pytest
from adl_corpus import checked, faults

from calque.ground.diagnostics import render_all

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
BLOCK = re.compile(
    r"^## (.+?)\n.*?\$ cat model\.adl\n(.*?)\$ calque check model\.adl\n(.*?)```", re.MULTILINE | re.DOTALL
)
EXAMPLES = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("title", "body", "printed"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_example(title: str, body: str, printed: str) -> None:
    assert render_all(faults(body) or checked(body).warnings) + "\n" == printed


def test_all_examples_are_read() -> None:
    assert len(EXAMPLES) == PAGE.read_text(encoding="utf-8").count("```console\n") >= 10
