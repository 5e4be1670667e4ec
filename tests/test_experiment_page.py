"""docs/experiment.md is made from the declarations of the keys."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from calque.experiment import Experiment
from calque.experiment.keys_page import page

PAGE = Path(__file__).parent.parent / "docs" / "experiment.md"


def test_the_page_is_what_the_keys_declare() -> None:
    made = subprocess.run([sys.executable, "-m", "calque.experiment.keys_page"], capture_output=True, check=True).stdout
    assert PAGE.read_bytes() == made, "python -m calque.experiment.keys_page > docs/experiment.md"


def test_every_key_has_a_row_with_its_default_and_what_it_may_be() -> None:
    rows = {line.split(" | ")[0].strip("| `"): line for line in page().split("\n") if line.startswith("| `")}
    sections = [getattr(Experiment(), section.name) for section in fields(Experiment)]
    assert {key.name for part in sections for key in fields(part)} == set(rows)
    assert rows["patience"].startswith("| `patience` | `0` | a whole number from 0 | stop after")
    assert rows["optimiser"].startswith('| `optimiser` | `"adam"` | `"adam"`, `"sgd"`, `"muon"` |')
    assert rows["top_p"].startswith("| `top_p` | `1.0` | a number from 0.001 to 1 |")
    assert "`false` | true or false" in rows["tensorboard"]
    # A bar or an angle bracket would end the cell or vanish.
    assert all(line.count(" | ") == 3 and "<" not in line for line in rows.values())
