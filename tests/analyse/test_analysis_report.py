"""The commands: the whole report, single figures, contrastive sets, and every mistake around them."""

import base64
import csv
import gzip
import io
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from analysed import write
from safetensors.torch import load_file

from calque.analyse.analysis import Analysis
from calque.analyse.cache import KEPT
from calque.analyse.pieces import PIECES, Found, Piece
from calque.cli import analysis, root
from calque.data.compiled import prepare
from calque.evaluate import bleu
from calque.experiment import DataSettings
from calque.experiment import load as load_experiment
from calque.ground.diagnostics import CalqueError
from calque.ledger.entry import record
from calque.run.model_file import load_model, save_model, weights_of
from calque.workflow import api


def calque(*arguments: object) -> None:
    """A command in this process; mistakes arrive as `CalqueError`."""
    root.main([str(a) for a in arguments], standalone_mode=False)


def codes_of(*arguments: object) -> list[str]:
    with pytest.raises(CalqueError) as caught:
        calque(*arguments)
    return [d.code for d in caught.value.diagnostics]


class Page(HTMLParser):
    """Ids, links, pictures, and whether tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.pictures += [given["src"]] if "src" in given else []
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def extra(tmp_path_factory: pytest.TempPathFactory, corpus: DataSettings) -> dict[str, Path]:
    """Links by hand, contrastive pairs and a ledger."""
    base = tmp_path_factory.mktemp("extra")
    lengths = [len(line.split()) for line in Path(corpus.test[0]).read_text().splitlines()]
    (base / "gold.links").write_text("".join(" ".join(f"{i}-{n - 1 - i}" for i in range(n)) + "\n" for n in lengths))
    error = {"type": "subj_verb_agreement", "contrastive": "a a", "distance": 2}
    entry = {"source": "a b", "reference": "b a", "errors": [error, {**error, "distance": 18}, {**error, "type": "b"}]}
    (base / "pairs.json").write_text(json.dumps([entry]))
    return {"gold": base / "gold.links", "pairs": base / "pairs.json", "ledger": ledger(base / "ledger")}


def ledger(folder: Path) -> Path:
    from calque.ledger.entry import Entry, conditions

    for n in (1, 2):
        where = {**conditions(), "row": "base", "settings": f"n={n}"}
        record(
            folder, Entry(f"base-{n}", "Base", "quality", "calque x", "2026-01-01", where, {"BLEU": 10.0 * n}, seed=1)
        )
    return folder


def test_what_cannot_be_written_is_told_before_anything_is_drawn(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr("calque.analyse.write_report.make_section", None)
    assert codes_of("analyse", runs["rnn-feed"], "--out", tmp_path / "taken") == ["K301"]
    # What is asked for wrongly leaves nothing behind.
    assert codes_of("analyse", "--ledger", tmp_path / "none", "--figure", "sweeps", "--out", tmp_path / "left") == [
        "X402"
    ]
    assert not (tmp_path / "left").exists()


@pytest.mark.medium
def test_a_mean_and_an_imported_model_are_analysed(runs: dict[str, Path], tmp_path: Path) -> None:
    """The model files of both say less of their training."""
    calque("average", runs["transformer"], "--out", tmp_path / "mean")
    shutil.copytree(runs["transformer"], tmp_path / "imported")
    held = load_model(tmp_path / "imported")
    save_model(tmp_path / "imported", held.model, weights_of(held.model), held.experiment, held.meta["data"], {})
    test = load_experiment(runs["transformer"] / "experiment.toml").data.test
    figures = [word for one in ("overview", "pareto") for word in ("--figure", one)]
    several = [runs["transformer"], tmp_path / "mean", tmp_path / "imported"]
    calque("analyse", *several, "--out", tmp_path / "out", *figures, "--text", *test)
    overview, pareto = (
        list(csv.DictReader((tmp_path / "out" / f"{stem}.csv").read_text().splitlines()))
        for stem in ("overview", "pareto")
    )
    assert [bool(row["training minutes"]) for row in overview] == [True, False, False]
    assert [bool(row["updates"]) for row in pareto] == [True, False, False]
    parameters = {float(row["parameters"]) for row in (*overview, *pareto)}
    assert parameters == {sum(p.numel() for p in held.model.parameters())}


@pytest.mark.medium
def test_the_whole_report(
    runs: dict[str, Path], extra: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "--gold",
        extra["gold"],
        "--contrast",
        extra["pairs"],
        "--ledger",
        extra["ledger"],
        "--buckets",
        3,
        "--lines",
        12,
    ]
    calque("analyse", *runs.values(), "--out", tmp_path / "out", *given)
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'report.html'}\n"
    body = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(body)
    assert page.open == []
    assert set(PIECES) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "Not drawn" not in body
    # Everything is in the file or beside it.
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(""", body)
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (tmp_path / "out" / link).is_file()
    assert page.pictures
    for picture in page.pictures:
        kind, _, coded = picture.partition(",")
        assert kind == "data:image/svg+xml;base64"
        ElementTree.fromstring(base64.b64decode(coded))
    stems = {file.stem for file in (tmp_path / "out").glob("*.csv")}
    assert stems >= {"pareto", "curves", "lengths", "length-differences", "decode-time", "off-diagonality", "aer"}
    assert stems >= {"distances-transformer", "contrast", "contrast-distance", "sweep-n", "matrix-gold"}
    for stem in stems:
        rows = list(csv.reader((tmp_path / "out" / f"{stem}.csv").read_text(encoding="utf-8").splitlines()))
        assert len({len(row) for row in rows}) == 1
        assert len(rows) > 1
        if stem not in ("overview", "translations") and not stem.startswith("architecture-"):
            assert (tmp_path / "out" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    # Every section with a figure says how to read it.
    for section in body.split("<section ")[1:]:
        assert ("<figure" in section) == ("How to read it" in section), section[:80]
    # What does not apply to a family is named.
    assert "hard-coded: hard-coded, so the same for every text: encoder.1" in body
    assert "transformer: no attention aligns" not in body
    assert "<span>calque</span> <span>analyse</span>" in body
    assert "--figure you2020" not in body


def table(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))


@pytest.mark.medium
def test_the_report_starts_with_what_it_is_about(
    runs: dict[str, Path], corpus: DataSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["overview", "architectures", "translations", "matrices"]
    chosen = [word for name in names for word in ("--figure", name)]
    calque("analyse", runs["transformer"], runs["rnn-feed"], "--out", tmp_path, "--lines", 15, *chosen)
    body = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>Analysis of transformer and rnn-feed</title>" in body
    assert "<h1>Analysis of transformer and rnn-feed</h1>" in body
    # In this order: date, corpus, numbers, contents, architectures, translations.
    parts = [
        date.today().isoformat(),
        "train.src and train.tgt, 300 pairs",
        'id="overview"',
        "Contents",
        'id="architectures"',
    ]
    places = [body.index(part) for part in [*parts, 'id="translations"']]
    assert places == sorted(places)
    (row, other) = table(tmp_path / "overview.csv")
    assert [row["run"], other["run"]] == ["transformer", "rnn-feed"]
    run = api.load(runs["transformer"])
    sources, references = (Path(file).read_text().splitlines()[:15] for file in corpus.test)
    found = run.translate(sources)
    score = bleu(found, references, tokenize="none")
    assert float(row["BLEU"]) == pytest.approx(score.value, abs=1e-4)
    assert f"<code>{score.signature}</code>" in body
    assert int(row["parameters"]) == sum(
        p.numel() for p in load_file(runs["transformer"] / "model.safetensors").values()
    )
    assert int(row["updates"]) == 6
    assert float(row["translation, source words/s"]) > 0
    assert float(row["training, target tokens/s"]) > 0
    # Ten of fifteen lines, each with what the run makes of it.
    lines = table(tmp_path / "translations.csv")
    assert len({line["line"] for line in lines}) == 10
    for line in lines:
        number = int(line["line"]) - 1
        assert (line["source"], line["reference"]) == (sources[number], references[number])
        assert line["transformer"] == found[number]
    assert [float(line["chrF"]) for line in lines] == sorted(float(line["chrF"]) for line in lines)
    # Matrices name the layer.
    assert "Attention of transformer: decoder.1[2].1.1.1 — mh_dot_src_att, block 2, mean of 2 heads" in body
    assert "Attention of rnn-feed: decoder.0.body.1.1.0 — mlp_src_att, one head" in body


@pytest.mark.medium
def test_text_and_names_are_escaped(runs: dict[str, Path], tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>&\"'"
    run = tmp_path / name
    shutil.copytree(runs["transformer"], run)
    for side in ("src", "tgt"):
        (tmp_path / side).write_text(
            f"<script>alert('{side}')</script> a & b\u202e \x07 {'x' * 3000}\n" * 3, encoding="utf-8"
        )
    given = ["--text", tmp_path / "src", tmp_path / "tgt", "--lines", 2, "--line", 1]
    chosen = [word for one in ("overview", "translations", "architectures", "curves") for word in ("--figure", one)]
    calque("analyse", run, "--out", tmp_path / "out", *given, *chosen)
    body = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(body)
    assert page.open == []
    assert "<script" not in body
    assert "<img src=x" not in body
    assert "\u202e" not in body
    assert "\x07" not in body
    assert "&lt;script&gt;alert(&#x27;src&#x27;)&lt;/script&gt; a &amp; b" in body
    assert "<title>Analysis of &lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#x27;</title>" in body
    assert "x" * 1000 not in body  # a sentence is cut, in the page alone
    assert "x" * 3000 in (tmp_path / "out" / "translations.csv").read_text(encoding="utf-8")


@pytest.mark.medium
def test_a_page_of_many_runs_names_some_of_them(runs: dict[str, Path], tmp_path: Path) -> None:
    copies = [tmp_path / f"copy-{k}" for k in range(5)]
    for copy in copies:
        shutil.copytree(runs["rnn-feed"], copy, ignore=shutil.ignore_patterns("checkpoints"))
    calque("analyse", *copies, "--out", tmp_path / "out", "--figure", "architectures", "--figure", "curves")
    body = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<title>Analysis of copy-0, copy-1, copy-2 and 2 more</title>" in body
    # One architecture, one diagram.
    assert len(list((tmp_path / "out").glob("architecture-*.svg"))) == 1
    calque("analyse", copies[0], "--out", tmp_path / "one", "--figure", "curves")
    assert "<title>Learning curves (copy-0)</title>" in (tmp_path / "one" / "report.html").read_text(encoding="utf-8")


def test_a_call_that_is_stopped_early_names_no_report(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(a: Analysis) -> Found:
        raise KeyboardInterrupt

    monkeypatch.setitem(PIECES, "pareto", replace(PIECES["pareto"], draw=stop))
    out = tmp_path / "out"
    for before in (None, "an earlier report"):
        if before is not None:
            out.mkdir(exist_ok=True)
            (out / "report.html").write_text(before)
        with pytest.raises(SystemExit, match="130"):
            calque("analyse", runs["transformer"], "--out", out, "--lines", 6, "--threads", 1, "--figure", "pareto")
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.endswith("interrupted; no section is finished. The same command continues\n")


@pytest.mark.slow
def test_a_stopped_call_goes_on(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[str] = []

    def counted(name: str, stop: bool) -> Piece:
        def draw(a: Analysis) -> Found:
            if stop:
                raise KeyboardInterrupt
            drawn.append(name)
            return pieces[name].draw(a)

        return replace(pieces[name], draw=draw)

    pieces = dict(PIECES)
    names = ["pareto", "curves", "lengths", "matrices"]
    asked = ["analyse", runs["transformer"], runs["rnn-feed"], "--out", tmp_path, "--lines", 6, "--threads", 1]
    asked += [word for name in names for word in ("--figure", name)]
    for name in names:
        monkeypatch.setitem(PIECES, name, counted(name, stop=name == "lengths"))
    with pytest.raises(SystemExit, match="130"):
        calque(*asked)
    assert drawn == ["pareto", "curves"]
    told = capsys.readouterr().err
    assert "The same command continues" in told
    assert str(tmp_path / "report.html") in told
    body = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "This report is not finished" in body
    assert "Attention matrices <small>(not made yet)</small>" in body
    assert 'id="curves"' in body
    assert (tmp_path / "pareto.png").is_file()
    # The next call translates nothing again and draws what is missing; a damaged file is made anew.
    monkeypatch.setitem(PIECES, "lengths", counted("lengths", stop=False))
    monkeypatch.setattr("calque.workflow.api.Run.candidates", lambda *_: pytest.fail("translated again"))
    (tmp_path / KEPT / "section-curves.json").write_text('{"from": 3')
    drawn.clear()
    calque(*asked)
    assert drawn == ["curves", "lengths", "matrices"]
    whole = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not finished" not in whole
    drawn.clear()
    calque(*asked)
    assert drawn == []
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == whole
    # Another setting, other figures.
    calque(*asked, "--line", 2)
    assert "matrices" in drawn


def test_what_is_not_at_hand_is_named(runs: dict[str, Path], tmp_path: Path) -> None:
    names = ["off-diagonality", "contrast", "aer", "sweeps", "length-differences", "curves"]
    chosen = [word for name in names for word in ("--figure", name)]
    calque("analyse", runs["rnn-feed"], "--out", tmp_path / "out", *chosen)
    body = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for reason in (
        "no run has self-attention whose weights depend on the text",
        "no contrastive set is given",
        "no links by hand are given",
        "no ledger is given",
        "a difference needs a second run",
    ):
        assert f"Not drawn: {reason}" in body
    assert {file.stem for file in (tmp_path / "out").glob("*.svg")} == {"curves"}


@pytest.mark.medium
def test_a_figure_alone_takes_the_paper_s_buckets(runs: dict[str, Path], tmp_path: Path) -> None:
    calque("analyse", runs["transformer"], "--out", tmp_path, "--figure", "gehring2017/figure3", "--lines", 20)
    rows = (tmp_path / "lengths.csv").read_text().splitlines()
    assert len(rows) == 1 + 15
    calque("analyse", runs["transformer"], "--out", tmp_path, "--figure", "gehring2017/figure3", "--buckets", 2)
    assert len((tmp_path / "lengths.csv").read_text().splitlines()) == 1 + 2


@pytest.mark.medium
def test_layers_and_heads_are_drawn_by_path(runs: dict[str, Path], tmp_path: Path) -> None:
    path = "decoder.1[2].1.1.1"
    given = ["--figure", "matrices", "--line", 3]
    for layer in (path, f"{path}#2", "encoder.1[1].0.1.1"):
        given += ["--layer", layer]
    calque("analyse", *runs.values(), "--out", tmp_path, *given)
    stems = sorted(file.stem for file in tmp_path.glob("matrix*.svg"))
    assert stems == [f"matrix-transformer-{name}" for name in ("decoder.1-2-.1.1.1-2", "decoder.1-2-.1.1.1-mean")] + [
        "matrix-transformer-encoder.1-1-.0.1.1-mean"
    ]
    one = ["analyse", runs["transformer"], "--out", tmp_path / "no", "--figure", "matrices", "--layer"]
    assert codes_of(*one, "decoder.1[2].1.1.9") == ["X827"]
    assert codes_of(*one, f"{path}#3") == ["X828"]
    assert codes_of(*one, f"{path}#0") == ["X828"]
    assert not (tmp_path / "no").exists()


@pytest.mark.medium
def test_a_line_without_words_has_no_attention(runs: dict[str, Path], tmp_path: Path) -> None:
    for name, body in (("s", "a b c d e f g h i j\na\n\n"), ("t", "\nb\nc\n")):
        (tmp_path / name).write_text(body)
    given = ["analyse", runs["transformer"], "--text", tmp_path / "s", tmp_path / "t", "--out", tmp_path / "out"]
    for figure in ("matrices", "you2020/figure1"):
        calque(*given, "--figure", figure)
        with pytest.raises(CalqueError, match="line 1 of the text has no words on one side") as fault:
            calque(*given, "--figure", figure, "--line", 1)
        assert fault.value.diagnostics[0].code == "X830"


def test_links_by_hand_of_no_line_with_words_choose_no_layer(runs: dict[str, Path], tmp_path: Path) -> None:
    for name, body in (("s", "a b\n\n"), ("t", "\nb\n"), ("gold", "\n\n")):
        (tmp_path / name).write_text(body)
    text = ["--text", tmp_path / "s", tmp_path / "t", "--gold", tmp_path / "gold"]
    for figure, why in (("matrices", "line 1 of the text has no words"), ("aer", "no line has words on both sides")):
        with pytest.raises(CalqueError, match=why):
            calque("analyse", runs["transformer"], *text, "--figure", figure, "--out", tmp_path / "out")


def test_sweeps_need_no_run(extra: dict[str, Path], tmp_path: Path) -> None:
    calque("analyse", "--ledger", extra["ledger"], "--figure", "you2020/figure3", "--out", tmp_path)
    assert "base,1,10,,1,1\nbase,2,20,,1,1\n" in (tmp_path / "sweep-n.csv").read_text()


def test_contrast_prints_a_table_and_json(
    runs: dict[str, Path], extra: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    both = [runs["transformer"], runs["hard-coded"]]
    calque("contrast", *both, extra["pairs"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "error", "pairs", "right", "accuracy", "%", "low", "%", "high", "%"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["transformer", "subj_verb_agreement", "2"],
        ["transformer", "b", "1"],
        ["transformer", "all", "3"],
    ]
    calque("contrast", *both, extra["pairs"], "--json", "--most", 1)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["pairs"] for row in rows if row["error"] != "all"} == {1}


def test_mistakes_around_runs(runs: dict[str, Path], tmp_path: Path) -> None:
    run, out = runs["transformer"], ["--out", tmp_path / "out"]
    assert codes_of("analyse", run, run, *out) == ["X820"]
    assert codes_of("analyse", tmp_path / "none", *out) == ["X118"]
    assert codes_of("analyse", run, *out, "--base", "other") == ["X832"]
    assert codes_of("analyse", run, *out, "--figure", "you2020/figure9") == ["X829"]
    assert codes_of("analyse", run, *out, "--figure", "you2020/figure5") == ["X830"]
    assert codes_of("analyse", run, *out, "--figure", "sweeps") == ["X830"]
    bare = tmp_path / "bare"
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("data", "checkpoints"))
    assert codes_of("analyse", bare, *out) == ["X821"]
    assert not (tmp_path / "out").exists()


@pytest.mark.medium
def test_runs_of_other_texts_need_one_that_is_named(
    runs: dict[str, Path], corpus: DataSettings, tmp_path: Path
) -> None:
    from calque.run.folder import CORPUS, EXPERIMENT

    other = tmp_path / "other"
    shutil.copytree(runs["transformer"], other, ignore=shutil.ignore_patterns("checkpoints", CORPUS))
    assert (other / EXPERIMENT).is_file()
    prepare(replace(corpus, test=write(tmp_path, "test2", 5, 9)), other / CORPUS, Path())
    two = ["analyse", runs["rnn-feed"], other, "--figure", "lengths", "--out", tmp_path / "out"]
    assert codes_of(*two) == ["X822"]
    calque(*two, "--text", tmp_path / "test2.src", tmp_path / "test2.tgt")
    assert "test2.src, test2.tgt" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("gold", "0-0 1x2\n", "D701"),
        ("gold.talp", "0-1\n", "D702"),
        ("gold.talp.gz", "0-1\n", "D702"),
        ("gold", "0-0\n", "D704"),
        ("gold", "0-99\n" * 24, "D703"),
    ],
)
def test_mistakes_in_links(runs: dict[str, Path], tmp_path: Path, name: str, body: str, code: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(body.encode()) if name.endswith(".gz") else body.encode())
    given = ["--figure", "aer", "--gold", tmp_path / name, "--out", tmp_path / "out"]
    assert codes_of("analyse", runs["rnn-feed"], *given) == [code]


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "X824"),
        ({"set/a.src.en": "x\n"}, "X825"),
        ({"set/a.src.en": "x\n", "set/a.correct.de": "y\n", "set/a.incorrect.de": "z\nz\n"}, "X825"),
        ({"set": "{"}, "X826"),
        ({"set": "{}"}, "X824"),
        ({"set": "[1]"}, "X826"),
        ({"set": '[{"errors": [{"type": "x"}]}]'}, "X826"),
        ({"set": '[{"source": 1, "reference": "x", "errors": [{"type": "x", "contrastive": "y"}]}]'}, "X826"),
        (
            {
                "set": '[{"source": "s", "reference": "x", "errors": [{"type": "x", "contrastive": "y", "distance": "a"}]}]'
            },
            "X826",
        ),
        (
            {
                "set": '[{"source": "s", "reference": "x", "errors": [{"type": "x", "contrastive": "y", "distance": 1e999}]}]'
            },
            "X826",
        ),
        ({"set": "[" * 100_000}, "X826"),
    ],
)
def test_mistakes_in_contrastive_sets(runs: dict[str, Path], tmp_path: Path, files: dict[str, str], code: str) -> None:
    for name, body in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body)
    if not files:
        (tmp_path / "set").mkdir()
    assert codes_of("contrast", runs["rnn-feed"], tmp_path / "set") == [code]


def test_the_command_of_a_caption_can_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for run in ("a b", "c"):
        (tmp_path / run).mkdir()
        for name in ("model.json", "experiment.toml"):
            (tmp_path / run / name).touch()
    with analysis.analyse.make_context(
        "analyse",
        ["a b", "c", "--out", "o", "--layer", "x#1", "--layer", "y", "--text", "s", "t", "--figure", "curves"],
    ) as context:
        assert analysis._command(context) == "calque analyse 'a b' c --out o --text s t --layer 'x#1' --layer y"
