"""The targets on docs/speed.md: whether each is met follows from the figures of the ledger."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benchmarks" / "targets.py"
TARGETS: list[Any] = runpy.run_path(str(PROGRAM))["targets"]()


@pytest.mark.parametrize("target", TARGETS, ids=[target.what for target in TARGETS])
def test_a_target_is_met_where_the_figures_say_so(target: Any) -> None:
    assert target.verdict == ("met" if target.reached >= target.factor else "missed")


def test_every_target_is_held() -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    table = page[page.index("## Targets") : page.index("Why some are missed")]
    assert len(TARGETS) == len(re.findall(r"^\| ", table, re.MULTILINE)) - 1 > 0


@pytest.mark.medium
def test_the_program_lists_what_it_would_measure_here(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), "--list"], capture_output=True, text=True, check=True
    )
    listed = json.loads(done.stdout)
    assert listed.keys() < {target.ours for target in TARGETS}
    assert all(one["before"] == one["now"] for one in listed.values())
    for wrong in ([str(tmp_path / "none")], [str(tmp_path), "--only", "none"]):
        refused = subprocess.run([sys.executable, str(PROGRAM), *wrong], capture_output=True, text=True)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    groups = {target.group for target in TARGETS if target.ours in listed}
    assert len(groups) <= 1
