"""What a ledger keeps of each sentence, and the tests of claims and figures that are made of it."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from reproduced import words
from test_command import SMALL

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.cli import root
from calque.evaluate.statistics import measure
from calque.explain.fit import parameters
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError
from calque.layers.registry import builtin
from calque.ledger import entry as ledger
from calque.papers.claims import Resampling, common
from calque.papers.commands import request_of
from calque.papers.evidence import LedgerEvidence, SentenceNumbers, scores_of
from calque.papers.figure_claims import FigureClaim, figure_claims, judge_figure, sentence_parts
from calque.papers.figure_tests import SentenceOrder, SentenceTests, alike, cost, decided, parts_of
from calque.papers.ledger_tables import comparable, groups, tables_of
from calque.papers.notes import notes_of, plan_of
from calque.papers.paper import Column
from calque.papers.plan import Texts
from calque.papers.read_paper import paper
from calque.papers.remembered import Remembered
from calque.papers.request import Request
from calque.papers.results import write_pages
from calque.papers.shared_cells import TRAINED_AS

LEDGER = Path(__file__).parents[2] / "docs" / "results"
Call = Callable[..., Result]
RNG = np.random.default_rng(5)


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(root, [*map(str, arguments), "--data", str(corpora)])

    return run


def numbers(lengths: Sequence[int], right: Sequence[float], text: str = "a") -> SentenceNumbers:
    """Sentences of so many words, of which so large a share is right."""
    rows = []
    for n, share in zip(lengths, right, strict=True):
        matched = [round(max(n - k, 0) * share) for k in range(4)]
        rows.append([n, n, *matched, *(max(n - k, 0) for k in range(4))])
    return SentenceNumbers(text, np.array(lengths, float), {"bleu": np.array(rows, float)})


def test_numbers_are_kept_as_they_are(tmp_path: Path) -> None:
    hypotheses = ["der hund", "", "ein sehr langer satz mit vielen wörtern darin .", "x " * 300]
    references = ["der hund rennt", "a", "ein sehr langer satz mit wenigen wörtern .", "x " * 299]
    made = measure("bleu", tokenize="none").statistics(hypotheses, references)
    one = SentenceNumbers("abc", np.array([2.0, 1, 8, 299]), {"bleu": made}, {"encoder": np.array([0, 0.25, 1, 0.5])})
    one.write(tmp_path / "x" / "one.npz")
    again = SentenceNumbers.read(tmp_path / "x" / "one.npz")
    assert again.text == "abc"
    assert np.array_equal(again.counts["bleu"], made)
    assert np.array_equal(again.source_words, one.source_words)
    assert np.array_equal(again.away["encoder"], one.away["encoder"])
    first = (tmp_path / "x" / "one.npz").read_bytes()
    again.write(tmp_path / "x" / "one.npz")
    assert (tmp_path / "x" / "one.npz").read_bytes() == first
    (tmp_path / "x" / "one.npz").write_bytes(first[:-30])
    with pytest.raises(CalqueError, match="X857"):
        SentenceNumbers.read(tmp_path / "x" / "one.npz")


def test_results_are_remembered_and_those_of_lost_evidence_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    calls: list[int] = []

    def compute() -> tuple[float, float]:
        calls.append(1)
        return 0.1, -2.5

    first, a, b = Remembered(path), np.ones((2, 3)), np.ones((3, 2))
    assert first((1, a), compute) == (0.1, -2.5)
    first((1, b), compute)
    first((2, a), compute)
    assert len(calls) == 3
    first.write()
    second = Remembered(path)
    assert second((1, a), compute) == (0.1, -2.5)
    assert len(calls) == 3
    second.write()
    assert len(json.loads(path.read_text())) == 1
    path.write_text("[")
    assert Remembered(path)((1, a), compute) == (0.1, -2.5)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("expect", "interval", "verdict"),
    [
        ("above", (0.1, 2), "holds"),
        ("above", (-2, -0.1), "does not hold"),
        ("above", (-1, 1), "undecided"),
        ("below", (-2, -0.1), "holds"),
        ("below", (0.1, 1), "does not hold"),
        ("about", (-0.4, 0.4), "holds"),
        ("about", (0.6, 2), "does not hold"),
        ("about", (-0.4, 2), "undecided"),
        ("not-below", (-0.4, 9), "holds"),
        ("not-below", (-9, -0.6), "does not hold"),
        ("not-below", (-0.6, 9), "undecided"),
    ],
)
def test_what_is_expected_of_an_interval(expect: str, interval: tuple[float, float], verdict: str) -> None:
    assert decided(expect, *interval, 0.5) == verdict


def test_a_gap_that_grows_with_the_length_is_found() -> None:
    lengths = [5 + k % 40 for k in range(600)]
    good = [0.8 + RNG.normal(0, 0.02) for _ in lengths]
    bad = [0.8 - n / 100 + RNG.normal(0, 0.02) for n in lengths]
    cells = {"good": [numbers(lengths, good)] * 2, "bad": [numbers(lengths, bad)]}
    tests = SentenceTests(cells, 300, Remembered())
    parts = SentenceOrder("words", np.array(lengths, float)).parts(3)
    assert [len(part) for part in parts] == [200] * 3
    assert max(lengths[k] for k in parts[0]) <= min(lengths[k] for k in parts[2])
    found = tests.change(("bad", "good"), parts[0], parts[2], "below")
    assert found.verdict == "holds"
    low, high = found.interval
    assert low < found.value < high < 0
    assert tests.change(("good", "bad"), parts[0], parts[2], "below").verdict == "does not hold"
    assert tests.change(("good",), parts[0], parts[2], "not-below").verdict == "holds"
    whole = [measure("bleu", tokenize="none").score(cells[r][0].counts["bleu"][p].sum(0)) for r in cells for p in parts]
    alone = tests.difference("bleu", ("good", "bad"), parts[2], "above")
    assert alone.value == pytest.approx(float(whole[2] - whole[5]))
    assert alone.verdict == "holds"
    same = tests.difference("words", ("good", "bad"), parts[2], "about")
    assert (same.value, same.verdict, same.unit) == (pytest.approx(1.0), "holds", "times as many")


def test_the_share_that_looks_away_is_of_all_runs() -> None:
    near, far = ([replace(numbers([5] * 40, [1.0] * 40), away={"encoder": np.full(40, x)})] for x in (0.2, 0.4))
    (one,) = near
    assert parts_of("encoder", [one]) is not None
    assert parts_of("encoder", [one, numbers([5] * 40, [1.0] * 40)]) is None
    tests = SentenceTests({"one": near, "two": [*near, *far], "same": [*near, *near]}, 400, Remembered())
    share = tests.share("encoder", "below", "one")
    assert (share.value, share.verdict) == (pytest.approx(-30), "holds")
    assert tests.share("encoder", "below", "same").interval == pytest.approx((-30, -30))
    share = tests.share("encoder", "below", "two")
    assert share.value == pytest.approx(-20)
    assert share.interval == pytest.approx((-30, -10))


def cells_with(curves: dict[str, list[list[tuple[int, float, float]]]]) -> dict[str, list[ledger.Entry]]:
    return {
        row: [
            ledger.Entry(f"{row}-{k}", row, "quality", "c", "d", {}, {"x": 1}, validations=one)
            for k, one in enumerate(some)
        ]
        for row, some in curves.items()
    }


def test_learning_curves_are_compared_over_half_of_the_common_epochs() -> None:
    fast = [(k, float(k), 40.0 - 5 * k) for k in range(1, 6)]
    slow = [(k, float(k), 50.0 - 5 * k) for k in range(1, 8)]
    cells = cells_with({"fast": [fast, fast], "slow": [slow]})
    found = cost(("fast", "slow"), cells, "second", "above")
    assert found is not None
    assert found.verdict == "holds"
    assert found.interval == (pytest.approx(np.log(35 / 25)), pytest.approx(np.log(25 / 15)))
    first = cost(("fast", "slow"), cells, "first", "about")
    assert first is not None
    assert first.verdict == "does not hold"
    assert cost(("fast", "slow"), cells_with({"fast": [fast[:1]], "slow": [slow]}), "second", "above") is None


def test_sentences_longer_than_a_bound_are_compared() -> None:
    claim = FigureClaim("p", "figure1", "1", "said", "table1", "longer", "above", "source", over=13)
    order = SentenceOrder("words", np.array([13.0, 14, 2, 30]))
    assert sentence_parts(claim, order) == [[1, 3]]
    assert sentence_parts(replace(claim, test="each", parts=2), order) == [[2, 0], [1, 3]]


def test_every_claim_about_a_figure_is_of_rows_that_there_are() -> None:
    for name, claims in figure_claims().items():
        for claim in claims:
            table = paper(name).table(claim.table)
            assert {row.key for row in table.rows} >= set(claim.compared)
            assert bool(claim.needs) != bool(claim.test), claim
            assert judge_figure(claim, None, None).why
            if claim.test:
                assert claim.expect in ("above", "below", "about", "not-below")
                assert {len(pair) for pair in claim.pairs} == {1 if claim.test in ("keeps", "share") else 2}
    judged = {f"{name}/{claim.figure}" for name, some in figure_claims().items() for claim in some}
    judged |= {f"{name}/{claim.table}" for name in figure_claims() for claim in paper(name).claims}
    asked = (
        "luong2015/figure5",
        "luong2015/figure6",
        *(f"zhang2018/figure{k}" for k in (5, 6, 7)),
        "gehring2017/figure3",
    )
    assert judged >= {*asked, *(f"you2020/figure{k}" for k in (4, 5, 6, 8))}


def train(call: Call, out: str, row: str, seeds: int, *more: object, table: str = "table3") -> None:
    spec = words(
        ["domhan2018", table], ["--rows", row, "--seeds", seeds, *SMALL[:-4], *more, "--trials", 100, "--out", out]
    )
    found = call(*spec)
    assert found.exit_code == 0, found.output


def test_numbers_that_are_recorded_again_lose_nothing(tmp_path: Path) -> None:
    """A further test set that is not here any more, or a model that is gone, stays with the same translations."""
    one, more = numbers([3, 4], [0.5, 1.0], "a"), numbers([5], [0.5], "b")
    looks = {"decoder": np.array([0.25, 0.5])}
    path = tmp_path / "one.npz"
    assert one.completed_by(path) is one
    replace(one, away=looks, further=(more,)).write(path)
    again = one.completed_by(path)
    assert again.texts == ("a", "b")
    assert again.away["decoder"].tolist() == [0.25, 0.5]
    other = numbers([3, 4], [1.0, 1.0], "a")
    assert other.completed_by(path) is other
    assert replace(one, text="c").completed_by(path).texts == ("c",)
    path.write_bytes(b"damaged")
    assert one.completed_by(path) is one


def test_rows_have_the_further_test_sets_of_all_their_cells(tmp_path: Path) -> None:
    """Of two rows the first sentences are the same; comparisons take those that both have."""
    lengths = {"a": [3, 4], "b": [5, 6, 7], "c": [8]}
    main, more, other = (numbers(some, [0.5] * len(some), text) for text, some in lengths.items())
    kept = {
        "whole": replace(main, further=(more, other)),
        "first": replace(main, further=(more,)),
        "none": main,
        "odd": replace(main, further=(other,)),
    }
    evidence, entries = LedgerEvidence(tmp_path), {}
    for name, one in kept.items():
        one.write(evidence.path(name))
        entries[name] = ledger.Entry(name, "", "quality", "", "", {}, {})
    held = evidence.rows(
        {"one": [entries["whole"]], "two": [entries["whole"], entries["first"]], "three": [entries["none"]]}
    )
    assert {row: [len(one.source_words) for one in some] for row, some in held.items()} == {
        "one": [6],
        "two": [5, 5],
        "three": [2],
    }
    assert held["one"][0].source_words.tolist() == [3, 4, 5, 6, 7, 8]
    assert evidence.rows({"one": [entries["whole"]], "two": [entries["odd"]]})["two"][0].source_words.tolist() == [3, 4]
    assert evidence.sentences([entries["whole"]]) == 2
    again = SentenceNumbers.read(evidence.path("whole"))
    assert again.texts == ("a", "b", "c")
    bleu, runs = scores_of("bleu", held)
    tests = Resampling({"bleu": (bleu, runs)}, Column("", "bleu"), 100, sentences=2)
    assert {row: some.shape[1] for row, some in common(runs).items()} == {"one": 2, "two": 2, "three": 2}
    assert tests.among(common({row: runs[row] for row in ("one", "two")})) == ", 5 sentences"
    assert tests.among(common(runs)) == ""
    cut = alike(held, "source")
    assert {len(one.source_words) for some in cut.values() for one in some} == {2}


@pytest.mark.usefixtures("learned")
@pytest.mark.slow
def test_a_table_has_cells_of_other_tables_with_the_same_definitions(call: Call, tmp_path: Path) -> None:
    train(call, "one", "transformer", 1, "--updates", 3, "--set", "p=0.2")
    train(call, "two", "self-rnn", 1, "--updates", 3, table="table5")
    found = call("reproduce", "record", "one", "two", "--docs", "docs")
    assert found.exit_code == 0, found.output
    results = tmp_path / "docs" / "results"
    entries = ledger.read(results)
    rows = {
        request.table: {str(e.conditions["row"]): (e.id, e.conditions.get(TRAINED_AS)) for e in group}
        for request, group in groups(entries)
    }
    (transformer,) = rows["table3"].values()
    assert rows["table3"] == {"transformer": transformer}
    assert set(rows["table5"]) == {"self-self", "self-rnn"}
    assert rows["table5"]["self-self"] == (transformer[0], "table3/transformer")
    # Its claims are tested with it, it is repeated as it was trained, and counted once.
    table = next(t for t in tables_of(entries, LedgerEvidence(results))["domhan2018"] if t.borrowed)
    claim = next(c for c in table.report.claims if set(c.claim.compared) == {"self-self", "self-rnn"})
    assert claim.verdict in ("holds", "does not hold", "undecided")
    assert sorted(command.split("reproduce train domhan2018 ")[1][:6] for command in table.commands) == [
        "table3",
        "table5",
    ]
    assert any("--rows transformer --seeds 1" in command for command in table.commands)
    write_pages(tmp_path / "docs")
    assert "`self-self` is `table3/transformer`" in (results / "domhan2018.md").read_text(encoding="utf-8")
    assert "In all 2 cells" in (results / "claims.md").read_text(encoding="utf-8")
    # Of a table without cells of its own a claim is tested where others have all of its rows.
    train(call, "both", "cnn-cnn", 1, "--updates", 3, table="table5")
    assert call("reproduce", "record", "both", "--docs", "docs").exit_code == 0
    (fourth,) = (t for t in tables_of(ledger.read(results))["domhan2018"] if t.report.request.table == "table4")
    assert fourth.borrowed == {"transformer": "table3/transformer", "cnn-relu+ff": "table5/cnn-cnn"}
    assert [command.split("--rows ")[1] for command in fourth.commands] == [
        "transformer --seeds 1",
        "cnn-cnn --seeds 1",
    ]
    # At other sizes it is another model.
    train(call, "three", "self-cnn", 1, "--updates", 3, "--set", "n=2", table="table5")
    assert call("reproduce", "record", "three", "--docs", "docs").exit_code == 0
    alone = [group for _, group in groups(ledger.read(results)) if len(group) == 1]
    assert "self-cnn" in {str(group[0].conditions["row"]) for group in alone}


@pytest.mark.usefixtures("learned")
@pytest.mark.slow
def test_cells_of_several_recipes_are_recorded_and_compared(call: Call, tmp_path: Path, corpora: Path) -> None:
    """Rows that were trained in other ways stand in one table; its claims are tested without translations."""
    train(call, "one", "rnn", 2, "--updates", 3)
    train(call, "two", "rnn+mh", 1, "--updates", 4, "--set", "p=0.2")
    found = call("reproduce", "record", "one", "two", "--docs", "docs")
    assert found.exit_code == 0, found.output
    results = tmp_path / "docs" / "results"
    assert len(list((results / "evidence").glob("*.npz"))) == 3
    entries, evidence = ledger.read(results), LedgerEvidence(results)
    ((_, group),) = groups(entries)
    assert len(group) == 3
    held = evidence.rows({"rnn": [e for e in group if e.conditions["row"] == "rnn"]})
    bleu, runs = scores_of("bleu", held)
    for entry, run in zip((e for e in group if e.conditions["row"] == "rnn"), runs["rnn"], strict=True):
        assert float(bleu.score(run.sum(0))) == pytest.approx(entry.figures["BLEU"], abs=1e-3)
    (table,) = tables_of(entries, evidence)["domhan2018"]
    claim = next(c for c in table.report.claims if c.claim.text.startswith("with a single attention layer"))
    assert claim.verdict in ("holds", "does not hold", "undecided")
    assert len(table.commands) == 2
    assert "--updates 4" in table.commands[1]
    # The pages and the tests behind them; written again, nothing is computed and nothing changes.
    written = write_pages(tmp_path / "docs")
    before = {path: path.read_bytes() for path in (*written, results / "evidence" / "comparisons.json")}
    write_pages(tmp_path / "docs")
    assert before == {path: path.read_bytes() for path in before}
    page = (results / "claims.md").read_text(encoding="utf-8")
    assert "with a single attention layer, several heads help" in page
    assert "--rows rnn+mh --seeds 1" in page
    # What the paper says of some of its language pairs names them; kinds of error are none.
    assert (
        "| on German-English it improves slightly | Zhang 2018, section 5.2.1, table 4, of WMT'17 German-English |"
        in page
    )
    assert "section 4.4, table 5, of WMT'17 English-German and WMT'17 Latvian-English |" in page
    assert "section 6.2, table 4 |" in page
    assert "of LingEval97" not in page
    assert "| on German-English it improves slightly |" not in page.partition("### Not tested")[0]
    # What a paper says of the same rows of two tables is one claim; what it does not say is none.
    assert page.count("| a model without self-attention scores lower |") == 1
    claimed, _, own = page.partition("### Comparisons that the papers do not make")
    assert "scores lowest |" in own
    assert "scores lowest |" not in claimed
    # Recorded again, an entry keeps what somebody noted in it.
    noted = replace(entries[0], notes="The machine was busy.")
    ledger.record(results, noted)
    assert call("reproduce", "record", "one", "--docs", "docs").exit_code == 0
    assert noted in ledger.read(results)
    less = {name: value for name, value in noted.figures.items() if name != "chrF"}
    ledger.record(results, replace(noted, figures=less))
    assert call("reproduce", "record", "one", "--docs", "docs").exit_code == 0
    (again,) = (e for e in ledger.read(results) if e.id == noted.id)
    assert again.figures == noted.figures
    assert again.notes.endswith("The machine was busy.")
    # Another seed of the same training joins the first.
    train(call, "again", "rnn+mh", 2, "--updates", 4, "--set", "p=0.2", "--shard", "2/2")
    assert call("reproduce", "record", "again", "--docs", "docs").exit_code == 0
    assert sorted(e.seed for e in ledger.read(results) if e.conditions["row"] == "rnn+mh") == [1, 2]
    # A training with another key has another name: it may stay beside the others, or replaces them.
    train(
        call,
        "faster",
        "rnn+mh",
        1,
        "--updates",
        4,
        "--set",
        "p=0.2",
        "--set",
        "train.lr=0.5",
        "--set",
        "train.threads=1",
    )
    assert call("reproduce", "record", "faster", "--docs", "docs", "--beside").exit_code == 0
    assert sorted(
        e.id.partition("-4-updates-")[2] for e in ledger.read(results) if e.conditions["row"] == "rnn+mh"
    ) == [
        "d-16-heads-2-n-1-p-0.2-batch-tokens-64-lr-0.5-seed-1",
        "d-16-heads-2-n-1-p-0.2-batch-tokens-64-seed-1",
        "d-16-heads-2-n-1-p-0.2-batch-tokens-64-seed-2",
    ]
    assert call("reproduce", "record", "faster", "--docs", "docs").exit_code == 0
    (kept,) = (e for e in ledger.read(results) if e.conditions["row"] == "rnn+mh")
    assert "train.lr=0.5" in kept.command
    # Another way of training replaces what is there, unless both are to stay.
    train(call, "three", "rnn", 1, "--updates", 5)
    assert call("reproduce", "record", "three", "--docs", "docs", "--beside").exit_code == 0
    assert len(ledger.read(results)) == 4
    assert sorted(len(group) for _, group in groups(ledger.read(results))) in ([1, 3], [2, 2])
    assert call("reproduce", "record", "three", "--docs", "docs").exit_code == 0
    assert len(ledger.read(results)) == 2
    assert len(list((results / "evidence").glob("*.npz"))) == 2
    nothing = call("reproduce", "record", "four", "--docs", "docs")
    assert isinstance(nothing.exception, CalqueError)


@pytest.mark.slow
def test_remembered_results_are_those_of_the_evidence(tmp_path: Path) -> None:
    """Computed anew, without the file of results, the tests of the committed ledger come out the same."""
    shutil.copytree(LEDGER, tmp_path / "results")
    kept = tmp_path / "results" / "evidence" / "comparisons.json"
    before = kept.read_bytes() if kept.is_file() else b""
    kept.unlink(missing_ok=True)
    write_pages(tmp_path)
    assert (kept.read_bytes() if kept.is_file() else b"") == before


@pytest.mark.medium
@pytest.mark.usefixtures("learned")
def test_models_of_another_table_are_timed(call: Call, tmp_path: Path) -> None:
    """Zhang's table 3 has the speeds of table 2's models: timed where they are, and recorded with what is known of them."""
    small = ["--set", "d=16", "--set", "n=1", "--set", "heads=2", "--set", "train.threads=1", "--updates", 2]
    asked = ["--rows", "transformer,aan", *small]
    trained = words(
        ["zhang2018", "table2"], [*asked, "--set", "train.batch_tokens=64", "--seeds", 1, "--out", "trained"]
    )
    assert call(*trained, "--trials", 100).exit_code == 0
    spec = words(["zhang2018", "table3"], ["time", *asked, "--repeats", 2, "--sentences", 2, "--out", "timed"])
    assert isinstance(call(*spec, "--from", "nowhere").exception, CalqueError)
    found = call(*spec, "--from", "trained")
    assert found.exit_code == 0, found.output
    assert "weights: trained" in found.stdout
    assert call("reproduce", "record", "trained", "timed", "--docs", "docs").exit_code == 0
    entries = ledger.read(tmp_path / "docs" / "results")
    timing = next(e for e in entries if "row" not in e.conditions)
    assert timing.conditions["models"] == ", ".join(sorted((e.id for e in entries if e is not timing), reverse=True))
    timed = next(t for t in tables_of(entries)["zhang2018"] if t.timed)
    assert timed.report.under_trained == {}
    assert {one.verdict for one in timed.report.claims if set(one.claim.compared) == {"aan", "transformer"}} != {
        "not tested"
    }


@pytest.mark.medium
def test_the_table_of_ours_is_of_one_encoder_and_one_size() -> None:
    around = Surroundings(6000, 6000)
    texts = Texts(Request("beyond", "table1", "multi30k", "linear", match="self-attention"))
    rows = paper("beyond").table("table1").rows
    matched = [texts.definition(row.key, around)[0] for row in rows]
    sizes = [parameters(one, around) for one in matched]
    assert len(rows) == 12
    assert max(sizes) < 1.001 * sizes[0]
    assert min(sizes) > 0.999 * sizes[0]
    second = [check(zoo.read(row.name), builtin()) for row in paper("beyond").table("table2").rows]
    assert len({equal_text(one) for one in (*matched, *second)}) == 1


def test_the_transformers_of_2018_and_2026_are_of_one_size() -> None:
    around = Surroundings(6000, 6000)
    texts = Texts(Request("beyond", "table3", "multi30k", "linear", match="transformer-2018"))
    rows = paper("beyond").table("table3").rows
    old, new = (parameters(texts.definition(row.key, around)[0], around) for row in rows)
    assert new == pytest.approx(old, rel=0.005)


def equal_text(one: CheckedDefinition) -> str:
    return re.sub(r"(?m)^(h|decoder) = .*$", "", one.text).split("encoder = ")[1].split("\n")[0]


def test_what_may_differ_in_one_table() -> None:
    base = "calque reproduce train you2020 table2 --corpus multi30k --recipe {} --epochs {} --set n=2 --set {}"
    one, same, other = (
        request_of(base.format(*some)) for some in (("a", 3, "p=0.1"), ("b", 5, "p=0.3"), ("a", 3, "heads=2"))
    )
    assert one is not None
    assert same is not None
    assert other is not None
    assert comparable(one) == comparable(same) != comparable(other)


def test_notes_and_plan(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert notes_of(tmp_path, "you2020").believed == ""
    assert plan_of(tmp_path) is None
    (tmp_path / "notes" / "you2020.toml").write_text(
        'believed = "a\\n b"\n[reasons]\n"said" = "since"\n', encoding="utf-8"
    )
    notes = notes_of(tmp_path, "you2020")
    assert (notes.believed, notes.reasons) == ("a b", {"said": "since"})
    for text in ("beliefs = 1", "a ="):
        (tmp_path / "notes" / "you2020.toml").write_text(text, encoding="utf-8")
        with pytest.raises(CalqueError, match="X858"):
            notes_of(tmp_path, "you2020")


@pytest.mark.parametrize("rows", ["3", '"base"'])
def test_a_plan_names_rows(tmp_path: Path, rows: str) -> None:
    (tmp_path / "notes").mkdir()
    table = f'[[tables]]\npaper = "you2020"\ntable = "table2"\nseeds = 1\nrows = {rows}\n'
    (tmp_path / "notes" / "plan.toml").write_text(f"minutes = 1\nhours = 1\n{table}", encoding="utf-8")
    with pytest.raises(CalqueError, match=r"X858.*expected a list of names"):
        plan_of(tmp_path)


def test_the_committed_plan_is_of_tables_that_there_are() -> None:
    plan = plan_of(LEDGER)
    assert plan is not None
    for one in plan.tables:
        assert set(one.rows) <= {row.key for row in paper(one.paper).table(one.table).rows}
