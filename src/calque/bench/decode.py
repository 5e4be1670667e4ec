"""Times decoding: random weights or a trained run, beside the same model without states and beside other systems."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor

from calque.adl.check import CheckedDefinition
from calque.bench.clock import Spread, digits, in_turn, speeds, waiter
from calque.bench.crew import Crew
from calque.bench.inputs import Sentences, batches_of, cut, definition, first_lines, like_file, synthetic
from calque.bench.limit import Limit, Roofline, step_work
from calque.bench.operators import Replay, Several, Step, step_counts, stepping
from calque.bench.peers import Peer
from calque.bench.uncached import without_states
from calque.data.vocabulary import EOS
from calque.decode.captured_steps import CapturedSteps
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.decode.translate import Sentence, Translator, translate_batch
from calque.ground.diagnostics import Place, error
from calque.layers.state import State
from calque.ledger.entry import conditions
from calque.model import Model, Shape
from calque.native.accelerator import accelerator_kernels
from calque.native.kernels import Best, kernels
from calque.run.model_file import load_model
from calque.train.initialise import initialise
from calque.workflow.plugins import registry_of_run

TIMED = (
    "encoder, states, search; for a run also the text of translations; not loading. "
    "Greedy search at a forced length computes no scores"
)
OURS = "calque"
LENGTH = 25
"""Words, end symbol included, that random weights are made to write."""


@dataclass(frozen=True)
class DecodePlan:
    """What is measured: every beam with every length. With length 0 a run ends its translations itself."""

    batch: int = 64
    beams: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] = ()
    precision: str = "float32"
    repeats: int = 5
    uncached: bool = False
    workers: int = 1


@dataclass(frozen=True)
class DecodeCase:
    """A model as it was built or loaded, and the sentences that it translates, each with its end symbol."""

    model: Model
    sentences: Sentences
    loaded: Translator | None = None


@dataclass(frozen=True)
class Opening:
    """Opens the model of a worker as `subject` does, in the process that uses it."""

    name: str
    vocabulary: int
    precision: str

    def __call__(self) -> Callable[[Sentences, int, int], int]:
        case = subject(self.name, self.vocabulary, None, 1, torch.device("cpu"))
        case = replace(case, model=prepare_for_decoding(case.model, self.precision))
        return lambda part, beam, length: _translate(case, part, beam, length)


class DecodePass(NamedTuple):
    """One pass over all sentences."""

    seconds: float
    tokens: int
    """Of the best hypotheses, end symbols included."""
    steps: int = 0
    """Of batches with as many sentences as the largest."""
    step_seconds: float = 0.0
    """Of these; the first of a batch is left out, in which a beam has one hypothesis a sentence."""


class DecodeCell(TypedDict):
    """The figures of one system with one beam and one length; None: each translation ends as its model likes."""

    system: str
    beam: int
    length: int | None
    target_tokens: int
    seconds: float
    target_tokens_per_second: Spread
    source_tokens_per_second: Spread
    sentences_per_second: Spread
    ms_per_step: NotRequired[float]
    step_limit: NotRequired[dict[str, str | int | float] | None]
    share_of_limit: NotRequired[float | None]
    state_bytes: NotRequired[int]
    operators: NotRequired[dict[str, dict[str, int]]]


def subject(name: str, vocabulary: int, source: Path | None, count: int, device: torch.device) -> DecodeCase:
    """A run folder, an .adl file, or an architecture of the zoo, with `count` sentences of a file or synthetic ones.

    A run translates the text of the file; random weights only take the lengths of its lines. Raises what `definition` and
    `load_model` raise.
    """
    folder = Path(name)
    if not folder.is_dir():
        sentences = like_file(source, count, vocabulary) if source else synthetic(count, vocabulary)
        return random_subject(definition(name), Shape(vocabulary, vocabulary), sentences, device)
    model_file = load_model(folder, device, registry=registry_of_run(folder))
    experiment = model_file.experiment
    loaded = Translator.of(model_file.model, model_file.codecs, experiment.decode, experiment.data.source_end, folder)
    size = model_file.model.shape.source_size
    if source is None:
        return DecodeCase(model_file.model, synthetic(count, size), loaded)
    lines = first_lines(source, count)
    encoded = [np.array([*ids, EOS], np.int64) for ids in loaded.source.encode(lines) if len(ids)]
    if not encoded:
        raise error("D106", Place(str(source)))
    return DecodeCase(model_file.model, encoded, loaded)


def random_subject(checked: CheckedDefinition, shape: Shape, sentences: Sentences, device: torch.device) -> DecodeCase:
    """An architecture with random weights."""
    torch.manual_seed(1)
    model = Model(checked, shape)
    initialise(model, "glorot", 0.1, 1)
    return DecodeCase(model.to(device).eval().requires_grad_(False), sentences)


def decode(case: DecodeCase, plan: DecodePlan, peers: Sequence[Peer] = (), crew: Crew | None = None) -> dict[str, Any]:
    """Measures every beam of the plan with every length. The systems take turns, so that all of them see the same machine.

    A crew decodes in place of this process, `plan.workers` batches at a time; single steps are then not measured.
    """
    lengths = plan.lengths or ((0,) if case.loaded else (LENGTH,))
    first, *_ = batches = batches_of(case.sentences, plan.batch, case.model.device)
    searches = [(beam, length) for beam in plan.beams for length in lengths]
    bounds = _bounds(case.model, plan.precision, first, searches)
    about = _conditions(case, plan, batches)
    case = replace(case, model=prepare_for_decoding(case.model, plan.precision))
    cells: list[DecodeCell] = []
    for (beam, length), bound in zip(searches, bounds, strict=True):
        ways = _ways(case, plan, beam, length, crew)
        ways |= {peer.name: partial(_of_peer, peer, case.sentences, plan.batch, beam, length) for peer in peers}
        for name, passes in in_turn(ways, plan.repeats).items():
            cell = _cell(name, beam, length, passes, case.sentences)
            if name == OURS and passes[0].steps:
                _add_step(cell, case.model, first, passes, bound)
            cells.append(cell)
    return {"timed": TIMED, "conditions": about, "cells": cells}


def _bounds(
    model: Model, precision: str, batch: tuple[Tensor, Tensor], searches: Sequence[tuple[int, int]]
) -> list[Limit | None]:
    """The limit of a step of each search, of the model as it was built: int8 replaces parameters.

    None where a run ends its translations itself: batches shrink then, and their steps have no one limit.
    """
    roofline = Roofline(model.device, precision)
    works = [step_work(model, *batch, beam, length) if length else None for beam, length in searches]
    return [None if work is None else roofline.limit(work) for work in works]


def _cell(name: str, beam: int, length: int, passes: Sequence[DecodePass], sentences: Sentences) -> DecodeCell:
    """The speeds of a system."""
    seconds = [one.seconds for one in passes]
    return {
        "system": name,
        "beam": beam,
        "length": length or None,
        "target_tokens": passes[0].tokens,
        "seconds": digits(statistics.median(seconds)),
        "target_tokens_per_second": speeds(passes[0].tokens, seconds),
        "source_tokens_per_second": speeds(sum(map(len, sentences)), seconds),
        "sentences_per_second": speeds(len(sentences), seconds),
    }


def _add_step(
    cell: DecodeCell, model: Model, batch: tuple[Tensor, Tensor], passes: Sequence[DecodePass], bound: Limit | None
) -> None:
    """Adds what a step of the largest batch takes, beside the least time that the machine needs for its products."""
    milliseconds = statistics.median(one.step_seconds / one.steps for one in passes) * 1e3
    cell["ms_per_step"] = digits(milliseconds)
    cell["step_limit"] = bound.figures() if bound else None
    cell["share_of_limit"] = digits(bound.seconds * 1e3 / milliseconds, 3) if bound else None
    cell["state_bytes"] = _state_bytes(model, batch, cell["beam"], cell["length"] or LENGTH)
    cell["operators"] = step_counts(model, cell["beam"])


def _conditions(case: DecodeCase, plan: DecodePlan, batches: Sequence[tuple[Tensor, Tensor]]) -> dict[str, object]:
    """The machine, the model and the sentences that the figures belong to."""
    tokens = sum(map(len, case.sentences))
    padded = sum(source.numel() for source, _ in batches)
    return {
        **conditions(plan.precision),
        "device": case.model.device.type,
        "kernels": _kernels(case.model.device),
        "architecture": case.model.checked.hash,
        "parameters": sum(p.numel() for p in case.model.parameters()),
        "vocabulary": case.model.shape.target_size,
        "weights": "trained" if case.loaded else "random",
        "batch": plan.batch,
        "sentences": len(case.sentences),
        "source_tokens_per_sentence": digits(tokens / len(case.sentences)),
        "padding_share": digits(1 - tokens / padded, 3),
        "repeats": plan.repeats,
        "workers": plan.workers,
    }


def _kernels(device: torch.device) -> str | None:
    """What Calque's own kernels are written for."""
    if device.type != "cpu":
        return accelerator_kernels()
    own = kernels()
    return None if own is None else own.instructions


def _ways(
    case: DecodeCase, plan: DecodePlan, beam: int, length: int, crew: Crew | None
) -> dict[str, Callable[[], DecodePass]]:
    """Our ways to decode, by name: with the crew, or in this process with states and, where asked for, without."""
    if crew is not None:
        shares = [(part, beam, length) for part in cut(case.sentences, plan.batch)]
        return {OURS: lambda: DecodePass(*crew.run(shares))}
    ways: dict[str, Callable[[], DecodePass]] = {OURS: lambda: timed(case, plan.batch, beam, length)}
    if plan.uncached:
        ways["calque uncached"] = lambda: timed(case, plan.batch, beam, length, uncached=True)
    return ways


class StepClock:
    """When steps began; several that one call made began together."""

    def __init__(self) -> None:
        self.began: list[float] = []

    def step(self, step: Step) -> Step:
        """Around `Model.step`."""

        def timed_step(*args: object, **kwargs: object) -> tuple[Tensor, State]:
            self.began.append(time.perf_counter())
            return step(*args, **kwargs)

        return timed_step

    def replay(self, replay: Replay) -> Replay:
        """Around `Captured.replay`. The device is at most two steps behind."""

        def timed_replay(steps: CapturedSteps, visible: int) -> None:
            self.began.append(time.perf_counter())
            replay(steps, visible)

        return timed_replay

    def several(self, several: Several) -> Several:
        """Around `Recorded.several`."""

        def timed_steps(*args: object) -> tuple[list[Best], State] | None:
            began = time.perf_counter()
            made = several(*args)
            self.began.extend([began] * (len(made[0]) if made else 0))
            return made

        return timed_steps


def timed(case: DecodeCase, batch: int, beam: int, length: int, uncached: bool = False) -> DecodePass:
    """One pass over the sentences in batches of `batch`. Each translation has `length` words; with 0, a run ends it itself.

    `uncached`: without states, see `calque.bench.uncached`.
    """
    if uncached:
        with without_states(case.model):
            return timed(case, batch, beam, length)
    model, wait = case.model, waiter(case.model.device)
    steps = tokens = 0
    step_seconds = 0.0
    clock = StepClock()
    wait()
    began = time.perf_counter()
    with stepping(model, clock.step, clock.several, clock.replay):
        for part in cut(case.sentences, batch):
            clock.began.clear()
            tokens += _translate(case, part, beam, length)
            wait()
            if clock.began and len(part) == min(batch, len(case.sentences)):
                first = min(1, len(clock.began) - 1)
                steps += len(clock.began) - first
                step_seconds += time.perf_counter() - clock.began[first]
    return DecodePass(time.perf_counter() - began, tokens, steps, step_seconds)


def _translate(case: DecodeCase, part: Sentences, beam: int, length: int) -> int:
    """The number of words of the best hypotheses of a batch, end symbols included."""
    if case.loaded and not length:
        loaded = replace(case.loaded, model=case.model, decode=replace(case.loaded.decode, beam=beam))
        # `translate_batch` appends the end symbol to sources itself.
        translations = translate_batch(loaded, [Sentence((s[:-1],)) for s in part])
        return sum(len(best.ids) + 1 for best, *_ in filter(None, translations))
    (source, mask), *_ = batches_of(part, len(part), case.model.device)
    settings = SearchSettings(beam, exact_length=length or LENGTH, scores=False)
    written = search(case.model, source, mask, torch.full((len(part),), (length or LENGTH) - 1), settings)
    return sum(len(best) + 1 for best, *_ in written.tokens)


def _state_bytes(model: Model, batch: tuple[Tensor, Tensor], beam: int, length: int) -> int:
    """Bytes that the states of the largest batch occupy before its last step."""
    sizes: list[int] = []

    def around(step: Step) -> Step:
        def sized_step(words: Tensor, state: State, *args: object, **kwargs: object) -> tuple[Tensor, State]:
            sizes.append(state.bytes())
            return step(words, state, *args, **kwargs)

        return sized_step

    with stepping(model, around):
        search(model, *batch, torch.full((len(batch[0]),), length - 1), SearchSettings(beam, exact_length=length))
    return max(sizes)


def _of_peer(peer: Peer, sentences: Sentences, batch: int, beam: int, length: int) -> DecodePass:
    """The pass of another system; it measures its own time."""
    parts = [[s.tolist() for s in part] for part in cut(sentences, batch)]
    reply = peer.ask({"do": "decode", "batches": parts, "beam": beam, "length": length or LENGTH})
    return DecodePass(reply["seconds"], reply["tokens"])
