"""Models that have not learned: the rule, and what reports, pages and the ledger say of them."""

import dataclasses
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.cli import root
from calque.data.corpus import open_corpus
from calque.experiment import load as load_experiment
from calque.ledger import entry as ledger
from calque.ledger.convergence import fall, why_not_converged
from calque.ledger.entry import Entry
from calque.papers import read_paper
from calque.papers.cells import DIVERGED, validations
from calque.papers.commands import current_form, request_of
from calque.papers.evidence import COMPARISONS, EVIDENCE, LedgerEvidence
from calque.papers.ledger_tables import tables_of
from calque.papers.request import MEMBERS, Request
from calque.papers.results import LedgerPages, pages, write_pages
from calque.papers.shared_cells import TRAINED_AS
from calque.papers.under_trained import label_of, marked_rows, marks, why_untested
from calque.train.order import layout, updates

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "results"
SMALL = ["--d", 16, "--set", "n=1", "--set", "heads=2", "--set", "train.batch_tokens=64", "--set", "train.threads=1"]
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, spec: tuple[str, ...] = ("domhan2018", "table3")) -> Result:
        given = [*words(spec, arguments), "--data", str(corpora), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(root, given)

    return run


def cell(row: str, bleu: float, curve: list[tuple[int, float, float]], seed: int = 1, **more: str) -> Entry:
    asked = Request("domhan2018", "table3", "multi30k", "budget", minutes=10.0)
    return Entry(
        f"domhan2018-table3-{row.replace('+', '_')}-{seed}",
        row,
        "quality",
        f"{asked.command} --rows {row} --seeds {seed}",
        "2026-01-01",
        {"row": row, **more},
        {"BLEU": bleu},
        seed=seed,
        validations=curve,
    )


FLAT = [(100, 5.0, 9.0), (200, 6.0, 8.0), (300, 7.0, 7.95)]
STEEP = [(100, 5.0, 9.0), (200, 6.0, 8.0), (300, 7.0, 7.9)]


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (FLAT, 1 - 7.95 / 8),
        (STEEP, 1 - 7.9 / 8),
        # Nearer than an epoch: over the last epoch, not between the last two.
        ([(1, 1.0, 10.0), (2, 1.5, 8.0), (3, 2.0, 7.99)], 1 - 7.99 / 10),
        # Farther apart than an epoch: the root.
        ([(1, 1.0, 10.0), (2, 3.0, 8.1)], 1 - (8.1 / 10) ** 0.5),
        # Less than an epoch in all.
        ([(1, 0.25, 10.0), (2, 0.5, 9.9)], 1 - (9.9 / 10) ** 4),
        # A model that got worse behind its best has stopped to learn.
        ([(1, 5.0, 8.0), (2, 6.0, 9.0), (3, 7.0, 10.0)], 0.0),
    ],
)
def test_how_fast_perplexity_falls_at_the_end(curve: list[tuple[int, float, float]], expected: float) -> None:
    assert fall(curve) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("perplexities", "diverged"),
    [
        ((20.0, 15.0, 300.0, 280.0), True),  # above where it began
        ((8.0, 9.0, 10.0), True),  # it never learned
        ((100.0, 15.0, 90.0, 80.0), True),  # it jumped and has not come back
        ((100.0, 15.0, 90.0, 14.0, 13.99), False),  # it came back
        ((31.9, 11.8, 8.0, 7.9, 8.5, 9.2, 10.0), False),  # the text is learned by heart behind the best checkpoint
        ((10.0, 10.0), False),
    ],
)
def test_a_training_that_diverged_has_not_converged(perplexities: tuple[float, ...], diverged: bool) -> None:
    curve = [(100 * n, float(n), value) for n, value in enumerate(perplexities, 1)]
    assert ("diverged" in why_not_converged(curve)) == diverged
    assert bool(why_not_converged(curve)) == diverged


def test_one_validation_says_nothing() -> None:
    assert fall([(1, 1.0, 5.0)]) is None
    assert "single validation" in marks([cell("rnn", 40, [(1, 1.0, 5.0)])])["domhan2018-table3-rnn-1"]


def test_the_rule() -> None:
    """The floor of RNN is that of the Transformer times 22.8 / 25.4, the paper's figures."""
    floor = 36 * 22.8 / 25.4
    assert marks([cell("rnn", floor + 0.1, FLAT), cell("transformer", 36.1, FLAT)]) == {}
    assert marks([cell("rnn", floor - 0.1, FLAT)])["domhan2018-table3-rnn-1"] == "BLEU 32.2 is below the floor of 32.3"
    assert marks([cell("transformer", 35.9, FLAT)])
    why = marks([cell("transformer", 40, STEEP)])["domhan2018-table3-transformer-1"]
    assert why == "not converged: validation perplexity was still falling by 1.2 % per epoch"
    assert "no learning curve is recorded" in marks([cell("rnn", 40, [])])["domhan2018-table3-rnn-1"]
    # A cell of another table has the floor of the row that it was trained as.
    lent = cell("upper", 35.9, FLAT, **{TRAINED_AS: "table3/transformer"})
    assert "below the floor of 36.0" in marks([lent])[lent.id]
    # One seed that has not learned is enough to mark the row.
    assert set(marked_rows([cell("rnn", 40, FLAT), cell("rnn", 40, STEEP, 2), cell("rnn+mh", 40, FLAT)])) == {"rnn"}


def test_the_mark_of_a_row() -> None:
    assert label_of(marks([cell("transformer", 35, STEEP)])["domhan2018-table3-transformer-1"]) == "not converged"
    assert label_of(marks([cell("transformer", 35, FLAT)])["domhan2018-table3-transformer-1"]) == "below the floor"
    assert label_of(marks([cell("transformer", 40, [])])["domhan2018-table3-transformer-1"]) == "not converged"


def test_a_row_decoded_otherwise_is_as_its_models_are() -> None:
    learned = cell("rnn", 40, FLAT)
    one = cell("rnn+mh", 40, [], members="rnn 1")
    assert marks([learned, one]) == {}
    found = marks([cell("rnn", 40, STEEP), one])
    assert found[one.id] == "of rnn: not converged: validation perplexity was still falling by 1.2 % per epoch"
    assert "no learning curve" in marks([one])[one.id]  # its models are not there


def test_claims_are_not_tested_with_rows_that_have_not_learned_or_of_another_size() -> None:
    asked = Request("domhan2018", "table3", "multi30k", "budget", pair="iwslt16-ende")
    claims = {c.text: c for c in read_paper.paper("domhan2018").claims if c.table == "table3"}
    heads = claims["with a single attention layer, several heads help"]
    norm = claims["layer normalisation has a small negative effect in RNNs (the paper has no `+ pos` here)"]
    assert why_untested(heads, asked, {}) == ""
    assert why_untested(heads, asked, {"rnn": "..."}) == "rnn is under-trained"
    assert why_untested(heads, asked, {"rnn": "...", "rnn+mh": "..."}) == "rnn+mh, rnn are under-trained"
    assert "wmt17-lven" in why_untested(norm, asked, {})
    assert why_untested(norm, dataclasses.replace(asked, pair="wmt17-ende"), {}) == ""
    assert why_untested(norm, dataclasses.replace(asked, settings=("d=128",)), {}) == ""


@pytest.mark.medium
def test_a_table_of_models_that_have_not_learned(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = call("--rows", "rnn,rnn+mh", "--seeds", 1, *SMALL, "--updates", 6, "--trials", 100)
    assert found.exit_code == 0, found.output
    # The cell keeps what the rule needs.
    (one, _) = ledger.read(out / "cells")
    log = [json.loads(line) for line in (out / "runs" / "rnn" / "1" / "log.jsonl").read_text().splitlines()]
    valid = [line for line in log if line["kind"] == "valid"]
    assert [(v[0], v[2]) for v in one.validations] == [(v["update"], round(v["perplexity"], 4)) for v in valid]
    train = load_experiment(out / "runs" / "rnn" / "1" / "experiment.toml").train
    prepared = open_corpus(out / "data")
    an_epoch = len(updates(prepared.split("train"), 0, layout(train)))
    (tmp_path / "infinite").mkdir()
    (tmp_path / "infinite" / "log.jsonl").write_text(
        "".join(json.dumps({**line, "perplexity": None}) + "\n" for line in valid)
    )
    assert [v[2] for v in validations(tmp_path / "infinite", prepared, train)] == [DIVERGED] * len(valid)
    assert [v[1] for v in one.validations] == [round(v["update"] / an_epoch, 3) for v in valid]
    # Head, rows, claims, reasons; on the page, in JSON, at the terminal.
    page = (out / "report.md").read_text(encoding="utf-8")
    assert page.split("\n")[2].startswith("**All rows are under-trained.")
    assert "| RNN (not converged) | rnn |" in page
    assert "| not tested | rnn+mh, rnn are under-trained |" in page
    assert "- Under-trained: rnn: not converged: validation perplexity was still falling by" in page
    assert not {"holds", "does not hold", "undecided"} & {cell.strip() for cell in page.split("|")}
    assert "All rows are under-trained." in found.stdout
    # The learning curves of all rows, as a picture and for programs.
    assert "![learning curves](report-curves.png)" in page
    assert (out / "report-curves.png").read_bytes().startswith(b"\x89PNG")
    curves = json.loads((out / "report.json").read_text(encoding="utf-8"))["validations"]
    assert curves["rnn"]["1"] == [list(point) for point in one.validations]
    told = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert set(told["under_trained"]) == {"rnn", "rnn+mh"}
    assert {claim["verdict"] for claim in told["claims"]} == {"not tested"}


@pytest.mark.medium
def test_a_table_of_one_model_that_has_learned_and_one_that_has_not(call: Call, tmp_path: Path) -> None:
    cells = tmp_path / "out" / "cells"
    call("--rows", "rnn,rnn+mh,rnn+pos", "--seeds", 1, *SMALL, "--updates", 3, "--trials", 100)
    for entry in ledger.read(cells):
        curve = STEEP if entry.conditions["row"] == "rnn+pos" else FLAT
        figures = {**entry.figures, "BLEU": 40.0}
        ledger.record(cells, dataclasses.replace(entry, figures=figures, validations=curve))
    found = call("report", "--trials", 100)
    assert found.exit_code == 0, found.output
    assert "1 of 3 rows are under-trained." in found.stdout
    told = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    claims = {claim["claim"]["text"]: claim for claim in told["claims"]}
    tested = claims["with a single attention layer, several heads help"]
    assert tested["verdict"] != "not tested"
    assert tested["tested"]
    untested = claims["positional embeddings gain nothing in RNNs"]
    assert (untested["verdict"], untested["reason"]) == ("not tested", "rnn+pos is under-trained")


@pytest.mark.medium
def test_timings_of_trained_models_that_have_not_learned(call: Call, tmp_path: Path) -> None:
    spec = ("you2020", "table7")
    small = ["--rows", "base,hc-sa", *SMALL, "--updates", 3, "--set", "h=16"]
    assert call(*small, "--seeds", 1, "--trials", 100, spec=spec).exit_code == 0
    found = call("time", *small, "--repeats", 1, "--sentences", 2, spec=spec)
    assert found.exit_code == 0, found.output
    page = (tmp_path / "out" / "speed.md").read_text(encoding="utf-8")
    assert "**All rows are under-trained." in page
    assert "hc-sa, base are under-trained" in page
    assert "BASE (not converged)" in page


def test_a_command_read_back_is_what_was_asked_for() -> None:
    asked = Request(
        "domhan2018",
        "table3",
        "envi",
        "budget",
        updates=30,
        match="rnn",
        settings=("n=3", "heads=4"),
        overrides=('data.subwords="words"',),
    )
    assert request_of(f"{asked.command} --rows rnn+mh --seeds 2") == asked
    assert request_of("make demo") is None


def test_commands_of_earlier_versions_are_read() -> None:
    """Ledgers hold them: no command stood behind `calque reproduce`, and a speed as the metric meant a timing."""
    old = "calque reproduce zhang2018 table3 --corpus multi30k --recipe budget --d 8 --set n=2"
    trained, timed = f"{old} --rows aan --seeds 2", f"{old} --metric updates/s --rows aan --seeds 2 --sentences 4"
    new = old.replace("reproduce", "reproduce train")
    assert request_of(trained) == request_of(timed) == request_of(new)
    assert (
        current_form(trained)
        == "calque reproduce train zhang2018 table3 --corpus multi30k --recipe budget --d 8 --set n=2 --rows aan --seeds 2"
    )
    assert current_form(timed).startswith("calque reproduce time zhang2018 table3 --corpus multi30k")
    assert current_form(timed).endswith("--set n=2 --rows aan --repeats 2 --sentences 4")
    assert current_form(current_form(timed)) == current_form(timed)
    unclosed = "python benchmarks/students.py --run 'the farmer's=RUN'"
    assert current_form(unclosed) == unclosed
    assert current_form("make demo") == "make demo"


# -- the committed pages


def test_the_pages_are_what_the_ledger_says() -> None:
    evidence = LedgerEvidence(LEDGER)
    made = LedgerPages.made(ledger.read(LEDGER), evidence).pages
    docs = LEDGER.parent
    held = {str(path.relative_to(docs)): path.read_text(encoding="utf-8") for path in LEDGER.glob("*.md")}
    held["results.md"] = (docs / "results.md").read_text(encoding="utf-8")
    assert held == made, "run `make results`"
    assert len(made["results.md"]) <= 15_000
    lost = [path for path in (LEDGER / EVIDENCE).glob("*.npz") if not (LEDGER / f"{path.stem}.json").is_file()]
    assert lost == [], "numbers whose entries are gone"
    kept = LEDGER / EVIDENCE / COMPARISONS
    assert evidence.remembered.content == (kept.read_bytes() if kept.is_file() else evidence.remembered.content)


@pytest.mark.medium
def test_no_page_has_a_verdict_on_models_that_have_not_learned() -> None:
    entries = ledger.read(LEDGER)
    assert marks(entries)
    made = pages(entries)
    for paper, tables in tables_of(entries).items():
        for table in tables:
            for row, reason in table.report.under_trained.items():
                label = table.report.request.printed.row(row).label
                lines = [
                    line
                    for line in made[f"results/{paper}.md"].split("\n")
                    if f"{label} ({label_of(reason)}) |" in line
                ]
                assert lines
                assert all("nothing: under-trained" in line for line in lines)
            for one in table.report.claims:
                assert one.verdict == "not tested" or not set(one.claim.compared) & set(table.report.under_trained)


@pytest.mark.medium
def test_every_figure_of_a_cell_that_a_report_shows_is_on_its_page() -> None:
    entries = ledger.read(LEDGER)
    made = pages(entries)
    for paper, tables in tables_of(entries).items():
        page = made[f"results/{paper}.md"]
        for table in tables:
            assert all(f"({entry.id}.json)" in page for entry in table.entries)
            for entries_of_row in table.by_row.values():  # with more seeds than one their mean
                assert f"{statistics.mean(e.figures['BLEU'] for e in entries_of_row):,.2f}" in page
                if (
                    MEMBERS not in entries_of_row[0].conditions
                ):  # else other rows' models, which are on the page themselves
                    assert f"{entries_of_row[0].figures['parameters']:,}" in page


@pytest.mark.medium
def test_pages_of_a_ledger_and_of_one_that_lost_entries(tmp_path: Path) -> None:
    conditions = {
        **dict.fromkeys(("machine", "threads", "precision", "torch", "python", "commit"), "x"),
        "cores": 1,
        "corpus": "Multi30k",
        "settings": "as in the text",
    }
    folder = tmp_path / "results"
    for one in (cell("rnn", 40, FLAT), cell("rnn+mh", 40, STEEP)):
        ledger.record(folder, dataclasses.replace(one, conditions={**conditions, **one.conditions}))
    (folder / "old.md").write_text("of entries that are gone", encoding="utf-8")
    write_pages(tmp_path)
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".json") == [
        "claims.md",
        "domhan2018-table3-curves.png",
        "domhan2018-table3.png",
        "domhan2018.md",
    ]
    page = (folder / "domhan2018.md").read_text(encoding="utf-8")
    assert "1 of 2 trained rows are" in page
    assert "![the figures as bars](domhan2018-table3.png)" in page
    assert "rnn+mh is under-trained" in page
    assert "| RNN + mh (not converged) | rnn+mh | 1 | 40.00 |" in page
    assert "| budget, 10 minutes | nothing: under-trained |" in page
    assert "| budget, 10 minutes | order only: other text than the paper's |" in page
    assert "under-trained rows: 1 of 2" in (tmp_path / "results.md").read_text(encoding="utf-8")
    # Among models that have learned the ledger has no numbers of sentences to test with.
    ledger.record(folder, dataclasses.replace(ledger.read(folder)[1], validations=FLAT))
    made = pages(ledger.read(folder))
    assert "nothing: under-trained" not in made["results/domhan2018.md"]
    assert "the ledger has no numbers of sentences" in made["results/domhan2018.md"]
    assert "under-trained rows: 0 of 2" in made["results.md"]


def test_a_curve_is_kept_and_bad_ones_are_refused(tmp_path: Path) -> None:
    entry = ledger.read(LEDGER)[0]
    made = dataclasses.replace(entry, validations=((1, 0.5, 20.25), (2, 1.0, 1e-7)))
    path = ledger.record(tmp_path, made)
    assert ledger.read(tmp_path) == [made]
    assert "    [1, 0.5, 20.25],\n" in path.read_text(encoding="utf-8")
    for curve in ("x", [[1, 2]], [[1, 2, "3"]], [[1, 2, float("inf")]]):
        content = json.loads(path.read_text(encoding="utf-8")) | {"validations": curve}
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(Exception, match="D504"):
            ledger.read(tmp_path)
