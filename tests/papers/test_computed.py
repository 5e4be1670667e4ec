"""Tables that no training fills: orders beside numbers of the cost code, counts of a corpus beside the paper's."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from calque.cli import root
from calque.ground.diagnostics import CalqueError
from calque.papers import read_paper
from calque.papers.paper import COUNTS
from calque.papers.plan import computed_table
from calque.papers.read_paper import load_computed

# Pasted from the paper's text: You 2020, table 1.
COUNTED = """
IWSLT16 En-De 196,884 993 28.5 29.6
IWSLT17 En-Ja 223,108 1,452 22.9 16.0
WMT16 En-Ro 612,422 1,999 27.4 28.3
WMT14 En-De 4,500,966 3,003 28.5 29.6
WMT14 En-Fr 10,493,816 3,003 26.0 28.8
"""


WORDS = ("--set", 'data.subwords="words"', "--set", 'data.codes=""')


def call(*words: object) -> Result:

    return CliRunner().invoke(root, ["reproduce", "compute", *map(str, words)])


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


def test_orders_by_the_command(tmp_path: Path) -> None:
    found = call("zhang2018", "table1", "--set", "n=10", "--set", "n=20", "--set", "d=64", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    lines = [line.split("  ") for line in found.stdout.splitlines() if line.startswith("Original AAN")]
    assert [cell.strip() for cell in lines[0] if cell][1:5] == ["complexity", "n d^2", "n d^2", "yes"]
    about = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    by_row = {(row["row"], row["column"]): row for row in about["rows"]}
    assert by_row["original", "complexity"]["at"] == [{"n": n, "d": 64, "value": n * 12 * 64**2} for n in (10, 20)]
    assert about["command"] == "calque reproduce compute zhang2018 table1 --set n=10 --set n=20 --set d=64"
    assert "| Masked AAN | complexity | n^2 d + n d^2 |" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_another_order_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.papers import plan

    table = read_paper.paper("zhang2018").computed[0]
    entry: dict[str, Any] = {"label": "a", "decoder": "mh_dot_self_att", "figures": ["n d^2", "1", "1"]}
    wrong = load_computed("table1", {"title": "t", "columns": list(table.columns), "rows": {"a": entry}})
    monkeypatch.setattr(plan, "computed_table", lambda paper, name: wrong)
    found = call("zhang2018", "table1", "--out", tmp_path)
    assert found.exit_code == 1
    assert "no" in found.stdout.split()


def test_the_papers_counts() -> None:
    table = computed_table(read_paper.paper("you2020"), "table1")
    found = [" ".join([row.label, *row.figures]) for row in table.rows]
    assert found == COUNTED.strip().split("\n")


def test_counts_of_a_corpus(tmp_path: Path, corpora: Path) -> None:
    found = call("you2020", "table1", "--data", corpora, "--out", tmp_path / "out", *WORDS)
    assert found.exit_code == 0, found.output
    lengths = []
    for language in ("en", "de"):
        body = gzip.decompress((corpora / "multi30k" / "tok" / f"train.{language}.gz").read_bytes()).decode()
        lines = body.splitlines()
        lengths.append(sum(len(line.split()) for line in lines) / len(lines))
    about = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    here, first = about["rows"][:2]
    assert [here[name] for name in COUNTS] == ["60", "12", *(f"{length:.2f}" for length in lengths)]
    assert here["gamma"] == pytest.approx(lengths[0] / lengths[1], abs=1e-4)
    assert (first["label"], first["gamma"]) == ("IWSLT16 En-De", 0.9628)  # 28.5 / 29.6
    assert "196,884" in found.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("zhang2018", "table1", "--set", "n=1"), "X840"),
        (("zhang2018", "table1", "--set", "n=2*3"), "X840"),
        (("zhang2018", "table1", "--set", "d=3"), "X840"),
        (("zhang2018", "table1", "--set", "h=4"), "X222"),
        (("zhang2018", "table1", "--set", "n="), "X221"),
        (("you2020", "table1", "--set", "n=4"), "X222"),
        (("you2020", "table1", "--data", "nowhere"), "X703"),
    ],
)
def test_bad_input(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    assert code(call(*words, "--out", tmp_path / "out")) == expected
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": ["complexity"]},
        {"more": 1},
        {"rows": {"a": {"label": "a"}}},
        {"rows": {"a": {"label": "a", "figures": ["1"]}}},
        {"rows": {"a": {"label": "a", "figures": ["1", "2", "3", "4"], "decoder": "id"}}},
        {"columns": ["complexity", "sequential", "path"], "rows": {"a": {"label": "a", "reading_of": "b"}}},
    ],
)
def test_what_is_no_table(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="t"):
        load_computed("t", {"title": "t", "columns": list(COUNTS), "rows": {}} | changed)
