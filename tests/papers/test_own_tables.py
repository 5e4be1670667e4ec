"""Tables of the user's, `calque reproduce ... FILE.toml TABLE`: what is trained, what a report says, and what is wrong with such a
file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import sentences, words

from calque.cli import root
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError, Span
from calque.ledger import entry as ledger
from calque.papers.commands import request_of
from calque.papers.own_tables import read_tables

SMALL = [
    *("--corpus", "toy.toml", "--seeds", 1, "--updates", 3, "--trials", 100),
    *("--set", "train.batch_tokens=64", "--set", "train.threads=1"),
]
CORPUS = """name = "toy"
source = "en"
target = "de"

[data]
train = ["train.en", "train.de"]
valid = ["valid.en", "valid.de"]
test = ["test.en", "test.de"]
subwords = "words"
"""
PLAIN = """# mine
d = 16
heads = 2
encoder = pos -> repeat(1, tenc) -> norm
decoder = pos -> repeat(1, tdec) -> norm
"""
TABLES = """title = "Small decoders"

[settings]
d = 16
heads = 2

[definitions]
"block(b)" = "res_nd(b) -> res_nd(mh_dot_src_att) -> res_nd(ffl)"

[tables.decoders]
title = "Which decoder?"
metrics = ["bleu", "perplexity"]

[tables.decoders.rows.plain]
label = "the Transformer"
definition = "plain.adl"

[tables.decoders.rows."ssru+ff"]
encoder = "pos -> repeat(1, tenc) -> norm"
decoder = "pos -> block(ssru) -> norm"

[tables.decoders.rows.wide]
same = "ssru+ff"
settings = { d = 24 }
"""
SQUARE = '''"""A layer."""

from torch import Tensor

from calque.layers.contract import Context, Example, Stateless


class Square(Stateless):
    """square(h) = h * h."""

    name = "square"
    examples = (Example("square"),)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return x * x
'''
Call = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command is called from, with the file, a definition, and text."""
    monkeypatch.chdir(tmp_path)
    for seed, (name, count) in enumerate({"train": 60, "valid": 8, "test": 12}.items()):
        for language, text in zip(("en", "de"), sentences(count, seed), strict=True):
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    for file, text in {"toy.toml": CORPUS, "mine.toml": TABLES, "plain.adl": PLAIN, "square.py": SQUARE}.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    return tmp_path


def call(*arguments: object, table: str = "decoders") -> Result:
    given = [*words(("mine.toml", table), arguments), "--out", "out"]
    return CliRunner().invoke(root, given)


def fault(found: Result) -> list[tuple[str, str]]:
    """Code and marked text of each fault."""
    assert isinstance(found.exception, CalqueError), found.output
    places = [(one.code, one.where) for one in found.exception.diagnostics]
    return [(c, w.text.body[w.start : w.end] if isinstance(w, Span) else "") for c, w in places]


@pytest.mark.medium
def test_rows_are_trained_and_compared_with_the_first(here: Path, learned: None) -> None:
    found = call(*SMALL)
    assert found.exit_code == 0, found.output
    assert "Small decoders, decoders: Which decoder?" in found.stdout
    assert "the Transformer  plain" in found.stdout
    assert "ssru+ff is above the Transformer (of all columns)" in found.stdout
    assert "wide is above the Transformer" in found.stdout
    assert "paper" not in found.stdout
    cells = {str(entry.conditions["row"]): entry for entry in ledger.read(here / "out" / "cells")}
    assert cells.keys() == {"plain", "ssru+ff", "wide"}
    assert cells["wide"].id == "mine-decoders-wide-toy-budget-3-updates-seed-1"
    assert cells["wide"].command.startswith("calque reproduce train mine.toml decoders --corpus toy.toml")
    asked = request_of(cells["wide"].command)
    assert asked is not None
    assert (asked.paper, asked.paper_file) == ("mine", "mine.toml")
    # The text of a file is what was written, so that places in it are those of the file.
    assert "d = 24" in load_experiment(here / "out" / "runs" / "wide" / "1" / "experiment.toml").model.text
    assert read_tables(here / "mine.toml").table("decoders").row("plain").text == PLAIN
    content = json.loads((here / "out" / "report.json").read_text(encoding="utf-8"))
    assert [one["row"] for one in content["lines"]] == ["plain", "ssru+ff", "wide"]
    # The command at the end of the report is one that can be called, and trains nothing again.
    command = content["command"].split()[2:]
    again = CliRunner().invoke(root, ["reproduce", *command, "--trials", "100", "--out", "out"])
    assert again.exit_code == 0, again.output
    assert "finished before" in again.stderr
    assert again.stdout == found.stdout


@pytest.mark.medium
def test_rows_can_be_added_and_trained_ones_stay(here: Path, learned: None) -> None:
    assert call(*SMALL, "--rows", "plain,ssru+ff").exit_code == 0
    more = TABLES.replace("d = 24", "d = 32") + '[tables.decoders.rows.new]\nsame = "plain"\nsettings = { d = 8 }\n'
    (here / "mine.toml").write_text("# a comment\n" + more, encoding="utf-8")
    (here / "plain.adl").write_text("# another comment\n" + PLAIN, encoding="utf-8")
    assert call(*SMALL, "--rows", "new,wide").exit_code == 0
    other = more.replace("block(ssru)", "block(rnn)")
    (here / "mine.toml").write_text(other, encoding="utf-8")
    found = call(*SMALL)
    assert fault(found) == [("X865", "")]
    assert isinstance(found.exception, CalqueError)
    assert found.exception.diagnostics[0].fields == {"row": "ssru+ff", "what": "definition"}
    # What the folder holds is what its cells are of.
    (here / "mine.toml").write_text(more, encoding="utf-8")
    report = call("report", "--trials", 100)
    assert report.exit_code == 0
    assert "new is above the Transformer" in report.stdout


@pytest.mark.medium
def test_a_row_that_was_removed_is_still_what_it_was(here: Path, learned: None) -> None:
    assert call(*SMALL).exit_code == 0
    without = TABLES[: TABLES.index("[tables.decoders.rows.wide]")]
    (here / "mine.toml").write_text(without, encoding="utf-8")
    assert call(*SMALL).exit_code == 0
    (here / "mine.toml").write_text(TABLES.replace("d = 24", "d = 32"), encoding="utf-8")
    assert fault(call(*SMALL)) == [("X865", "")]
    (here / "mine.toml").write_text(TABLES, encoding="utf-8")
    assert call(*SMALL).exit_code == 0


@pytest.mark.medium
def test_rows_are_matched_by_one_setting(here: Path, learned: None) -> None:
    text = TABLES.replace("[tables.decoders]\n", '[tables.decoders]\nmatch = { setting = "h", row = "plain" }\n')
    text = text.replace("res_nd(ffl)", "res_nd(ffl(h))").replace("heads = 2\n", "heads = 2\nh = 32\n", 1)
    (here / "mine.toml").write_text(text, encoding="utf-8")
    assert call(*SMALL, "--rows", "ssru+ff").exit_code == 0
    (cell,) = ledger.read(here / "out" / "cells")
    assert "h=" in str(cell.conditions["settings"])
    (here / "mine.toml").write_text(text.replace('setting = "h"', 'setting = "d"'), encoding="utf-8")
    found = call(*SMALL, "--rows", "ssru+ff")
    assert fault(found) == [("X865", "")]
    assert isinstance(found.exception, CalqueError)
    assert found.exception.diagnostics[0].fields == {"row": "ssru+ff", "what": "setting of `match`"}


@pytest.mark.medium
def test_a_row_with_a_layer_of_the_user_can_be_added(here: Path, learned: None) -> None:
    assert call(*SMALL, "--rows", "plain").exit_code == 0
    added = '[tables.decoders.rows.squared]\nencoder = "pos"\ndecoder = "pos -> square -> mh_dot_src_att"\n'
    (here / "mine.toml").write_text('plugins = ["square.py"]\n' + TABLES + added, encoding="utf-8")
    assert call(*SMALL, "--rows", "plain,squared").exit_code == 0


def test_a_definition_is_never_taken_for_a_row(here: Path) -> None:
    (here / "decoders").mkdir()
    (here / "decoders" / "wide").write_text(PLAIN.replace("d = 16", "d = 48"), encoding="utf-8")
    added = '[tables.decoders.rows.own]\ndefinition = "decoders/wide"\n'
    (here / "mine.toml").write_text(TABLES + added, encoding="utf-8")
    assert "d = 48" in read_tables(here / "mine.toml").table("decoders").row("own").text


def test_a_file_may_begin_with_a_mark_of_its_encoding(here: Path) -> None:
    (here / "mine.toml").write_text("\ufeff" + TABLES, encoding="utf-8")
    found = CliRunner().invoke(root, ["check", "mine.toml"])
    assert (found.exit_code, found.output) == (0, "")


@pytest.mark.medium
def test_claims_of_the_file_are_tested(here: Path, learned: None) -> None:
    claim = '[[claims]]\ntext = "Recurrence costs nothing"\ntable = "decoders"\nkind = "about"\nrows = ["plain", "ssru+ff"]\n'
    (here / "mine.toml").write_text(TABLES + claim + 'metrics = ["perplexity"]\n', encoding="utf-8")
    found = call(*SMALL, "--rows", "plain,ssru+ff", "--metric", "perplexity")
    assert found.exit_code == 0, found.output
    assert "Recurrence costs nothing (of perplexity)" in found.stdout
    assert "is above" not in found.stdout


@pytest.mark.medium
def test_rows_name_layers_of_the_user(here: Path, learned: None) -> None:
    text = TABLES.replace("block(ssru)", "block(ssru -> square)")
    (here / "mine.toml").write_text(text, encoding="utf-8")
    assert fault(call(*SMALL))[0] == ("C101", "square")
    (here / "mine.toml").write_text('plugins = ["square.py"]\n' + text, encoding="utf-8")
    found = call(*SMALL, "--rows", "ssru+ff", "--executor", "local:1")
    assert found.exit_code == 0, found.output
    assert (here / "out" / "runs" / "ssru+ff" / "1" / "plugins" / "square.py").read_text(encoding="utf-8") == SQUARE
    assert "Trained without" not in found.stdout
    (here / "square.py").write_text(SQUARE.replace("x * x", "x * x * x"), encoding="utf-8")
    found = call(*SMALL, "--rows", "ssru+ff")
    assert isinstance(found.exception, CalqueError)
    assert found.exception.diagnostics[0].fields == {"row": "ssru+ff", "what": "version of its layers"}


@pytest.mark.medium
def test_rows_are_matched_in_size_tuned_and_timed(here: Path) -> None:
    tuned = call(
        *("tune", "wide", "--corpus", "toy.toml", "--updates", 2, "--lr", 0.001, "--lr", 0.002, "--warmup-share", 0.1),
        *("--rungs", 1, "--dropout", 0.1, "--set", "train.threads=1"),
    )
    assert tuned.exit_code == 0, tuned.output
    assert tuned.stdout.endswith("wide-toy.toml\n")
    timing = [
        *("reproduce", "time", "mine.toml", "decoders", "--corpus", "toy.toml", "--repeats", "1", "--match", "params"),
        *("--sentences", "2", "--set", "train.threads=1", "--set", "train.batch_tokens=64", "--out", "timed"),
    ]
    assert fault(CliRunner().invoke(root, timing)) == [("X707", "")]  # the file names no metric of speed
    (here / "mine.toml").write_text(TABLES.replace('"perplexity"', '"source-words/s"'), encoding="utf-8")
    timed = CliRunner().invoke(root, timing)
    assert timed.exit_code == 0, timed.output
    (entry,) = ledger.read(here / "timed" / "speed")
    assert "--match params --match-to plain" in entry.command


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("[tables.decoders]", "[table.decoders]"), [("X862", "table")]),
        (('title = "Small decoders"', "title = 3"), [("X863", "3")]),
        (('label = "the Transformer"', 'lable = "x"'), [("X862", "lable")]),
        (('definition = "plain.adl"\n', ""), [("X861", "plain")]),
        (('definition = "plain.adl"', 'definition = "plain.adl"\nencoder = "id"'), [("X868", "encoder")]),
        (('same = "ssru+ff"', 'same = "sru"'), [("X866", '"sru"')]),
        (('same = "ssru+ff"', 'same = "wide"'), [("X866", '"wide"')]),
        (("rows.wide]", "rows.Wide]"), [("X863", "Wide")]),
        (('["bleu", "perplexity"]', '["blue"]'), [("X863", '["blue"]')]),
        (('"bleu", "perplexity"', ""), [("X863", "[]")]),
        (("{ d = 24 }", "{ d = true }"), [("X863", "{ d = true }")]),
        (("{ d = 24 }", "{ q = 24 }"), [("X864", "wide")]),
        (('"plain.adl"', '"modern/transformer-2027"'), [("X220", '"modern/transformer-2027"')]),
        (('"plain.adl"', '"none.adl"'), [("X402", '"none.adl"')]),
        (('encoder = "pos -> repeat(1, tenc) -> norm"\n', ""), [("X861", '"ssru+ff"')]),
        (("rows.wide]", f"rows.{'w' * 61}]"), [("X863", "w" * 61)]),
        (('"block(b)"', '"block(b"'), [("X863", "definitions")]),
        (
            ("[tables.decoders]\n", '[tables.decoders]\nmatch = { setting = "q", row = "plain" }\n'),
            [("X866", '{ setting = "q", row = "plain" }')] * 2,
        ),
        (
            ("[tables.decoders]\n", '[tables.decoders]\nmatch = { setting = "d", row = "q" }\n'),
            [("X866", '{ setting = "d", row = "q" }')],
        ),
    ],
)
def test_each_fault_of_the_file_has_its_place(
    change: tuple[str, str], found: list[tuple[str, str]], here: Path
) -> None:
    assert change[0] in TABLES
    (here / "mine.toml").write_text(TABLES.replace(*change), encoding="utf-8")
    assert fault(call(*SMALL)) == found
    assert fault(CliRunner().invoke(root, ["check", "mine.toml"])) == found
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    ("claim", "found"),
    [
        ('table = "decoders"\nkind = "above"\nrows = ["wide", "plain"]', [("X861", "claims")]),
        ('text = "x"\ntable = "no"\nkind = "above"\nrows = ["wide", "plain"]', [("X866", '"no"')]),
        ('text = "x"\ntable = "decoders"\nkind = "better"\nrows = ["wide", "plain"]', [("X863", '"better"')]),
        ('text = "x"\ntable = "decoders"\nkind = "above"\nrows = ["wide"]', [("X861", "claims")]),
        ('text = "x"\ntable = "decoders"\nkind = "above"\nrows = ["wide", "q"]', [("X866", '["wide", "q"]')]),
        ('text = "x"\ntable = "decoders"\nkind = "gain"\nrows = ["wide", "plain"]', [("X861", "claims")]),
        (
            'text = "x"\ntable = "decoders"\nkind = "above"\nrows = ["wide", "plain"]\nmetrics = ["aer"]',
            [("X866", '["aer"]')],
        ),
        (
            'text = "x"\ntable = "decoders"\nkind = "above"\nrows = ["wide", "wide"]',
            [("X863", '["wide", "wide"]')],
        ),
        ('text = "x"\ntable = "decoders"\nkind = "grows"\nrows = ["wide", "plain"]', [("X863", "claims")]),
    ],
)
def test_each_fault_of_a_claim_has_its_place(claim: str, found: list[tuple[str, str]], here: Path) -> None:
    (here / "mine.toml").write_text(f"{TABLES}\n[[claims]]\n{claim}\n", encoding="utf-8")
    assert fault(CliRunner().invoke(root, ["check", "mine.toml"])) == found


def test_faults_of_definitions_have_their_places(here: Path) -> None:
    (here / "plain.adl").write_text(PLAIN.replace("tenc", "tenk"), encoding="utf-8")
    (here / "mine.toml").write_text(TABLES.replace("block(ssru)", "block(sssru)"), encoding="utf-8")
    found = CliRunner().invoke(root, ["check", "mine.toml"])
    assert fault(found) == [
        ("C101", "tenk"),
        ("C101", "sssru"),
        ("C101", "sssru"),
    ]  # `wide` has the text of another row
    assert isinstance(found.exception, CalqueError)
    where = found.exception.diagnostics[0].where
    assert isinstance(where, Span)
    assert (Path(where.text.name).name, where.text.line_column(where.start)[0]) == ("plain.adl", 4)


@pytest.mark.parametrize("name", ["Mine.toml", "domhan2018.toml", "modern.toml", "my file.toml"])
def test_a_file_has_a_name_for_cells(name: str, here: Path) -> None:
    (here / "mine.toml").rename(here / name)
    found = CliRunner().invoke(root, ["reproduce", "train", name, "decoders", *map(str, SMALL)])
    assert fault(found) == [("X860", "")]


def test_a_correct_file_is_checked_in_silence(here: Path) -> None:
    found = CliRunner().invoke(root, ["check", "mine.toml"])
    assert (found.exit_code, found.output) == (0, "")
    assert fault(CliRunner().invoke(root, ["check", "mine.toml", "--set", "q=3"])) == [("X222", "q")]
    assert CliRunner().invoke(root, ["check", "mine.toml", "--to-text"]).exit_code == 2


@pytest.mark.medium
def test_commands_that_are_for_papers_say_so(here: Path, learned: None) -> None:
    assert call(*SMALL, "--rows", "plain").exit_code == 0
    found = CliRunner().invoke(root, ["reproduce", "record", "out", "--docs", str(here)])
    assert fault(found) == [("X867", "")]
    assert fault(call("train", *SMALL, table="speed")) == [("X701", "")]
    assert fault(CliRunner().invoke(root, ["reproduce", "draw", "mine.toml", "figure1"])) == [("X701", "")]
