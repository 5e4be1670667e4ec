"""Parameters, multiply-adds and bytes, told before anything is built, against modules that are."""

from types import ModuleType

import pytest
import torch
from explained import WORDS, built, explained, small
from torch.utils.flop_counter import FlopCounterMode

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.explain import Surroundings, explanation, table, whole
from calque.explain.totals import state_bytes
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.model import Model
from calque.prove import prove_module, random_program
from parts import some

FAST, SOAK, BATCH = 50, 1000, 50
SENTENCES, SOURCE, TARGET = 2, 7, 5
AROUND = Surroundings(WORDS, WORDS, "none")


def parameters_agree(checked: CheckedDefinition) -> None:
    made = built(checked)
    told = whole(checked, AROUND)
    assert told.parameters == sum(p.numel() for p in made.parameters())
    sizes = {name: sum(p.numel() for p in m.parameters()) for name, m in made.named_modules()}
    for node in explanation(checked)["nodes"]:
        assert node["parameters"] == (0 if node["shared"] else sizes[node["path"]]), node["path"]


def bytes_agree(checked: CheckedDefinition, kind: torch.dtype, beams: int = 1, padded: bool = False) -> None:
    """By `State.bytes` of the built state, before the first step and after it."""
    made = built(checked, kind)
    mask = torch.ones(SENTENCES, SOURCE, dtype=torch.bool) if padded else None
    with torch.no_grad():
        sources = made.encode(torch.ones(SENTENCES, SOURCE, dtype=torch.int64), mask)
        state = made.init_state(sources, TARGET, beams)
        expected = state_bytes(
            whole(checked).decoder, TARGET, SOURCE, str(kind).removeprefix("torch."), SENTENCES * beams, beams, padded
        )
        assert state.bytes() == expected
        _, state = made.step(torch.ones(SENTENCES * beams, 1, dtype=torch.int64), state, 1, beams)
        assert state.bytes() == expected


@pytest.mark.medium
def test_parameters_and_bytes_of_random_architectures() -> None:
    for seed in range(FAST):
        checked = check(Text("drawn", random_program(seed)), builtin())
        parameters_agree(checked)
        kind = (torch.float32, torch.bfloat16)[seed % 2]
        bytes_agree(checked, kind, 1 + 2 * (seed % 3 == 0), seed % 5 < 2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST, FAST + SOAK, BATCH))
def test_parameters_and_bytes_of_a_thousand_architectures(first: int) -> None:
    for seed in range(first, first + BATCH):
        checked = check(Text("drawn", random_program(seed)), builtin())
        parameters_agree(checked)
        for kind in (torch.float32, torch.bfloat16):
            bytes_agree(checked, kind, 1 + 2 * (seed % 3 == 0), seed % 5 < 2)


@pytest.mark.medium
@pytest.mark.parametrize("name", some(zoo.distinct(), 1, of=6))
def test_row_of_the_zoo(name: str) -> None:
    checked = small(name)
    parameters_agree(checked)
    for kind in (torch.float32, torch.bfloat16):
        bytes_agree(checked, kind)
        bytes_agree(checked, kind, beams=3, padded=True)
    products_agree(checked)


def products_agree(checked: CheckedDefinition) -> None:
    """Multiply-adds of both sides, all positions at once and step by step, against torch's counter."""
    made = built(checked)
    told = whole(checked, AROUND, TARGET, SOURCE)
    source = torch.ones(SENTENCES, SOURCE, dtype=torch.int64)
    target = torch.ones(SENTENCES, TARGET, dtype=torch.int64)
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            made(source, target)
        expected = SENTENCES * (SOURCE * told.per_source_token + TARGET * told.per_target_token)
        assert counter.get_total_flops() / 2 == pytest.approx(expected, rel=0.02)
        with FlopCounterMode(display=False) as counter:
            state = made.init_state(made.encode(source), TARGET)
        begun = SENTENCES * (SOURCE * told.per_source_token + TARGET * told.per_place)
        assert counter.get_total_flops() / 2 == pytest.approx(begun, rel=0.02)
        for t in range(1, 4):
            with FlopCounterMode(display=False) as counter:
                z, state = made.step(target[:, t : t + 1], state, t)
                made.logits(z)
            assert counter.get_total_flops() / 2 == pytest.approx(SENTENCES * told.step_products(t), rel=0.02)


def test_what_is_foreseen_is_no_steps() -> None:
    """You 2020, HC-ALL: all that reads the source is computed before the first word."""
    body = "d = 8\nencoder = hc_self_att(-1, 1)\ndecoder = repeat(2, hc_self_att(-1, 0) -> hc_src_att(-1, 0, 0, 1))\n"
    checked = check(Text("text", body), builtin())
    products_agree(checked)
    bytes_agree(checked, torch.bfloat16, beams=3, padded=True)
    told = explained(body, 9, 5)
    assert told.step_products(1) == told.step_products(9) == 2 * 2 * 8 * 8
    assert told.per_place == 2 * (8 * 8 + 8 * 5)
    assert told.sentence == 5 * told.per_source_token + 9 * (told.per_place + told.step_products(1))
    shown = table(checked)
    assert "bytes for t words" in shown
    assert "each place once" in shown


def test_a_sentence_is_its_steps() -> None:
    told = explained("encoder = repeat(2, tenc)\ndecoder = repeat(2, tdec)\n", 9, 5, Surroundings(30, 40, "none"))
    steps = sum(told.step_products(t) for t in range(1, 10))
    assert told.sentence == pytest.approx(5 * told.per_source_token + steps)


@pytest.mark.parametrize("tying", ["none", "target", "three-way"])
def test_embeddings_are_counted_once(tying: str) -> None:
    from calque.model import Shape

    checked = small("domhan2018/transformer")
    made = Model(checked, Shape(WORDS, WORDS, tying))
    assert whole(checked, Surroundings(WORDS, WORDS, tying)).parameters == sum(p.numel() for p in made.parameters())


PLUGIN = '''
from dataclasses import dataclass
from torch import nn
from calque.layers.contract import Cost, Example, Layer, NoArgs, Stateless

class Twice(Stateless):
    """twice(h) = W W h."""
    name = "twice"
    examples = (Example("twice"),)
    def __init__(self, args, site, parts):
        super().__init__(args, site, parts)
        self.w = nn.Linear(site.width, site.width, bias=False)
    @classmethod
    def cost(cls, args, site):
        return Cost(site.width ** 2 DECLARED)
    def forward(self, x, ctx):
        return self.w(self.w(x))
'''


def plugin(declared: str) -> ModuleType:
    module = ModuleType("twice")
    exec("from calque.layers.cost import Held, Products, Reach\n" + PLUGIN.replace("DECLARED", declared), vars(module))
    vars(module)["Twice"].__module__ = "twice"
    return module


@pytest.mark.parametrize(
    ("declared", "failed"),
    [
        ("", ()),
        (", Products(2 * site.width ** 2)", ()),
        (", Products(site.width ** 2)", ("cost",)),
        (", Products(2 * site.width ** 2), Held(row=1)", ("cost",)),
        (", Products(2 * site.width ** 2), reach=Reach(1, 2)", ("cost",)),
    ],
)
def test_what_a_plugin_declares_is_proved(declared: str, failed: tuple[str, ...]) -> None:
    (report,) = prove_module(plugin(declared))
    assert report.failed == failed, str(report)


def test_a_layer_that_declares_parameters_alone_is_told_and_named() -> None:
    from calque.layers.registry import with_plugins

    checked = check(Text("text", "d = 8\nencoder = twice\ndecoder = mlp_src_att\n"), with_plugins((plugin(""),)))
    assert whole(checked).encoder.undeclared == {"twice"}
    shown = table(checked)
    assert "not declared by `twice`" in shown
    assert any(line.startswith("encoder.0") and "?" in line for line in shown.split("\n"))
