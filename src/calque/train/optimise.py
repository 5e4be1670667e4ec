"""One update: gradients of several batches summed, scaled, clipped, and applied to float32 weights."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from calque.experiment import TrainSettings
from calque.native.training import TrainingKernels, training_kernels
from calque.native.training_calls import Adam, Muon
from calque.train.kinds import add_rows, embeddings_of, filter_factors, matrices_of, tables_that_hand_over_rows
from calque.train.muon import MOMENTUM, NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS, muon, muon_rate, muon_together
from calque.train.ranks import Ranks
from calque.train.together import norm_together, of_one_shape, widened

if TYPE_CHECKING:
    from calque.data.batches import Batch
    from calque.train.loss import Part

PIECE = 1 << 17
"""Weights that are updated at a time: few enough for a processor's cache to hold them until they are rounded."""
AVERAGES = ("exp_avg", "exp_avg_sq")
"""Adam's running means of a weight's gradient and of its square."""

Tensors = list[Tensor]


class Updater:
    """The optimiser and the float32 master weights behind a model.

    With precision `bfloat16` the parameters of the model become bfloat16; gradients of several batches are added up in float32, the
    update is applied to float32 masters and rounded back. With `float32` the parameters are their own masters. Weights are
    known by the paths of their parameters; a matrix that several modules share is one.

    With the optimiser `muon` matrices of linear maps follow Muon (Jordan et al. 2024), a filter [out, in, kernel] as the matrix
    [out, in kernel] that it is to the words under it; everything else follows Adam with the same rate: embeddings, the output
    layer and vectors. Steps of Muon are scaled to the size of Adam's (Liu et al. 2025, section 2.2).

    On an accelerator all weights are updated together: a kernel for each takes longer to start than to run. On a processor
    embeddings hand over the gradients of the words of a batch from now on, instead of a matrix of all words.
    """

    def __init__(self, model: nn.Module, settings: TrainSettings, precision: str):
        self.working: dict[str, nn.Parameter] = dict(model.named_parameters())
        self.settings = settings
        self.skipped = 0
        self.graphs: Callable[[Batch, int | None], Part] | None = None
        """Makes loss and gradients of a batch at once, on an accelerator; see `calque.train.captured`."""
        self._factors = filter_factors(model) if settings.scale_filters else {}
        tables = () if settings.clip_counts_embeddings else embeddings_of(model)
        self._counted = [name for name, p in self.working.items() if all(p is not table for table in tables)]
        self._mixed = precision == "bfloat16"
        if self._mixed:
            self.masters: Mapping[str, Tensor] = {n: p.detach().float().clone() for n, p in self.working.items()}
            for p in self.working.values():
                p.data = p.data.to(torch.bfloat16)
        else:
            self.masters = self.working
        self._kernels = training_kernels() if all(map(_plain, self.masters.values())) else None
        self._together = all(m.device.type != "cpu" for m in self.masters.values())
        self._matrices = matrices_of(model) if settings.optimiser == "muon" else frozenset()
        self._buffer = torch.empty(PIECE)
        self._moments: dict[str, dict[str, Tensor]] = {}
        self._summed: dict[str, Tensor] = {}
        self._tables = tables_that_hand_over_rows(model)

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of a summed loss to those of the update under way."""
        with self.adding():
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    @contextmanager
    def adding(self) -> Iterator[None]:
        """The gradients that parameters get inside are added to those of the update under way."""
        earlier = self._gradients()
        if earlier:
            self._summed = {name: g.to(self.masters[name].dtype) for name, g in earlier.items()}
            self._drop()
        yield
        for module in self._tables:
            add_rows(module)
        for name, total in self._summed.items():
            if (g := self.working[name].grad) is not None:
                total.add_(g)
                self.working[name].grad = None

    def sum(self, ranks: Ranks) -> None:
        """Makes the gradients so far the sums of those of all ranks. A weight that no rank has used has none."""
        mine = self._gradients()
        used = torch.tensor([name in mine for name in self.working], dtype=torch.int32)
        flat = torch.cat([self._wide(name, mine.get(name)).flatten() for name in self.working])
        used = used.to(flat.device)
        ranks.sum(used, flat)
        parts = torch.split(flat, [p.numel() for p in self.working.values()])
        sums = zip(self.working.items(), parts, used.tolist(), strict=True)
        self._summed = {name: part.view(p.shape) for (name, p), part, count in sums if count}
        self._drop()

    def _wide(self, name: str, gradient: Tensor | None) -> Tensor:
        master = self.masters[name]
        return torch.zeros_like(master) if gradient is None else gradient.to(master.dtype)

    def step(self, lr: float, divisor: float) -> float:
        """Divides the gradients by `divisor`, clips their norm, updates the weights; returns the norm before clipping.

        With `scale_filters`, gradients of filters and of their biases are divided first by the root of the width that comes
        in. Without `clip_counts_embeddings` the norm is that of the others, and all are scaled by it (Luong 2015, the authors'
        code). A gradient that is not finite leaves weights and optimiser as they are, and is counted in `skipped`.
        """
        gradients = self._gradients()
        for name in self._factors.keys() & gradients.keys():
            gradients[name] = gradients[name].to(self.masters[name].dtype) * self._factors[name]
        whole = norm = self._norm(list(gradients.values())) / divisor
        if len(self._counted) < len(self.masters):
            norm = self._norm([gradients[name] for name in self._counted if name in gradients]) / divisor
        clip = self.settings.clip_norm
        if math.isfinite(whole):
            scale = divisor * (norm / clip if clip and norm > clip else 1.0)
            with torch.no_grad():
                if self._together and gradients:
                    self._apply_together(gradients, lr, scale)
                else:
                    for name, gradient in gradients.items():
                        self._apply(name, gradient, lr, scale)
        else:
            self.skipped += 1
        self.forget()
        return norm

    def forget(self) -> None:
        """Drops the gradients added up so far."""
        self._summed = {}
        self._drop()
        for table in self._tables:
            (table.rows or []).clear()

    def state(self) -> dict[str, Tensor]:
        """Everything an exact continuation needs, `skipped` apart: `weight/PATH`, and `KEY/PATH` of the optimiser."""
        state = {f"weight/{name}": m.detach() for name, m in self.masters.items()}
        for name, moments in self._moments.items():
            state |= {f"{key}/{name}": value for key, value in moments.items()}
        return state

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continues from what `state` gave. Raises KeyError or RuntimeError where the two do not fit."""
        with torch.no_grad():
            for name, m in self.masters.items():
                m.copy_(state[f"weight/{name}"])
                if self._mixed:
                    self.working[name].copy_(m)
        self._moments = {}
        for path, value in state.items():
            key, name = path.split("/", 1)
            if key != "weight" and name in self.masters:
                moments = self._moments.setdefault(name, {})
                moments[key] = value.to(self.masters[name].device, copy=True)

    def _gradients(self) -> dict[str, Tensor]:
        """The gradients so far, in the order of the parameters."""
        each = {name: self._summed.get(name, p.grad) for name, p in self.working.items()}
        return {name: g for name, g in each.items() if g is not None}

    def _drop(self) -> None:
        for p in self.working.values():
            p.grad = None

    def _apply(self, name: str, gradient: Tensor, lr: float, scale: float) -> None:
        """One weight's update, with its gradient divided by `scale`, piece by piece."""
        master, working = self.masters[name], self.working[name]
        if name in self._matrices:
            self._muon(name, gradient, lr, scale)
            return
        adam = self.settings.optimiser != "sgd"
        if adam and self._kernels is not None:
            self._adam_by_kernel(name, gradient, lr, scale)
            return
        parts = [master.detach(), gradient.contiguous(), working.detach()]
        if adam:
            parts += [(moments := self._moments_of(name))[key] for key in AVERAGES]
            moments["step"] += 1
        for weights, part, rounded, *means in _pieces(parts):
            part = self._widened(part, weights.dtype)
            if adam:
                self._adam([weights], [part], [[mean] for mean in means], [moments["step"]], lr, scale)
            else:
                weights.add_(part, alpha=-lr / scale)
            if self._mixed:
                rounded.copy_(weights)

    def _norm(self, gradients: list[Tensor]) -> float:
        """The norm of all numbers, summed in float32 at least."""
        if self._kernels is not None:
            return math.sqrt(sum(self._kernels.squares(gradient) for gradient in gradients))
        if self._together and gradients:
            return norm_together(gradients)
        squares = []
        for gradient in gradients:
            for (piece,) in _pieces([gradient.contiguous()]):
                wide = self._widened(piece, torch.promote_types(piece.dtype, torch.float32)).flatten()
                squares.append(torch.dot(wide, wide))
        return math.sqrt(float(torch.stack(squares).sum())) if squares else 0.0

    def _widened(self, part: Tensor, dtype: torch.dtype) -> Tensor:
        """A piece in this type, in memory that is used again for the next one."""
        if part.dtype == dtype:
            return part
        return self._buffer[: part.numel()].view(part.shape).copy_(part)

    def _moments_of(self, name: str) -> dict[str, Tensor]:
        if name not in self._moments:
            master = self.masters[name]
            step = torch.zeros((), dtype=torch.float32, device=master.device)
            self._moments[name] = {"step": step, **{key: torch.zeros_like(master) for key in AVERAGES}}
        return self._moments[name]

    def _momentum_of(self, name: str) -> Tensor:
        moments = self._moments.setdefault(name, {})
        if "momentum_buffer" not in moments:
            moments["momentum_buffer"] = torch.zeros_like(self.masters[name].detach())
        return moments["momentum_buffer"]

    def _muon(self, name: str, gradient: Tensor, lr: float, scale: float) -> None:
        master = self.masters[name].detach()
        mean = self._momentum_of(name)
        rounded = self.working[name].detach() if self._mixed else None
        rate, kept = muon_rate(lr, master.shape), 1 - lr * self.settings.weight_decay
        if self._kernels is not None:
            how = Muon(scale, MOMENTUM, rate, kept, *NEWTON_SCHULZ)
            if self._kernels.muon(how, NEWTON_SCHULZ_STEPS, master, gradient, mean, rounded):
                return
        gradient = gradient.to(master.dtype) / scale
        muon(master.view(len(master), -1), gradient.flatten(1), mean.view(len(master), -1), rate, kept)
        if rounded is not None:
            rounded.copy_(master)

    def _adam_by_kernel(self, name: str, gradient: Tensor, lr: float, scale: float) -> None:
        settings, moments, master = self.settings, self._moments_of(name), self.masters[name].detach()
        moments["step"] += 1
        step, beta2 = float(moments["step"]), squares_decay(settings)
        how = Adam(
            divisor=scale,
            beta1=settings.beta1,
            beta2=beta2,
            rate=lr / (1 - settings.beta1**step),
            root=math.sqrt(1 - beta2**step),
            epsilon=settings.epsilon,
            kept=1 - lr * settings.weight_decay,
        )
        means = moments[AVERAGES[0]], moments[AVERAGES[1]]
        rounded = self.working[name].detach() if self._mixed else None
        cast("TrainingKernels", self._kernels).adam(how, master, gradient, means, rounded)

    def _apply_together(self, gradients: Mapping[str, Tensor], lr: float, scale: float) -> None:
        """The updates of all weights, with the gradients divided by `scale`."""
        masters = {name: self.masters[name].detach() for name in gradients}
        wide = widened(gradients, masters)
        matrices = {name: master for name, master in masters.items() if name in self._matrices}
        if others := [name for name in masters if name not in matrices]:
            self._others_together(
                [masters[name] for name in others], [wide[name] for name in others], others, lr, scale
            )
        for names in of_one_shape(matrices):
            self._muon_together([masters[name] for name in names], [wide[name] for name in names], names, lr, scale)
        if self._mixed:
            torch._foreach_copy_([self.working[name].detach() for name in masters], list(masters.values()))

    def _others_together(self, masters: Tensors, gradients: Tensors, names: list[str], lr: float, scale: float) -> None:
        if self.settings.optimiser == "sgd":
            torch._foreach_add_(masters, gradients, alpha=-lr / scale)
            return
        moments = [self._moments_of(name) for name in names]
        steps, *means = ([each[key] for each in moments] for key in ("step", *AVERAGES))
        torch._foreach_add_(steps, 1)
        self._adam(masters, gradients, means, steps, lr, scale)

    def _muon_together(self, masters: Tensors, gradients: Tensors, names: list[str], lr: float, scale: float) -> None:
        torch._foreach_div_(gradients, scale)
        every = masters, gradients, [self._momentum_of(name) for name in names]
        weights, parts, means = ([each.view(len(each), -1) for each in of] for of in every)
        muon_together(weights, parts, means, muon_rate(lr, masters[0].shape), 1 - lr * self.settings.weight_decay)

    def _adam(
        self, weights: Tensors, gradients: Tensors, means: list[Tensors], steps: Tensors, lr: float, scale: float
    ) -> None:
        """With no decay this is Adam (Kingma and Ba 2015), else AdamW (Loshchilov and Hutter 2019). Changes the gradients."""
        torch._fused_adamw_(
            weights,
            gradients,
            means[0],
            means[1],
            [],
            steps,
            lr=lr,
            beta1=self.settings.beta1,
            beta2=squares_decay(self.settings),
            weight_decay=self.settings.weight_decay,
            eps=self.settings.epsilon,
            amsgrad=False,
            maximize=False,
            grad_scale=torch.tensor(scale, dtype=torch.float32, device=weights[0].device),
        )


def _plain(weights: Tensor) -> bool:
    """Whether kernels can update these weights."""
    return weights.device.type == "cpu" and weights.dtype == torch.float32 and weights.is_contiguous()


def _pieces(tensors: list[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Tensors of one shape, cut at the same places."""
    if tensors[0].numel() <= PIECE:
        yield tuple(tensors)
        return
    yield from zip(*(torch.split(tensor.view(-1), PIECE) for tensor in tensors), strict=True)


def squares_decay(settings: TrainSettings) -> float:
    """Adam's beta2: the key itself, or 0.5 ** (batch_tokens accumulate / half-life) where a half-life in tokens is set."""
    if not settings.beta2_half_life_tokens:
        return settings.beta2
    return float(0.5 ** (settings.batch_tokens * settings.accumulate / settings.beta2_half_life_tokens))
