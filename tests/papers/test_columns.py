"""Every row and column of a table, measured for cells that are finished, on a corpus of a few words."""

import json
import shutil
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from reproduced import words

from calque.align.links import Links
from calque.cli import root
from calque.data.lines import Lines
from calque.decode.attention import align_lines
from calque.decode.sentences import Translator
from calque.evaluate import bleu
from calque.ground.diagnostics import CalqueError, help_of
from calque.ledger import entry as ledger
from calque.papers.measures import likened
from calque.papers.metrics import AER_BY_STEP, METRICS, TIMED, TRAINED, UNMEASURED
from calque.papers.read_paper import paper
from calque.workflow.api import load
from calque.zoo import papers

SMALL = [
    *(
        "--set",
        "d=8",
        "--set",
        "n=1",
        "--set",
        "train.batch_tokens=64",
        "--set",
        "train.threads=1",
        "--set",
        "decode.beam=2",
    ),
    *("--updates", 3, "--trials", 100),
]
WORDS = [
    *("--set", 'data.subwords="words"', "--set", 'data.codes=""', "--set", "data.joint=false"),
    *("--set", 'model.tying="none"', "--set", "data.vocabulary_size=8"),
]
Call = Callable[..., Result]


@pytest.fixture
def call(corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:

    monkeypatch.chdir(tmp_path)

    def run(name: str, table: str, *arguments: object) -> Result:
        given = [*words((name, table), arguments), "--data", str(corpora), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(root, given)

    return run


@pytest.fixture
def moses(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of Moses' rules: a full stop is a word of its own."""

    class MosesTokenizer:
        def __init__(self, lang: str):
            assert lang in ("en", "de")

        def tokenize(self, line: str, return_str: bool) -> str:
            return line.replace(".", " .")

    class MosesDetokenizer:
        def __init__(self, lang: str):
            assert lang == "de"

        def detokenize(self, words: list[str]) -> str:
            return " ".join(words).replace(" .", ".")

    module = types.SimpleNamespace(MosesTokenizer=MosesTokenizer, MosesDetokenizer=MosesDetokenizer)
    monkeypatch.setitem(sys.modules, "sacremoses", module)


def cells(out: Path) -> dict[tuple[str, int], ledger.Entry]:
    return {(str(e.conditions["row"]), int(str(e.seed))): e for e in ledger.read(out / "cells")}


def lines(path: Path) -> list[str]:
    return list(Lines(path))


@pytest.mark.usefixtures("learned")
@pytest.mark.slow
def test_rows_that_are_decoded_otherwise(call: Call, corpora: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = ["--rows", "global,local-p+feed+unk", "--set", "decode.align_row=1", *SMALL, *WORDS]
    found = call("luong2015", "table1", "--seeds", 1, *rows)
    assert found.exit_code == 0, found.output
    made = cells(out)
    assert set(made) == {("global", 1), ("local-p+feed", 1), ("local-p+feed+unk", 1), ("ensemble", 1)}
    # What the interface says of the same models, searched anew.
    sources = lines(corpora / "multi30k" / "tok" / "test2016.en")
    asked = {"dictionary": out / "dictionary.txt", "overrides": ["decode.align_row=1"]}
    model, other = (out / "runs" / row / "1" for row in ("local-p+feed", "global"))
    replaced = lines(out / "hypotheses" / "local-p+feed+unk" / "1.txt")
    assert replaced == load(model, **asked).translate(sources)  # type: ignore[arg-type]
    assert replaced != lines(out / "hypotheses" / "local-p+feed" / "1.txt")
    together = lines(out / "hypotheses" / "ensemble" / "1.txt")
    assert together == load([other, model], combine="logits", **asked).translate(sources)  # type: ignore[arg-type]
    one, several = made["local-p+feed+unk", 1], made["ensemble", 1]
    base = made["local-p+feed", 1]
    assert one.figures["validation perplexity"] == base.figures["validation perplexity"]
    assert one.architecture_hash == base.architecture_hash
    assert "training seconds" not in one.figures
    assert several.conditions["members"] == "global 1, local-p+feed 1"
    assert "--rows global,local-p+feed,ensemble --seeds 1" in several.command
    assert several.figures["BLEU"] == pytest.approx(
        bleu(together, lines(out / "reference.txt"), tokenize="none").value, abs=1e-3
    )
    assert "unknown words replaced" in found.stdout
    assert "global 1, local-p+feed 1 together" in found.stdout
    # The claim is tested on these texts.
    told = json.loads((out / "report.json").read_text(encoding="utf-8"))
    tested = {c["claim"]["text"]: c["tested"] for c in told["claims"]}
    assert tested["replacing unknown words is another gain"][0]["text"] == "local-p+feed+unk - local-p+feed"
    # Called for the report alone, nothing is done anew; what is lost comes back; more cells, another ensemble.
    before = {file: file.stat().st_mtime_ns for file in (out / "cells").iterdir()}
    assert call("luong2015", "table1", "report", "--trials", 100).stdout == found.stdout
    assert {file: file.stat().st_mtime_ns for file in (out / "cells").iterdir()} == before
    (out / "cells" / f"{one.id}.json").unlink()
    assert call("luong2015", "table1", "report", "--trials", 100).stdout == found.stdout
    assert call("luong2015", "table1", "--seeds", 2, *rows).exit_code == 0
    made = cells(out)
    assert ("local-p+feed+unk", 2) in made
    assert made["ensemble", 1].conditions["members"] == "global 1, local-p+feed 1, global 2, local-p+feed 2"


@pytest.mark.slow
def test_where_no_word_is_unknown(call: Call, tmp_path: Path) -> None:
    found = call("luong2015", "table1", "--rows", "global,local-p+feed", "--seeds", 1, *SMALL)
    assert found.exit_code == 0, found.output
    assert "Not measured: local-p+feed+unk: the text is cut into subwords" in found.stdout
    assert set(cells(tmp_path / "out")) == {("global", 1), ("local-p+feed", 1), ("ensemble", 1)}
    assert "together; no word is unknown to models of subwords" in found.stdout
    # Of cells whose models are gone there is still a report.
    shutil.rmtree(tmp_path / "out" / "runs")
    next((tmp_path / "out" / "cells").glob("*ensemble*")).unlink()
    found = call("luong2015", "table1", "report", "--trials", 100)
    assert found.exit_code == 0, found.output
    assert "Not measured: ensemble: " in found.stdout


@pytest.mark.medium
def test_where_there_is_nothing_to_decode_otherwise(call: Call, tmp_path: Path) -> None:
    found = call("luong2015", "table1", "--rows", "base", "--seeds", 1, *SMALL, *WORDS)
    assert found.exit_code == 0, found.output
    assert (
        "Not measured: local-p+feed+unk: no cell of local-p+feed, whose model it decodes, is finished" in found.stdout
    )
    assert "Not measured: ensemble: expected 2 or more finished cells of rows with attention, found 0" in found.stdout
    assert set(cells(tmp_path / "out")) == {("base", 1)}


@pytest.mark.medium
@pytest.mark.usefixtures("learned")
def test_unknown_words_as_a_column(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    others = "global-dot,global-general,local-m-general,local-p-dot,local-p-general"
    rows = ["--rows", f"global-location,{others}", "--seeds", 1]
    found = call("luong2015", "table4", *rows, "--metric", "unk-bleu", *SMALL, *WORDS)
    assert found.exit_code == 0, found.output
    for (row, seed), entry in cells(out).items():
        replaced = lines(out / "replaced" / row / f"{seed}.txt")
        score = bleu(replaced, lines(out / "reference.txt"), tokenize="none").value
        assert entry.figures["BLEU, unknown words replaced"] == pytest.approx(score, abs=1e-3)
    assert "paper BLEU, unknown words replaced" in found.stdout
    told = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (shrunk,) = (c for c in told["claims"] if c["claim"]["text"].startswith("location gains less"))
    assert [one["text"].partition(" ")[0] for one in shrunk["tested"]] == others.split(",")
    assert shrunk["tested"][0]["paper"] == pytest.approx(20.5 / 19.3 / (18.6 / 18.1))
    assert shrunk["tested"][0]["ratio"] is True
    # The cells of a call that measured less are completed without training.
    for file in (out / "cells").iterdir():
        content = json.loads(file.read_text(encoding="utf-8"))
        del content["figures"]["BLEU, unknown words replaced"]
        file.write_text(json.dumps(content), encoding="utf-8")
    assert call("luong2015", "table4", "report", "--trials", 100, "--metric", "unk-bleu").stdout == found.stdout


GOLD = {"de": "Der Hund\nEin roter ' Hund\n", "en": "The dog\nA red ' dog\n", "talp": "1-1 2-2\n1-1 2p2 3-3 4-4\n"}


@pytest.mark.medium
def test_alignment_error_rates(call: Call, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    steps: list[tuple[int, ...]] = []

    def recorded(loaded: Translator, *lines: Sequence[str]) -> list[Links]:
        steps.append(tuple(member.decode.align_row for member in loaded.members))
        return align_lines(loaded, *lines)

    monkeypatch.setattr("calque.papers.measures.align_lines", recorded)
    given = ["--rows", "global-location,local-p-general", "--seeds", 1, "--metric", "aer", *SMALL, *WORDS]
    nothing = call("luong2015", "table6", *given)
    assert isinstance(nothing.exception, CalqueError)
    (why,) = nothing.exception.diagnostics
    assert (why.code, "links by hand" in str(help_of(why))) == ("X708", True)
    (corpora / "align-gold").mkdir()
    for ending, text in GOLD.items():
        (corpora / "align-gold" / f"deen.{ending}").write_text(text, encoding="utf-8")
    found = call("luong2015", "table6", *given)
    assert found.exit_code == 0, found.output
    made = cells(out)
    assert set(made) == {("global-location", 1), ("local-p-general", 1), ("ensemble", 1)}
    # By the commands, on the text as the corpus has it: without capitals, escaped.
    for side in ("en", "de"):
        (tmp_path / side).write_text(likened(GOLD[side], case=False), encoding="utf-8")
    for row, step in (("global-location", 0), ("local-p-general", 1)):
        words = ["align", tmp_path / "en", tmp_path / "de", "--run", out / "runs" / row / "1"]
        words += ["--set", f"decode.align_row={step}"]
        links = CliRunner().invoke(root, list(map(str, words)))
        (tmp_path / "links").write_text(links.stdout, encoding="utf-8")
        words = ["evaluate-alignment", tmp_path / "links", corpora / "align-gold" / "deen.talp", "--turned"]
        rate = CliRunner().invoke(root, list(map(str, words))).stdout.split()[1]
        both = [made[row, 1].figures[name] for name in AER_BY_STEP]
        assert made[row, 1].figures["AER"] == both[step] == pytest.approx(float(rate) / 100, abs=1e-4)
    # Each model of the ensemble by the step of its own row, too.
    assert {(0, 1), (0, 0), (1, 1)} == {one for one in steps if len(one) == 2}
    assert 0 <= made["ensemble", 1].figures["AER"] <= 1
    assert "2 sentences of align-gold/deen" in str(made["ensemble", 1].conditions["AER of"])
    assert "% of their words unknown" in found.stdout
    assert "local attention aligns better" in found.stdout


def test_text_by_hand_is_likened_to_the_corpus() -> None:
    assert likened("Er sagt : ' A & B '", case=False) == "er sagt : &apos; a &amp; b &apos;"
    assert likened('"Er"', case=True) == "&quot;Er&quot;"


@pytest.mark.medium
@pytest.mark.usefixtures("moses")
def test_accuracy_by_kind_of_error(call: Call, corpora: Path, tmp_path: Path) -> None:
    folder = corpora / "contrastive-ende"
    folder.mkdir()
    kinds = ("np_agreement.mt", "clause_omission.human")
    texts = {
        "src.en": "The dog runs.\nA cat.\n",
        "correct.de": "Der Hund.\nEin.\n",
        "incorrect.de": "Die.\nKatze Hund.\n",
    }
    for kind in kinds:
        for ending, text in texts.items():
            (folder / f"{kind}.{ending}").write_text(text, encoding="utf-8")
    given = ["--rows", "base", "--seeds", 1, "--set", "heads=2", "--metric", "accuracy", *SMALL]
    found = call("you2020", "table4", *given)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert entry.figures["accuracy, np-agreement"] in (0, 50, 100)
    assert "accuracy, clause-omission" in entry.figures
    assert entry.conditions["accuracy of"] == "pairs of contrastive-ende: clause-omission 2; np-agreement 2"
    assert "54.2" in found.stdout  # the paper's first column
    assert "Not measured: lingeval97-compound accuracy: the contrastive pairs here have no such error" in found.stdout
    again = call("you2020", "table4", "report", "--metric", "accuracy", "--trials", 100)
    assert again.stdout == found.stdout
    other = call("you2020", "table4", "report", "--metric", "accuracy", "--pair", "lingeval97-compound")
    assert isinstance(other.exception, CalqueError)
    (why,) = other.exception.diagnostics
    assert (why.code, "no such error" in str(help_of(why))) == ("X708", True)


@pytest.mark.medium
@pytest.mark.usefixtures("moses")
def test_bleu_of_plain_text(call: Call, corpora: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--rows", "convolutional", "--seeds", 1, "--set", "h=16", "--set", "m=1", *SMALL]
    found = call("gehring2017", "table2", *given)
    assert found.exit_code == 0, found.output
    assert "Not measured: nist-bleu: the data root has no test2016.de beside the tokenised text" in found.stdout
    plain = [line.capitalize() + "." for line in lines(corpora / "multi30k" / "tok" / "test2016.de")]
    (corpora / "multi30k" / "test2016.de").write_text("".join(f"{line}\n" for line in plain), encoding="utf-8")
    found = call("gehring2017", "table2", "report", "--metric", "nist-bleu", "--trials", 100)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(out / "cells")
    assert lines(out / "reference-plain.txt") == plain
    score = bleu(lines(out / "detokenised" / "convolutional" / "1.txt"), plain, tokenize="13a", lowercase=True).value
    assert entry.figures["NIST BLEU"] == pytest.approx(score, abs=1e-3)
    assert "without case" in str(entry.conditions["NIST BLEU of"])
    assert "tok:13a" in str(entry.conditions["NIST BLEU signature"])
    assert "27.1" in found.stdout


@pytest.mark.medium
def test_without_the_rules_of_moses(call: Call, corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    text = (corpora / "multi30k" / "tok" / "test2016.de").read_text(encoding="utf-8")
    (corpora / "multi30k" / "test2016.de").write_text(text, encoding="utf-8")
    given = ["--rows", "convolutional", "--seeds", 1, "--set", "h=16", "--set", "m=1", "--metric", "nist-bleu", *SMALL]
    found = call("gehring2017", "table2", *given)
    assert isinstance(found.exception, CalqueError)
    (why,) = found.exception.diagnostics
    assert why.code == "X708"
    assert "this needs the package `sacremoses`: pip install 'calque[moses]'" in str(help_of(why))
    assert not (tmp_path / "out" / "detokenised").exists()


def test_the_rules_of_moses_undo_each_other() -> None:
    real = pytest.importorskip("sacremoses")
    cut, join = real.MosesTokenizer(lang="de"), real.MosesDetokenizer(lang="de")
    line = 'Ein Mann (links) sagt: "Nicht so", usw.'
    assert join.detokenize(cut.tokenize(line, return_str=True).split()) == line


@pytest.mark.medium
def test_bleu_without_case(call: Call, tmp_path: Path) -> None:
    given = ["--rows", "aan", "--seeds", 1, "--set", "heads=2", "--set", "p=0", "--metric", "uncased-bleu", *SMALL]
    found = call("zhang2018", "table4", *given)
    assert found.exit_code == 0, found.output
    (entry,) = ledger.read(tmp_path / "out" / "cells")
    assert entry.figures["uncased BLEU"] == entry.figures["BLEU"]  # this text has no capitals
    assert "case:lc" in str(entry.conditions["uncased BLEU signature"])
    assert "27.8" in found.stdout


def test_every_column_is_measured_or_says_why_not() -> None:
    assert sorted([*TRAINED, *TIMED, *UNMEASURED]) == sorted(METRICS)
    assert all(METRICS[metric].obstacle for metric in UNMEASURED)
    assert {METRICS[metric].figure for metric in TRAINED} > {"BLEU", "METEOR", "AER", "validation perplexity"}
    for name in papers():
        for table in paper(name).tables:
            for column in table.columns:
                assert column.figure if column.metric in TRAINED else column.metric in (*TIMED, *UNMEASURED)
    rate = METRICS["accuracy"]
    assert rate.figure_of("lingeval97-polarity-affix-del") == rate.figure_of("polarity_affix_del.human")
