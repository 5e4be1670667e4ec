"""The commands as a user runs them: one tiny run through all of them, and a page of bad input with its exit statuses."""

import gzip
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import Run

from calque import cli
from calque.adl.parser import parse
from calque.adl.program import prelude
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin

TINY = """
d = 32
heads = 2
p = 0.0
encoder = pos -> repeat(1, tenc) -> norm
decoder = pos -> repeat(1, tdec) -> norm
"""
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def corpus(folder: Path, lines: int = 400) -> tuple[Path, Path]:
    """Sentences and themselves backwards."""
    draw = random.Random(5)
    sentences = [[draw.choice(WORDS) for _ in range(draw.randint(1, 5))] for _ in range(lines)]
    source, target = folder / "text.src", folder / "text.tgt"
    source.write_text("".join(" ".join(s) + "\n" for s in sentences))
    target.write_text("".join(" ".join(reversed(s)) + "\n" for s in sentences))
    return source, target


def experiment(folder: Path, **keys: object) -> Path:
    """An experiment file on `corpus(folder)`; `keys` are further lines, as section__key=value."""
    source, target = corpus(folder)
    sections: dict[str, dict[str, object]] = {
        "data": {"train": [str(source), str(target)], "valid": [str(source), str(target)], "subwords": "words"},
        "model": {"text": TINY},
        "train": {
            "max_updates": 300,
            "lr": 0.01,
            "label_smoothing": 0.0,
            "warmup_updates": 30,
            "batch_tokens": 400,
            "validate_every_updates": 150,
            "validate_bleu_sentences": 20,
            "precision": "float32",
            "threads": 1,
            "average": "none",
        },
        "decode": {"beam": 2},
    }
    for name, value in keys.items():
        section, _, key = name.partition("__")
        sections[section][key] = value
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    path = folder / "tiny.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that has learned to write sentences backwards."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as m:
        m.setattr(sys, "argv", ["calque", "train", str(experiment(folder)), "--out", str(folder / "run")])
        cli.main()
    return folder / "run"


def test_a_trained_run_translates_and_scores(calque: Run, trained: Path) -> None:
    asked = ["alpha beta gamma", "", "zeta eta", "theta"]
    done = calque("translate", trained, "--scores", stdin=("\n".join(asked) + "\n").encode())
    assert done.status == 0, done.err
    lines = [line.split("\t") for line in done.out.split("\n")[:-1]]
    assert [text for _, text in lines] == ["gamma beta alpha", "", "eta zeta", "theta"]
    folder = trained.parent
    (folder / "asked").write_text("".join(f"{a}\n" for a in asked if a))
    (folder / "found").write_text("".join(f"{text}\n" for _, text in lines if text))
    scored = calque("score", trained, folder / "asked", folder / "found")
    assert scored.status == 0, scored.err
    expected = [float(score) for score, text in lines if text]
    assert [float(v) for v in scored.out.split()] == pytest.approx(expected, abs=1e-4)


def test_as_many_lines_out_as_promised(calque: Run, trained: Path) -> None:
    done = calque("translate", trained, "--n-best", 3, stdin=b"alpha beta\n\nno such words\nlast line without end")
    assert done.status == 0, done.err
    assert done.out.count("\n") == 12


def test_invariant_decoding_gives_the_same_translations(calque: Run, trained: Path) -> None:
    lines = b"alpha beta gamma delta\nzeta\n"
    assert calque("translate", trained, "--invariant", stdin=lines).out == calque("translate", trained, stdin=lines).out


def test_a_finished_run_says_so_and_repeats_nothing(calque: Run, trained: Path) -> None:
    before = (trained / "model.safetensors").read_bytes()
    done = calque("train", trained)
    assert done.status == 0, done.err
    assert "300 updates" in done.err
    assert (trained / "model.safetensors").read_bytes() == before


def test_checkpoints_are_averaged_into_a_model_of_their_own(calque: Run, trained: Path, tmp_path: Path) -> None:
    done = calque("average", trained, "--last", "--count", 1, "--out", tmp_path / "mean")
    assert done.status == 0, done.err
    assert calque("translate", tmp_path / "mean", stdin=b"alpha beta\n").out == "beta alpha\n"
    again = calque("average", trained, "--out", tmp_path / "mean")
    assert f"`{tmp_path / 'mean'}` exists and is not empty" in again.err


@pytest.mark.medium
def test_each_line_of_a_pipe_is_answered_at_once_where_that_is_asked_for(trained: Path) -> None:
    command = [sys.executable, "-m", "calque", "translate", str(trained), "--buffer-size", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, expected in (("alpha beta\n", "beta alpha\n"), ("zeta\n", "zeta\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == expected


def test_a_training_that_has_not_ended_is_averaged(calque: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    for name in ("model.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    refused = calque("translate", tmp_path / "run", stdin=b"alpha\n")
    assert "`calque average RUN --out NEW` makes a run of its checkpoints" in refused.err
    for run, mean in ((trained, "one"), (tmp_path / "run", "other")):
        done = calque("average", run, "--last", "--count", 1, "--out", tmp_path / mean)
        assert done.status == 0, done.err
    assert (tmp_path / "one" / "model.safetensors").read_bytes() == (
        tmp_path / "other" / "model.safetensors"
    ).read_bytes()


def test_who_continues_in_vain_is_told(calque: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    done = calque("train", tmp_path / "run", "--set", "train.lr=0.5")
    assert "this training has ended by train.max_updates: nothing is trained in this call" in done.err
    done = calque("train", tmp_path / "run", "--set", "train.schedule='linear'", "--set", "train.max_updates=302")
    assert "the learning rate is 0 behind the end of the schedule, and nothing more is learned" in done.err


@pytest.mark.medium
def test_new_writes_an_experiment_that_trains(calque: Run, tmp_path: Path) -> None:
    source, target = corpus(tmp_path, 300)
    done = calque("new", tmp_path / "first", "--train", source, target)
    assert done.status == 0, done.err
    file = Path(done.out.strip())
    assert "# " in file.read_text()
    assert calque("check", tmp_path / "first" / "model.adl").status == 0
    sets = ["train.max_updates=2", "train.precision='float32'", "data.vocabulary_size=60", "train.threads=1"]
    done = calque("train", file, "--out", tmp_path / "run", *[x for s in sets for x in ("--set", s)])
    assert done.status == 0, done.err
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_explain_gives_the_json_that_was_promised(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "a.adl").write_text(TINY)
    done = calque("explain", tmp_path / "a.adl", "--json")
    found = json.loads(done.out)
    # four d x d products, two norms and the feed-forward layer, by hand; then the final norm
    block = 4 * 32 * 32 + 2 * 2 * 32 + (32 * 128 + 128) + (128 * 32 + 32)
    assert found["encoder"]["parameters"] == block + 2 * 32
    assert found["decoder"]["parameters"] == block + 4 * 32 * 32 + 2 * 32 + 2 * 32
    assert {"path", "text", "d_in", "d_out", "parameters"} <= set(found["nodes"][0])
    assert calque("explain", tmp_path / "a.adl").out.count("mh_dot_self_att") == 2


def test_every_layer_and_code_has_a_page(calque: Run) -> None:
    listed = calque("layers").out
    for name in re.findall(r"^(\w+)\(", listed, re.MULTILINE):
        assert calque("layers", name).out
    assert "kernel" in calque("layers", "cnn").out
    assert calque("explain-error", "C104").out.startswith("C104")


def test_the_list_of_layers_says_what_each_does_and_fits_the_terminal(
    calque: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns, widest in ((200, 100), (100, 100), (60, 60)):
        monkeypatch.setenv("COLUMNS", str(columns))
        listed, _, definitions = calque("layers").out.partition("\n\n# ")
        assert max(map(len, (listed + definitions).split("\n"))) <= widest
        blocks = {block.partition("(")[0]: block for block in re.split(r"\n(?=\w)", listed)}
        assert set(blocks) == {*builtin(), "repeat"}
        for name, layer in builtin().items():
            first = " ".join(str(layer.__doc__).strip().split("\n\n")[0].split())
            assert blocks[name].startswith(f"{name}(")
            assert " ".join(blocks[name].split()).endswith(first)
        # Lines are broken where the language allows it.
        parsed = parse(Text("prelude", definitions.partition("\n")[2]))
        assert [statement.name for statement in parsed] == [statement.name for statement in prelude()]


BAD_TEXTS = {
    "C104": ("encoder = cnn(glu, kernal=5)\ndecoder = mlp_src_att\n", 2),
    "C201": ("encoder = res(linear(3))\ndecoder = mlp_src_att\n", 2),
    "C301": ("encoder = id\ndecoder = birnn -> mlp_src_att\n", 2),
    "C403": ("encoder = repeat(999999999, ff)\ndecoder = mlp_src_att\n", 2),
    "S102": ("encoder = repeat(6, ff\n", 2),
}


@pytest.mark.parametrize("code", BAD_TEXTS)
def test_a_bad_definition_is_one_clear_error(calque: Run, tmp_path: Path, code: str) -> None:
    text, status = BAD_TEXTS[code]
    (tmp_path / "bad.adl").write_text(text)
    done = calque("check", tmp_path / "bad.adl")
    assert done.status == status
    assert done.err.count(f"error[{code}]") == 1
    assert "Traceback" not in done.err


def test_bad_files_are_errors_and_lose_nothing(calque: Run, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.adl").write_bytes("encoder = pos # größe\n".encode("latin-1"))
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text.toml").write_text("this is no TOML\n")
    source, target = corpus(tmp_path)
    (tmp_path / "short").write_text("one\n")
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"a b c\n" * 1000)[:40])
    (tmp_path / "nul").write_bytes(b"a\0b\n" * 400)
    good = experiment(tmp_path)
    half_model = tmp_path / "half_model"
    shutil.copytree(trained, half_model)
    weights = half_model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    flipped = tmp_path / "flipped"
    shutil.copytree(trained, flipped)
    body = bytearray((flipped / "model.safetensors").read_bytes())
    body[-1] ^= 1
    (flipped / "model.safetensors").write_bytes(bytes(body))

    def data(name: str, path: Path) -> list[object]:
        return ["train", good, "--out", tmp_path / f"out-{name}", "--set", f"data.train=['{path}','{target}']"]

    cases: list[tuple[list[object], int]] = [
        (["check", tmp_path / "missing.adl"], 2),
        (["check", tmp_path], 2),
        (["check", tmp_path / "latin.adl"], 2),
        (["check", tmp_path / "empty"], 2),
        (["layers", "cnm"], 2),
        (["explain-error", "C999"], 2),
        (["frobnicate"], 2),
        (["train", tmp_path / "missing.toml"], 2),
        (["train", tmp_path / "text.toml"], 2),
        (["train", tmp_path / "empty"], 2),
        (["train", tmp_path], 2),
        (["train", good, "--set", "train.lr"], 2),
        (["train", good, "--set", "train.learning_rate=1"], 2),
        (["train", good, "--set", "train.lr=-1"], 2),
        (["train", good, "--set", "model.plugins=['no_such_module']"], 2),
        (data("short", tmp_path / "short"), 1),
        (data("gone", tmp_path / "gone"), 1),
        (data("half", tmp_path / "half.gz"), 1),
        (data("nul", tmp_path / "nul"), 1),
        (data("empty", tmp_path / "empty"), 1),
        (["translate", tmp_path / "nowhere"], 2),
        (["translate", half_model], 1),
        (["translate", flipped], 1),
        (["score", trained, source, tmp_path / "short"], 1),
        (["evaluate", tmp_path / "short", target], 1),
        (["evaluate", tmp_path / "missing", target], 1),
        (["new", tmp_path, "--train", source, target], 2),
        (["new", tmp_path / "fresh", "--train", source, tmp_path / "short"], 1),
        (["prove", tmp_path / "missing.py"], 2),
        (["average", tmp_path / "nowhere", "--out", tmp_path / "mean"], 2),
    ]
    for arguments, status in cases:
        done = calque(*arguments)
        assert done.status == status, (arguments, done)
        assert "Traceback" not in done.err
        assert done.err.strip(), arguments
        assert done.out == "", arguments
    assert not (tmp_path / "fresh").exists()
