"""The first hour with own text: what `calque new` proposes and warns of, and that its commands work."""

import random
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command import Outcome, Run

from calque.adl.check import check
from calque.experiment import DataSettings, load
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.run.model_file import load_model
from calque.workflow.new import new_experiment
from calque.workflow.new.choices import (
    ATTENTION,
    BATCHES,
    MOST_PASSES,
    SIZES,
    TRAINING_SHARE,
    CorpusFigures,
    Size,
    choose,
    vocabulary,
)
from calque.workflow.new.holdout import _endings
from calque.workflow.new.pace import checked_of, text_of, weights
from calque.workflow.new.proposal import lines
from calque.workflow.new.survey import FEW, correlation, crossed, sample_of
from calque.workflow.validation import tokenisation

Pair = tuple[str, str]


def sentences(count: int, seed: int = 3) -> list[Pair]:
    """Words of one language, and the same number of words of another in the opposite order; no two pairs are the same."""
    draw = random.Random(seed)
    pairs = []
    for number in range(count):
        words = [draw.randrange(60) for _ in range(draw.randint(2, 12))]
        pairs.append(
            (" ".join(f"un{w}" for w in [number, *words]), " ".join(f"zwei{w}" for w in [*words[::-1], number]))
        )
    return pairs


def write(folder: Path, pairs: list[Pair], name: str = "text") -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    files = folder / f"{name}.un", folder / f"{name}.zwei"
    for side, file in enumerate(files):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return files


def proposed(done: Outcome) -> dict[str, str]:
    """The lines with two columns that `calque new` writes to stderr."""
    assert done.status == 0, done.err
    return dict(re.split(r"  +", line, maxsplit=1) for line in done.err.split("\n") if re.match(r"[a-z ]+?  +\S", line))


def codes(done: Outcome) -> set[str]:
    assert done.status == 0, done.err
    return set(re.findall(r"warning\[(D13\d)\]", done.err))


NAMES = "corpus, vocabulary, architecture, dropout, batch, learning rate, validation, speed, time, next"


@pytest.mark.medium
def test_new_proposes_in_ten_lines_and_its_commands_work(calque: Run, tmp_path: Path) -> None:
    done = calque("new", tmp_path / "first run", "--train", *write(tmp_path, sentences(900)), "--time", "40s")
    told = proposed(done)
    assert ", ".join(told) == NAMES
    assert told["corpus"].startswith("855 pairs for training, 45 for validation")
    assert re.search(r"[1-9][\d,]* target tokens a second, measured here in \d+ s: \d+ updates", told["speed"])
    assert told["time"] == "36 s of training, 40 s with validations and the start"
    file = tmp_path / "first run" / "experiment.toml"
    assert done.out == f"{file}\n"
    train = shlex.split(told["next"])
    assert train[:3] == ["calque", "train", str(file)]
    limits = ["--set", "train.max_updates=3", "--set", "train.precision='float32'", "--set", "train.threads=1"]
    trained = calque(*train[1:], *limits)
    assert trained.status == 0, trained.err
    (after,) = re.findall(r"^next: (.*)$", trained.err, re.MULTILINE)
    assert shlex.split(after)[:2] == ["calque", "translate"]
    (tmp_path / "input.txt").write_text("un1 un2\nun3\n")
    words = shlex.split(after)[1:]
    translated = calque(*words[: words.index("<")], stdin=(tmp_path / "input.txt").read_bytes())
    assert translated.status == 0, translated.err
    assert translated.out.count("\n") == 2


def test_the_file_holds_the_keys_that_people_change_each_with_a_comment(tmp_path: Path) -> None:
    for budget in (None, 600.0):
        made = new_experiment(
            tmp_path / f"new{budget}", write(tmp_path, sentences(300)), (), budget=budget, measured=False
        )
        assert load(made.file) == made.experiment
        written = made.file.read_text().split("\n")
        keys = [number for number, line in enumerate(written) if re.match(r"[a-z_0-9]+ = ", line)]
        assert len(keys) <= 18
        assert all(written[number - 1].startswith("# ") for number in keys)
        assert len({written[number - 1] for number in keys}) == len(keys)
        shown = {written[number].partition(" ")[0] for number in keys}
        assert {"train", "valid", "vocabulary_size", "file", "batch_tokens", "lr", "beam"} <= shown
        assert "docs/experiment.md" in written[1]


def test_the_schedule_falls_to_zero_at_the_end_of_the_budget(tmp_path: Path) -> None:
    files = write(tmp_path, sentences(300))
    timed = new_experiment(tmp_path / "timed", files, (), budget=20.0, measured=False).experiment.train
    assert (timed.schedule, timed.final_lr, timed.max_seconds) == ("linear", 0.0, 20 * TRAINING_SHARE)
    assert timed.max_epochs == timed.max_updates == timed.patience == 0
    assert 0 < timed.validate_every_seconds <= timed.max_seconds / 2
    free = new_experiment(tmp_path / "free", files, (), measured=False).experiment.train
    assert (free.schedule, free.final_lr) == ("linear", 0.0)
    assert free.max_epochs > 0
    assert free.max_seconds == free.max_updates == free.patience == 0
    assert free.validate_every_updates > 0


def test_a_speed_that_is_not_measured_is_called_so(calque: Run, tmp_path: Path) -> None:
    told = proposed(calque("new", tmp_path / "new", "--train", *write(tmp_path, sentences(50)), "--no-measure"))
    assert "not measured" in told["speed"]
    assert "`--time 20m`" in told["time"]


def pace(tokens: float) -> Callable[[Size, int], float]:
    """A machine of so many target tokens a second for the smallest size; others in proportion to their weights, roughly."""
    smallest = SIZES[0].width ** 2 * SIZES[0].blocks
    return lambda size, batch: tokens * smallest / (size.width**2 * size.blocks)


@pytest.mark.parametrize("pairs", [500, 29_000, 1_000_000])
def test_more_time_and_faster_machines_never_get_a_smaller_model(pairs: int) -> None:
    corpus = CorpusFigures(pairs, 15.0 * pairs, 15_000, 1_500)
    largest = [size for size in SIZES if size.suits(pairs)][-1]
    for speeds, budgets in (((5e3,), (60, 600, 6e3, 6e5)), ((1e2, 5e3, 1e6), (600,))):
        chosen = [choose(corpus, budget, pace(speed)) for speed in speeds for budget in budgets]
        ranks = [SIZES.index(choice.size) for choice in chosen]
        assert ranks == sorted(ranks)
        assert [c.batch for c in chosen] == sorted(c.batch for c in chosen)
        for choice in chosen:
            assert choice.batch in BATCHES
            assert choice.passes <= MOST_PASSES * 1.001
            needed = choice.size.needs(corpus.tokens)
            assert choice.size == SIZES[0] or choice.pace * choice.seconds >= needed * 0.999
            assert (choice.larger is None) == (choice.size == largest)
    assert choose(corpus, None, pace(5e3)).size == largest


def test_a_small_corpus_and_many_passes_get_a_narrow_model() -> None:
    corpus = CorpusFigures(29_000, 15.0 * 29_000, 15_000, 1_500)
    short, long, free = (choose(corpus, budget, pace(6e4)) for budget in (600, 36_000, None))
    assert (short.size.width, short.larger) == (256, long.size)
    assert (long.size.width, long.size.blocks, long.larger) == (128, 4, None)
    assert (free.size, free.passes, free.batch) == (long.size, 50, 4096)
    assert (long.size.optimiser, long.size.attention) == ("muon", "relative")
    assert "ffl(256)" in text_of(long.size, long.dropout)
    assert weights(long.size, 4_000) < weights(short.size, 4_000)


def test_few_pairs_and_many_passes_are_trained_with_r_drop(calque: Run, tmp_path: Path) -> None:
    corpus = CorpusFigures(5_000, 15.0 * 5_000, 15_000, 1_500)
    short, free = (choose(corpus, budget, pace(6e4)) for budget in (20, None))
    assert (short.size.r_drop, short.size.width, short.larger) == (0, 128, free.size)
    assert (free.size.r_drop, free.size.width, free.passes, free.dropout) == (1.0, 128, 30, 0.2)
    assert choose(replace(corpus, pairs=29_000), None, pace(6e4)).size.r_drop == 0
    done = calque("new", tmp_path / "new", "--train", *write(tmp_path, sentences(300)), "--no-measure")
    assert "R-Drop (Wu et al. 2021)" in proposed(done)["dropout"]
    assert load(tmp_path / "new" / "experiment.toml").train.r_drop == 1.0
    assert "\nr_drop = 1.0\n" in (tmp_path / "new" / "experiment.toml").read_text()


@pytest.mark.medium
def test_a_size_may_want_another_vocabulary(tmp_path: Path) -> None:
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(15_000)]
    lines = (" ".join(draw.choices(words, k=5)) for _ in range(22_000))
    files = write(tmp_path, [(line, line.upper()) for line in lines])
    free, short = (
        new_experiment(tmp_path / f"new{budget}", files, (), budget=budget, measured=False) for budget in (None, 60.0)
    )
    assert free.choice.size.entries > vocabulary(free.counts[0]) == short.experiment.data.vocabulary_size
    assert free.experiment.data.vocabulary_size == free.choice.size.entries
    assert free.weights == weights(free.choice.size, free.choice.size.entries)
    assert free.subwords < short.subwords


@pytest.mark.parametrize("kernels", [True, False])
def test_the_optimiser_is_one_that_is_fast_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: bool) -> None:
    monkeypatch.setattr("calque.train.muon.has_kernel", lambda: kernels)
    proposal = new_experiment(tmp_path / "new", write(tmp_path, sentences(300)), (), measured=False)
    train = proposal.experiment.train
    expected = ("muon", 0.004, 1024) if kernels else ("adam", 0.003, 1024)
    assert (train.optimiser, train.lr, train.batch_tokens) == expected
    assert any(f"by {expected[0].capitalize()}" in line for line in lines(proposal))
    for size in SIZES:
        assert size.plain().optimiser == "adam"
        assert size.optimiser == "muon" or size.plain() == size
        assert size.optimiser == "adam" or size.plain().lr == size.adam > 0


@pytest.mark.parametrize("attention", [None, *ATTENTION])
def test_self_attention_is_of_the_kind_that_is_asked_for(calque: Run, tmp_path: Path, attention: str | None) -> None:
    files, asked = write(tmp_path, sentences(300)), ("--attention", attention) if attention else ()
    done = calque("new", tmp_path / "new", "--train", *files, "--no-measure", *asked)
    kind = attention or "relative"
    assert proposed(done)["architecture"].startswith(
        f"Transformer, 2 + 2 blocks of width 128 with R-Drop{ATTENTION[kind]}, "
    )
    size, *_ = (size for size in SIZES if (size.width, size.blocks) == (128, 2))
    written = (tmp_path / "new" / "model.adl").read_text()
    dropout = float(written.partition("\np = ")[2].split()[0])
    text = checked_of(replace(size, attention=kind), dropout).text
    assert check(Text("model.adl", written), builtin()).text == text
    assert {layer: layer in text for layer in ("hc_self_att", "mh_dot_self_att", "relative=t5")} == {
        "hc_self_att": kind == "hard-coded",
        "mh_dot_self_att": kind != "hard-coded",
        "relative=t5": kind == "relative",
    }


def test_a_budget_is_kept_and_not_filled_with_passes_that_teach_by_heart() -> None:
    small = CorpusFigures(1_000, 15_000, 750, 750)
    kept, spared = choose(small, 60, pace(2e3)), choose(small, 36_000, pace(2e3))
    assert kept.timed
    assert kept.seconds == 60 * TRAINING_SHARE
    assert not spared.timed
    assert spared.passes == pytest.approx(MOST_PASSES)
    assert spared.dropout > kept.dropout


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("20m", 1200), ("1h30m", 5400), ("2H", 7200), ("1h5s", 3605)]
)
def test_times_are_read(calque: Run, tmp_path: Path, written: str, seconds: int) -> None:
    files = write(tmp_path, sentences(2_000))
    done = calque("new", tmp_path / "new", "--train", *files, "--no-measure", "--time", written)
    assert done.status == 0, done.err
    train = load(tmp_path / "new" / "experiment.toml").train
    # 2,000 pairs are not worth more than 100 passes.
    assert train.max_seconds == round(TRAINING_SHARE * seconds) or (seconds > 90 and train.max_epochs == MOST_PASSES)


@pytest.mark.parametrize("written", ["20", "soon", "", "-5m", "0s", "5s", "1.5h", "m", "20m1h"])
def test_what_is_no_time_is_refused(calque: Run, tmp_path: Path, written: str) -> None:
    done = calque("new", tmp_path / "new", "--train", *write(tmp_path, sentences(20)), "--time", written)
    assert done.status == 2
    assert "--time" in done.err
    assert "expected" in done.err
    assert not (tmp_path / "new").exists()


@pytest.mark.medium
def test_a_new_folder_can_be_moved(calque: Run, tmp_path: Path) -> None:
    calque("new", tmp_path / "new", "--train", *write(tmp_path, sentences(60)), "--no-measure")
    (tmp_path / "new").rename(tmp_path / "moved")
    trained = calque("train", tmp_path / "moved", "--set", "train.max_updates=1", "--set", "train.threads=1")
    assert trained.status == 0, trained.err
    assert (tmp_path / "moved" / "run" / "model.json").is_file()


def test_pairs_with_an_empty_side_are_not_held_out(calque: Run, tmp_path: Path) -> None:
    full = sentences(60)
    pairs = [pair if i % 2 else (pair[0], "") for i, pair in enumerate(full)]
    calque("new", tmp_path / "new", "--train", *write(tmp_path, pairs), "--no-measure")
    held = [(tmp_path / "new" / f"valid.{side}").read_text().splitlines() for side in ("un", "zwei")]
    assert len(held[0]) == 3
    assert all(pair in pairs[1::2] for pair in zip(*held, strict=True))


@pytest.mark.parametrize("often", [1, 500])
def test_a_pair_that_is_repeated_does_not_fill_the_validation_text(calque: Run, tmp_path: Path, often: int) -> None:
    """One in twenty is held out, and all repetitions of a pair are in one part."""
    for seed in range(3):
        pairs = [pair for pair in sentences(100, seed) for _ in range(1 + (pair[0].startswith("un7 ")) * (often - 1))]
        calque("new", tmp_path / f"{seed}", "--train", *write(tmp_path, pairs), "--no-measure")
        parts = []
        for split in ("train", "valid"):
            sides = [(tmp_path / f"{seed}" / f"{split}.{side}").read_text().splitlines() for side in ("un", "zwei")]
            parts.append(list(zip(*sides, strict=True)))
        train, valid = parts
        assert len(valid) == len(pairs) // 20
        assert sorted(train + valid) == sorted(pairs)
        assert not set(train) & set(valid)
    repeated = [sentences(2)[k % 2] for k in range(60)]
    calque("new", tmp_path / "two", "--train", *write(tmp_path, repeated), "--no-measure")
    assert len((tmp_path / "two" / "valid.un").read_text().splitlines()) == 30


@pytest.mark.parametrize(
    ("names", "endings"), [(("a.en.gz", "a.de"), ["en", "de"]), (("a.txt", "b.txt"), ["source", "target"])]
)
def test_the_parts_of_a_corpus_keep_endings_that_name_languages(names: tuple[str, str], endings: list[str]) -> None:
    assert _endings([Path(name) for name in names]) == endings


def test_a_folder_that_was_there_stays_after_an_error(calque: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for folder in ("mine", "other/new"):
        done = calque("new", tmp_path / folder, "--train", *write(tmp_path, [("one", "eins")] * 40), "--no-measure")
        assert "X413" in done.err
    assert list((tmp_path / "mine").iterdir()) == []
    assert not (tmp_path / "other").exists()


def test_pairs_with_an_empty_side_are_not_counted(calque: Run, tmp_path: Path) -> None:
    pairs = [pair if i % 3 else (pair[0], " ") for i, pair in enumerate(sentences(60))]
    done = calque("new", tmp_path / "new", "--train", *write(tmp_path, pairs), "--no-measure")
    told = proposed(done)
    words = sum(len(source.split()) for source, target in pairs if target.strip()) / 40
    assert told["corpus"].startswith(f"37 pairs for training, 3 for validation; {words:.1f} words a source")
    assert "40 pairs are too few" in done.err
    prepared = calque("prepare", tmp_path / "new")
    assert "37 pairs" in prepared.err


def warned(calque: Run, folder: Path, pairs: list[Pair], *options: object) -> set[str]:
    folder.mkdir()
    return codes(calque("new", folder / "new", "--train", *write(folder, pairs), "--no-measure", *options)) - {"D132"}


@pytest.mark.medium
def test_a_corpus_in_order_gets_no_warning(calque: Run, tmp_path: Path) -> None:
    pairs = sentences(FEW)
    done = calque("new", tmp_path / "new", "--train", *write(tmp_path, pairs), "--no-measure")
    assert "warning" not in done.err
    done = calque("new", tmp_path / "less", "--train", *write(tmp_path, pairs[1:]), "--no-measure")
    assert codes(done) == {"D132"}
    assert "4,999 pairs" in done.err


def test_sides_that_are_the_same_are_reported(calque: Run, tmp_path: Path) -> None:
    pairs = sentences(400)
    assert warned(calque, tmp_path / "all", [(source, source) for source, _ in pairs]) == {"D130"}
    assert warned(calque, tmp_path / "some", [(s, s) if n % 10 == 0 else (s, t) for n, (s, t) in enumerate(pairs)]) == {
        "D130"
    }
    assert (
        warned(calque, tmp_path / "few", [(s, s) if n % 100 == 0 else (s, t) for n, (s, t) in enumerate(pairs)])
        == set()
    )
    # Numbers are the same in any language.
    assert warned(calque, tmp_path / "digits", [*pairs, *(("17", "17"),) * 100]) == set()


def helped(done: Outcome, folder: Path) -> None:
    """Runs the commands in the help."""
    (command,) = re.findall(r"help: .*?`(cut .*?)`", done.err)
    subprocess.run(command, shell=True, cwd=folder, check=True)


def test_a_table_is_reported_and_the_help_cuts_it(calque: Run, tmp_path: Path) -> None:
    table = tmp_path / "my table.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in sentences(300)))
    one = calque("new", tmp_path / "one", "--train", table)
    assert one.status == 2
    assert one.err.count("error[X460]") == 1
    helped(one, tmp_path)
    cut = tmp_path / "source.txt", tmp_path / "target.txt"
    assert codes(calque("new", tmp_path / "cut", "--train", *cut, "--no-measure")) == {"D132"}
    assert [line.split(" ")[0] for line in cut[0].read_text().splitlines()][:2] == ["un0", "un1"]
    twice = calque("new", tmp_path / "twice", "--train", table, table, "--no-measure")
    assert codes(twice) == {"D130", "D131", "D132"}
    for file in cut:
        file.unlink()
    helped(twice, tmp_path)
    assert codes(calque("new", tmp_path / "again", "--train", *cut, "--no-measure")) == {"D132"}
    before = calque("new", tmp_path / "options", "--train", table, "--time", "20m")
    assert before.err.count("error[X460]") == 1


def test_validation_text_the_wrong_way_round_is_reported(calque: Run, tmp_path: Path) -> None:
    pairs, valid = sentences(300), write(tmp_path, sentences(50, 4), "valid")
    assert warned(calque, tmp_path / "right", pairs, "--valid", *valid) == set()
    assert warned(calque, tmp_path / "wrong", pairs, "--valid", *valid[::-1]) == {"D133"}


def test_a_side_without_spaces_is_measured_and_scored_by_characters(calque: Run, tmp_path: Path) -> None:
    """As Japanese: a line is one word, which no other line has."""
    draw = random.Random(5)
    signs = [chr(code) for code in range(0x4E00, 0x4E40)]
    pairs = []
    for number in range(400):
        spoken = [draw.randrange(len(signs)) for _ in range(8)]
        pairs.append((" ".join(f"un{k}" for k in [number, *spoken]), "".join(signs[k] for k in spoken) + "。"))
    train = write(tmp_path, pairs)
    done = calque("new", tmp_path / "first", "--train", *train, "--no-measure")
    assert "9.0 words a source, 9.0 characters a target" in proposed(done)["corpus"]
    valid = write(tmp_path, [pair[::-1] for pair in pairs[::3]], "valid")
    assert codes(calque("new", tmp_path / "second", "--train", *train, "--valid", *valid, "--no-measure")) >= {"D133"}
    for split, score in ((DataSettings(), "char"), (DataSettings(subwords="words"), "none")):
        assert tokenisation(split, [target for _, target in pairs]) == score


def test_paragraphs_on_a_line_are_reported(calque: Run, tmp_path: Path) -> None:
    pairs = [(" ".join([source] * 60), " ".join([target] * 60)) for source, target in sentences(40)] + sentences(400)
    told = calque("new", tmp_path / "some", "--train", *write(tmp_path, pairs), "--no-measure")
    assert codes(told) == {"D132", "D135"}
    assert "more than 200 subwords" in told.err
    alone = calque("new", tmp_path / "all", "--train", *write(tmp_path, pairs[:40]), "--no-measure")
    assert (alone.status, "error[D309]" in alone.err, (tmp_path / "all").exists()) == (1, True, False)
    long = " ".join(f"wort{n % 500}" for n in range(2000))  # longer than sentencepiece takes by itself
    very = calque(
        "new",
        tmp_path / "very",
        "--train",
        *write(tmp_path, [(long + str(n), long) for n in range(40)]),
        "--no-measure",
    )
    assert (very.status, "error[D309]" in very.err) == (1, True)


@pytest.mark.parametrize("measure", [(), ("--no-measure",)])
def test_a_side_without_words_is_an_error(calque: Run, tmp_path: Path, measure: tuple[str, ...]) -> None:
    files = write(tmp_path, [(" ", target) for _, target in sentences(60)])
    told = calque("new", tmp_path / "new", "--train", *files, *measure)
    assert (told.status, "error[D309]" in told.err, "Traceback" in told.err) == (1, True, False)
    assert "one side of every pair is blank: are these the right files?" in told.err
    assert not (tmp_path / "new").exists()


def test_lines_that_lost_each_other_are_reported(calque: Run, tmp_path: Path) -> None:
    pairs = sentences(400)
    moved = [(source, target) for (source, _), (_, target) in zip(pairs[1:], pairs[:-1], strict=True)]
    assert warned(calque, tmp_path / "moved", moved) == {"D134"}
    shorter = write(tmp_path / "shorter", pairs)
    shorter[1].write_text("".join(f"{target}\n" for _, target in pairs[1:]))
    done = calque("new", tmp_path / "unequal", "--train", *shorter)
    assert done.status == 1
    assert done.err.count("error[D102]") == 1


def test_many_wrong_pairs_are_reported(calque: Run, tmp_path: Path) -> None:
    pairs = sentences(800)
    turned = [(source, pairs[k - 2 * (k % 2)][1]) for k, (source, _) in enumerate(pairs)]
    assert warned(calque, tmp_path / "some", turned) == {"D138"}
    assert warned(calque, tmp_path / "none", pairs) == set()


def test_the_correlation_is_that_of_ranks() -> None:
    from scipy.stats import spearmanr

    draw = random.Random(8)
    sides = [["x" * draw.randint(0, 9) for _ in range(60)] for _ in range(2)]
    assert correlation(*sides) == pytest.approx(spearmanr(*([len(x) for x in side] for side in sides)).statistic)
    assert correlation(["a"] * 5, ["a", "bb", "c", "dd", "e"]) == 1.0


def test_a_sample_is_spread_over_the_whole_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["calque.workflow.new.survey"], "SAMPLE", 10)
    pairs = sentences(35)
    found = sample_of(write(tmp_path, pairs), 35)
    assert list(zip(*found, strict=True)) == [pairs[n * 35 // 10] for n in range(10)]
    # No end is out of sight where the corpus is not a multiple of the sample.
    found = sample_of(write(tmp_path, pairs[:19]), 19)
    assert list(zip(*found, strict=True)) == [pairs[n * 19 // 10] for n in range(10)]
    assert len(sample_of(write(tmp_path, pairs[:7]), 7)[0]) == 7


@pytest.mark.slow
def test_a_proposed_experiment_learns(calque: Run, tmp_path: Path) -> None:
    """The recipe on a language of 30 words that is written backwards: an end-to-end check that it learns."""
    draw = random.Random(1)
    pairs = []
    for _ in range(6_000):
        words = [draw.choice("bdfgklmnpr") + draw.choice("aio") for _ in range(draw.randint(1, 4))]
        pairs.append((" ".join(f"{w}s" for w in words), " ".join(f"{w}t" for w in words[::-1])))
    asked = ["new", tmp_path / "new", "--train", *write(tmp_path, pairs), "--time", "10m", "--no-measure"]
    limit = ["--set", "train.max_seconds=0", "--set", "train.max_updates=400", "--set", "train.threads=1"]
    done = calque("train", calque(*asked).out.strip(), "--out", tmp_path / "run", *limit)
    assert done.status == 0, done.err
    assert load_model(tmp_path / "run").meta["figures"]["bleu"] > 60


def test_the_kind_of_text_is_looked_up_once_a_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once a line: a survey of a small corpus took a minute."""
    asked = []
    monkeypatch.setattr(sys.modules[crossed.__module__], "unspaced", lambda side: bool(asked.append(len(side))))
    train, valid = write(tmp_path, sentences(300), "train"), write(tmp_path, sentences(40, 7), "valid")
    source, target = (file.read_text().splitlines() for file in train)
    assert crossed((source, target), valid) is None
    assert asked == [300, 300, 40, 40]


@pytest.mark.medium
def test_back_translated_text_is_tagged_and_a_small_corpus_repeated(calque: Run, tmp_path: Path) -> None:
    own, made = write(tmp_path, sentences(60)), write(tmp_path, sentences(300, 5), "made")
    folder = tmp_path / "new"
    found = calque("new", folder, "--train", *own, "--back-translated", *made, "--no-measure", "--time", "30s")
    assert found.status == 0, found.err
    assert "300 of these pairs, tagged <bt>; in a pass the corpus has 150" in found.err
    proposed = load(folder / "experiment.toml")
    first, second = proposed.data.texts
    assert (first.target, first.tag, first.weight) == (str(made[1]), "<bt>", 1.0)
    assert (Path(second.source).parent, second.tag, second.weight) == (folder, "", 0.5)
    assert Path(proposed.data.valid[0]).parent == folder
    assert proposed.decode.tag == "<bt>"
    assert 'source = "train.un"' in (folder / "experiment.toml").read_text()
    moved = folder.rename(tmp_path / "moved")
    found = calque(
        "train", moved, "--set", "train.max_seconds=0", "--set", "train.max_updates=2", "--set", "train.threads=1"
    )
    assert found.status == 0, found.err
    # What is large is not repeated.
    calque("new", tmp_path / "other", "--train", *made, "--back-translated", *own, "--no-measure", "--valid", *own)
    other = load(tmp_path / "other" / "experiment.toml")
    assert (other.data.weights, other.decode.tag) == ((1.0, 5.0), "")


def test_faults_of_back_translated_text_are_told(calque: Run, tmp_path: Path) -> None:
    own = write(tmp_path, sentences(60))
    found = calque(
        "new", tmp_path / "new", "--train", *own, "--back-translated", own[0], tmp_path / "none", "--no-measure"
    )
    assert (found.status, found.out) == (1, "")
    assert "D101" in found.err
    assert not (tmp_path / "new").exists()
    blank = write(tmp_path, [("", "")] * 20, "blank")
    found = calque("new", tmp_path / "new", "--train", *own, "--back-translated", *blank, "--no-measure")
    assert (found.status, found.out) == (1, "")
    assert "D309" in found.err
    found = calque("new", tmp_path / "new", "--train", *own, "--back-translated", own[0], own[0], "--no-measure")
    assert "D130" in found.err
    assert "D136" not in found.err
    found = calque("new", tmp_path / "other", "--train", *own, "--back-translated", *own[::-1], "--no-measure")
    assert "D137" in found.err
    found = calque("new", tmp_path / "third", "--train", *own, "--back-translated", *own, "--no-measure")
    assert "3 of the 3 sentences of the validation target" in found.err
