"""Some updates of a small model in float64, under torchrun; the leader prints the sum of the squares of the weights."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import tiny
import torch

from calque.adl.check import check
from calque.data.compiled import prepare
from calque.experiment import load
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.train.call import TrainingCall, TrainingTask
from calque.train.initialise import initialise
from calque.train.optimise import Updater
from calque.train.order import layout, updates
from calque.train.ranks import from_environment
from calque.train.shared_update import shared_update

with TemporaryDirectory() as name:
    folder = Path(name)
    experiment = load(tiny.experiment(folder, accumulate=4, batch_tokens=50))
    prepared = prepare(experiment.data, folder / "data", folder)
    ranks = from_environment("cpu")
    checked = check(Text("tiny.adl", tiny.TEXT), builtin())
    model = Model(checked, Shape(*(codec.size for codec in prepared.codecs), "none")).double()
    initialise(model, "glorot", 0.0, 1)
    settings = replace(experiment.train, optimiser="adam")
    updater = Updater(model, settings, "float32")
    task = TrainingTask(replace(experiment, train=settings), folder, prepared, checked, call=TrainingCall(ranks=ranks))
    for number, group in enumerate(updates(prepared.split("train"), 0, layout(settings))[:5]):
        shared_update(task, model, updater, group, number, 0.01)
    total = sum(float(p.detach().square().sum()) for p in model.parameters())
    assert next(model.parameters()).dtype == torch.float64
    if ranks.leads:
        print(json.dumps(total), flush=True)
    ranks.close()
