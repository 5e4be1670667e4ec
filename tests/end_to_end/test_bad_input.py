"""Mistakes around the commands rather than in their files: plugins, streams, folders that cannot be written."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from command import Outcome, Run

from calque.data.lines import Lines
from calque.workflow.show import Show

ADL = "d = 8\nheads = 2\nencoder = pos -> NAME\ndecoder = pos -> NAME -> mh_dot_src_att\n"
PLUGIN = '''
from calque.layers.contract import Example, Stateless

class Same(Stateless):
    """same(h) = h."""
    name = "NAME"
    examples = (Example("NAME"),)
    BODY

    def forward(self, x, ctx):
        return x
'''


def corpus(folder: Path, lines: list[str], name: str = "text") -> tuple[Path, Path]:
    files = folder / f"{name}.src", folder / f"{name}.tgt"
    for file in files:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def plugin(folder: Path, body: str = "", name: str = "same") -> Path:
    path = folder / "my_layers.py"
    path.write_text(PLUGIN.replace("NAME", name).replace("BODY", body), encoding="utf-8")
    return path


def experiment(folder: Path, plugins: list[str], name: str = "same") -> Path:
    source, target = corpus(folder, ["a b c", "b c", "c a", "a"] * 5)
    (folder / "model.adl").write_text(ADL.replace("NAME", name))
    path = folder / "tiny.toml"
    path.write_text(
        f"[data]\ntrain = ['{source}', '{target}']\nvalid = ['{source}', '{target}']\nsubwords = 'words'\n"
        f"[model]\nfile = 'model.adl'\nplugins = {plugins}\n"
        "[train]\nmax_updates = 2\nvalidate_every_updates = 1\nprecision = 'float32'\nthreads = 1\n"
        "[decode]\nbeam = 1\n"
    )
    return path


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("prove .", "X419", "found a folder"),
        ("prove x.txt", "X419", "found no file of this name"),
        ("prove nothere.adl", "X419", "ends in `.py` or `.adl`"),
        ("prove text.src", "X419", "found another file"),
        ("import nope --from hf", "X509", "found none of this name"),
        ("import nope", "X509", "found none of this name"),
        ("import text.src --from marian", "X509", "found a file of this name"),
        ("compare run run --references text.tgt", "X461", "`calque translate run < SOURCE > FILE`"),
        ("evaluate text.src text.tgt --metric meteor --language xy", "X320", "one of `en`, `cs`, `fr`"),
        ("train bare.toml", "X202", "--from RUN"),
    ],
)
def test_what_was_named_is_not_what_is_needed(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path, ["a b"] * 3)
    (tmp_path / "model.adl").write_text(ADL)
    files = "['text.src', 'text.tgt']"
    body = f"[data]\ntrain = {files}\nvalid = {files}\n[train]\nmax_updates = 1\n"
    (tmp_path / "bare.toml").write_text(body)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "experiment.toml").write_text(body)
    done = calque(*command.split())
    fails(done, code, 2)
    assert told in done.err


def test_contrast_says_which_argument_is_missing(calque: Run, tmp_path: Path) -> None:
    done = calque("contrast", tmp_path)
    assert (done.status, done.out) == (2, "")
    assert f"expected runs and, last, a contrastive set, found `{tmp_path}` alone" in done.err


def fails(done: Outcome, code: str, status: int) -> None:
    assert done.status == status, done
    assert done.err.count("error[") == 1, done
    assert f"error[{code}]" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('no')", "1 / 0", "import sys; sys.exit(3)", "x = (", "import no_such_module"]
)
def test_a_plugin_that_cannot_be_run_is_one_error(calque: Run, tmp_path: Path, body: str) -> None:
    (tmp_path / "bad.py").write_text(body + "\n")
    fails(calque("prove", tmp_path / "bad.py"), "X401", 2)


@pytest.mark.parametrize("name", ["norm", "repeat", "ffl", "heads", "encoder", "adl", "yes", "none", "d_in"])
def test_a_plugin_may_not_take_a_name_of_the_language(calque: Run, tmp_path: Path, name: str) -> None:
    done = calque("prove", plugin(tmp_path, name=name))
    fails(done, "X411", 2)
    assert f"`{name}`" in done.err


@pytest.mark.parametrize("name", ["my-layer", "3x", "", "Ünï", "two words"])
def test_the_name_of_a_plugins_layer_is_a_name_of_the_language(calque: Run, tmp_path: Path, name: str) -> None:
    path = plugin(tmp_path, name=name)
    for done in (calque("prove", path), calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")):
        fails(done, "X420", 2)
        assert "the layer `Same` needs a name of ASCII letters, digits and `_` that begins with no digit" in done.err
        assert f"found `{name!r}`" in done.err
    assert ('write `name = "my_layer"`' in done.err) == (name == "my-layer")


def test_every_wrong_name_of_a_plugin_is_reported(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path, name="norm-2")
    more = "class Base(Stateless):\n    def forward(self, x, ctx): return x\n\nclass Other(Base): pass\n\nclass _Part(Base): pass\n"
    path.write_text(path.read_text() + more + "\nclass Five(Base): name = 5\n")
    done = calque("prove", path)
    assert done.status == 2, done
    assert done.err.count("error[X420]") == done.err.count("error[") == 3
    for told in ("`Same` needs", 'write `name = "norm_2"`', "`Five` needs", "found `5`", "`Other` needs", "found none"):
        assert told in done.err


@pytest.mark.parametrize(
    ("examples", "told", "proposed"),
    [
        ('("same",)', "expected `Example(TEXT)`, found `'same'`", "Example('same')"),
        ('"same"', "expected a tuple of `Example(TEXT)`, found `'same'`", "(Example('same'),)"),
        ('Example("same")', "expected a tuple of `Example(TEXT)`, found `Example(text='same'", None),
        ("(Example(5),)", "expected a string as the text of an example, found `5`", None),
        ('(Example("same", "decoder"),)', "expected a tuple of `encoder` and `decoder` as `sides`", None),
    ],
)
def test_examples_of_a_plugin_that_are_no_examples_are_an_error(
    calque: Run, tmp_path: Path, examples: str, told: str, proposed: str | None
) -> None:
    path = plugin(tmp_path, f"examples = {examples}")
    done = calque("prove", path)
    fails(done, "X421", 2)
    assert f"`examples` of the layer `same`: {told}" in done.err
    assert f" --> {path}\n" in done.err
    assert (f"help: write `{proposed}`" in done.err) == ("help:" in done.err) == (proposed is not None)


@pytest.mark.parametrize(("body", "code"), [("examples = 5", "X421"), ("", "X420")])
def test_a_plugin_is_called_as_it_was_typed(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: str
) -> None:
    path = plugin(tmp_path, body, name="3x" if code == "X420" else "same").rename(tmp_path / f"typed_{code}.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for typed in (path.name, path.stem):
        done = calque("prove", typed)
        fails(done, code, 2)
        assert f" --> {typed}\n" in done.err


def test_nor_may_a_plugin_that_is_imported_by_name(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugin(tmp_path, name="norm")
    monkeypatch.syspath_prepend(path.parent)
    done = calque("train", experiment(tmp_path, [path.rename(path.with_name("named_plugin.py")).stem]))
    fails(done, "X411", 2)


def test_a_ledger_that_is_not_there_is_one_error(calque: Run, tmp_path: Path) -> None:
    done = calque("analyse", "--ledger", tmp_path / "none", "--figure", "sweeps", "--out", tmp_path / "out")
    fails(done, "X402", 2)


@pytest.mark.medium
def test_a_run_with_a_plugin_goes_to_other_tools_as_far_as_they_can(calque: Run, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")
    path = plugin(tmp_path)
    path.write_text(path.read_text().replace("return x\n", "return x if x.sum().item() < 1e30 else x * 2\n"))
    assert calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run").status == 0
    done = calque("export", tmp_path / "run", "--to", "onnx")
    fails(done, "X506", 2)
    assert f" --> {tmp_path / 'run'}\n" in done.err
    assert "my_layers.py" in done.err
    assert not (tmp_path / "run-onnx").exists()
    fails(calque("export", tmp_path / "run", "--to", "ctranslate2"), "X501", 2)


def test_two_plugins_may_not_share_a_name(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path)
    twin = path.with_name("twin.py")
    twin.write_text(path.read_text())
    fails(calque("train", experiment(tmp_path, [str(path), str(twin)]), "--out", tmp_path / "run"), "X411", 2)


def test_two_layers_of_a_plugin_may_not_share_a_name(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path)
    path.write_text(path.read_text() + '\n\nclass Again(Same):\n    name = "same"\n')
    for done in (calque("prove", path), calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")):
        fails(done, "X411", 2)


def test_a_layer_that_lacks_a_method_is_an_error_before_anything_is_prepared(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path)
    path.write_text(path.read_text() + '\n\nclass Bare(Stateless):\n    name = "bare"\n')
    for done in (calque("prove", path), calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")):
        fails(done, "X426", 2)
        assert "the layer `bare` does not define `forward`" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("arg(int, 2)", "expected a kind of argument such as `Int()`, found <class 'int'>"),
        ("arg(Int(1, 4), 'q')", "expected a whole number as the default"),
        ("arg(Int(1, 4), True)", "expected a whole number as the default"),
        ("arg(Real(), '0.1')", "expected a number as the default"),
        ("arg(Word(choices=('a', 'b')), 'c')", "expected a word as the default"),
        ("arg(Flag(), 1)", "expected `yes` or `no` as the default"),
        ("arg(Int(4, 1), 2)", "expected bounds in order, found 4 and 1"),
    ],
)
def test_arguments_of_a_plugin_that_cannot_be_are_an_error(
    calque: Run, tmp_path: Path, argument: str, told: str
) -> None:
    head = "from dataclasses import dataclass\nfrom calque.adl.signature import Flag, Int, Real, Word, arg\n"
    path = plugin(tmp_path, f"@dataclass(frozen=True)\n    class Args:\n        n: object = {argument}")
    path.write_text(head + path.read_text())
    done = calque("prove", path)
    fails(done, "X401", 2)
    assert told in done.err


def test_whatever_infer_raises_is_a_law_that_is_broken(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path, "@classmethod\n    def infer(cls, args, site): raise KeyError('x')")
    done = calque("prove", path)
    assert done.status == 1, done
    assert "FAIL same (decoder)" in done.out or "FAIL same (encoder" in done.out
    assert f"{path.name}:" in done.out
    assert "KeyError: 'x'" in done.out


def test_a_layer_without_examples_says_what_to_write(calque: Run, tmp_path: Path) -> None:
    done = calque("prove", plugin(tmp_path, "examples = ()"))
    assert done.status == 1, done
    assert done.out.startswith("FAIL same, ")
    assert 'the layer has no examples: write `examples = (Example("same"),)`\n' in done.out


def test_arguments_of_a_plugin_that_are_no_dataclass_are_an_error(calque: Run, tmp_path: Path) -> None:
    fails(calque("prove", plugin(tmp_path, "Args = 5")), "X401", 2)


@pytest.mark.parametrize(
    "body",
    [
        "@classmethod\n    def infer(cls, args, site): return site.nothing",
        "@classmethod\n    def cost(cls, args, site): raise KeyError('x')",
        "def __init__(self, args, site, parts): raise OSError(28, 'full')",
        "def __init__(self, args, site, parts): raise SystemExit(0)",
    ],
)
def test_a_fault_in_a_plugin_names_its_line(calque: Run, tmp_path: Path, body: str) -> None:
    path = plugin(tmp_path, body)
    line = path.read_text().split("\n").index(f"    {body.split(chr(10))[-1].strip()}") + 1
    done = calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")
    assert done.status == 2, done
    assert done.err.count("error[X412]") == 1
    assert f"{path}:{line}" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("@classmethod\n    def infer(cls, args, site): return None", "`infer` of the layer `same` returned None"),
        ("@classmethod\n    def infer(cls, args, site): return 64.0", "returned 64.0, expected a width"),
        (
            "@classmethod\n    def cost(cls, args, site): return 7",
            "`cost` of the layer `same` returned 7, expected a `Cost`",
        ),
        ("def __init__(self, args, site, parts): pass", "returned with no call of `super().__init__"),
        ("return x[:, 1:]", "`forward` of the layer `same` returned a tensor of"),
        ("return x[..., 1:]", "`forward` of the layer `same` returned a tensor of"),
        ("pass", "returned None, expected a tensor"),
    ],
)
def test_what_a_layer_should_not_return_names_its_method(calque: Run, tmp_path: Path, body: str, said: str) -> None:
    path = plugin(tmp_path, body if "def" in body else "")
    if "def" not in body:
        path.write_text(path.read_text().replace("return x\n", f"{body}\n"))
    first = body.split("\n")[0] if "def" in body else "def forward"
    line = next(n for n, text in enumerate(path.read_text().split("\n"), 1) if text.strip().startswith(first))
    done = calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")
    assert done.status == 2, done
    assert done.err.count("error[X423]") == 1
    assert said in done.err
    assert f"{path}:{line}" in done.err


@pytest.mark.parametrize(
    "refusal", ['"thirds do not fit"', '"C201"', '"X424", layer=cls.name, reason="thirds do not fit"']
)
def test_a_layer_refuses_its_place_in_its_own_words(calque: Run, tmp_path: Path, refusal: str) -> None:
    path = plugin(tmp_path, f"@classmethod\n    def infer(cls, args, site): raise Fault({refusal})")
    path.write_text(
        path.read_text().replace("from calque.layers.contract import ", "from calque.layers.contract import Fault, ")
    )
    done = calque("train", experiment(tmp_path, [str(path)]), "--out", tmp_path / "run")
    assert done.status == 2, done
    assert done.err.count("error[X424]: `same`: ") == 2  # once on each side
    assert ("thirds do not fit" in done.err) == ("thirds" in refusal)


@pytest.mark.parametrize("command", ["check", "explain", "train"])
def test_a_file_without_an_end_is_an_error(calque: Run, tmp_path: Path, command: str) -> None:
    done = calque(command, "/dev/zero")
    assert done.status == 2, done
    assert "more than 16,000,000 bytes" in done.err


@pytest.mark.medium
def test_a_layer_that_ends_the_process_breaks_a_law(calque: Run, tmp_path: Path) -> None:
    path = plugin(tmp_path)
    path.write_text(path.read_text().replace("return x\n", "raise SystemExit(0)\n"))
    done = calque("prove", path)
    assert done.status == 1, done
    assert f"FAIL equal    inf  {path.name}:11: SystemExit: 0" in done.out
    path.write_text(path.read_text().replace("raise SystemExit(0)\n", "raise KeyboardInterrupt\n"))
    assert calque("prove", path) == (130, "", "interrupted\n")


def test_a_plugin_hides_no_module_of_its_name(calque: Run, tmp_path: Path) -> None:
    import colorsys

    (tmp_path / "colorsys.py").write_text(plugin(tmp_path).read_text())
    assert calque("prove", tmp_path / "colorsys.py").status == 0
    assert sys.modules["colorsys"] is colorsys


def test_a_run_with_plugins_is_averaged_and_used_from_elsewhere(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path)
    file = experiment(tmp_path, ["my_layers.py"])
    monkeypatch.chdir(tmp_path)
    assert calque("train", file, "--out", "run").status == 0
    assert (tmp_path / "run" / "model.safetensors").stat().st_mode & 0o777 == 0o644
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = calque("average", tmp_path / "run", "--out", "mean")
    assert done.status == 0, done.err
    done = calque("translate", "mean", stdin=b"\xef\xbb\xbfa b\r\n")
    assert done.status == 0, done.err
    assert done.out == calque("translate", tmp_path / "run", stdin=b"a b\n").out
    fails(calque("translate", tmp_path / "run", stdin=None), "X402", 2)
    fails(calque("average", tmp_path / "run", "--out", tmp_path / "tiny.toml" / "mean"), "K301", 1)
    assert calque("translate", tmp_path / "run", "--n-best", 1001).status == 2
    assert calque("translate", tmp_path / "run", "--threads", 100000).status == 2


def test_a_mean_that_cannot_be_written_leaves_nothing(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert calque("train", experiment(tmp_path, [], "norm"), "--out", tmp_path / "run").status == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("calque.run.tensors.save_file", full)
    fails(calque("average", tmp_path / "run", "--out", tmp_path / "mean"), "K301", 1)
    assert not (tmp_path / "mean").exists()


def test_the_program_itself_cannot_be_proved(calque: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)  # as where a script runs
    fails(calque("prove", "__main__"), "X419", 2)


@pytest.mark.medium
def test_new_fits_the_vocabulary_to_a_corpus_of_any_size(calque: Run, tmp_path: Path) -> None:
    for n in (2, 3, 40):
        source, target = corpus(tmp_path, [f"word {k} of {n}" for k in range(n)], f"text{n}")
        done = calque("new", tmp_path / f"new{n}", "--train", source, target)
        assert done.status == 0, done.err
        done = calque("prepare", Path(done.out.strip()), "--out", tmp_path / f"run{n}")
        assert done.status == 0, done.err


def pipe(lines: str) -> str:
    """The name of a pipe that holds lines, as a shell makes it for `<(...)`: a second reader finds it empty."""
    out, into = os.pipe()
    os.write(into, lines.encode())
    os.close(into)
    return f"/dev/fd/{out}"


@pytest.mark.parametrize(
    "command",
    [
        "new made --train PIPE PIPE --no-measure",
        "new made --train text.src text.tgt --valid PIPE PIPE --no-measure",
        "prepare tiny.toml --out made --set data.train=['PIPE','PIPE']",
        "prepare tiny.toml --out made --set data.test=['PIPE','PIPE']",
        "train tiny.toml --out made --set data.valid=['PIPE','PIPE']",
        "prepare tiny.toml --out made --set data.subwords='codes' --set data.codes='PIPE' --set data.train=['PIPE','text.tgt']",
        "check tiny.toml --set data.train=['PIPE','PIPE']",
        "align PIPE PIPE",
    ],
)
def test_text_that_is_read_more_than_once_is_no_pipe(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment(tmp_path, [], "norm")
    lines = "".join(f"a b c{number}\n" for number in range(30))
    words = command.replace("'", '"').split()
    while any("PIPE" in word for word in words):
        words = [word.replace("PIPE", pipe(lines), 1) for word in words]
    done = calque(*words)
    assert (done.status, done.err.count("error[D108]: expected a regular file, found a pipe")) == (1, 2), done.err
    assert not (tmp_path / "made" / "corpus").exists()
    assert done.err.count("error[") == 2


@pytest.mark.parametrize(
    "command",
    [
        "new made --train LONG text.tgt --no-measure",
        "new made --train text.src text.tgt --valid text.src LONG --no-measure",
        "prepare tiny.toml --out made --set data.train=['LONG','text.tgt']",
        "prepare tiny.toml --out made --set data.subwords='codes' --set data.codes='LONG'",
        "train tiny.toml --out made --set data.valid=['text.src','LONG']",
        "train tiny.toml --out made --set data.stream='LONG'",
        "check tiny.toml --set data.train=['LONG','text.tgt']",
        "check tiny.toml --set data.stream='LONG'",
        "align LONG text.tgt",
    ],
)
def test_text_that_the_system_does_not_look_for_cannot_be_read(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """As it refuses a name of 300 letters, it refuses to look into a folder of somebody else."""
    monkeypatch.chdir(tmp_path)
    experiment(tmp_path, [], "norm")
    done = calque(*command.replace("'", '"').replace("LONG", 300 * "x").split())
    fails(done, "D101", 1)
    assert "cannot read the file: file name too long" in done.err


def test_text_that_is_read_once_may_be_a_pipe(calque: Run) -> None:
    done = calque("evaluate", pipe("a b c d\n"), pipe("a b c d\n"))
    assert (done.status, done.out[:11]) == (0, "BLEU 100.00"), done


@pytest.mark.parametrize("lines", [["one"], ["the same"] * 30])
def test_new_holds_nothing_out_of_one_pair(calque: Run, tmp_path: Path, lines: list[str]) -> None:
    fails(calque("new", tmp_path / "new", "--train", *corpus(tmp_path, lines)), "X413", 2)
    assert not (tmp_path / "new").exists()


def test_new_checks_validation_text_too(calque: Run, tmp_path: Path) -> None:
    files = corpus(tmp_path, ["a b", "b a"])
    fails(calque("new", tmp_path / "new", "--train", *files, "--valid", files[0], tmp_path / "gone"), "D101", 1)
    assert not (tmp_path / "new").exists()


@pytest.mark.medium
def test_new_says_where_it_cannot_write(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = corpus(tmp_path, ["a b", "b a"])
    fails(calque("new", files[0], "--train", *files), "X405", 2)
    fails(calque("new", files[0] / "below", "--train", *files), "X408", 2)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("calque.workflow.new.write_whole", full)
    fails(calque("new", tmp_path / "new", "--train", *files), "X408", 2)
    assert not (tmp_path / "new").exists()


def test_an_argument_that_is_not_utf_8_is_an_error(calque: Run, tmp_path: Path) -> None:
    files = corpus(tmp_path, ["a b", "b a"])
    fails(calque("new", os.fsdecode(os.fsencode(tmp_path) + b"/n\xff"), "--train", *files), "X110", 2)


def test_text_is_utf_8_in_every_locale(calque: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    body = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(body, encoding="latin-1"))
    assert calque("explain", "domhan2018/transformer").status == 0
    assert "-∞..+∞" in body.getvalue().decode("utf-8")


def test_a_byte_order_mark_is_no_part_of_the_first_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("\ufeffa b\n\ufeffc\n".encode())
    assert list(Lines(tmp_path / "text")) == ["a b", "\ufeffc"]


def test_a_run_folder_may_have_brackets_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Show("run[/b]"):
        pass
    assert "run[/b]" in shown.getvalue()


def test_a_folder_of_new_is_an_experiment_and_keeps_its_file(calque: Run, tmp_path: Path) -> None:
    source, target = corpus(tmp_path, ["a b c", "b c", "c a", "a"] * 30)
    made = tmp_path / "made"
    assert calque("new", made, "--train", source, target, "--no-measure", "--time", "1m").status == 0
    before = (made / "experiment.toml").read_bytes()
    short = ("--set", "train.max_seconds=0", "--set", "train.max_updates=1", "--set", "train.threads=1")
    done = calque("train", made, *short)
    assert done.status == 0, done
    assert done.out.strip() == str(made / "run")
    assert (made / "experiment.toml").read_bytes() == before
    assert calque("train", made / "run").status == 0  # finished


@pytest.mark.parametrize("option", ["--train", "--valid"])
def test_new_takes_one_text(calque: Run, tmp_path: Path, option: str) -> None:
    pair = corpus(tmp_path, ["a b"] * 4)
    done = calque("new", tmp_path / "made", "--train", *pair, *((option, *pair) * 2)[: 6 if option == "--valid" else 3])
    assert done.status == 2
    assert f"{option} is given twice" in done.err
    assert not (tmp_path / "made").exists()


def test_a_training_that_diverges_says_so(calque: Run, tmp_path: Path) -> None:
    done = calque("train", experiment(tmp_path, [], "ff"), "--out", tmp_path / "run", "--set", "train.lr=1e38")
    assert done.status == 1, done
    assert done.err.count("error[K109]") == 1
    assert "translate" not in done.err
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_an_empty_stream_is_an_error(calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    made = experiment(tmp_path, [], "ff")
    empty = tmp_path / "empty.tsv"
    empty.touch()
    done = calque("train", made, "--out", tmp_path / "run", "--set", f"data.stream={json.dumps(str(empty))}")
    assert done.status == 1, done
    assert done.err.count("error[") == done.err.count("error[D312]") == 1


def test_a_file_is_no_run(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "input.en").write_text("a b\n")
    done = calque("translate", tmp_path / "input.en")
    fails(done, "X114", 2)
    assert "`calque translate RUN < input.txt > output.txt`" in done.err
    other = calque("align", "a", "b", "--run", tmp_path / "input.en")
    fails(other, "X114", 2)
    assert "help: name the folder that a training has filled" in other.err


def test_an_experiment_is_no_run(calque: Run, tmp_path: Path) -> None:
    made = experiment(tmp_path, [], "ff")
    for command in ("translate", "serve"):
        fails(calque(command, tmp_path / "missing.toml"), "X118", 2)
        done = calque(command, made)
        fails(done, "X114", 2)
        assert f"help: `calque train {made}` makes the run folder of an experiment" in done.err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_are_finite(calque: Run, tmp_path: Path, value: str) -> None:
    for words in (
        ("demo", tmp_path / "demo", "--seconds", value),
        ("reproduce", "train", "domhan2018", "table3", "--minutes", value),
        ("tune", tmp_path, "--word-penalty", value),
    ):
        done = calque(*words)
        assert done.status == 2, done
        assert "Invalid value" in done.err


def test_an_alignment_of_nothing_has_no_error_rate(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    fails(calque("evaluate-alignment", tmp_path / "empty", tmp_path / "empty"), "D502", 1)


def test_a_vocabulary_of_two_is_too_small(calque: Run, tmp_path: Path) -> None:
    made = experiment(tmp_path, [], "ff")
    keys = ("--set", "data.subwords='bpe'", "--set", "data.vocabulary_size=2")
    done = calque("prepare", made, "--out", tmp_path / "run", *keys)
    assert "error[D205]" in done.err, done


@pytest.mark.parametrize("size", [1, 4])
def test_a_vocabulary_without_words_is_said_before_the_text_is_read(calque: Run, tmp_path: Path, size: int) -> None:
    made, run = experiment(tmp_path, [], "ff"), tmp_path / "run"
    for words in (["check", made], ["prepare", made, "--out", run], ["train", made, "--out", run]):
        done = calque(*words, "--set", f"data.vocabulary_size={size}")
        fails(done, "X226", 2)
        assert f"expected a `vocabulary_size` above 4, the number of special symbols, found {size}" in done.err
        assert "learning" not in done.err
    assert not run.exists()
