"""Times decoding: random weights or a trained run, beside the same model without states and beside other systems."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from calque.adl.check import CheckedDefinition
from calque.bench.clock import digits, speeds, waiter
from calque.bench.crew import Crew
from calque.bench.inputs import Sentences, batches_of, cut, definition, first_lines, like_file, synthetic
from calque.bench.limit import Limit, limit, step_work
from calque.bench.operators import step_counts, stepping
from calque.bench.peers import Peer
from calque.bench.uncached import without_states
from calque.data.vocabulary import EOS
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.decode.translate import Sentence, Translator, translate_batch
from calque.ground.diagnostics import Place, error
from calque.ledger.entry import conditions
from calque.model import Model, Shape
from calque.run.model_file import load_model
from calque.train.initialise import initialise
from calque.workflow.plugins import registry_of_run

TIMED = (
    "encoder, states, search; for a run also the text of translations; not loading. "
    "Greedy search at a forced length computes no scores"
)
LENGTH = 25
"""Words, end symbol included, that random weights are made to write."""


@dataclass(frozen=True)
class DecodePlan:
    """What is measured: every beam with every length. A length of 0 is the natural one, which only a run has."""

    batch: int = 64
    beams: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] = ()
    precision: str = "float32"
    repeats: int = 5
    uncached: bool = False
    workers: int = 1


@dataclass(frozen=True)
class DecodeCase:
    """A model as it was built or loaded, and the sentences it translates, closed with the end symbol."""

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
        given = subject(self.name, self.vocabulary, None, 1, torch.device("cpu"))
        given = replace(given, model=prepare_for_decoding(given.model, self.precision))
        return lambda part, beam, length: _translate(given, part, beam, length)


class DecodePass(NamedTuple):
    """One pass over all sentences."""

    seconds: float
    tokens: int
    """Of the best hypotheses, end symbols included."""
    steps: int
    step_seconds: float
    """From the first step of each batch to its end."""


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
    loaded = Translator(
        model_file.model, *model_file.codecs, model_file.experiment.decode, model_file.experiment.data.source_end
    )
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


def decode(given: DecodeCase, plan: DecodePlan, peers: Sequence[Peer] = (), crew: Crew | None = None) -> dict[str, Any]:
    """Measures every beam of the plan with every length. The systems take turns, so that all of them see the same machine.

    A crew decodes in place of this process, `plan.workers` batches at a time; single steps are then not measured.
    """
    lengths = plan.lengths or ((0,) if given.loaded else (LENGTH,))
    batches = batches_of(given.sentences, plan.batch, given.model.device)
    searches = [(beam, length) for beam in plan.beams for length in lengths]
    measured: dict[Any, Any] = {}
    bounds = [
        limit(step_work(given.model, *batches[0], beam, length or LENGTH), plan.precision, given.model.device, measured)
        for beam, length in searches
    ]
    about = _conditions(given, plan, batches)  # before int8 replaces parameters
    case = replace(given, model=prepare_for_decoding(given.model, plan.precision))
    cells: list[dict[str, Any]] = []
    for (beam, length), bound in zip(searches, bounds, strict=True):
        ways = _ways(case, plan, beam, length, crew)
        for peer in peers:
            ways[peer.name] = partial(_of_peer, peer, given.sentences, plan.batch, beam, length)
        for name, passes in _in_turn(ways, plan.repeats).items():
            cell = {"system": name, "beam": beam, "length": length or None, **_figures(passes, given.sentences)}
            if name == "calque" and passes[0].steps:
                cell |= _step_figures(case.model, batches[0], beam, length or LENGTH, passes, bound)
            cells.append(cell)
    return {"timed": TIMED, "conditions": about, "cells": cells}


def _in_turn(ways: Mapping[str, Callable[[], DecodePass]], repeats: int) -> dict[str, list[DecodePass]]:
    """The passes of each system, one after the other in each round; a first round warms up and does not count."""
    passes: dict[str, list[DecodePass]] = {name: [] for name in ways}
    for number in range(repeats + 1):
        for name, run in ways.items():
            one = run()
            if number:
                passes[name].append(one)
    return passes


def _step_figures(
    model: Model,
    batch: tuple[torch.Tensor, torch.Tensor],
    beam: int,
    length: int,
    passes: Sequence[DecodePass],
    bound: Limit | None,
) -> dict[str, Any]:
    """What a step takes, beside the least time that the machine needs for its products."""
    milliseconds = statistics.median(one.step_seconds / one.steps for one in passes) * 1e3
    return {
        "ms_per_step": digits(milliseconds),
        "step_limit": bound.figures() if bound else None,
        "share_of_limit": digits(bound.seconds * 1e3 / milliseconds, 3) if bound else None,
        "state_bytes": _state_bytes(model, batch, beam, length),
        "operators": step_counts(model, beam),
    }


def _conditions(
    given: DecodeCase, plan: DecodePlan, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]
) -> dict[str, Any]:
    """The machine, the model and the sentences that the figures belong to."""
    tokens = sum(map(len, given.sentences))
    padded = sum(source.numel() for source, _ in batches)
    return {
        **conditions(plan.precision),
        "device": given.model.device.type,
        "architecture": given.model.checked.hash,
        "parameters": sum(p.numel() for p in given.model.parameters()),
        "vocabulary": given.model.shape.target_size,
        "weights": "trained" if given.loaded else "random",
        "batch": plan.batch,
        "sentences": len(given.sentences),
        "source_tokens_per_sentence": digits(tokens / len(given.sentences)),
        "padding_share": digits(1 - tokens / padded, 3),
        "repeats": plan.repeats,
        "workers": plan.workers,
    }


def _ways(
    given: DecodeCase, plan: DecodePlan, beam: int, length: int, crew: Crew | None
) -> dict[str, Callable[[], DecodePass]]:
    if crew is not None:
        shares = [(part, beam, length) for part in cut(given.sentences, plan.batch)]
        return {"calque": lambda: DecodePass(*crew.run(shares), 0, 0.0)}
    ways: dict[str, Callable[[], DecodePass]] = {"calque": lambda: timed(given, plan.batch, beam, length)}
    if plan.uncached:
        ways["calque uncached"] = lambda: timed(given, plan.batch, beam, length, uncached=True)
    return ways


def timed(given: DecodeCase, batch: int, beam: int, length: int, uncached: bool = False) -> DecodePass:
    """One pass over the sentences in batches of `batch`. Each translation has `length` words; with 0, a run ends it itself.

    `uncached`: without states, see `calque.bench.uncached`.
    """
    if uncached:
        with without_states(given.model):
            return timed(given, batch, beam, length)
    model, wait = given.model, waiter(given.model.device)
    steps = tokens = 0
    step_seconds = 0.0
    entered: list[float] = []

    def around(step: Callable[..., Any]) -> Callable[..., Any]:
        def timed_step(*args: Any, **kwargs: Any) -> Any:
            entered.append(time.perf_counter())
            return step(*args, **kwargs)

        return timed_step

    wait()
    began = time.perf_counter()
    with stepping(model, around):
        for part in cut(given.sentences, batch):
            entered.clear()
            tokens += _translate(given, part, beam, length)
            wait()
            steps += len(entered)
            step_seconds += time.perf_counter() - entered[0] if entered else 0.0
    return DecodePass(time.perf_counter() - began, tokens, steps, step_seconds)


def _translate(given: DecodeCase, part: Sentences, beam: int, length: int) -> int:
    """The number of words of the best hypotheses of a batch, end symbols included."""
    if given.loaded and not length:
        here = given.loaded
        # `translate_batch` appends the end symbol to sources itself.
        words = [Sentence((s[:-1],)) for s in part]
        loaded = replace(here, model=given.model, decode=replace(here.decode, beam=beam))
        translations = translate_batch(loaded, words)
        return sum(len(best.ids) + 1 for best, *_ in filter(None, translations))
    (source, mask), *_ = batches_of(part, len(part), given.model.device)
    settings = SearchSettings(beam, exact_length=length or LENGTH, scores=False)
    written = search(given.model, source, mask, torch.full((len(part),), (length or LENGTH) - 1), settings)
    return sum(len(each[0]) + 1 for each in written.tokens)


def _state_bytes(model: Model, batch: tuple[torch.Tensor, torch.Tensor], beam: int, length: int) -> int:
    """Bytes that the states of the largest batch occupy before its last step."""
    sizes: list[int] = []

    def around(step: Callable[..., Any]) -> Callable[..., Any]:
        def sized_step(words: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            sizes.append(state.bytes())
            return step(words, state, *args, **kwargs)

        return sized_step

    with stepping(model, around):
        search(model, *batch, torch.full((len(batch[0]),), length - 1), SearchSettings(beam, exact_length=length))
    return max(sizes)


def _of_peer(peer: Peer, sentences: Sentences, batch: int, beam: int, length: int) -> DecodePass:
    parts = [[s.tolist() for s in part] for part in cut(sentences, batch)]
    reply = peer.ask({"do": "decode", "batches": parts, "beam": beam, "length": length or LENGTH})
    return DecodePass(reply["seconds"], reply["tokens"], 0, 0.0)


def _figures(taken: Sequence[DecodePass], sentences: Sentences) -> Mapping[str, Any]:
    seconds = [t.seconds for t in taken]
    return {
        "target_tokens": taken[0].tokens,
        "seconds": digits(statistics.median(seconds)),
        "target_tokens_per_second": speeds(taken[0].tokens, seconds),
        "source_tokens_per_second": speeds(sum(map(len, sentences)), seconds),
        "sentences_per_second": speeds(len(sentences), seconds),
    }
