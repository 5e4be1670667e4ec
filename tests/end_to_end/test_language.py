"""The commands on definitions: names, settings, dialects, edits."""

import json
from pathlib import Path

import pytest
from command import Run
from test_command_line import experiment

from calque import zoo

STRINGS = """
d = 16
FF_NUM_HIDDEN = 32
encoder = "pos->repeat(1,res(norm->mh_dot_self_att(2))->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
decoder = "pos->repeat(1,res(norm->mh_dot_att(2))->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
"""


@pytest.fixture
def strings(tmp_path: Path) -> Path:
    path = tmp_path / "strings.txt"
    path.write_text(STRINGS)
    return path


def test_layers_of_ones_own_are_checked_explained_compared_and_proved(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "square.py").write_text(
        'from calque.layers.contract import Example, Stateless\n\n\nclass Square(Stateless):\n    """square(h) = h * h."""\n\n'
        "    name = 'square'\n    examples = (Example('square'),)\n\n    def forward(self, x, ctx):\n        return x * x\n"
    )
    text = tmp_path / "model.adl"
    text.write_text("d = 16\nencoder = pos -> square -> norm\ndecoder = rnn -> square -> mlp_src_att\n")
    own = ["--plugin", tmp_path / "square.py"]
    assert "C101" in calque("check", text).err
    for command in (["check", text], ["explain", text], ["equal", text, text], ["diff", text, text], ["prove", text]):
        done = calque(*command, *own)
        assert done.status == 0, done.err
    fitted = calque("fit", text, "--params-of", "20k", *own)
    assert fitted.out.startswith("d="), fitted.err
    assert "X401" in calque("check", text, "--plugin", tmp_path / "none.py").err


def test_zoo(calque: Run) -> None:
    assert calque("zoo").out.split() == zoo.names()
    listed = calque("zoo", "domhan2018/table5").out.split()
    assert len(listed) == 9
    assert all(name.startswith("domhan2018/table5/") for name in listed)
    assert calque("zoo", "domhan2018/table3/rnn+mh").out == zoo.read("domhan2018/table3/rnn+mh").body
    wrong = calque("zoo", "domhan2018/transfomer")
    assert wrong.status == 2
    assert "did you mean `domhan2018/transformer`" in wrong.err


def test_an_architecture_by_name(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a clone may hold the file that the README has one write
    assert calque("check", "domhan2018/table3/rnn+mh") == (0, "", "")
    assert calque("check", "domhan2018/table3/rnn+mx").status == 2
    assert "X402" in calque("check", "model.adl").err
    # A file of that name comes first.
    (tmp_path / "domhan2018").mkdir()
    (tmp_path / "domhan2018" / "transformer").write_text("encoder = nrom\ndecoder = mlp_src_att\n")
    assert "C101" in calque("check", "domhan2018/transformer").err


def test_settings(calque: Run) -> None:
    name = "domhan2018/table3/rnn+mh"
    found = json.loads(calque("explain", name, "--set", "d=64", "--set", "n=2", "--json").out)
    assert found["width"] == 64
    assert found["text"].count("repeat(1,") == 1
    assert json.loads(calque("explain", name, "--set", "d=64", "--set", "d=2*16", "--json").out)["width"] == 32
    more = json.loads(calque("explain", name, "--set", "p=0.3", "--set", "heads=4", "--json").out)["text"]
    assert "heads=4" in more
    assert "dropout(p=0.3)" in more


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("k=3", "X222"),
        ("encoder=3", "X222"),
        ("adl=1", "X222"),
        ("d", "X221"),
        ("d=norm->norm", "X221"),
        ("d=", "X221"),
        ("d(x)=3", "X221"),
        ("d=3\nn=2", "X221"),
        ("d=0", "C403"),
        ("d=k", "X221"),
        ("d=2*k", "C102"),
        ("n=6.5", "C108"),
    ],
)
def test_settings_that_are_none(calque: Run, given: str, code: str) -> None:
    wrong = calque("check", "domhan2018/table3/rnn+mh", "--set", given)
    assert wrong.status == 2
    assert f"error[{code}]" in wrong.err
    assert wrong.out == ""


def test_the_canonical_text_and_the_translation(calque: Run, strings: Path, tmp_path: Path) -> None:
    canonical = calque("check", "domhan2018/transformer", "--to-text").out
    (tmp_path / "canonical.adl").write_text(canonical)
    assert calque("check", tmp_path / "canonical.adl", "--to-text").out == canonical
    assert calque("equal", tmp_path / "canonical.adl", "domhan2018/transformer") == (0, "equal\n", "")
    translated = calque("check", strings, "--dialect", "acl18", "--to-text").out
    assert translated == (
        "adl = 0\nd = 16\n"
        "encoder = pos -> repeat(1, res(norm -> mh_dot_self_att(heads=2, dropout=p) -> dropout)"
        " -> res(norm -> ff(32) -> linear -> dropout)) -> norm\n"
        "decoder = pos -> repeat(1, res(norm -> mh_dot_src_att(heads=2, dropout=p) -> dropout)"
        " -> res(norm -> ff(32) -> linear -> dropout)) -> norm\n"
    )
    assert calque("check", strings).status == 2
    assert json.loads(calque("explain", strings, "--dialect", "acl18", "--set", "d=8", "--json").out)["width"] == 8


def test_diff(calque: Run) -> None:
    done = calque("diff", "domhan2018/table3/rnn+pos", "domhan2018/table3/rnn+norm", "--set", "d=64")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["insert `norm` at 16 places  [+2,048 parameters]", ""]
    assert lines[2].split() == ["A", "B", "B", "-", "A"]
    assert lines[3].split() == ["parameters", "437,568", "439,616", "+2,048"]
    assert "decoder: positions seen" in done.out
    found = json.loads(calque("diff", "domhan2018/table3/rnn", "domhan2018/table3/rnn+mh", "--json").out)
    assert found["equal"] is False
    assert found["parameters"][0] == found["parameters"][1]
    assert found["edits"] == [
        {
            "kind": "change",
            "what": "mh_dot_src_att",
            "to": "heads: 1 -> 8",
            "places": ["decoder.2.1.0"],
            "layers": 0,
            "parameters": 0,
        }
    ]
    same = calque("diff", "domhan2018/transformer", "domhan2018/table5/self-self")
    assert same == (0, "equal\n", "")


def test_equal(calque: Run) -> None:
    assert calque("equal", "domhan2018/transformer", "domhan2018/table2/upper") == (0, "equal\n", "")
    assert calque("equal", "domhan2018/transformer", "domhan2018/transformer-post")[:2] == (1, "different\n")
    assert calque("equal", "domhan2018/transformer", "nothing.adl").status == 2


def test_a_run_from_the_strings_of_the_research_code(calque: Run, tmp_path: Path, strings: Path) -> None:
    path = experiment(tmp_path, train__max_updates=2, train__validate_every_updates=2, train__validate_bleu_sentences=0)
    path.write_text(path.read_text().replace("[model]\n", '[model]\ndialect = "acl18"\n'))
    text = path.read_text()
    start, end = text.index("text = "), text.index("[train]")
    path.write_text(f'{text[:start]}file = "{strings.name}"\n{text[end:]}')
    done = calque("train", path, "--out", tmp_path / "run")
    assert done.status == 0, done.err
    # What is stored is the language.
    kept = (tmp_path / "run" / "experiment.toml").read_text()
    assert 'dialect = "calque"' in kept
    assert calque("check", tmp_path / "run" / "architecture.adl") == (0, "", "")
    (tmp_path / "translated.adl").write_text(calque("check", strings, "--dialect", "acl18", "--to-text").out)
    assert calque("equal", tmp_path / "run" / "architecture.adl", tmp_path / "translated.adl").status == 0
    assert calque("translate", tmp_path / "run", stdin=b"alpha beta\n").status == 0


@pytest.mark.medium
def test_a_run_of_an_architecture_by_its_name(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, train__max_updates=1, train__validate_every_updates=1, train__validate_bleu_sentences=0)
    text = path.read_text()
    start, end = text.index("text = "), text.index("[train]")

    def named(name: str) -> Path:
        path.write_text(f'{text[:start]}file = "{name}"\n{text[end:]}')
        return path

    wrong = calque("train", named("you2020/sh-z"), "--out", tmp_path / "wrong")
    assert wrong.status == 2
    assert "X220" in wrong.err
    assert "did you mean `you2020/sh-x`?" in wrong.err
    assert not (tmp_path / "wrong").exists()
    missing = calque("train", named("nothing/sh-x"), "--out", tmp_path / "wrong")
    assert missing.status == 2
    assert "X402" in missing.err
    done = calque("train", named("you2020/sh-x"), "--out", tmp_path / "run")
    assert done.status == 0, done.err
    assert calque("equal", tmp_path / "run" / "architecture.adl", "you2020/sh-x").status == 0
    # A file of that name, beside the experiment, comes first.
    (tmp_path / "you2020").mkdir()
    (tmp_path / "you2020" / "sh-x").write_text("encoder = nothing\n")
    first = calque("train", named("you2020/sh-x"), "--out", tmp_path / "wrong")
    assert first.status == 2
    assert "C101" in first.err


@pytest.mark.medium
def test_the_proof_of_a_definition(calque: Run, tmp_path: Path) -> None:
    model = tmp_path / "model.adl"
    model.write_text("d = 64\nencoder = rnn @ a\ndecoder = feed(min_gru -> mlp_src_att(from=@a) -> linear)\n")
    proved = calque("prove", model, "--set", "d=8")
    assert (proved.status, proved.err) == (0, "")
    assert proved.out.startswith(f"ok   {model} (both)")
    assert [line.split()[:2] for line in proved.out.splitlines()[1:4]] == [
        ["ok", "padding"],
        ["ok", "batch"],
        ["ok", "equal"],
    ]
    model.write_text("encoder = nrom\ndecoder = norm\n")
    assert "C101" in calque("prove", model).err
    layers = tmp_path / "layers.py"
    layers.write_text("")
    assert calque("prove", layers, "--set", "d=8").status == 2
