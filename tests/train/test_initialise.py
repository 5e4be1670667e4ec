import math

import pytest
import torch
from torch import nn

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.ground.diagnostics import Text
from calque.layers.feed import Feed
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run.model_file import _NotDrawn
from calque.train.initialise import initialise

TEXT = "d = 16\nheads = 2\nencoder = learn_pos(50) -> cnn(relu) -> rnn -> norm\ndecoder = tdec -> ff(24)\n"


def build(tying: str = "none") -> Model:
    text = TEXT if tying == "none" else TEXT.replace("ff(24)", "ff")
    model = Model(check(Text("t", text), builtin()), Shape(40, 40, tying))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not name.endswith(("gain", "shift")):
                p.fill_(9.0)
    return model


def fans(module: nn.Module, weight: torch.Tensor) -> int:
    """fan_in + fan_out, by torch's own rules."""
    return sum(nn.init._calculate_fan_in_and_fan_out(weight))


@pytest.mark.parametrize("scheme", ["glorot", "t2t"])
def test_glorot_fills_its_bounds(scheme: str) -> None:
    model = build()
    initialise(model, scheme, 0.1, 3)
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if name == "bias" or name == "shift":
                assert (weight == 0).all()
            elif name == "gain":
                assert (weight == 1).all()
            elif scheme == "t2t" and isinstance(module, nn.Embedding):
                assert float(weight.detach().std()) == pytest.approx(16**-0.5, rel=0.1)
                assert weight.abs().max() > 2 * 16**-0.5
            else:
                bound = math.sqrt(6 / fans(module, weight))
                assert 0.9 * bound < weight.abs().max() <= bound
                assert float(weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.15)


def test_uniform_is_everywhere_but_in_norms() -> None:
    model = build()
    initialise(model, "uniform", 0.25, 3)
    for name, weight in model.named_parameters():
        if name.endswith("gain"):
            assert (weight == 1).all()
        elif name.endswith("shift"):
            assert (weight == 0).all()
        else:
            assert 0.15 < weight.abs().max() <= 0.25


def test_the_seed_decides_and_the_global_generator_does_not() -> None:
    first, again, other = build("three-way"), build("three-way"), build("three-way")
    initialise(first, "glorot", 0.1, 3)
    torch.rand(7)
    initialise(again, "glorot", 0.1, 3)
    initialise(other, "glorot", 0.1, 4)
    pairs = list(zip(first.parameters(), again.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not torch.equal(pairs[0][0], pairs[0][2])
    assert first.output.weight is first.source_embedding.weight


def test_a_shared_matrix_is_an_embedding_under_t2t(checked: CheckedDefinition) -> None:
    model = Model(checked, Shape(4000, 4000, "target"))
    initialise(model, "t2t", 0.1, 1)
    assert float(model.output.weight.detach().std()) == pytest.approx(32**-0.5, rel=0.02)


def test_by_fan_in_outside_cells_tables_and_the_output_layer() -> None:
    text = "d = 16\nencoder = learn_pos(50) -> cnn(tanh) -> linear\ndecoder = rnn -> dot_src_att -> linear(8)\n"
    model = Model(check(Text("t", text), builtin()), Shape(40, 40, "none"))
    initialise(model, "fan-in", 0.01, 3)
    bounds = {"conv": (16 * 3) ** -0.5, "linear": 16**-0.5}
    seen = set()
    for name, weight in model.named_parameters():
        module = model.get_submodule(name.rpartition(".")[0])
        cell = any(isinstance(module, nn.Linear) and part in name for part in ("input", "recurrent"))
        kind = "conv" if isinstance(module, nn.Conv1d) else "linear" if isinstance(module, nn.Linear) else "table"
        if name == "output.bias":
            assert (weight == 0).all()
            continue
        bound = 0.01 if cell or kind == "table" or name.startswith("output") else bounds[kind]
        seen.add((bound, name.rpartition(".")[2]))
        if weight.dim() > 1:
            assert 0.9 * bound < weight.abs().max() <= bound, name
        else:
            assert 0.5 * bound < weight.abs().max() <= bound, name
    assert {kind for _, kind in seen} == {"weight", "bias", "table"}
    assert {bound for bound, _ in seen} == {0.01, *bounds.values()}


def test_the_conditional_cell_of_gehring_starts_as_one() -> None:
    """The authors' code: U(-0.05, 0.05) for the whole conditional LSTM, W_d and b_d included; the map behind it by its fan-in."""
    checked = check(zoo.read("gehring2017/table1/deep+pos"), builtin(), reader("calque", parse_settings(["d=32"])))
    model = Model(checked, Shape(40, 40, "none"))
    initialise(model, "fan-in", 0.05, 3)
    cell = {
        n: w for n, w in model.decoder.named_parameters() if any(isinstance(m, Feed) for m in _above(model.decoder, n))
    }
    # W_d: h -> d with its bias, and the two matrices of an LSTM without biases over [g; c].
    assert sorted(w.numel() for w in cell.values()) == sorted([32 * 64, 32, 4 * 64 * 64, 4 * 64 * 64])
    outside = dict(model.decoder.named_parameters()).keys() - cell.keys()
    assert all(0.04 < w.abs().max() <= 0.05 for w in cell.values())
    behind = [model.decoder.get_parameter(n) for n in outside]
    assert sorted(w.numel() for w in behind) == [32, 32 * 64]
    assert all(0.05 < w.abs().max() <= 64**-0.5 for w in behind)


def _above(model: nn.Module, name: str) -> list[nn.Module]:
    """The modules that a parameter is within."""
    parts = name.split(".")[:-1]
    return [model.get_submodule(".".join(parts[:k])) for k in range(len(parts) + 1)]


def test_projections_of_an_attention_start_as_one_matrix_and_others_alone() -> None:
    text = "d = 64\nheads = 2\nencoder = mh_dot_self_att\ndecoder = mh_dot_src_att -> hc_self_att(0)\n"
    model = Model(check(Text("t", text), builtin()), Shape(40, 40, "none"))
    initialise(model, "glorot", 0.1, 3, True)
    joint, alone = math.sqrt(6 / (64 + 3 * 64)), math.sqrt(6 / (64 + 64))
    for name, weight in model.named_parameters():
        part = name.split(".")[-2]
        if part in ("q", "k", "v", "out"):
            has_three = hasattr(model.get_submodule(name.rsplit(".", 2)[0]), "q")
            bound = joint if part != "out" and has_three else alone
            assert 0.97 * bound < weight.abs().max() <= bound, name


def test_loading_a_run_draws_what_it_does_not_replace() -> None:
    parameter, constant = nn.Parameter(torch.zeros(8)), torch.zeros(8)
    with _NotDrawn():
        nn.init.normal_(parameter)
        nn.init.uniform_(constant)
    assert not parameter.any()
    assert constant.any()
