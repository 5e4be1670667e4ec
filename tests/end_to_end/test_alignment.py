"""Alignment from the command line: the text aligner, attention of a run trained to copy, unknown words, tuning."""

import random
import re
import shutil
from pathlib import Path

import pytest
from command import Run
from test_ways_to_translate import LINES, STDIN, make_run

import calque as package
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.experiment import load as load_experiment
from calque.train.loop import FinishedTraining
from calque.workflow.steps import run_training

COPY = """
d = 32
encoder = pos
decoder = pos -> dot_src_att -> ff(64) -> linear
"""


def sentences(seed: int, count: int) -> list[str]:
    """Letters, and one word in eight that is seen so rarely that no vocabulary holds it."""
    draw = random.Random(seed)

    def word() -> str:
        return f"name{draw.randrange(10**6)}" if draw.random() < 0.12 else draw.choice("abcdefgh")

    return [" ".join(word() for _ in range(draw.randint(2, 6))) for _ in range(count)]


def write(folder: Path, name: str, lines: list[str]) -> tuple[str, str]:
    for side in ("src", "tgt"):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return str(folder / f"{name}.src"), str(folder / f"{name}.tgt")


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that has learned to copy sentences, unknown words as `<unk>`."""
    folder = tmp_path_factory.mktemp("copy")
    experiment = Experiment(
        DataSettings(
            train=write(folder, "train", sentences(1, 1500)),
            valid=write(folder, "valid", sentences(2, 60)),
            subwords="words",
            minimum_count=30,
        ),
        ModelSettings(text=COPY),
        TrainSettings(
            threads=1,
            precision="float32",
            batch_tokens=400,
            lr=0.01,
            warmup_updates=60,
            label_smoothing=0.0,
            max_updates=500,
            validate_every_updates=250,
        ),
        DecodeSettings(beam=2),
    )
    result = run_training(experiment, folder / "run")
    assert isinstance(result, FinishedTraining)
    return folder / "run"


def lines(done) -> list[str]:
    assert done.status == 0, done.err
    return done.out.split("\n")[:-1]


@pytest.mark.medium
def test_attention_of_a_copying_run_links_each_word_to_itself(calque: Run, copier: Path, tmp_path: Path) -> None:
    valid = [copier.parent / f"valid.{side}" for side in ("src", "tgt")]
    links = lines(calque("align", *valid, "--run", copier))
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in links))
    words = [len(line.split()) for line in valid[0].read_text().splitlines()]
    (tmp_path / "gold").write_text("".join(" ".join(f"{k + 1}-{k + 1}" for k in range(n)) + "\n" for n in words))
    found = lines(calque("evaluate-alignment", tmp_path / "links", tmp_path / "gold"))
    assert float(found[0].split()[1]) < 2, found
    assert f"sentences:60|sure:{sum(words)}|" in found[0]
    turned = lines(calque("evaluate-alignment", tmp_path / "links", tmp_path / "gold", "--turned"))
    assert turned == found  # of links k-k
    shifted = lines(calque("align", *valid, "--run", copier, "--set", "decode.align_offset=1"))
    assert [line.count("-") for line in shifted] != [line.count("-") for line in links]


def test_unknown_words_are_copied_or_looked_up(calque: Run, copier: Path, tmp_path: Path) -> None:
    expected = (copier.parent / "valid.src").read_text().splitlines()
    stdin = "".join(f"{line}\n" for line in expected).encode()
    plain = lines(calque("translate", copier, stdin=stdin))
    replaced = lines(calque("translate", copier, "--set", "decode.replace_unknown=true", stdin=stdin))
    hidden = [re.sub(r"name\d+", "<unk>", line) for line in expected]
    copied = [k for k, line in enumerate(plain) if line == hidden[k] and "<unk>" in line]
    assert len(copied) > 10
    assert sum(replaced[k] == expected[k] for k in copied) >= len(copied) - 1
    right = [expected[k] for k in copied if replaced[k] == expected[k]][:4]  # sentences that it copies well
    known, *others = sorted(set(re.findall(r"name\d+", " ".join(right))))
    table = f"{known} Name-7 0.4\n{known} other 0.2\n" + "".join(f"{name} <unk> 1\n" for name in others)
    (tmp_path / "table").write_text(table)
    stdin = "".join(f"{line}\n" for line in right).encode()
    looked_up = lines(calque("translate", copier, "--dictionary", tmp_path / "table", stdin=stdin))
    assert looked_up == [re.sub(rf"\b{known}\b", "Name-7", line) for line in right]
    (tmp_path / "table").write_text("name7 Name-7\n")
    assert calque("translate", copier, "--dictionary", tmp_path / "table").err.count("error[D601]") == 1


def test_the_grid_is_tried_once_and_the_best_is_kept(calque: Run, copier: Path) -> None:
    grid = ["--beam", 1, "--beam", 2, "--word-penalty", 0, "--align-offset", 0, "--align-offset", 1]
    asked = ["tune", copier, *grid, "--set", "decode.replace_unknown=true"]
    first = calque(*asked)
    rows = [line.split() for line in lines(first)[1:9]]
    assert [row[:4] for row in rows] == [[b, "0", o, step] for b in "12" for o in "01" for step in "01"]
    assert float(rows[0][4]) > max(float(row[4]) for row in rows[1:4])  # the step that predicts aligns a copier's words
    best = max(rows, key=lambda row: (float(row[4]), row[0] == "2"))  # the beam of the run
    chosen = [f"beam = {best[0]}", "word_penalty = 0.0", f"align_offset = {best[2]}", f"align_row = {best[3]}"]
    assert lines(first)[10:] == ["[decode]", *chosen, "replace_unknown = true"]
    held = (copier / "tune.jsonl").read_text()
    assert held.count("\n") == 8
    (copier / "tune.jsonl").write_text(held[: held.rindex("{") + 20])  # as if it had been damaged
    assert calque(*asked).out == first.out
    assert (copier / "tune.jsonl").read_text() == held
    written = (copier / "tune.jsonl").stat().st_mtime_ns
    assert calque(*asked).out == first.out
    assert (copier / "tune.jsonl").stat().st_mtime_ns == written  # a run that is all tried need not be writable
    valid = [copier.parent / "valid.src", copier.parent / "valid.tgt"]
    plain = lines(calque("tune", copier, "--beam", 3, "--word-penalty", -0.5, "--valid", *valid, "--write"))
    assert len(plain) == 8
    others = ["--set", "decode.alpha=0.5", "--set", "decode.normalise=gnmt"]
    grid = ["--beam", 3, "--word-penalty", -0.5, "--valid", *valid]
    assert lines(calque("tune", copier, *grid, *others, "--write"))[-2:] == ["alpha = 0.5", 'normalise = "gnmt"']
    decode = load_experiment(copier / "experiment.toml").decode
    assert (decode.beam, decode.word_penalty, decode.replace_unknown) == (3, -0.5, False)
    kept = calque("tune", copier, *grid, "--precision", "bfloat16", "--write")
    assert lines(kept)[-1] == 'precision = "bfloat16"'
    assert load_experiment(copier / "experiment.toml").decode.precision == "bfloat16"
    assert (decode.alpha, decode.normalise) == (0.5, "gnmt")
    assert package.load(copier).loaded.decode.beam == 3


@pytest.mark.parametrize(
    ("now", "chosen"),
    [
        ({"beam": 2, "word_penalty": -1.0, "align_offset": 1, "align_row": 1}, (2, -1.0, 1, 1)),
        ({"beam": 7, "word_penalty": -1.0, "align_offset": 1, "align_row": 0}, (1, -1.0, 1, 0)),
    ],
)
def test_of_equal_settings_the_present_ones_are_the_best(
    calque: Run, copier: Path, tmp_path: Path, now: dict[str, float], chosen: tuple[float, ...]
) -> None:
    shutil.copytree(copier, tmp_path / "run", ignore=shutil.ignore_patterns("tune.jsonl"))
    sources = (copier.parent / "valid.src").read_text().splitlines()[:3]
    for name, text in (("src", sources), ("tgt", ["nothing of it"] * 3)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text))
    grid = [
        "--beam",
        1,
        "--beam",
        2,
        "--word-penalty",
        0,
        "--word-penalty",
        -1,
        "--align-offset",
        0,
        "--align-offset",
        1,
    ]
    present = [word for key, value in now.items() for word in ("--set", f"decode.{key}={value}")]
    valid = ["--valid", tmp_path / "src", tmp_path / "tgt", "--set", "decode.replace_unknown=true"]
    done = lines(calque("tune", tmp_path / "run", *grid, *valid, *present))
    assert {line.split()[-1] for line in done[1:17]} == {"0.00"}
    keys = [f"{key} = {value}" for key, value in zip(now, chosen, strict=True)]
    assert done[18:] == ["[decode]", *keys, "replace_unknown = true"]


def test_a_run_that_cannot_be_written_is_told_before_the_first_translation(
    calque: Run, copier: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(copier, run, ignore=shutil.ignore_patterns("tune.jsonl"))
    (run / "tune.jsonl").mkdir()
    failed = calque("tune", run, "--beam", 1, "--word-penalty", 0, "--align-offset", 0)
    assert (failed.status, failed.out.count("\n")) == (1, 1)  # the head of the table
    assert "K301" in failed.err


def test_from_text_to_links_to_a_table_to_selected_words(calque: Run, copier: Path, tmp_path: Path) -> None:
    train = [copier.parent / f"train.{side}" for side in ("src", "tgt")]
    ways = {}
    for way in ("forward", "backward", "grow-diag"):
        ways[way] = calque("align", *train, "--symmetrise", way, "--codecs", copier).out
        (tmp_path / way).write_text(ways[way])
    assert ways["grow-diag"].count("\n") == 1500
    both = [tmp_path / "forward", tmp_path / "backward"]
    assert calque("symmetrise", *both, "--by", "grow-diag").out == ways["grow-diag"]
    piped = ways["forward"].encode()
    assert calque("symmetrise", "-", both[1], "--by", "grow-diag", stdin=piped).out == ways["grow-diag"]
    assert "X117" in calque("symmetrise", "-", "-", stdin=piped).err
    scored = calque("evaluate-alignment", "-", both[1], "--first", 0, stdin=piped)
    assert scored.out == calque("evaluate-alignment", both[0], both[1], "--first", 0).out
    assert scored.out.startswith("AER ")
    table = calque("lexicon", *train, tmp_path / "grow-diag", "--codecs", copier, "--minimum", 10)
    piped = ways["grow-diag"].encode()
    assert calque("lexicon", *train, "-", "--codecs", copier, "--minimum", 10, stdin=piped).out == table.out
    rows = [line.split("\t") for line in lines(table)]
    best = {s: t for s, t, p in rows if float(p) > 0.5}
    assert best == {w: w for w in [*"abcdefgh", "<unk>"]}
    (tmp_path / "table").write_text(table.out)
    limits = ["--set", "decode.select_per_word=1", "--set", "decode.select_frequent=0"]
    assert lines(calque("translate", copier, "--select", tmp_path / "table", *limits, stdin=b"a b c\nd d\n")) == [
        "a b c",
        "d d",
    ]


def test_mistakes(calque: Run, copier: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("a b\nc\n")
    target.write_text("A B\nC\n")
    (tmp_path / "short").write_text("0-0\n")
    (tmp_path / "far").write_text("0-0\n0-1\n")
    cases = [
        (2, "X804", ["align", source, target, "--run", copier, "--symmetrise", "union"]),
        (2, "X804", ["align", source, target, "--run", copier, "--codecs", copier]),
        (2, "X805", ["align", source, target, "--set", "decode.align_row=1"]),
        (2, "X803", ["align", source, target, "--run", copier, "--set", "decode.align_layer='decoder.7'"]),
        (1, "D102", ["align", source, tmp_path / "short"]),
        (2, "X113", ["align", source, target, "--codecs", tmp_path]),
        (1, "D704", ["symmetrise", tmp_path / "short", tmp_path / "far"]),
        (1, "D704", ["lexicon", source, target, tmp_path / "short"]),
        (1, "D703", ["lexicon", source, target, tmp_path / "far"]),
        (1, "D704", ["evaluate-alignment", tmp_path / "short", tmp_path / "far", "--first", 0]),
        (1, "D702", ["evaluate-alignment", tmp_path / "far", tmp_path / "far"]),
        (1, "D701", ["evaluate-alignment", source, tmp_path / "far"]),
    ]
    for first, second in (("short", "far"), ("far", "short")):
        told = calque("symmetrise", tmp_path / first, tmp_path / second).err
        shorter, longer = sorted(
            (tmp_path / "short", tmp_path / "far"), key=lambda path: len(path.read_text().split("\n"))
        )
        assert f"--> {shorter}:" in told
        assert f"as many lines as `{longer}`" in told
    for status, code, arguments in cases:
        done = calque(*arguments)
        assert (done.status, done.err.count(f"error[{code}]") > 0, done.out) == (status, True, ""), done.err


def test_a_decoder_that_attends_to_nothing(calque: Run, tmp_path: Path, monkeypatch) -> None:
    from test_ways_to_translate import TEXTS

    monkeypatch.setitem(TEXTS, "deaf", "d = 6\nencoder = rnn @ e\ndecoder = rnn(start=@e)\n")
    run = make_run(tmp_path, "deaf", 1)
    assert len(lines(calque("translate", run, stdin=STDIN))) == len(LINES)
    done = calque("translate", run, "--set", "decode.replace_unknown=true", stdin=STDIN)
    assert (done.status, done.err.count("error[X802]")) == (2, 1)
    (tmp_path / "s").write_text("a b\n")
    done = calque("align", tmp_path / "s", tmp_path / "s", "--run", run)
    assert (done.status, done.err.count("error[X802]")) == (2, 1)
