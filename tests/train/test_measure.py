import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calque.adl.check import CheckedDefinition
from calque.data.batches import collate, plan
from calque.data.corpus import PreparedCorpus
from calque.experiment import Experiment
from calque.model import Shape
from calque.train.loop import train
from calque.train.timed_updates import measure
from calque.train.update import PHASES

Make = Callable[..., Experiment]


def test_what_is_measured_is_what_training_does(
    run: Path, prepared: PreparedCorpus, checked: CheckedDefinition, experiment: Make
) -> None:
    made = experiment(max_updates=6, log_every_updates=1, accumulate=2, clip_norm=1.0)
    train(made, run, prepared, checked)
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in logged if line["kind"] == "train"]
    pairs = prepared.split("train")
    batches = [collate(pairs, rows, True) for rows in plan(pairs, 256, 0, made.train.seed, 0)[:12]]
    source, target = (codec.size for codec in prepared.codecs)
    shape = Shape(source, target, made.model.tying, made.model.output_bias)
    found = measure(checked, shape, made.train, batches, updates=4, warm_up=2)
    assert list(found.losses) == losses[2:]
    assert found.target_tokens == tuple(
        a.target_tokens + b.target_tokens for a, b in zip(batches[4::2], batches[5::2], strict=True)
    )
    assert all(
        a + b <= c for a, b, c in zip(found.source_tokens, found.target_tokens, found.padded_tokens, strict=True)
    )
    assert found.phases.keys() == set(PHASES)
    assert sum(found.phases.values()) == pytest.approx(sum(found.seconds), rel=0.1)
    assert found.peak_bytes > 1 << 20
    assert (found.skipped, found.precision) == (0, "float32")
