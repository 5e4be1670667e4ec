"""Validation during training: perplexity, BLEU, sample translations, a state and a checkpoint."""

import math
import time

import torch

from calque.data.batches import collate, plan
from calque.data.corpus import FURTHER
from calque.run.folder import LOG
from calque.run.tensors import writing
from calque.train.call import TrainingTask
from calque.train.log import Log, Translated, Validation
from calque.train.loss import batch_loss
from calque.train.standing import Interrupted, Signals
from calque.train.training_state import TrainingState


class Validator:
    """Measures the model of a training on its validation texts."""

    def __init__(self, task: TrainingTask, state: TrainingState, log: Log, signals: Signals):
        self.task, self.state, self.log, self.signals = task, state, log, signals

    def perplexity(self, split: str = "valid") -> float:
        """Perplexity on the pairs of a validation text, end symbols included."""
        model, pairs = self.state.model, self.task.prepared.split(split)
        data, train = self.task.experiment.data, self.task.experiment.train
        model.eval()
        nll, tokens = torch.zeros((), dtype=torch.float64, device=model.device), 0
        with torch.no_grad():
            for rows in plan(pairs, train.batch_tokens, train.batch_sentences, 0, 0):
                batch = collate(pairs, rows, data.source_end)
                nll += batch_loss(model, batch, 0.0)[1]
                tokens += batch.target_tokens
        return perplexity(float(nll), tokens)

    def translate(self) -> Translated:
        """BLEU and sample translations by the present weights."""
        if self.task.translate is None:
            return Translated(None, ())
        with torch.no_grad():
            return self.task.translate(self.state.model.eval())

    def validate(self) -> None:
        """Measures, saves the state and a checkpoint, informs the watcher. After a signal it returns and has changed nothing."""
        state, standing = self.state, self.state.standing
        began = time.perf_counter()
        try:
            with self.signals.yielding():
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
        state.save(figures)
        state.save_checkpoint(figures)
        if self.task.watcher is not None:
            self.task.watcher(Validation(standing.update, value, translated.bleu, best, translated.samples))


def perplexity(nll: float, tokens: int) -> float:
    """exp(nll / tokens); infinite where that is not a number of float64."""
    mean = nll / max(1, tokens)
    return math.exp(mean) if mean < 700 else math.inf
