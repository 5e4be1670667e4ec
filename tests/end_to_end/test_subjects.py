"""What `check` and `explain` take: a definition, an experiment, a run folder, an architecture; and what else it may be."""

import re
from pathlib import Path

import pytest
from command import Run

DEFINITION = "encoder = pos -> norm\ndecoder = pos -> mh_dot_src_att -> norm\n"
PLUGIN = """
from calque.layers.contract import Example, Stateless

class Twice(Stateless):
    \"\"\"twice(h) = 2 h.\"\"\"

    name = "twice"
    examples = (Example("twice"),)

    def forward(self, x, ctx):
        return 2 * x
"""


def experiment(folder: Path, model: str, corpus: bool = True) -> Path:
    for name in ("a.en", "a.de") if corpus else ():
        (folder / name).write_text("one\n")
    path = folder / "tiny.toml"
    files = '["a.en", "a.de"]'
    path.write_text(f"[data]\ntrain = {files}\nvalid = {files}\n[model]\n{model}\n[train]\nmax_updates = 1\n")
    return path


def inline(text: str) -> str:
    return f'text = """\n{text}"""'


def test_an_experiment_is_checked(calque: Run, tmp_path: Path) -> None:
    assert calque("check", experiment(tmp_path, inline(DEFINITION))) == (0, "", "")
    wrong = calque("check", experiment(tmp_path, inline("encoder = nrom\n" + DEFINITION.split("\n")[1] + "\n")))
    assert wrong.status == 2
    assert f" --> {tmp_path / 'tiny.toml'}:6:11\n" in wrong.err
    assert "6 | encoder = nrom\n  |           ^^^^\n" in wrong.err
    assert "did you mean `norm`?" in wrong.err


WRONG = "encoder = nrom\ndecoder = mh_dot_src_att\nencoder = norm\n"


@pytest.mark.parametrize(
    ("written", "place"),
    [
        (f'text = """{WRONG}"""', "5:21"),
        (f"text = '''\n{WRONG}'''", "6:11"),
        (f'file = ""\n  text = """\n{WRONG}"""'.replace("\n", "\r\n"), "7:11"),
        ('text = "decoder = norm\\nencoder = nrom"', None),  # an escape: places in the file are not those of the text
    ],
)
def test_faults_of_a_definition_in_an_experiment_are_shown_in_the_file(
    calque: Run, tmp_path: Path, written: str, place: str | None
) -> None:
    path = experiment(tmp_path, written)
    expected = "model.text:2:11" if place is None else f"{path}:{place}"
    for command in ("check", "train"):
        assert f" --> {expected}\n" in calque(command, path).err
    assert f" --> {expected}\n" in calque("fit", path, "--params-of", 1000).err


def test_warnings_of_a_definition_in_an_experiment_are_shown_in_the_file(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(f"unused = norm\n{DEFINITION}"))
    for command in ("check", "train"):
        warned = calque(command, path, *(("--out", tmp_path / "run") if command == "train" else ()))
        assert f"warning[C133]: the definition `unused` is not used\n --> {path}:6:1\n" in warned.err


def test_faults_of_a_definition_that_a_call_sets_are_shown_there(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION))
    for quote in ("", "'"):
        wrong = calque("check", path, "--set", f"model.text={quote}{WRONG if not quote else 'encoder = nrom'}{quote}")
        assert f" --> --set:1:{22 + len(quote)}\n" in wrong.err


def test_the_keys_and_rules_of_an_experiment_are_checked(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION))
    path.write_text(path.read_text() + 'schedule = "linaer"\npatience = 3\nvalidate_every_updates = 0\n')
    wrong = calque("check", path)
    assert wrong.status == 2
    assert "error[X107]" in wrong.err
    assert "error[X214]" in wrong.err


def test_the_definition_that_an_experiment_names_is_checked(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, 'file = "model.adl"')
    assert "error[X402]" in calque("check", path).err
    (tmp_path / "model.adl").write_text(DEFINITION.replace("norm", "ReLU"))
    wrong = calque("check", path)
    assert "write `relu` for `ReLU`" in wrong.err
    assert "model.adl:1:18" in wrong.err
    assert calque("check", experiment(tmp_path, 'file = "domhan2018/transformer"')).status == 0


def test_files_of_an_experiment_that_are_missing_are_reported_together(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION), corpus=False)
    wrong = calque("check", path)
    assert wrong.status == 1
    assert wrong.err.count("error[D101]") == 2
    assert "2 errors" in wrong.err
    assert calque("explain", path).status == 0  # what it costs does not depend on the corpus


NROM = DEFINITION.replace("norm", "nrom", 1)


@pytest.mark.parametrize(
    ("changed", "more", "codes"),
    [
        (("max_updates = 1", 'max_updates = 1\nlr = "x"'), (), {"X106", "C101"}),
        (("max_updates = 1", 'max_updates = 1\nlrr = 1\nschedule = "linaer"'), (), {"X105", "X107", "C101"}),
        (("max_updates = 1", "patience = 3\nvalidate_every_updates = 0"), (), {"X214", "C101"}),
        (("[train]\nmax_updates = 1", "[trian]\nmax_updates = 1"), (), {"X104", "C101"}),
        (("[train]", "[output]\nfolder = 3\n[train]"), (), {"X104", "C101"}),
        (("", ""), ("--set", "train.lr=fast"), {"X111", "C101"}),
        (("", ""), ("--set", "train.lr"), {"X109"}),  # which key was meant is not known
        (('"a.de"]\n[model]', '"a.fr"]\nmax_tokens = -1\n[model]'), (), {"X108", "D101", "C101"}),
        (('train = ["a.en", "a.de"]', 'train = ["b.en"]'), (), {"X201", "D101", "C101"}),
        (('["a.en", "a.de"]\n[model]', '["a.en", 3]\n[model]'), (), {"X106", "C101"}),
        (("[model]", '[model]\nfile = "model.adl"'), (), {"X203"}),  # of two definitions neither is the one
        (("[model]", '[model]\ndialect = "acl"\noutput_bias = 1'), (), {"X107", "X106"}),
        (("[model]", '[model]\nplugin = ["x.py"]'), (), {"X105"}),  # layers may be missing
        (("[model]", '[model]\nplugins = ["x.py"]'), (), {"X401"}),
        (("[model]", "[model"), (), {"X103"}),
    ],
)
def test_faults_of_keys_hide_no_faults_of_the_definition(
    calque: Run, tmp_path: Path, changed: tuple[str, str], more: tuple[str, ...], codes: set[str]
) -> None:
    path = experiment(tmp_path, inline(NROM))
    assert changed[0] in path.read_text()
    path.write_text(path.read_text().replace(*changed, 1))
    wrong = calque("check", path, *more)
    assert wrong.status == 2
    assert set(re.findall(r"error\[(\w+)\]", wrong.err)) == codes, wrong.err
    if "D101" not in codes:
        assert calque("explain", path, *more).err == wrong.err


def test_the_files_of_several_training_texts_are_checked(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION))
    table = '[{ source = "a.en", target = "b.de", valid = ["c.en", "a.de"] }]'
    path.write_text(path.read_text().replace('train = ["a.en", "a.de"]', f"train = {table}"))
    wrong = calque("check", path)
    assert (wrong.status, wrong.err.count("error[D101]")) == (1, 2)


def test_keys_of_an_experiment_are_set(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION))
    assert calque("check", path, "--set", "train.precision=float32", "--set", "d=128").status == 0
    assert "error[X107]" in calque("check", path, "--set", "train.precision=flaot32").err
    assert "d = 128" in calque("check", path, "--to-text", "--set", "d=128").out
    other = calque("check", path, "--to-text", "--set", "model.text=", "--set", "model.file=domhan2018/rnmt").out
    assert "feed(" in other or "rnn(" in other


def test_a_run_is_checked_and_explained(calque: Run, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "small"
    run.mkdir(parents=True)
    path = experiment(tmp_path, inline(DEFINITION))
    path.rename(run / "experiment.toml")
    assert calque("check", run) == (0, "", "")  # a run needs no corpus beside it
    text = calque("check", run, "--to-text").out
    assert text.startswith("adl = 0\nd = 512\n")
    assert "mh_dot_src_att" in calque("explain", run).out
    assert calque("equal", run, run).out == "equal\n"
    assert "is not a run folder" in calque("check", tmp_path / "runs").err


def test_plugins_of_an_experiment_are_found(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_layers.py").write_text(PLUGIN)
    model = 'plugins = ["my_layers.py"]\n' + inline(DEFINITION.replace("norm", "twice"))
    monkeypatch.chdir(tmp_path)
    path = experiment(tmp_path, model)
    assert calque("check", path).status == 0
    assert "twice" in calque("explain", path).out
    run = tmp_path / "run"
    run.mkdir()
    path.rename(run / "experiment.toml")
    stored = (run / "experiment.toml").read_text()
    (run / "experiment.toml").write_text(stored.replace("my_layers.py", str(tmp_path / "my_layers.py")))
    assert calque("check", run).status == 0


@pytest.mark.parametrize(
    "command",
    [
        "check {}",
        "explain {}",
        "train {}",
        "prepare {}",
        "tune {} a b",
        "translate {}",
        "score {} a b",
        "analyse {} --out new",
        "contrast {} a",
        "bench decode {}",
    ],
)
def test_a_mistyped_run_folder_is_missing(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "runs" / "small").mkdir(parents=True)
    for name in ("experiment.toml", "model.json"):
        (tmp_path / "runs" / "small" / name).write_text("")
    monkeypatch.chdir(tmp_path)
    wrong = calque(*command.format("runs/smal").split())
    assert wrong.status == 2
    expected = {
        **dict.fromkeys(
            ("check {}", "explain {}", "bench decode {}"), "X112]: there is no file, run folder or architecture"
        ),
        **dict.fromkeys(("train {}", "prepare {}"), "X116]: there is no run folder or experiment file"),
    }
    assert f"error[{expected.get(command, 'X118]: there is no run folder')} `runs/smal`" in wrong.err
    assert "did you mean `runs/small`?" in wrong.err
    for name in ("small", "smal"):
        assert "did you mean `runs/small`?" in calque(*command.format(name).split()).err


WITH_A_MODEL = (
    "tune {} a b",
    "translate {}",
    "serve {}",
    "score {} a b",
    "average {} --out new",
    "export {} --to onnx --out new",
    "analyse {} --out new",
    "contrast {} a",
    "studio {}",
    "align a b --run {}",
    "align a b --codecs {}",
    "lexicon a b c --codecs {}",
    "train small.toml --out new --from {}",
    "bench decode {}",
)


@pytest.mark.parametrize("command", WITH_A_MODEL)
def test_what_is_no_run_is_told_apart(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment(tmp_path, inline(DEFINITION)).rename("small.toml")
    for folder in ("empty", "made", "trained/run", "runs/large", "graphs"):
        Path(folder).mkdir(parents=True)
    for folder in ("made", "trained", "trained/run", "runs/large"):
        Path(folder, "experiment.toml").touch()
    for folder in ("trained/run", "runs/large", "graphs"):  # the last as `calque export` writes it for ONNX
        Path(folder, "model.json").touch()
    Path("large.toml").touch()
    for name, code, proposed in (
        ("small.toml", "X114", "`calque train small.toml` makes the run folder of an experiment"),
        ("large.toml", "X114", "did you mean `runs/large`?"),
        ("made/experiment.toml", "X114", "`calque train made` makes the run folder of an experiment"),
        ("trained/experiment.toml", "X114", "did you mean `trained/run`?"),
        ("trained/run/model.json", "X114", "did you mean `trained/run`?"),
        ("empty", "X113", "`calque train` makes run folders, by default in `runs`"),
        ("graphs", "X113", "`calque train` makes run folders, by default in `runs`"),
        ("made", "K101", "train first"),
        ("trained", "K101", "did you mean `trained/run`?"),
        ("smaller", "X118", "`calque train` makes run folders, by default in `runs`"),
        ("traind", "X118", "did you mean `trained/run`?"),
    ):
        if command.startswith("bench") and code in {"X114", "X118"} and not name.endswith(".toml"):
            continue  # the name of a definition
        wrong = calque(*command.format(name).split())
        assert re.findall(r"error\[(\w+)\]", wrong.err) == [code], wrong
        assert f"help: {proposed}" in wrong.err
    assert not Path("new").exists()


def test_a_training_is_given_no_run_that_it_cannot_read(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/smal").mkdir(parents=True)
    for name in ("small.adl", "smal.toml"):
        Path(name).touch()
    for name, proposed in (("small", "smal.toml"), ("smal", "smal.toml")):
        assert f"did you mean `{proposed}`?" in calque("train", name).err
    definition = calque("train", "small.adl")
    assert "error[X404]: `small.adl` is neither an experiment file nor a run folder" in definition.err
    assert "`calque train EXPERIMENT --set model.file=small.adl`" in definition.err
    assert "`calque new FOLDER --train SOURCE TARGET` writes an experiment" in calque("train", "runs").err


def test_a_key_without_its_section_gets_one(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, inline(DEFINITION))
    assert "help: did you mean `train.lr=0.1`?" in calque("train", path, "--set", "lr=0.1").err
    assert "help" not in calque("train", path, "--set", "seed=3").err  # of [train] or of [decode]


@pytest.mark.parametrize("command", ["train", "translate", "score", "average", "export"])
def test_an_architecture_is_no_run(calque: Run, command: str) -> None:
    more = {"score": ["a", "b"], "average": ["--out", "b"], "export": ["--to", "onnx", "--out", "b"]}
    wrong = calque(command, "domhan2018/table3/rnn", *more.get(command, []))
    assert wrong.status == 2
    assert wrong.err.startswith(
        "error[X115]: `domhan2018/table3/rnn` is an architecture that comes with the package"
    ), wrong.err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("transformer", "domhan2018/transformer"),
        ("Transformer", "domhan2018/transformer"),
        ("transformr", "domhan2018/transformer"),
        ("domhan2018/transformr", "domhan2018/transformer"),
        ("rnmt", "domhan2018/rnmt"),
    ],
)
def test_an_unknown_architecture_has_a_neighbour(calque: Run, name: str, meant: str) -> None:
    for command in ("check", "explain", "zoo"):
        wrong = calque(command, name)
        assert wrong.status == 2
        assert f"did you mean `{meant}`?" in wrong.err, wrong.err
    assert calque("check", meant).status == 0


def test_pages_of_errors_show_no_braces(calque: Run) -> None:
    assert calque("explain-error", "C301").out.startswith("C301: `...` cannot be used in the decoder")


@pytest.mark.parametrize(
    ("keys", "model", "codes"),
    [
        (["data.joint=false"], DEFINITION, ["X225"]),
        (["data.joint=false", "model.tying=target"], DEFINITION, []),
        (["data.joint=false", 'data.train=["a.en", "a.en"]'], DEFINITION, []),
        (
            ["data.joint=false", 'data.train=[{source="a.en", target="a.en"}, {source="a.de", target="a.en"}]'],
            DEFINITION,
            ["X225"],
        ),
        (["data.joint=false"], DEFINITION.replace("-> norm\n", "-> linear(7)\n"), ["X225", "X211"]),
        (["model.tying=none"], DEFINITION.replace("-> norm\n", "-> linear(7)\n"), []),
        (["data.stream=nope"], DEFINITION, ["D101"]),
        (["data.stream=."], DEFINITION, ["D101"]),
        (["data.joint=false", "data.stream=nope"], DEFINITION, ["X225", "D101"]),
        (["data.joint=false", "data.stream=nope"], NROM, ["C101", "X225", "D101"]),
        (["data.stream=-"], DEFINITION, []),
        (["data.vocabulary_size=0"], DEFINITION, ["D207"]),
        (["data.vocabulary_size=0", "data.subwords=words"], DEFINITION, []),
        (["data.stream=/dev/null"], DEFINITION, []),
    ],
)
def test_what_would_end_a_training_later_is_said_before_anything_is_learned(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], model: str, codes: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = experiment(tmp_path, inline(model))
    more = [word for key in keys for word in ("--set", key)]
    wrong = calque("check", path, *more)
    assert re.findall(r"error\[(\w+)\]", wrong.err) == codes, wrong.err
    monkeypatch.setattr("calque.workflow.steps.prepare", lambda *_: pytest.fail("reads the text"))
    for command in ("train", "prepare") if codes and "C101" not in codes else ():
        found = calque(command, path, *more, "--out", tmp_path / "run")
        assert found.status == wrong.status, found
        expected = [code for code in codes if command == "train" or code != "X211"]
        assert re.findall(r"error\[(\w+)\]", found.err) == expected
        assert found.err == wrong.err or expected != codes
        assert not (tmp_path / "run" / "data").exists()


@pytest.mark.parametrize(
    ("theirs", "vocabulary", "codes"),
    [("three-way", "own", ["X225"]), ("target", "own", []), ("three-way", "parent", [])],
)
def test_the_tying_of_a_parent_needs_one_vocabulary_too(
    calque: Run, tmp_path: Path, theirs: str, vocabulary: str, codes: list[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.json").write_text("{}")
    experiment(tmp_path, f'tying = "{theirs}"\n{inline(DEFINITION)}').rename(tmp_path / "run" / "experiment.toml")
    path = experiment(tmp_path, 'parent = "run"')
    path.write_text(path.read_text().replace("[data]", f'[data]\njoint = false\nvocabulary = "{vocabulary}"'))
    assert re.findall(r"error\[(\w+)\]", calque("check", path).err) == codes


@pytest.mark.parametrize("own", [True, False])
def test_a_missing_parent_is_told_as_training_tells_it(calque: Run, tmp_path: Path, own: bool) -> None:
    path = experiment(tmp_path, 'parent = "nowhere"\n' + (inline(DEFINITION) if own else ""))
    told = calque("check", path)
    assert re.findall(r"error\[(\w+)\]", told.err) == ["K101"]
    trained = calque("train", path, "--out", tmp_path / "run")
    assert (told.status, told.err) == (trained.status, trained.err)
