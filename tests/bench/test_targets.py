"""The targets on docs/speed.md: whether each is met follows from the figures of the ledger."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LINK = r"\[entry\]\(results/([\w.-]+)\.json\)"
ROWS = re.findall(
    rf"^\| ([^|]+) \| ([\w:]+) \| ([\d.]+) \| {LINK} \| (?:{LINK}|same) \| (met|missed) \|$",
    (DOCS / "speed.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


def median(entry: str, system: str) -> float:
    figures = json.loads((DOCS / "results" / f"{entry}.json").read_text(encoding="utf-8"))["figures"]
    if (seconds := figures.get(f"{system}: seconds")) is not None:
        return 1 / float(seconds)  # whole processes that translate the same lines
    name = rf"system {system}, (beam \d+, length \d+, )?target tokens per second, median"
    (found,) = (float(value) for key, value in figures.items() if re.fullmatch(name, key))
    return found


@pytest.mark.parametrize(("system", "factor", "ours", "theirs", "verdict"), [row[1:] for row in ROWS])
def test_a_target_is_met_where_the_figures_say_so(
    system: str, factor: str, ours: str, theirs: str, verdict: str
) -> None:
    reached = median(ours, "calque") / median(theirs or ours, system)
    assert verdict == ("met" if reached >= float(factor) else "missed")


def test_every_target_is_held() -> None:
    page = (DOCS / "speed.md").read_text(encoding="utf-8")
    table = page[page.index("## Targets") : page.index("Why some are missed")]
    assert len(ROWS) == len(re.findall(r"^\| ", table, re.MULTILINE)) - 1 > 0
