import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from whole_loss import cross_entropy

from calque.adl.check import CheckedDefinition, check
from calque.data.batches import collate, plan
from calque.data.codecs import WordCodec
from calque.data.compiled import prepare
from calque.data.corpus import PreparedCorpus, seal
from calque.data.vocabulary import Vocabulary
from calque.experiment import DataSettings, Experiment, load, write
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.model import Model
from calque.run.model_file import load_model
from calque.run.tensors import read_tensors
from calque.train.log import Log, Progress, Translated, Validation
from calque.train.loop import FinishedTraining, StoppedTraining, train
from calque.train.precision import probe_precision

Make = Callable[..., Experiment]


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "log.jsonl").read_text().split("\n") if line]
    return [line for line in found if line["kind"] == kind]


def same_weights(one: Path, other: Path) -> bool:
    (a, _), (b, _) = read_tensors(one), read_tensors(other)
    return a.keys() == b.keys() and all(torch.equal(t, b[name]) for name, t in a.items())


@pytest.mark.medium
@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_a_toy_is_learnt(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, precision: str
) -> None:
    seen: list[Progress | Validation] = []
    settings = {"max_updates": 300, "validate_every_updates": 150, "batch_tokens": 512, "precision": precision}
    scores = iter([10.0, 20.0, 30.0])
    made = experiment(**settings, label_smoothing=0.0, average_count=1, validate_bleu_sentences=5)
    done = train(made, run, prepared, checked, None, seen.append, lambda model: Translated(next(scores), ()))
    assert isinstance(done, FinishedTraining)
    assert done.limit == "max_updates"
    assert done.perplexity < 1.7
    assert done.bleu == 30
    assert [v.bleu for v in seen if isinstance(v, Validation)] == [10, 20]
    assert any(isinstance(p, Progress) for p in seen)
    loaded = load_model(run)
    assert loaded.experiment.train.precision == precision
    assert loaded.meta["figures"]["perplexity"] == done.perplexity
    # The figure is that of the plain formula, sentence by sentence.
    nll, tokens, pairs = 0.0, 0, prepared.split("valid")
    with torch.no_grad():
        for i in range(len(pairs)):
            batch = collate(pairs, torch.tensor([i]).numpy(), True)
            logits = loaded.model(batch.source, batch.target_in)[0]
            nll += float(cross_entropy(logits, batch.target_out[0], 0.0)[1])
            tokens += len(batch.target_out[0])
    found = torch.tensor(nll / tokens).exp()
    assert float(found) == pytest.approx(done.perplexity, rel=1e-4 if precision == "float32" else 0.02)


@pytest.mark.medium
@pytest.mark.parametrize("which", ["best", "last"])
def test_the_mean_is_never_worse_than_the_best_checkpoint(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, which: str
) -> None:
    made = experiment(
        max_updates=120,
        validate_every_updates=40,
        batch_tokens=512,
        average=which,
        average_count=3,
        precision="float32",
    )
    done = train(made, run, prepared, checked)
    assert isinstance(done, FinishedTraining)
    best = min(lines(run, "valid"), key=lambda line: line["perplexity"])
    assert done.perplexity <= best["perplexity"] * (1 + 1e-6)
    # Here, early in a training, the mean of all three would be worse, so the best stands alone.
    assert done.averaged == (best["update"],)


@pytest.mark.medium
def test_a_mean_of_the_last_that_is_better_is_taken(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    """At a high constant rate the checkpoints lie around a better point."""
    settings = {"schedule": "constant", "lr": 0.02, "clip_norm": 1.0, "batch_tokens": 512}
    made = experiment(**settings, max_updates=150, validate_every_updates=10, average="last", average_count=3)
    done = train(made, run, prepared, checked)
    assert isinstance(done, FinishedTraining)
    assert done.averaged == (130, 140, 150)
    assert done.perplexity < min(line["perplexity"] for line in lines(run, "valid")[-3:])


def test_interrupted_and_resumed_is_uninterrupted(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = experiment(
        max_updates=13, accumulate=2, schedule="plateau", decay_patience=1, batch_sentences=9, batch_tokens=0
    )
    train(made, tmp_path / "one", prepared, checked)
    for stop, number in ((3, signal.SIGTERM), (5, signal.SIGINT), (8, signal.SIGTERM)):  # 5: at a validation
        stopped = train(made, tmp_path / "two", prepared, checked, None, Interrupt(stop, number))
        assert stopped == StoppedTraining(stop, number)
    assert isinstance(train(made, tmp_path / "two", prepared, checked), FinishedTraining)
    for name in ("checkpoints/5", "checkpoints/10", "checkpoints/13", "checkpoints/state-13", "model"):
        assert same_weights(tmp_path / "one" / name, tmp_path / "two" / name)
    one, two = (lines(tmp_path / run, "valid") for run in ("one", "two"))
    assert [v["perplexity"] for v in one] == [v["perplexity"] for v in two]
    assert [v["update"] for v in two] == [5, 10, 13]


@pytest.mark.medium
@pytest.mark.parametrize("key", ["subword_sampling", "prefix_pairs"])
def test_what_is_cut_anew_is_cut_in_the_same_way_after_an_interruption(
    tmp_path: Path, experiment: Make, checked: CheckedDefinition, key: str
) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text(
            "".join(f"{a}{b}{c} {c}{a}\n" for a in "abcdef" for b in "abcdef" for c in "abcdef")
        )
    settings = DataSettings(("source", "target"), ("source", "target"), vocabulary_size=40)
    held = prepare(settings, tmp_path / "held", tmp_path)
    usual, made = (replace(experiment(**{key: p}), data=settings) for p in (0.0, 0.3))
    train(usual, tmp_path / "usual", held, checked)
    train(made, tmp_path / "one", held, checked)
    for stop in (3, 8):
        assert train(made, tmp_path / "two", held, checked, None, Interrupt(stop, signal.SIGTERM)) == StoppedTraining(
            stop, signal.SIGTERM
        )
    train(made, tmp_path / "two", held, checked)
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")
    assert not same_weights(tmp_path / "one" / "model", tmp_path / "usual" / "model")


def test_words_of_a_parent_that_cannot_be_cut_anew(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    with pytest.raises(CalqueError) as raised:
        train(experiment(subword_sampling=0.1), run, prepared, checked)
    assert raised.value.diagnostics[0].code == "X229"
    assert not (run / "model.json").exists()


@pytest.mark.medium
@pytest.mark.parametrize(
    "budget", [{"max_updates": 13}, {"max_updates": 0, "max_epochs": 2}, {"max_updates": 99, "max_seconds": 6.1}]
)
def test_a_rate_that_falls_with_the_budget_resumes_where_it_was(
    tmp_path: Path,
    prepared: PreparedCorpus,
    checked: CheckedDefinition,
    experiment: Make,
    budget: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by seconds, which are part of the state: here a clock makes every update take half a second."""
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks) / 2)
    settings = {"schedule": "linear", "warmup_share": 0.2, "log_every_updates": 1, "batch_tokens": 512}
    settings |= {"beta2_half_life_tokens": 5000.0, "validate_every_updates": 0}
    made = experiment(**settings, **budget)
    done = train(made, tmp_path / "one", prepared, checked)
    assert isinstance(done, FinishedTraining)
    assert done.update >= 13
    for stop in (2, 7, 8):
        assert train(
            made, tmp_path / "two", prepared, checked, None, Interrupt(stop, signal.SIGTERM)
        ) == StoppedTraining(stop, signal.SIGTERM)
    assert train(made, tmp_path / "two", prepared, checked) == done
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")
    one, two = ([line["lr"] for line in lines(tmp_path / run, "train")] for run in ("one", "two"))
    assert one == two
    assert one[-1] < 0.002 < max(one)
    assert 0 < one[0] < 0.01


def test_a_signal_at_the_last_validation_loses_no_line_of_the_log(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    """The rates of a training that the clock ends are only there, and its repetition needs each of them."""

    def interrupted(model: Model) -> Translated:
        os.kill(os.getpid(), signal.SIGINT)
        return Translated(None, ())

    made = experiment(max_updates=3, max_seconds=1e6, validate_every_updates=0, log_every_updates=100)
    stopped = train(made, run, prepared, checked, translate=interrupted)
    assert stopped == StoppedTraining(3, signal.SIGINT)
    assert isinstance(train(made, run, prepared, checked), FinishedTraining)
    assert [len(line["rates"]) for line in lines(run, "train")] == [3]


@pytest.mark.parametrize("other", [ValueError("could not determine the shape of object type"), None])
def test_a_signal_that_a_library_makes_another_exception_of_stops_training_all_the_same(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, other: Exception | None
) -> None:
    """As torch does where the signal comes while it asks for the length of a storage."""

    def interrupted(model: Model) -> Translated:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            if other is not None:
                raise other from None
        return Translated(None, ())

    made = experiment(max_updates=3, validate_every_updates=2)
    assert train(made, run, prepared, checked, translate=interrupted) == StoppedTraining(2, signal.SIGTERM)
    assert lines(run, "valid") == []
    assert isinstance(train(made, run, prepared, checked), FinishedTraining)


class Interrupt:
    """A watcher that stops training once so many updates are done."""

    def __init__(self, update: int, number: int):
        self.update, self.number = update, number

    def __call__(self, event: Progress | Validation) -> None:
        if event.update >= self.update:
            os.kill(os.getpid(), self.number)


@pytest.fixture(autouse=True)
def _every_update_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.train.progress.WATCH_SECONDS", -1.0)


def test_in_bfloat16_too(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = experiment(max_updates=8, precision="bfloat16")
    train(made, tmp_path / "one", prepared, checked)
    stopped = train(made, tmp_path / "two", prepared, checked, None, Interrupt(4, signal.SIGTERM))
    assert stopped == StoppedTraining(4, signal.SIGTERM)
    # `auto` takes up the precision of the run, whatever this machine would choose.
    auto = replace(made, train=replace(made.train, precision="auto"))
    train(auto, tmp_path / "two", prepared, checked)
    assert load(tmp_path / "two" / "experiment.toml").train.precision == "bfloat16"
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")
    assert {t.dtype for t in read_tensors(tmp_path / "one" / "model")[0].values()} == {torch.float32}


def test_a_finished_run_goes_on_under_a_higher_limit(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    long = train(experiment(max_updates=10), tmp_path / "one", prepared, checked)
    train(experiment(max_updates=5), tmp_path / "two", prepared, checked)
    assert train(experiment(max_updates=10), tmp_path / "two", prepared, checked) == replace_seconds(long, tmp_path)
    assert same_weights(tmp_path / "one" / "model", tmp_path / "two" / "model")


def replace_seconds(done: FinishedTraining | StoppedTraining, tmp_path: Path) -> FinishedTraining:
    assert isinstance(done, FinishedTraining)
    return replace(done, seconds=read_tensors(tmp_path / "two" / "model")[1]["figures"]["seconds"])


@pytest.mark.medium
@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"max_updates": 0, "max_epochs": 2}, "max_epochs"),
        ({"max_updates": 0, "max_seconds": 0.05}, "max_seconds"),
        ({"max_updates": 0, "patience": 2, "lr": 0.0, "validate_every_updates": 1}, "patience"),
        ({"max_updates": 0, "schedule": "epoch", "decay": 0.1, "decay_from_epoch": 1, "min_lr": 5e-4}, "min_lr"),
    ],
)
def test_limits(
    run: Path,
    prepared: PreparedCorpus,
    checked: CheckedDefinition,
    experiment: Make,
    settings: dict[str, Any],
    limit: str,
) -> None:
    done = train(experiment(**settings), run, prepared, checked)
    assert isinstance(done, FinishedTraining)
    assert done.limit == limit
    if limit == "max_epochs":
        assert done.epoch == 2
        each = [len(plan(prepared.split("train"), 256, 0, 1, epoch)) for epoch in (0, 1)]
        assert done.update == sum(each)
    if limit == "patience":
        assert done.update == 3
    if limit == "min_lr":  # 0.01, 0.001, 0.0001
        assert done.epoch == 2
    assert lines(run, "valid")[-1]["update"] == done.update
    assert load_model(run).meta["figures"]["limit"] == limit


@pytest.mark.medium
@pytest.mark.parametrize("settings", [{"validate_every_epochs": 2}, {"validate_every_seconds": 1e-9}])
def test_validations_by_epochs_and_by_time(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, settings: dict[str, Any]
) -> None:
    every = {
        "batch_tokens": 2000,
        "max_updates": 0,
        "max_epochs": 4,
        "validate_every_updates": 0,
        "log_every_updates": 1,
    }
    train(experiment(**every, **settings), run, prepared, checked)
    of_epoch: dict[int, int] = {}
    for line in lines(run, "train"):
        of_epoch[line["epoch"]] = line["update"]
    expected = [of_epoch[2], of_epoch[4]] if "validate_every_epochs" in settings else [*range(1, of_epoch[4] + 1)]
    assert [line["update"] for line in lines(run, "valid")] == expected


def test_the_log(run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make) -> None:
    train(experiment(max_updates=12, label_smoothing=0.0, warmup_updates=10), run, prepared, checked)
    written = lines(run, "train")
    assert [line["update"] for line in written] == [4, 8, 12]
    assert [line["lr"] for line in written] == pytest.approx([0.004, 0.008, 0.01 * (10 / 12) ** 0.5])
    assert all(line["loss"] == line["nll"] and line["skipped"] == 0 for line in written)
    assert all(line["gradient_norm"] > 0 and line["target_tokens_per_second"] > 0 for line in written)
    assert lines(run, "valid")[0].keys() >= {"perplexity", "nll", "bleu", "best", "seconds", "epoch"}


@pytest.mark.medium
def test_further_validation_texts_are_logged_and_decide_nothing(
    tmp_path: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    base = prepared.folder.parent
    for side in ("source", "target"):
        text = (base / f"train.{side}").read_text().splitlines(keepends=True)
        (tmp_path / f"seen.few.{side}").write_text("".join(text[:30]))
        (tmp_path / f"again.{side}").write_text((base / f"valid.{side}").read_text())
    names = [str(tmp_path / f"{name}.{side}") for name in ("seen.few", "again") for side in ("source", "target")]
    files = (("train.source", "train.target"), ("valid.source", "valid.target"))
    settings = DataSettings(*files, valid_more=tuple(names), subwords="words", vocabulary_size=0)
    with_more = prepare(settings, tmp_path / "prepared", base)
    assert with_more.further == ["seen", "again"]
    assert with_more.lines("valid.seen")[0] == (tmp_path / "seen.few.source").read_text().splitlines()
    alone, more = (train(experiment(), tmp_path / name, p, checked) for name, p in (("a", prepared), ("b", with_more)))
    assert isinstance(more, FinishedTraining)
    assert isinstance(alone, FinishedTraining)
    assert (more.perplexity, more.averaged) == (alone.perplexity, alone.averaged)
    found = lines(tmp_path / "b", "valid")
    first, seen, again = ([v for v in found if v.get("set") == name] for name in (None, "seen", "again"))
    assert [v["update"] for v in seen] == [v["update"] for v in first]
    assert [v["nll"] for v in again] == [v["nll"] for v in first]
    assert all(a["nll"] != b["nll"] for a, b in zip(seen, first, strict=True))
    plain = lines(tmp_path / "a", "valid")
    assert [v["perplexity"] for v in first] == [v["perplexity"] for v in plain]


def test_another_run_is_not_continued(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    train(experiment(max_updates=2), run, prepared, checked)
    other = check(Text("t", "d = 16\nencoder = pos\ndecoder = pos -> dot_src_att\n"), builtin())
    for made, definition in ((experiment(max_updates=3), other), (experiment(optimiser="sgd"), checked)):
        with pytest.raises(CalqueError) as caught:
            train(made, run, prepared, definition)
        assert caught.value.diagnostics[0].code == "K201"
        assert str(caught.value)
    assert load_model(run).meta["figures"]["update"] == 2


def test_one_matrix_needs_one_vocabulary(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    """Two vocabularies of one size are not one."""
    codec, _ = prepared.codecs
    words = codec.tokens(range(4, codec.size))
    turned, same = WordCodec(Vocabulary(list(reversed(words)))), WordCodec(Vocabulary(list(words)))
    made = experiment(max_updates=1)
    assert made.model.tying == "three-way"
    with pytest.raises(CalqueError, match="entry 4 is") as caught:
        train(made, run, replace(prepared, codecs=(codec, turned)), checked)
    assert caught.value.diagnostics[0].code == "X224"
    assert not (run / "model.json").exists()
    target = replace(made, model=replace(made.model, tying="target"))
    for name, one, other in (("target", target, turned), ("same", made, same)):
        assert isinstance(train(one, run / name, replace(prepared, codecs=(codec, other)), checked), FinishedTraining)


def test_a_log_that_could_not_be_written_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk had no room for fails once, where it is written."""
    log = Log(tmp_path / "log.jsonl", False, -1)
    log.close()
    monkeypatch.setattr(log, "_file", open("/dev/full", "w", encoding="utf-8"))  # noqa: SIM115  # the log closes it
    with pytest.raises(OSError, match="No space left"):
        log.event("start", {"update": 0})
    log.close()


def test_damaged_runs_are_refused(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = experiment(max_updates=2)
    train(made, run, prepared, checked)
    codec = next(p for p in (run / "codecs").iterdir() if p.name != "codec.json")
    for name, code in (
        (f"codecs/{codec.name}", "K105"),
        ("model.safetensors", "K105"),
        ("checkpoints/state-2.safetensors", "K105"),
    ):
        path = run / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(CalqueError) as caught:
            train(made, run, prepared, checked) if "state" in name else load_model(run)
        assert [d.code for d in caught.value.diagnostics] == [code]
        path.write_bytes(whole)
    for name in ("model.json", "model.safetensors", "experiment.toml", f"codecs/{codec.name}"):
        whole = (run / name).read_bytes()
        (run / name).unlink()
        with pytest.raises(CalqueError) as caught:
            load_model(run)
        assert [d.code for d in caught.value.diagnostics] == ["K101"]
        (run / name).write_bytes(whole)
    assert load_model(run, dtype=torch.bfloat16).model.output.weight.dtype == torch.bfloat16


def test_a_definition_written_before_a_layer_gained_an_argument_is_read(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    train(experiment(max_updates=2), run, prepared, checked)
    file = run / "model.json"
    whole = json.loads(file.read_text(encoding="utf-8"))
    text = whole["architecture"]

    def stored(changed: str) -> None:
        assert changed != text
        digits = hashlib.sha256(changed.encode()).hexdigest()[:12]
        about = {**whole, "architecture": changed, "architecture_hash": digits}
        file.write_text(json.dumps({**about, "seal": seal(about)}), encoding="utf-8")

    expected = load_model(run).model
    stored(text.replace(", layout=halves", ""))
    assert load_model(run).model.checked == expected.checked
    # What is read as something else than is written means something else now.
    stored(text.rstrip() + " -> ffl\n")
    with pytest.raises(CalqueError) as caught:
        load_model(run)
    assert [d.code for d in caught.value.diagnostics] == ["K107"]


def test_another_thread_trains_without_signals(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(train(experiment(max_updates=1), run, prepared, checked)))
    thread.start()
    thread.join()
    assert isinstance(done[0], FinishedTraining)


def test_missing_devices_and_packages(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    for settings, code in (({"device": "cuda"}, "X410"), ({"tensorboard": True}, "X301")):
        with pytest.raises(CalqueError) as caught:
            train(experiment(**settings), run, prepared, checked)
        assert caught.value.diagnostics[0].code == code
        assert str(caught.value)


def test_the_probe_is_quick_and_names_a_precision() -> None:
    assert probe_precision(torch.device("cpu")) in {"float32", "bfloat16"}


PROGRAM = """
import sys
from pathlib import Path
from calque.adl.check import check
from calque.data.corpus import open_corpus
from calque.ground.diagnostics import Text
from calque.experiment import load
from calque.layers.registry import builtin
from calque.train.loop import StoppedTraining, train
from calque.train.log import Progress

def tell(event):
    print(event.update, flush=True)

made = load(sys.argv[1])
checked = check(Text("t", made.model.text), builtin())
done = train(made, Path(sys.argv[2]), open_corpus(Path(sys.argv[3])), checked, None, tell)
sys.exit(128 + done.signal if isinstance(done, StoppedTraining) else 0)
"""


@pytest.mark.medium
def test_a_signal_saves_the_state(tmp_path: Path, prepared: PreparedCorpus, experiment: Make) -> None:
    write(experiment(max_updates=0, max_seconds=60.0), tmp_path / "e.toml")
    arguments: list[str | Path] = [
        sys.executable,
        "-c",
        PROGRAM,
        tmp_path / "e.toml",
        tmp_path / "run",
        prepared.folder,
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.stdout.read()
        assert process.wait(20) == 128 + signal.SIGTERM
    names = [p.name for p in (tmp_path / "run" / "checkpoints").glob("state-*.json")]
    assert len(names) == 1
    assert read_tensors((tmp_path / "run" / "checkpoints" / names[0]).with_suffix(""))[1]["standing"]["update"] >= 1
