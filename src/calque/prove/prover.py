"""Proofs: the laws over one text, over the examples of a layer, over the layers of a module."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType

import torch

from calque.adl.check import CheckedDefinition, check
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text
from calque.layers.contract import BOTH, DECODER, ENCODER, Example, Layer, Registry
from calque.layers.registry import layers_in, with_plugins
from calque.prove.both import encoder_batch, encoder_padding, model, record, shape, train
from calque.prove.case import ProofCase
from calque.prove.costs import costs
from calque.prove.graphs import refusal
from calque.prove.laws import batch, causal, equal, idle, padding, reorder, value
from calque.prove.outcome import Check, ProofReport, Verdict, describe, judge, merged

Law = Callable[[ProofCase], Iterator[Check]]
TRIALS = 2

ENCODER_LAWS: tuple[tuple[str, Law], ...] = (("padding", encoder_padding), ("batch", encoder_batch))
DECODER_LAWS: tuple[tuple[str, Law], ...] = (
    ("equal", equal),
    ("causal", causal),
    ("padding", padding),
    ("batch", batch),
    ("idle", idle),
    ("reorder", reorder),
    ("state", value),
    ("model", model),
)
COMMON_LAWS: tuple[tuple[str, Law], ...] = (
    ("shape", shape),
    ("cost", costs),
    ("record", record),
    ("train", train),
)
LAWS: Mapping[str, tuple[tuple[str, Law], ...]] = {
    ENCODER: ENCODER_LAWS + COMMON_LAWS,
    DECODER: DECODER_LAWS + COMMON_LAWS,
    "both": ENCODER_LAWS + DECODER_LAWS + COMMON_LAWS,
}


def prove_text(
    text: str,
    registry: Registry,
    seed: int = 0,
    side: str = "both",
    name: str = "text",
    watcher: Callable[[Verdict], None] | None = None,
) -> ProofReport:
    """Checks every law for a whole definition, with one set of random parameters and inputs.

    `side` restricts the proof to the laws of `encoder` or `decoder`. `watcher` receives each verdict as it is reached; a law of
    both sides is tested twice. Raises `CalqueError` where the text has faults.
    """
    started = time.monotonic()
    checked = check(Text(name, text), registry)
    verdicts: dict[str, Verdict] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for law, run in LAWS[side]:
            verdict = judge(law, _checks(run, checked, registry, seed))
            if watcher is not None:
                watcher(verdict)
            if law not in verdicts or verdicts[law].passed:
                verdicts[law] = verdict
    return ProofReport(name, text, side, tuple(verdicts.values()), time.monotonic() - started)


def _checks(law: Law, checked: CheckedDefinition, registry: Registry, seed: int) -> Iterator[Check]:
    # A separate case for each law: modules keep nothing from one law to the next.
    yield from law(ProofCase(checked, registry, seed))


def definition(example: Example, side: str) -> str:
    """The whole definition with an example on one side. The width is 8; examples give all other sizes themselves."""
    if side == ENCODER:
        return f"d = 8\nencoder = {example.text}\ndecoder = id\n"
    return f"d = 8\nencoder = {example.encoder}\ndecoder = {example.text}\n"


def prove_layer(layer: type[Layer], registry: Registry) -> ProofReport:
    """Checks every law for every example of a layer, on each of its sides. A layer without examples fails.

    Raises X421 where `examples` are not examples.
    """
    _check_examples([layer])
    return _proved(layer, registry)


def _proved(layer: type[Layer], registry: Registry) -> ProofReport:
    reports = []
    for example in layer.examples:
        for side in example.sides:
            text = definition(example, side)
            for seed in range(TRIALS):
                try:
                    report = prove_text(text, registry, seed, side, layer.name)
                    asked = side == DECODER and not seed and report.passed
                    reports.append(replace(report, notes=_notes(text, registry, layer)) if asked else report)
                except (Exception, SystemExit) as fault:  # `infer` of a layer under proof may raise anything
                    verdict = Verdict("shape", False, math.inf, describe(fault))
                    reports.append(ProofReport(layer.name, text, side, (verdict,), 0.0))
                    break
    if not reports:
        missing = f'the layer has no examples: write `examples = (Example("{layer.name}"),)`'
        reports = [ProofReport(layer.name, "", "", (Verdict("shape", False, math.inf, missing),), 0.0)]
    return merged(layer.name, "; ".join(e.text for e in layer.examples), reports)


def _notes(text: str, registry: Registry, layer: type[Layer]) -> tuple[str, ...]:
    why = refusal(check(Text("model.adl", text), registry), registry, layer)
    return (f"on an accelerator searches go step by step, not as graphs: {why}",) if why else ()


def prove_module(module: ModuleType, file: str | None = None) -> list[ProofReport]:
    """A report on every layer that a module defines, together with the layers of this package.

    Raises X421, before anything is proved, where `examples` of a layer are not examples; `file` is what a person calls the module.
    """
    layers, registry = layers_in(module), with_plugins((module,))
    _check_examples(layers, file)
    return [_proved(layer, registry) for layer in layers]


def _check_examples(layers: Iterable[type[Layer]], named: str | None = None) -> None:
    """Raises X421 for every fault of the `examples` of layers, whose types nobody has checked."""
    faults = []
    for layer in layers:
        file = Place(named or str(getattr(sys.modules.get(layer.__module__), "__file__", layer.__module__)))
        for expected, found in _strange_examples(layer.examples):
            form = {_TUPLE: f"(Example({found!r}),)", _EXAMPLE: f"Example({found!r})"}.get(expected)
            near = form if isinstance(found, str) else None
            fields = {"name": layer.name, "expected": expected, "found": repr(found), "near": near}
            faults.append(Diagnostic("X421", file, fields))
    if faults:
        raise CalqueError(faults)


_TUPLE, _EXAMPLE = "a tuple of `Example(TEXT)`", "`Example(TEXT)`"


def _strange_examples(examples: object) -> Iterator[tuple[str, object]]:
    """What was expected and what was found, for each fault."""
    if not isinstance(examples, tuple | list):
        yield _TUPLE, examples
        return
    for one in examples:
        if not isinstance(one, Example):
            yield _EXAMPLE, one
        elif not isinstance(one.text, str):
            yield "a string as the text of an example", one.text
        elif not isinstance(one.sides, tuple | list) or any(side not in BOTH for side in one.sides):
            yield "a tuple of `encoder` and `decoder` as `sides`", one.sides
