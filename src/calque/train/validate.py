"""Validation during training: perplexity, BLEU, sample translations, a state and a checkpoint."""

import math
import time
from contextlib import nullcontext

import torch

from calque.data.batches import collate, plan
from calque.data.corpus import FURTHER
from calque.model import Model
from calque.run.folder import LOG
from calque.run.tensors import writing
from calque.train.call import TrainingTask
from calque.train.log import Log, Translated, Validation
from calque.train.loss import batch_loss
from calque.train.objective import LIKELIHOOD
from calque.train.ranks import Ranks
from calque.train.standing import Interrupted, Signals
from calque.train.training_state import TrainingState


class Validator:
    """Measures the model of a training on its validation texts."""

    def __init__(self, task: TrainingTask, state: TrainingState, log: Log, signals: Signals):
        self.task, self.state, self.log, self.signals = task, state, log, signals
        self.ranks = task.call.ranks

    def perplexity(self, split: str = "valid") -> float:
        """Perplexity on the pairs of a validation text, end symbols included."""
        self.ranks.send("perplexity", split)
        return split_perplexity(self.state.model, self.task, split, self.ranks)

    def translate(self) -> Translated:
        """BLEU and sample translations by the present weights."""
        self.ranks.send("translate")
        return translated(self.state.model, self.task)

    def validate(self) -> None:
        """Measures, saves the state and a checkpoint, informs the watcher. After a signal it returns and has changed nothing."""
        state, standing = self.state, self.state.standing
        began = time.perf_counter()
        try:
            with self.signals.yielding() if self.ranks.alone else nullcontext():
                value, translated = self.perplexity(), self.translate()
                others = {name: self.perplexity(FURTHER + name) for name in self.task.prepared.further}
        except Interrupted:
            return
        best = standing.note(value, self.task.experiment.train)
        when = {"epoch": standing.latest_epoch, "seconds": round(standing.seconds, 3)}
        measured = {"update": standing.update, "perplexity": value, "nll": math.log(value), "epoch": when["epoch"]}
        with writing(self.task.folder / LOG):
            line = {**measured, "bleu": translated.bleu, "seconds": when["seconds"], "best": best}
            self.log.write("valid", {**line, "validation_seconds": round(time.perf_counter() - began, 3)})
            self.log.write_samples(standing.update, translated.samples)
            for name, other in others.items():
                further = {"update": standing.update, "perplexity": other, "nll": math.log(other)}
                self.log.write("valid", {"set": name, **further, **when})
        figures = {
            "epoch": when["epoch"],
            "bleu": translated.bleu,
            "seconds": when["seconds"],
            "perplexity": value if math.isfinite(value) else None,
        }
        # The state first, with all that the checkpoint needs: after a kill between the two the next call makes the checkpoint.
        with self.ranks.busy():
            state.save(figures)
            state.save_checkpoint(figures)
        if self.task.watcher is not None:
            self.task.watcher(Validation(standing.update, value, translated.bleu, best, translated.samples))


def split_perplexity(model: Model, task: TrainingTask, split: str, ranks: Ranks) -> float:
    """Perplexity on the pairs of a text, whose batches the ranks share."""
    pairs, data, train = task.prepared.split(split), task.experiment.data, task.experiment.train
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=model.device)
    with torch.no_grad():
        for rows in ranks.own(plan(pairs, train.batch_tokens, train.batch_sentences, 0, 0)):
            ranks.progress()
            batch = collate(pairs, rows, data.source_end)
            sums[0] += batch_loss(model, batch, LIKELIHOOD)[1]
            sums[1] += batch.target_tokens
    ranks.sum(sums)
    return perplexity(float(sums[0]), int(sums[1]))


def translated(model: Model, task: TrainingTask) -> Translated:
    """BLEU and sample translations, where the task has a translator."""
    if task.translate is None:
        return Translated(None, ())
    with torch.no_grad(), task.call.ranks.busy():
        return task.translate(model.eval())


def perplexity(nll: float, tokens: int) -> float:
    """exp(nll / tokens); infinite where that is not a number of float64."""
    mean = nll / max(1, tokens)
    return math.exp(mean) if mean < 700 else math.inf
