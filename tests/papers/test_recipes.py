"""Recipes, and how a budget changes them."""

import tomllib
from importlib import resources
from pathlib import Path

import pytest

from calque.experiment import DataSettings, Experiment, TrainSettings
from calque.ground.diagnostics import CalqueError
from calque.papers import corpora, recipes
from calque.papers.recipes import Budget, adapted, settings_text
from calque.run.model_file import load_model
from calque.train.loop import FinishedTraining
from calque.train.schedule import Plateau, rate
from calque.workflow.steps import run_training

DATA = DataSettings(train=("/a", "/b"), valid=("/c", "/d"), subwords="words", vocabulary_size=0)
TEXT = "encoder = id\ndecoder = id\n"


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_loads_and_means_what_it_says(name: str) -> None:
    made = recipes.experiment(name, Budget(updates=5), DATA, TEXT, 7)
    assert (made.train.seed, made.train.max_updates, made.model.text) == (7, 5, TEXT)
    assert made.data.train == DATA.train
    held = tomllib.loads(resources.files("calque.papers").joinpath("recipes", f"{name}.toml").read_text())
    held.pop("settings", None)  # of the row's text
    for section, keys in held.items():
        for key, value in keys.items():
            if key not in ("warmup_updates", "validate_every_updates", "max_updates"):
                assert getattr(getattr(made, section), key) == value, key


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_trains(name: str, tmp_path: Path) -> None:
    """All its keys together, with layers that those keys are about."""
    for side in ("source", "target"):
        (tmp_path / side).write_text("a b c d\nb c a\nd d a c b\n" * 4)
    files = (str(tmp_path / "source"), str(tmp_path / "target"))
    data = DataSettings(train=files, valid=files, subwords="words", vocabulary_size=0)
    text = "d = 8\nencoder = learn_pos(9) -> cnn(tanh) -> mh_dot_self_att(2)\ndecoder = rnn -> dot_src_att -> linear\n"
    given = (
        "train.threads=1",
        "train.accumulate=1",
        "train.bptt_words=3" if name.startswith("gehring") else "train.bptt_words=0",
    )
    made = recipes.experiment(name, Budget(updates=2), data, text, 1, (*given, "decode.beam=1"))
    done = run_training(made, tmp_path / "run")
    assert isinstance(done, FinishedTraining)
    assert (done.update, done.limit) == (2, "max_updates")
    assert load_model(tmp_path / "run").meta["figures"]["skipped"] == 0


def test_section_4_1_of_the_paper() -> None:
    made = recipes.experiment("domhan2018", Budget(), DATA, TEXT, 1).train
    assert (made.optimiser, made.lr, made.label_smoothing) == ("adam", 0.0002, 0.1)
    assert (made.schedule, made.decay, made.decay_patience) == ("plateau", 0.7, 8)
    assert made.validate_every_updates == 1000
    code = recipes.experiment("domhan2018-code", Budget(), DATA, TEXT, 1)
    assert (code.train.average_count, code.train.validate_every_updates, code.data.max_tokens) == (8, 4000, 99)


def made_by(name: str) -> Experiment:
    return recipes.experiment(name, Budget(), DATA, TEXT, 1)


def test_zhang_updates_with_25_000_tokens_at_the_rate_of_vaswani() -> None:
    train = made_by("zhang2018").train
    assert train.batch_tokens * train.accumulate == 25_000
    assert train.lr == pytest.approx((512 * 4000) ** -0.5, rel=1e-5)
    for t in (1, 4000, 100_000):  # equation 3 of Vaswani 2017
        assert rate(train, t, 1, Plateau()) == pytest.approx(512**-0.5 * min(t**-0.5, t * 4000**-1.5), rel=1e-5)
    assert (train.average, train.average_count, made_by("zhang2018").model.tying) == ("last", 5, "target")


def test_you_has_a_line_for_iwslt_and_vaswanis_rate_for_wmt() -> None:
    iwslt, wmt = (made_by(f"you2020-{name}").train for name in ("iwslt", "wmt"))
    assert [rate(iwslt, t, 1, Plateau()) for t in (0, 50_000, 100_000)] == pytest.approx([3e-4, 1.55e-4, 1e-5])
    assert (iwslt.normalise, iwslt.label_smoothing, wmt.label_smoothing) == ("none", 0.0, 0.1)
    assert 2 * wmt.batch_tokens * wmt.accumulate == pytest.approx(50_800, rel=1e-3)
    assert rate(wmt, 4000, 1, Plateau()) == pytest.approx((512 * 4000) ** -0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("luong2015", [1, 1, 1, 1, 1, 1, 0.5, 0.25, 0.125, 0.0625]),
        ("luong2015-dropout", [1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.25, 0.125]),
    ],
)
def test_luongs_rates_by_epoch_are_those_of_his_code(name: str, rates: list[float]) -> None:
    train = made_by(name).train
    assert [rate(train, 1, epoch, Plateau()) for epoch in range(1, train.max_epochs + 1)] == rates


def test_gehring_anneals_to_1e_4_and_stops_below() -> None:
    train, memory, trained = made_by("gehring2017").train, Plateau(), []
    for perplexity in (9.0, 8.0, 8.5, 7.0, 6.9, 6.8, 6.7):
        now = rate(train, 1, 1, memory)
        if now < train.min_lr:
            break
        trained.append(now)
        memory = memory.after(perplexity, train.decay_patience, anneal=True)
    assert trained == pytest.approx([0.1, 0.1, 0.1, 0.01, 0.001, 1e-4])
    assert made_by("gehring2017-bilstm").train.clip_norm == train.clip_norm * train.batch_sentences


def test_a_budget_follows_how_a_recipe_counts() -> None:
    by_time, by_epoch = (
        TrainSettings(validate_every_updates=0, **{k: v})
        for k, v in (("validate_every_seconds", 600.0), ("validate_every_epochs", 1))
    )
    assert adapted(by_time, Budget(minutes=10)) == {
        "max_seconds": 600.0,
        "warmup_updates": 300,
        "validate_every_seconds": 30.0,
    }
    assert adapted(by_time, Budget(updates=200)) == {
        "max_updates": 200,
        "warmup_updates": 20,
        "validate_every_updates": 10,
    }
    assert adapted(by_epoch, Budget(updates=200)) == {"max_updates": 200, "warmup_updates": 20}


def test_a_budget_in_updates_scales_warm_up_and_checkpoints_down_and_never_up() -> None:
    train = TrainSettings(warmup_updates=300, validate_every_updates=300)
    assert adapted(train, Budget(updates=1000)) == {
        "max_updates": 1000,
        "warmup_updates": 100,
        "validate_every_updates": 50,
    }
    assert adapted(train, Budget(updates=100_000)) == {
        "max_updates": 100_000,
        "warmup_updates": 300,
        "validate_every_updates": 300,
    }
    assert adapted(train, Budget(updates=1))["validate_every_updates"] == 1
    assert adapted(TrainSettings(warmup_updates=0), Budget(updates=1000))["warmup_updates"] == 0


def test_a_budget_in_minutes() -> None:
    train = TrainSettings(warmup_updates=300, validate_every_updates=300)
    found = adapted(train, Budget(minutes=2.5))
    assert found == {"max_seconds": 150.0, "warmup_updates": 75, "validate_every_updates": 25}
    assert adapted(train, Budget(minutes=60))["warmup_updates"] == 300
    assert adapted(train, Budget()) == {}


def test_a_budget_in_epochs_and_one_until_convergence_validate_by_epochs() -> None:
    train = TrainSettings(warmup_updates=300, validate_every_updates=300, validate_every_seconds=60.0)
    by_epoch = {"validate_every_epochs": 1, "validate_every_updates": 0, "validate_every_seconds": 0.0}
    assert adapted(train, Budget(epochs=12)) == {"max_epochs": 12, **by_epoch}
    assert adapted(train, Budget(patience=3)) == {**by_epoch, "patience": 3}
    both = adapted(train, Budget(updates=1000, patience=3))
    assert both == {"max_updates": 1000, "warmup_updates": 100, **by_epoch, "patience": 3}
    assert Budget(epochs=1, patience=3).words == "1 epoch or 3 epochs without a better perplexity"


def test_a_recipe_may_be_a_file_with_settings_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[settings]\np = 0.3\n[train]\nschedule = "linear"\nwarmup_share = 0.2\nlr = 0.004\n')
    assert recipes.row_settings(str(file)) == ("p=0.3",)
    assert recipes.row_settings("linear") == ()
    made = recipes.experiment(str(file), Budget(epochs=4), DATA, TEXT, 1).train
    assert (made.lr, made.warmup_share, made.max_epochs) == (0.004, 0.2, 4)
    assert recipes.digest("linear") == ""
    assert len(recipes.digest(str(file))) == 12
    file.write_text("[train")
    with pytest.raises(CalqueError) as raised:
        recipes.row_settings(str(file))
    assert [d.code for d in raised.value.diagnostics] == ["X103"]


@pytest.mark.parametrize("key", ["model.text", "model.file", "data.train", "data.valid", "data.test", "data.stream"])
def test_text_and_definition_are_not_a_recipes(tmp_path: Path, key: str) -> None:
    section, name = key.split(".")
    value = '["x.en", "x.de"]' if section == "data" and name != "stream" else '"x"'
    file = tmp_path / "own.toml"
    file.write_text(f"[{section}]\n{name} = {value}\n[train]\nmax_updates = 2\nvalidate_every_updates = 1\n")
    for recipe, overrides in ((str(file), ()), ("budget", (f"{key}={value}",))):
        with pytest.raises(CalqueError) as raised:
            recipes.experiment(recipe, Budget(updates=2), DATA, TEXT, 1, overrides)
        assert [(d.code, d.fields["key"]) for d in raised.value.diagnostics] == [("X859", key)]


def test_overrides_have_the_last_word() -> None:
    given = ("train.warmup_updates=7", "train.max_updates=4", 'train.precision="float32"')
    made = recipes.experiment("budget", Budget(updates=50), DATA, TEXT, 1, given).train
    assert (made.warmup_updates, made.max_updates, made.precision) == (7, 4, "float32")
    assert recipes.experiment("budget", Budget(), DATA, TEXT, 1, ("train.max_epochs=2",)).train.max_epochs == 2


def test_a_recipe_without_end_needs_a_budget() -> None:
    with pytest.raises(CalqueError) as raised:
        recipes.experiment("budget", Budget(), DATA, TEXT, 1)
    assert [d.code for d in raised.value.diagnostics] == ["X704"]
    with pytest.raises(CalqueError) as raised:
        recipes.experiment("budget", Budget(), DATA, TEXT, 1, ("train.lrr=1",))
    assert "X105" in [d.code for d in raised.value.diagnostics]


def test_settings_as_text_leave_out_paths_and_defaults() -> None:
    made = recipes.experiment("budget", Budget(updates=40), DATA, TEXT, 3)
    told = settings_text(made)
    assert "train.max_updates=40" in told
    assert "/a" not in told
    assert "seed" not in told
    assert settings_text(Experiment()) == ""


def test_each_missing_file_of_a_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalqueError) as raised:
        corpora.CORPORA["multi30k"].data(tmp_path)
    assert [d.code for d in raised.value.diagnostics] == ["X703"] * 7
