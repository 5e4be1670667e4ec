"""What only an accelerator can show: both forms agree there, searches are made of graphs, bfloat16 trains."""

import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calque
from calque.data.batches import collate
from calque.data.codecs import WordCodec
from calque.data.corpus import Pairs
from calque.data.vocabulary import Vocabulary
from calque.decode.captured import Captured
from calque.decode.memory import Memory
from calque.decode.nearest import Way
from calque.decode.prepare import prepare_for_decoding
from calque.decode.recall import Recall
from calque.decode.required import Edges, lacks
from calque.decode.search import Hypotheses, Models, Sampling, SearchSettings, SourceBatch, search, search_with
from calque.decode.translate import Translation, Translator, translate_lines
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.layers.contract import Context
from calque.layers.norm import Norm
from calque.model import Model
from calque.train.captured import CapturedGradients, updater_of
from calque.train.loop import FinishedTraining
from calque.train.optimise import Updater
from calque.train.update import update
from calque.workflow.steps import run_training

pytestmark = pytest.mark.gpu

TEXTS = {
    "transformer": "d = 64\nheads = 4\nencoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n",
    "rnmt": "d = 64\nencoder = birnn\ndecoder = feed(rnn -> concat(id, mlp_src_att) -> ff)\n",
    "average": "d = 64\nheads = 4\nencoder = pos -> tenc\n"
    "decoder = pos -> post(gate(average -> ffl)) -> post(mh_dot_src_att) -> post(ffl)\n",
    "today": "d = 64\nheads = 4\nencoder = tenc\n"
    "decoder = mh_dot_self_att(rope=10000, kv_heads=2) -> ssru -> mh_dot_self_att(relative=t5) -> mh_dot_src_att(window=2)\n",
    "hard-coded": "d = 64\nencoder = pos -> hc_self_att(-1, 1)\n"
    "decoder = pos -> hc_self_att(-1, 0) -> hc_src_att(-1, 0, 0, 1)\n",
    "cnn": "d = 64\nencoder = pos -> cnn(glu)\ndecoder = pos -> cnn(glu) -> dot_src_att(s=1, project=none)\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_both_forms_agree(name: str) -> None:
    model = calque.build(TEXTS[name], 100, 100).cuda().double().eval()
    source = torch.randint(4, 100, (3, 7), device="cuda")
    target = torch.randint(4, 100, (3, 5), device="cuda")
    with torch.no_grad():
        sources = model.encode(source)
        whole = model.decode(target, sources)
        state = model.init_state(sources, 5)
        for t in range(5):
            z, state = model.step(target[:, t : t + 1], state, t + 1)
            assert (z[:, 0] - whole[:, t]).abs().max() < 1e-9


LENGTHS, LIMITS = [6, 1, 4, 7, 2, 5, 3, 3, 6, 4], [9, 3, 6, 40, 1, 8, 5, 2, 7, 10]
PREFIXES = [[5, 6], [], [7], [4, 4, 9, 8], [5, 6, 7], [], [3], [9, 10], [11], [12, 5]]


def flat(found: Hypotheses) -> torch.Tensor:
    """The log-probabilities of all hypotheses."""
    return torch.tensor([logp for of_sentence in found.logps for logp in of_sentence])


@pytest.mark.parametrize("prefixes", [None, PREFIXES])
@pytest.mark.parametrize(
    "settings", [SearchSettings(1), SearchSettings(3, n_best=3), SearchSettings(3, sampling=Sampling(top_k=5))]
)
@pytest.mark.parametrize("name", TEXTS)
def test_searches_by_graphs_find_what_a_processor_finds(
    name: str, settings: SearchSettings, prefixes: list[list[int]] | None
) -> None:
    torch.manual_seed(3)
    model = calque.build(TEXTS[name], 100, 100).double().eval()
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.1  # not so far apart that hypotheses are equal
    source = torch.randint(4, 100, (len(LENGTHS), max(LENGTHS)))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    limits = torch.tensor(LIMITS)
    expected = search(model, source, mask, limits, settings, prefixes)
    there = copy.deepcopy(model).cuda()
    there.programs = graphs = Captured()
    for _ in range(3):  # what precedes the second step is captured when a shape comes again
        found = search(there, source.cuda(), mask.cuda(), limits, settings, prefixes)
        torch.testing.assert_close(flat(found), flat(expected), rtol=0, atol=1e-9)
        for b, logps in enumerate(expected.logps):
            if all(abs(x - y) > 1e-9 for x, y in pairwise(sorted(logps))):  # else nothing says which one is the better
                assert found.tokens[b] == expected.tokens[b]
    assert graphs.refused == {}


@pytest.mark.parametrize("name", TEXTS)
def test_translations_contain_what_they_must(name: str) -> None:
    torch.manual_seed(3)
    model = calque.build(TEXTS[name], 100, 100).double().eval()
    source = torch.randint(4, 100, (len(LENGTHS), max(LENGTHS)))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    required = [(((k + 4, 50), (60,)), ((70, 71),)) for k in range(len(LENGTHS))]
    asked = torch.tensor(LIMITS) + 8, SearchSettings(6, "gnmt", 0.6)
    here = search_with(Models([SourceBatch(model, source, mask)]), *asked, PREFIXES, required=required)
    there = copy.deepcopy(model).cuda()
    there.programs = Captured()
    on_device = Models([SourceBatch(there, source.cuda(), mask.cuda())])
    found = search_with(on_device, *asked, PREFIXES, required=required)
    torch.testing.assert_close(flat(found), flat(here), rtol=0, atol=1e-9)
    edges = Edges.of_words(100)
    assert not any(lacks(one, tokens[0], edges) for one, tokens in zip(required, found.tokens, strict=True))


@pytest.mark.parametrize("name", TEXTS)
def test_models_lean_on_a_memory(name: str) -> None:
    torch.manual_seed(3)
    codec = WordCodec(Vocabulary([f"w{k}" for k in range(40)]))
    model = calque.build(TEXTS[name], codec.size, codec.size).double().eval()
    draw = np.random.default_rng(1)
    pairs = [tuple(" ".join(f"w{k}" for k in draw.integers(0, 40, 6)) for _ in range(2)) for _ in range(60)]
    lines = [source for source, _ in pairs[:20]]

    def translated(some: Model) -> list[list[Translation]]:
        loaded = Translator(some, codec, codec, DecodeSettings(beam=3))
        known = Recall(loaded, Memory(*zip(*pairs, strict=True)))
        known.ways = (Way(0.1, 1.2, 0.8),)
        return translate_lines(replace(loaded, recall=known), lines)

    here = translated(model)
    there = copy.deepcopy(model).cuda()
    there.programs = Captured()
    for one, other in zip(translated(there), here, strict=True):
        assert one[0].ids == other[0].ids
        assert one[0].logp == pytest.approx(other[0].logp, abs=1e-9)


@pytest.mark.parametrize("name", TEXTS)
def test_bfloat16_decodes_by_graphs_as_step_by_step(name: str) -> None:
    torch.manual_seed(1)
    model = prepare_for_decoding(calque.build(TEXTS[name], 100, 100).cuda().eval(), "bfloat16")
    source = torch.randint(4, 100, (8, 7), device="cuda")
    mask, limits = torch.ones_like(source, dtype=torch.bool), torch.full((8,), 20)
    graphs, model.programs = model.programs, None
    plain = search(model, source, mask, limits, SearchSettings(3, "none"))
    model.programs = graphs
    found = search(model, source, mask, limits, SearchSettings(3, "none"))
    assert isinstance(graphs, Captured)
    assert graphs.refused == {}
    torch.testing.assert_close(flat(found), flat(plain), rtol=0.02, atol=0.05)


def test_a_layer_that_waits_for_the_device_decodes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = Norm.forward

    def waits(self: Norm, x: torch.Tensor, ctx: Context) -> torch.Tensor:
        return forward(self, x * float(x.abs().max() > -1), ctx)

    model = calque.build(TEXTS["transformer"], 100, 100).double().eval()
    source, limits = torch.randint(4, 100, (4, 7)), torch.full((4,), 9)
    expected = search(model, source, torch.ones_like(source, dtype=torch.bool), limits, SearchSettings(2))
    monkeypatch.setattr(Norm, "forward", waits)
    model.cuda().programs = graphs = Captured()
    source = source.cuda()
    found = search(model, source, torch.ones_like(source, dtype=torch.bool), limits, SearchSettings(2))
    assert found.tokens == expected.tokens
    assert set(graphs.refused.values()) == {"a step waits for the device"}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimiser", ["adam", "muon", "sgd"])
def test_weights_become_what_they_become_on_a_processor(optimiser: str, precision: str) -> None:
    settings = TrainSettings(optimiser=optimiser, weight_decay=0.1, clip_norm=0.5, scale_filters=True)
    torch.manual_seed(1)
    model = calque.build(TEXTS["cnn"], 100, 100)
    updaters = [Updater(copy.deepcopy(model).to(device), settings, precision) for device in ("cpu", "cuda")]
    before = {name: value.clone() for name, value in updaters[0].state().items()}
    for _ in range(3):
        gradients = {name: torch.randn(p.shape) for name, p in model.named_parameters()}
        for updater in updaters:
            for name, p in updater.working.items():
                p.grad = gradients[name].to(p, copy=True)
            updater.step(0.01, 4)
    expected, found = (updater.state() for updater in updaters)
    assert found.keys() == expected.keys()
    near = 0.03 if optimiser == "muon" else 1e-3  # Muon multiplies in bfloat16 there
    for name in before:
        moved = expected[name] - before[name]
        assert (found[name].cpu() - expected[name]).norm() <= near * moved.norm() + 1e-6, name


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", TEXTS)
def test_gradients_by_graphs_are_those_layer_by_layer_to_the_bit(name: str, precision: str) -> None:
    torch.manual_seed(1)
    text = (
        TEXTS[name]
        .replace("encoder = ", "encoder = dropout(0.3) -> ")
        .replace("decoder = ", "decoder = dropout(0.3) -> ")
    )
    first = calque.build(text, 100, 100).cuda().train()
    settings = TrainSettings(precision=precision)
    second = copy.deepcopy(first)
    updaters = [updater_of(model, settings, precision) for model in (first, second)]
    graphs, layers = (updater.graphs for updater in updaters)
    assert isinstance(graphs, CapturedGradients)
    assert isinstance(layers, CapturedGradients)
    layers.refused = "to compare"
    drawn = torch.Generator().manual_seed(2)
    pairs = Pairs.of(
        *([torch.randint(4, 100, (9 - k % 3,), generator=drawn).tolist() for k in range(60)] for _ in range(2))
    )
    for number in range(6):
        batch = collate(pairs, np.arange(number, number + 17 + number % 2), True)
        losses = [
            update(model, updater, [batch], settings, 0.01, seeds=[number]).loss
            for model, updater in zip((first, second), updaters, strict=True)
        ]
        assert torch.equal(*losses)
        for (path, weight), other in zip(first.named_parameters(), second.parameters(), strict=True):
            assert torch.equal(weight, other), (number, path)
    assert not graphs.refused
    assert any(graphs._graphs.values())


def experiment(folder: Path, updates: int, **train: Any) -> Experiment:
    """Of sixty pairs of two words."""
    lines = "".join(f"{'ab'[k % 2]} {'cd'[k % 3 % 2]}\n" for k in range(60))
    for side in ("src", "tgt"):
        (folder / side).write_text(lines)
    files = (str(folder / "src"), str(folder / "tgt"))
    return Experiment(
        data=DataSettings(train=files, valid=files, subwords="words"),
        model=ModelSettings(text=TEXTS["transformer"]),
        train=TrainSettings(precision="bfloat16", device="cuda", max_updates=updates, warmup_updates=10, **train),
    )


def test_a_training_that_was_interrupted_becomes_the_same_model(tmp_path: Path) -> None:
    # Shapes come anew after the interruption, so that layers run one by one where a graph was replayed.
    for name, parts in (("whole", [40]), ("parts", [15, 40])):
        for updates in parts:
            run_training(
                experiment(tmp_path, updates, batch_tokens=40, validate_every_updates=5, schedule="constant"),
                tmp_path / name,
            )
    weights = [calque.load(tmp_path / name).model.state_dict() for name in ("whole", "parts")]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_bfloat16_trains(tmp_path: Path) -> None:
    result = run_training(experiment(tmp_path, 60, validate_every_updates=60), tmp_path / "run")
    assert isinstance(result, FinishedTraining)
    assert result.perplexity < 2
