"""Times training with the code that trains, beside the loops of other systems on the same batches."""

import functools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NotRequired, TypedDict

import torch

from calque.adl.check import CheckedDefinition
from calque.bench.clock import Spread, digits, speeds
from calque.bench.inputs import Sentences
from calque.bench.limit import CountedWork, Roofline, work_of
from calque.bench.peers import Peer
from calque.data.batches import Batch, collate
from calque.data.batches import plan as plan_batches
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.ledger.entry import conditions
from calque.model import Shape
from calque.train.precision import pick_device, processor
from calque.train.timed_updates import TrainingSpeed, fresh, measure
from calque.train.update import update

LR = 0.0005
COUNTED = 3
"""Of the updates timed, those whose products are counted."""
SPAN = 20
"""Updates whose losses are averaged: batches differ."""
TIMED = "updates: forward, loss, backward, optimiser; batches lie ready"


@dataclass(frozen=True)
class TrainPlan:
    """How many updates are timed, in how many rounds. Systems take turns: each trains once per round."""

    updates: int = 10
    warm_up: int = 2
    rounds: int = 3
    limit: bool = True
    """Measure the machine's own limit too, which takes half a minute."""


class SystemFigures(TypedDict):
    """The figures of one system over all its updates; those of the parts of an update are of Calque alone."""

    system: str
    target_tokens: int
    target_tokens_per_second: Spread
    losses: list[float]
    loss: NotRequired[dict[str, float]]
    """The mean of each `SPAN` updates."""
    source_tokens_per_second: NotRequired[float]
    padded_tokens_per_second: NotRequired[float]
    padding_share: NotRequired[float]
    phases_share: NotRequired[dict[str, float]]
    update_milliseconds: NotRequired[float]
    peak_bytes: NotRequired[int]
    skipped: NotRequired[int]
    update_limit: NotRequired[dict[str, str | int | float] | None]
    share_of_limit: NotRequired[float | None]


def batches(sources: Sentences, targets: Sentences, settings: TrainSettings) -> list[Batch]:
    """The batches of one epoch; sentences are closed with the end symbol, which `collate` adds itself."""
    pairs = Pairs.of([s[:-1].tolist() for s in sources], [t[:-1].tolist() for t in targets])
    rows = plan_batches(pairs, settings.batch_tokens, settings.batch_sentences, settings.seed, 0)
    return [collate(pairs, each, True) for each in rows]


def train(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    data: list[Batch],
    plan: TrainPlan,
    peers: Sequence[Peer] = (),
) -> dict[str, Any]:
    """Target tokens per second and the parts of an update, for each system over all its updates."""
    ours: list[TrainingSpeed] = []
    updates: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
    for _ in range(plan.rounds):
        ours.append(measure(checked, shape, settings, data, plan.updates, plan.warm_up))
        for peer in peers:
            updates[peer.name] += _peer_updates(peer, data, settings, plan)
    device = pick_device(settings.device)
    own = _own_figures(ours, plan)
    if plan.limit:
        own["update_limit"], own["share_of_limit"] = _limit(checked, shape, settings, data, plan, ours, device)
    tokens = [data[(plan.warm_up + n) % len(data)].target_tokens for n in range(plan.updates)] * plan.rounds
    systems = [own, *(_peer_figures(name, tokens, pairs, plan) for name, pairs in updates.items())]
    return {
        "timed": TIMED,
        "conditions": {
            **conditions(ours[0].precision),
            "threads": settings.threads or torch.get_num_threads(),
            "device": device.type,
            "architecture": checked.hash,
            "parameters": ours[0].parameters,
            "vocabulary": shape.target_size,
            "batch_tokens": settings.batch_tokens,
            "accumulate": settings.accumulate,
            "updates": plan.updates,
            "warm_up": plan.warm_up,
            "rounds": plan.rounds,
        },
        "systems": systems,
    }


def _peer_updates(
    peer: Peer, data: Sequence[Batch], settings: TrainSettings, plan: TrainPlan
) -> list[tuple[float, float]]:
    """Seconds and loss of each update of one round, warm-up left out."""
    replies = [peer.ask(_request(data[n % len(data)], settings)) for n in range(plan.warm_up + plan.updates)]
    return [(reply["seconds"], reply["loss"]) for reply in replies[plan.warm_up :]]


def _peer_figures(
    name: str, tokens: Sequence[int], pairs: Sequence[tuple[float, float]], plan: TrainPlan
) -> SystemFigures:
    """The figures of another system, from the seconds and the loss of each of its updates."""
    seconds, losses = zip(*pairs, strict=True)
    return _system(name, tokens, seconds, losses[: plan.updates], plan)


def _own_figures(rounds: Sequence[TrainingSpeed], plan: TrainPlan) -> SystemFigures:
    """The figures of our own training."""
    sources = [n for one in rounds for n in one.source_tokens]
    targets = [n for one in rounds for n in one.target_tokens]
    padded = [n for one in rounds for n in one.padded_tokens]
    seconds = [s for one in rounds for s in one.seconds]
    total = sum(seconds)
    return {
        **_system("calque", targets, seconds, rounds[0].losses, plan),
        "source_tokens_per_second": digits(sum(sources) / total),
        "padded_tokens_per_second": digits(sum(padded) / total),
        "padding_share": digits(1 - sum(targets + sources) / sum(padded), 3),
        "phases_share": {k: digits(sum(one.phases[k] for one in rounds) / total, 3) for k in rounds[0].phases},
        "update_milliseconds": digits(statistics.median(seconds) * 1e3),
        "peak_bytes": max(one.peak_bytes for one in rounds),
        "skipped": sum(one.skipped for one in rounds),
    }


def _system(
    name: str, tokens: Sequence[int], seconds: Sequence[float], losses: Sequence[float], plan: TrainPlan
) -> SystemFigures:
    """Speed, the spread being that over rounds, and the smoothed loss of a target token at every update of the first round.

    The speed of a round is the sum of its tokens over the sum of its seconds.
    """
    edges = range(0, len(seconds) + 1, plan.updates)
    rates = [sum(seconds[a:b]) / sum(tokens[a:b]) for a, b in pairwise(edges)]
    figures: SystemFigures = {
        "system": name,
        "target_tokens": sum(tokens),
        "target_tokens_per_second": speeds(1, rates),
        "losses": [digits(v, 6) for v in losses],
    }
    ends = range(SPAN, len(losses) + 1, SPAN)
    if ends:
        figures["loss"] = {f"updates to {n}": digits(statistics.mean(losses[n - SPAN : n])) for n in ends}
    return figures


def _limit(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    data: list[Batch],
    plan: TrainPlan,
    ours: list[TrainingSpeed],
    device: torch.device,
) -> tuple[dict[str, str | int | float] | None, float | None]:
    """The least time of an update by its products, the mean of some of those timed, and its share of the time that these took.

    What is counted is the same code on the same batches and in the same precision: the products that occur.
    """
    groups = [data[i : i + settings.accumulate] for i in range(0, len(data), settings.accumulate)]
    some = sorted({round(k * (plan.updates - 1) / max(1, COUNTED - 1)) for k in range(COUNTED)})
    work = CountedWork(0, Counter())
    with processor(settings.threads):
        updater, model = fresh(checked, shape, settings, None, device, ours[0].precision, graphs=False)
        for number in some:
            group = groups[(plan.warm_up + number) % len(groups)]
            each = work_of(functools.partial(update, model, updater, group, settings, settings.lr))
            work = CountedWork(work.multiply_adds + each.multiply_adds, work.products + each.products)
        bound = Roofline(device, ours[0].precision, training=True).limit(work)
    if bound is None:
        return None, None
    taken = sum(statistics.mean(one.seconds[number] for one in ours) for number in some)
    return bound.over(len(some)).figures(), digits(bound.seconds / taken, 3)


def _request(batch: Batch, settings: TrainSettings) -> dict[str, object]:
    sides = ((batch.source, batch.source_mask), (batch.target_out, batch.target_mask))
    pairs = [[row[keep].tolist() for row, keep in zip(ids, mask, strict=True)] for ids, mask in sides]
    return {"do": "train", "pairs": pairs, "smoothing": settings.label_smoothing, "lr": settings.lr}


def settings_for(precision: str, threads: int, batch_tokens: int, device: str) -> TrainSettings:
    """The training settings that matter for speed; the others have the defaults of an experiment."""
    chosen = TrainSettings(precision=precision, threads=threads, batch_tokens=batch_tokens, device=device)
    # A constant rate, which every system can use.
    return replace(chosen, schedule="constant", lr=LR, warmup_updates=0, warmup_share=0.0)
