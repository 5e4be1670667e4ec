"""Tables of speed, from the command line to the report. No figure of a clock is held."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.data.lines import Lines
from calque.ground.diagnostics import CalqueError
from calque.ledger import entry as ledger
from calque.papers import read_paper
from calque.papers.read_paper import load_paper
from calque.papers.report import ReportOptions
from calque.papers.timings import columns_of
from calque.workflow.api import load

ROWS = "transformer,aan"
SIZES = ["--d", 8, "--set", "n=1", "--set", "heads=2", "--set", "train.threads=1"]
SMALL = [*SIZES, "--set", "train.batch_tokens=40", "--set", "data.vocabulary_size=30", "--sentences", 2, "--repeats", 2]
FIGURE, LENGTHS = ("zhang2018", "figure7"), (6, 12, 18, 24, 30)
Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("calque.papers.speed.LENGTH", 3)

    def run(*arguments: object, out: str = "out", spec: tuple[str, ...] = ("zhang2018", "table3")) -> Result:
        given = [*words(spec, arguments, "time"), "--data", str(tmp_path / "corpora"), "--out", str(tmp_path / out)]
        return CliRunner().invoke(root, given)

    return run


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found.output
    return found.exception.diagnostics[0].code


@pytest.mark.medium
def test_table_3_without_text_or_training(call: Call, tmp_path: Path) -> None:
    found = call(*SMALL)
    assert found.exit_code == 0, found.output
    out = tmp_path / "out"
    (entry,) = ledger.read(out / "speed")
    assert entry.id == "zhang2018-table3-speed-random-budget-cpu"
    assert entry.kind == "speed"
    assert entry.conditions["rows"] == "transformer (uncached), aan, transformer-cached"
    assert entry.conditions["weights"] == "random"
    assert entry.conditions["threads"] == 1
    assert entry.conditions["precision"] == "bfloat16 in training, float32 in decoding"
    assert entry.conditions["vocabulary"] == 30
    assert entry.conditions["repeats"] == 2
    assert "--rows transformer,aan,transformer-cached --repeats 2 --sentences 2" in entry.command
    figures = entry.figures
    for row in ("transformer", "aan", "transformer-cached"):
        for what in ("updates/s", *(f"seconds/sentence beam={beam}" for beam in (4, 8, 12, 16, 20))):
            name = f"{row}, {what}"
            assert 0 < figures[f"{name}, lowest"] <= figures[name] <= figures[f"{name}, highest"]
            each = sorted(figures[f"{name}, repeat {k}"] for k in (1, 2))
            assert each == [figures[f"{name}, lowest"], figures[f"{name}, highest"]]
    assert "rows compared within each" in found.stdout
    # Keeping states makes no difference to training: measured once, told of both.
    assert figures["transformer, updates/s"] == figures["transformer-cached, updates/s"]
    ratio = figures["transformer, seconds/sentence beam=4"] / figures["aan, seconds/sentence beam=4"]
    assert figures["aan, seconds/sentence beam=4, times as fast as transformer"] == pytest.approx(ratio, rel=0.01)
    # The report beside the paper's figures and ratios.
    lines = [line.split() for line in found.stdout.split("\n")]
    line = next(line for line in lines if line[:4] == ["seconds/sentence", "beam=20", "Our", "Model"])
    assert line[-2:] == ["0.2122", "4.32"]
    assert "it decodes faster than the Transformer" in found.stdout
    assert "times as good" in found.stdout
    told = json.loads((out / "speed.json").read_text(encoding="utf-8"))
    assert len(told["lines"]) == 6 * 3
    grown = next(c for c in told["claims"] if c["claim"]["text"].startswith("... by a ratio"))
    assert grown["tested"][0]["paper"] == pytest.approx((0.9172 / 0.2122) / (0.1804 / 0.0488))
    page = (out / "speed.md").read_text(encoding="utf-8")
    assert "| seconds/sentence beam=4 | Our Model | aan |" in page
    # The report alone says the same; sizes are fixed for the folder.
    assert call("report").stdout == found.stdout
    assert code(call(*SMALL, "--set", "p=0.5")) == "X705"
    # Nothing was trained, so there is no report of trainings.
    assert not (out / "cells").exists()


def test_a_single_repeat_decides_nothing(call: Call, tmp_path: Path) -> None:
    found = call("--rows", ROWS, *SMALL, "--repeats", 1, spec=("zhang2018", "table5"))
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "speed")
    assert set(entry.figures) == {
        "transformer, seconds/sentence beam=4",
        "aan, seconds/sentence beam=4",
        "aan, seconds/sentence beam=4, times as fast as transformer",
    }
    assert "undecided" in found.stdout
    tren = call("report", "--pair", "wmt17-tren", spec=("zhang2018", "table5"))
    assert "WMT'17 Turkish-English" in tren.stdout
    assert "6.23" in tren.stdout


MIXED: dict[str, Any] = {
    "title": "Mixed",
    "cite": "Mixed 2020",
    "address": "-",
    "settings": {"d": 8},
    "pairs": {"ab": {"title": "A to B", "settings": {}}},
    "tables": {
        "table1": {
            "title": "All of it",
            "columns": [
                "ab bleu",
                "ab perplexity",
                "ab aer",
                "ab sentences/s",
                "ab source-words/s beam=2",
                "ab batch-tokens",
            ],
            "rows": {
                "one": {
                    "label": "One",
                    "encoder": "linear",
                    "decoder": "average -> mlp_src_att",
                    "figures": ["30", "5", "20", "10", "70", "9000"],
                },
                "two": {
                    "label": "Two",
                    "encoder": "ff",
                    "decoder": "linear -> mlp_src_att",
                    "figures": ["20", "6", "30", "20", "99", "9900"],
                },
            },
        }
    },
    "claims": [
        {
            "text": f"said of {metric}",
            "section": "1",
            "table": "table1",
            "kind": "above",
            "rows": rows,
            "columns": [f"ab {metric}"],
        }
        for metric, rows in {
            "bleu": ["one", "two"],
            "perplexity": ["one", "two"],
            "sentences/s": ["two", "one"],
            "batch-tokens": ["two", "one"],
        }.items()
    ],
}


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    made = load_paper("mixed2020", MIXED, {})
    monkeypatch.setattr(read_paper, "paper", lambda name: made)
    return "mixed2020", "table1"


@pytest.mark.medium
@pytest.mark.usefixtures("learned")
def test_a_table_of_scores_and_speeds(call: Call, corpora: Path, tmp_path: Path, mixed: tuple[str, str]) -> None:
    training = ["--set", "train.batch_tokens=40", "--set", "train.threads=1", "--updates", 3]
    trials = ["--trials", 100]
    # Without a metric it is BLEU, and rows are trained.
    found = call("train", *training, *trials, "--seeds", 2, spec=mixed)
    assert found.exit_code == 0, found.output
    assert "paper BLEU" in found.stdout
    assert "said of bleu" in found.stdout
    assert "said of perplexity" not in found.stdout
    # Perplexity: the lower one is the better one, and its seeds decide.
    found = call("train", *training, *trials, "--seeds", 2, "--metric", "perplexity", spec=mixed)
    assert found.exit_code == 0, found.output
    (entry, *_) = entries = ledger.read(tmp_path / "out" / "cells")
    values = {
        row: [float(e.figures["validation perplexity"]) for e in entries if e.conditions["row"] == row]
        for row in ("one", "two")
    }
    told = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    (claim,) = told["claims"]
    (tested,) = claim["tested"]
    expected = [min(values["two"]) / max(values["one"]), max(values["two"]) / min(values["one"])]
    assert tested["interval"] == pytest.approx(expected, rel=1e-3)
    assert tested["paper"] == pytest.approx(6 / 5)
    assert claim["verdict"] == ("holds" if expected[0] > 1 else "does not hold" if expected[1] < 1 else "undecided")
    assert "signature" not in found.stdout.split("times as good")[1]
    assert told["command"].endswith("--rows one,two --seeds 2 --pair ab --metric perplexity")
    # A figure that no cell has.
    assert code(call("report", "--metric", "aer", spec=mixed)) == "X708"
    # Speeds of the trained rows, beside figures that are not measured.
    found = call("time", *training, "--repeats", 2, "--sentences", 4, spec=mixed)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "speed")
    assert entry.conditions["weights"] == "trained"
    assert entry.conditions["words of a translation"] == "as the models like"
    assert entry.conditions["sentences"] == 4
    assert entry.conditions["beam"] == 5
    assert {name for name in entry.figures if "," not in name.removeprefix("two, ") and name.startswith("two")} == {
        "two, sentences/s",
        "two, source-words/s beam=2",
    }
    assert entry.figures["two, source-words/s beam=2, times as fast as one"] == pytest.approx(
        entry.figures["two, source-words/s beam=2"] / entry.figures["one, source-words/s beam=2"], rel=0.01
    )
    lines = [line.split() for line in found.stdout.split("\n")]
    assert ["batch-tokens", "Two", "two", "not", "measured", "-", "-", "-", "9900.0", "1.10"] in lines
    assert any(line[:6] == ["not", "tested", "said", "of", "batch-tokens", "(section"] for line in lines)
    assert "no figure of ab batch-tokens" in found.stdout
    assert "Not measured: batch-tokens: the largest batch is that of one accelerator's memory" in found.stdout
    # Without the training of one of them all weights are random; what is told is still of the trained ones.
    (tmp_path / "out" / "runs" / "two" / "1" / "model.json").unlink()
    timed = ["time", *training, "--repeats", 1, "--sentences", 1]
    assert call(*timed, spec=mixed).stdout == found.stdout
    assert {e.conditions["weights"] for e in ledger.read(tmp_path / "out" / "speed")} == {"trained", "random"}


@pytest.mark.parametrize("metric", ["batch-tokens", "nist-bleu"])
def test_what_nothing_measures_is_told_before_anything_is_written(
    call: Call, tmp_path: Path, mixed: tuple[str, str], metric: str
) -> None:
    expected = "X708" if metric == "batch-tokens" else "X707"
    assert code(call("report", "--metric", metric, spec=mixed)) == expected
    assert not (tmp_path / "out").exists()


def test_without_a_metric_it_is_bleu_or_the_first_that_is_measured(mixed: tuple[str, str]) -> None:
    paper = read_paper.paper("mixed2020")
    table = paper.table("table1")
    assert ReportOptions().column(paper, table).metric == "bleu"
    without = dataclasses.replace(table, columns=(table.columns[5], table.columns[4], table.columns[1]))
    assert str(ReportOptions().column(paper, without)) == "ab source-words/s beam=2"
    assert [c.what for c in columns_of(table)] == ["sentences/s", "source-words/s beam=2"]
    with pytest.raises(CalqueError) as caught:
        ReportOptions().column(paper, dataclasses.replace(table, columns=(table.columns[5],)))
    assert caught.value.diagnostics[0].code == "X707"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--rows", "ann"), "X702"),
        (("train", "--updates", "3"), "X707"),
        (("--pair", "wmt17-ende"), "X707"),
        (("--set", "head=4"), "X222"),
        (("--set", "train.lrr=1"), "X105"),
        (("report",), "X706"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    assert code(call(*arguments)) == expected
    assert not (tmp_path / "out").exists()


def test_one_process_times_all_rows(call: Call, tmp_path: Path) -> None:
    assert call("--shard", "1/2").exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.medium
def test_words_are_selected_where_the_table_says_so(call: Call, corpora: Path, tmp_path: Path) -> None:
    out, spec = tmp_path / "out", ("gehring2017", "table3")
    sizes = ["--rows", "deep-all,deep", "--d", 8, "--set", "n=1", "--set", "m=1", "--set", "train.threads=1"]
    drawn = ["--set", "data.vocabulary_size=30", "--sentences", 2, "--repeats", 1]
    found = call("time", *sizes, *drawn, out="random", spec=spec)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "random" / "speed")
    assert (entry.conditions["rows"], entry.conditions["words selected"]) == ("deep-all", None)
    # Of trained rows the same model is decoded twice, by a table that is learned once.
    few = ["--set", "decode.select_per_word=1", "--set", "decode.select_frequent=0"]
    shape = [*sizes, *few, "--set", "train.batch_tokens=40", "--updates", 3]
    found = call("train", *shape, "--seeds", 1, "--trials", 100, spec=spec)
    assert found.exit_code == 0, found.output
    cells = {str(e.conditions["row"]): e for e in ledger.read(out / "cells")}
    assert set(cells) == {"deep-all", "deep"}
    assert cells["deep"].conditions["settings"] == "deep-all 1, words selected"
    sources = list(Lines(corpora / "multi30k" / "tok" / "test2016.en"))
    said = {row: list(Lines(out / "hypotheses" / row / "1.txt")) for row in cells}
    assert said["deep"] == load(out / "runs" / "deep-all" / "1", select=out / "lexicon.txt").translate(sources)
    assert said["deep"] != said["deep-all"]
    held = (out / "lexicon.txt").stat().st_mtime_ns
    found = call("time", *shape, "--repeats", 1, "--sentences", 4, spec=spec)
    assert found.exit_code == 0, found.output
    assert (out / "lexicon.txt").stat().st_mtime_ns == held
    (entry,) = ledger.read(out / "speed")
    assert (entry.conditions["rows"], entry.conditions["words selected"]) == ("deep-all, deep", "deep")
    assert entry.figures["deep, source-words/s beam=10"] > 0
    keys = str(entry.conditions["keys"])
    assert 'data.subwords="codes"' in keys  # the training's
    assert "decode.select_per_word=1" in keys


@pytest.mark.medium
def test_a_reading_with_the_same_text_is_timed_with_the_model_of_its_row(
    call: Call, corpora: Path, tmp_path: Path
) -> None:
    shape = [*SIZES, "--set", "train.batch_tokens=40"]
    trained = call("train", *shape, "--rows", ROWS, "--updates", 3, "--seeds", 1, spec=("zhang2018", "table2"))
    assert trained.exit_code == 0, trained.output
    found = call("time", *shape, "--repeats", 1, "--sentences", 2, "--from", tmp_path / "out", out="timed")
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "timed" / "speed")
    assert (entry.conditions["weights"], entry.conditions["words selected"]) == ("trained", None)
    assert entry.conditions["rows"] == "transformer (uncached), aan, transformer-cached"
    assert len(str(entry.conditions["models"]).split(", ")) == 2
    assert entry.figures["transformer-cached, seconds/sentence beam=20"] > 0
    # By length: of each the sentences of the text that are nearest to it.
    by_length = call(
        "time", *shape, "--repeats", 2, "--sentences", 2, "--from", tmp_path / "out", out="long", spec=FIGURE
    )
    assert by_length.exit_code == 0, by_length.output
    (entry,) = ledger.read(tmp_path / "long" / "speed")
    assert entry.conditions["words of a translation"] == "as the models like"
    tokens = [float(one) for one in str(entry.conditions["source tokens a sentence"]).split(", ")]
    assert len(tokens) == len(LENGTHS)
    assert tokens == sorted(tokens)
    assert tokens[0] < tokens[1]


def test_times_by_length_need_no_text(call: Call, tmp_path: Path) -> None:
    found = call(*SMALL, spec=FIGURE)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "speed")
    assert entry.conditions["words of a translation"] == "as many as of the source"
    assert entry.conditions["source tokens a sentence"] == ", ".join(f"{n + 1}.0" for n in LENGTHS)
    for row in ("transformer", "aan", "transformer-cached"):
        assert all(entry.figures[f"{row}, seconds/sentence length={n}"] > 0 for n in LENGTHS)
    # The paper draws curves, without figures to stand beside.
    assert "the longer a sentence, the higher is its speed against the Transformer" in found.stdout
    assert "length=30 over seconds/sentence length=6 = " in found.stdout
