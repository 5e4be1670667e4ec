"""One update: gradients of several batches summed, scaled, clipped, and applied to float32 weights."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from calque.experiment import TrainSettings


class Updater:
    """The optimiser and the float32 master weights behind a model.

    With precision `bfloat16` the parameters of the model become bfloat16, gradients are added up in float32, the update
    is applied to float32 masters and rounded back. With `float32` the parameters are their own masters. Weights are
    known by the paths of their parameters; a matrix that several modules share is one.
    """

    def __init__(self, model: nn.Module, settings: TrainSettings, precision: str):
        self.working: dict[str, nn.Parameter] = dict(model.named_parameters())
        self.settings = settings
        self.skipped = 0
        self._factors = _factors(model) if settings.scale_filters else {}
        tables = () if settings.clip_counts_embeddings else _embeddings(model)
        self._counted = [name for name, p in self.working.items() if all(p is not table for table in tables)]
        if precision == "bfloat16":
            self.masters: Mapping[str, Tensor] = {n: p.detach().float().clone() for n, p in self.working.items()}
            for p in self.working.values():
                p.data = p.data.to(torch.bfloat16)
        else:
            self.masters = self.working
        self._mixed = precision == "bfloat16"
        self._optimiser = _optimiser(list(self.masters.values()), settings)

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of a summed loss to those of the update under way."""
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if self._mixed:
            for name, p in self.working.items():
                if p.grad is not None:
                    master = self.masters[name]
                    master.grad = p.grad.float() if master.grad is None else master.grad.add_(p.grad)
                    p.grad = None

    def step(self, lr: float, divisor: float) -> float:
        """Divides the gradients by `divisor`, clips their norm, updates the weights; returns the norm before clipping.

        With `scale_filters`, gradients of filters and of their biases are divided first by the root of the width that comes
        in. Without `clip_counts_embeddings` the norm is that of the others, and all are scaled by it (Luong 2015, the authors'
        code). A gradient that is not finite leaves weights and optimiser as they are, and is counted in `skipped`.
        """
        for name, factor in self._factors.items():
            if (gradient := self.masters[name].grad) is not None:
                gradient.mul_(factor)
        gradients = [m.grad for m in self.masters.values() if m.grad is not None]
        whole = norm = _norm(gradients) / divisor
        if len(self._counted) < len(self.masters):
            norm = _norm([g for name in self._counted if (g := self.masters[name].grad) is not None]) / divisor
        clip = self.settings.clip_norm
        if math.isfinite(whole):
            factor = (clip / norm if clip and norm > clip else 1.0) / divisor
            if factor != 1.0:
                torch._foreach_mul_(gradients, factor)
            for group in self._optimiser.param_groups:
                group["lr"] = lr
            self._optimiser.step()
            if self._mixed:
                self._round()
        else:
            self.skipped += 1
        self.forget()
        return norm

    def forget(self) -> None:
        """Drops the gradients added up so far."""
        for p in (*self.working.values(), *self.masters.values()):
            p.grad = None

    def state(self) -> dict[str, Tensor]:
        """Everything an exact continuation needs, `skipped` apart: `weight/PATH`, and `KEY/PATH` of the optimiser."""
        found = {f"weight/{name}": m.detach() for name, m in self.masters.items()}
        for name, m in self.masters.items():
            for key, value in self._optimiser.state.get(m, {}).items():
                if value is not None:
                    found[f"{key}/{name}"] = value
        return found

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continues from what `state` gave. Raises KeyError or RuntimeError where the two do not fit."""
        names = {id(m): name for name, m in self.masters.items()}
        with torch.no_grad():
            for name, m in self.masters.items():
                m.copy_(state[f"weight/{name}"])
            if self._mixed:
                self._round()
        keys = [key.split("/", 1) for key in state]
        known: dict[str, dict[str, Any]] = {}
        for key, name in keys:
            if key != "weight" and name in self.masters:
                known.setdefault(name, {})[key] = state[f"{key}/{name}"].clone()
        held = self._optimiser.state_dict()
        order = [names[id(p)] for group in self._optimiser.param_groups for p in group["params"]]
        held["state"] = {i: known[name] for i, name in enumerate(order) if name in known}
        self._optimiser.load_state_dict(held)

    def _round(self) -> None:
        torch._foreach_copy_([p.data for p in self.working.values()], list(self.masters.values()))


def _norm(gradients: list[Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm(gradients, foreach=True))


def _factors(model: nn.Module) -> dict[str, float]:
    """By what the gradients of each filter and its bias are multiplied."""
    filters = {n: m for n, m in model.named_modules() if isinstance(m, nn.Conv1d)}
    return {f"{n}.{name}": m.in_channels**-0.5 for n, m in filters.items() for name, _ in m.named_parameters()}


def _embeddings(model: nn.Module) -> tuple[Tensor, ...]:
    """Every table, also where it is the output layer too."""
    return tuple(m.weight for m in model.modules() if isinstance(m, nn.Embedding))


def squares_decay(settings: TrainSettings) -> float:
    """Adam's beta2: the key itself, or 0.5 ** (batch_tokens accumulate / half-life) where a half-life in tokens is set."""
    if not settings.beta2_half_life_tokens:
        return settings.beta2
    return float(0.5 ** (settings.batch_tokens * settings.accumulate / settings.beta2_half_life_tokens))


def _optimiser(masters: list[Tensor], settings: TrainSettings) -> torch.optim.Optimizer:
    if settings.optimiser == "sgd":
        return torch.optim.SGD(masters, settings.lr, fused=True)
    # With no decay this is Adam (Kingma and Ba 2015), else AdamW (Loshchilov and Hutter 2019).
    return torch.optim.AdamW(
        masters,
        settings.lr,
        (settings.beta1, squares_decay(settings)),
        settings.epsilon,
        settings.weight_decay,
        fused=True,
    )
