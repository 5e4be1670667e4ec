"""Training, timed by the code that trains, beside another system's loop on the same batches."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from calque.adl.check import CheckedDefinition
from calque.bench.clock import digits, speeds
from calque.bench.inputs import Sentences
from calque.bench.limit import limit, work_of
from calque.bench.peers import Peer
from calque.data.batches import Batch, collate, plan
from calque.data.corpus import Pairs
from calque.experiment import TrainSettings
from calque.ledger.entry import conditions
from calque.model import Model, Shape
from calque.train.loss import batch_loss
from calque.train.precision import pick_device
from calque.train.timed_updates import TrainingSpeed, measure

LR = 0.0005
SPAN = 20
"""Updates over which losses are told as one: batches differ."""
TIMED = "updates: forward, loss, backward, optimiser; batches lie ready"


@dataclass(frozen=True)
class TrainPlan:
    """How often, in how many rounds; systems take turns between rounds."""

    updates: int = 10
    warm_up: int = 2
    rounds: int = 3


def batches(sources: Sentences, targets: Sentences, settings: TrainSettings) -> list[Batch]:
    """The batches of one epoch; sentences are closed with the end symbol, which `collate` adds itself."""
    pairs = Pairs.of([s[:-1].tolist() for s in sources], [t[:-1].tolist() for t in targets])
    rows = plan(pairs, settings.batch_tokens, settings.batch_sentences, settings.seed, 0)
    return [collate(pairs, each, True) for each in rows]


def train(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    data: list[Batch],
    how: TrainPlan,
    peers: Sequence[Peer] = (),
) -> dict[str, Any]:
    """Target tokens a second and what they consist of; the figures of each system over all its updates."""
    device = pick_device(settings.device)
    ours: list[TrainingSpeed] = []
    theirs: dict[str, list[float]] = {peer.name: [] for peer in peers}
    losses: dict[str, list[float]] = {peer.name: [] for peer in peers}
    count = how.warm_up + how.updates
    for _ in range(how.rounds):
        ours.append(measure(checked, shape, settings, data, how.updates, how.warm_up))
        for peer in peers:
            for number in range(count):
                told = peer.ask(_asked(data[number % len(data)], settings))
                if number >= how.warm_up:
                    theirs[peer.name].append(told["seconds"])
                    losses[peer.name].append(told["loss"])
    tokens = [n for m in ours for n in m.target_tokens]
    seconds = [s for m in ours for s in m.seconds]
    padded = [n for m in ours for n in m.padded_tokens]
    found = [
        {
            "system": "calque",
            **_speeds(tokens, seconds, how),
            "source_tokens_per_second": digits(sum(n for m in ours for n in m.source_tokens) / sum(seconds)),
            "padded_tokens_per_second": digits(sum(padded) / sum(seconds)),
            "padding_share": digits(1 - sum(tokens + [n for m in ours for n in m.source_tokens]) / sum(padded), 3),
            "phases_share": {k: digits(sum(m.phases[k] for m in ours) / sum(seconds), 3) for k in ours[0].phases},
            "update_milliseconds": digits(statistics.median(seconds) * 1e3),
            "peak_bytes": max(m.peak_bytes for m in ours),
            **_losses(ours[0].losses),
            "skipped": sum(m.skipped for m in ours),
            **_share(checked, shape, settings, data, ours, device),
        }
    ]
    for peer in peers:
        same = [data[(how.warm_up + n) % len(data)].target_tokens for n in range(how.updates)] * how.rounds
        told = _speeds(same, theirs[peer.name], how)
        found.append({"system": peer.name, **told, **_losses(losses[peer.name][: how.updates])})
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
            "updates": how.updates,
            "warm_up": how.warm_up,
            "rounds": how.rounds,
        },
        "systems": found,
    }


def _losses(values: Sequence[float]) -> dict[str, Any]:
    """The smoothed loss of a target token at every update, and its mean over each `SPAN` updates."""
    spans = {
        f"updates to {n}": digits(statistics.mean(values[n - SPAN : n])) for n in range(SPAN, len(values) + 1, SPAN)
    }
    return {"losses": [digits(v, 6) for v in values], **({"loss": spans} if spans else {})}


def _speeds(tokens: Sequence[int], seconds: Sequence[float], how: TrainPlan) -> dict[str, Any]:
    """Over rounds: each is the sum of its tokens over the sum of its seconds."""
    edges = range(0, len(seconds) + 1, how.updates)
    rates = [sum(seconds[a:b]) / sum(tokens[a:b]) for a, b in pairwise(edges)]
    return {"target_tokens": sum(tokens), "target_tokens_per_second": speeds(1, rates)}


def _share(
    checked: CheckedDefinition,
    shape: Shape,
    settings: TrainSettings,
    data: list[Batch],
    ours: list[TrainingSpeed],
    device: torch.device,
) -> dict[str, Any]:
    """The least time that the machine needs for the products of a middling batch, beside the time it took."""
    batch = sorted(data, key=lambda b: b.source.numel() + b.target_in.numel())[len(data) // 2]
    model = Model(checked, shape).to(device)

    def forward_and_back() -> None:
        batch_loss(model, batch, settings.label_smoothing)[0].backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    before = torch.get_num_threads()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    bound = limit(work_of(forward_and_back), ours[0].precision, device, {})
    torch.set_num_threads(before)
    if bound is None:
        return {"update_limit": None, "share_of_limit": None}
    padded = batch.source.numel() + batch.target_in.numel()
    pace = np.sum([m.seconds for m in ours]) / np.sum([m.padded_tokens for m in ours])
    return {"update_limit": bound.told(), "share_of_limit": digits(bound.seconds / (pace * padded), 3)}


def _asked(batch: Batch, settings: TrainSettings) -> dict[str, Any]:
    sides = ((batch.source, batch.source_mask), (batch.target_out, batch.target_mask))
    pairs = [[row[keep].tolist() for row, keep in zip(ids, mask, strict=True)] for ids, mask in sides]
    return {"do": "train", "pairs": pairs, "smoothing": settings.label_smoothing, "lr": settings.lr}


def settings_for(precision: str, threads: int, batch_tokens: int, device: str) -> TrainSettings:
    """The training settings that matter for speed; the others as an experiment has them."""
    chosen = TrainSettings(precision=precision, threads=threads, batch_tokens=batch_tokens, device=device)
    # A plain rate, which every system can have.
    return replace(chosen, schedule="constant", lr=LR, warmup_updates=0, warmup_share=0.0)
