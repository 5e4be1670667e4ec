"""The training loss over a large vocabulary, without ever holding all logits."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from calque.data.batches import Batch
from calque.layers.projections import BLOCK, GRAIN, gradient, in_blocks, matmul_into
from calque.layers.state import accumulated
from calque.layers.stepping import cut
from calque.model import Model
from calque.native.training import DEEP, TrainingKernels, training_kernels_for
from calque.train.objective import Objective, passes

CHUNK_BYTES, CHUNK_BYTES_THERE = 16 << 20, 64 << 20
"""Logits that live at once, in the type of the model, on a processor and on any other device. Larger blocks are fresh memory from
the system each time."""
TILE_BYTES = {"cpu": 1 << 20}
"""Of these, the float32 ones that a softmax is made of at once, by device: few enough for a processor's cache."""


class Part(NamedTuple):
    """A part of a batch: its summed loss, with a gradient, its negative log-likelihood and its target tokens."""

    loss: Float[Tensor, ""]
    nll: Float[Tensor, ""]
    tokens: int


def parts(
    model: Model, batch: Batch, objective: Objective, words: int, mark: Callable[[str], None] | None = None
) -> Iterator[Part]:
    """A batch in parts of so many target words each, 0: in one; each with the weights there are when it is asked for.

    The decoder begins each part in the state in which it left the one before, through which no gradient goes back. The encoder runs
    for every part, so that it learns from each (Gehring 2017, section 4.3, as their code has it).
    """
    length = batch.target_in.shape[1]
    if not words or words >= length:
        loss, nll = batch_loss(model, batch, objective, mark)
        yield Part(loss, nll, batch.target_tokens)
        return
    device, batch = model.device, passes(batch, objective)
    source, source_mask = (t.to(device, non_blocking=True) for t in (batch.source, batch.source_mask))
    before = after = None
    for start in range(0, length, words):
        piece = slice(start, start + words)
        held = batch.target_mask[:, piece]
        real = held.flatten().nonzero().squeeze(1)
        mask = None if len(real) == held.numel() else held.to(device, non_blocking=True)
        target = batch.target_out[:, piece].flatten()[real].to(device, non_blocking=True)
        fresh = model.init_state(model.encode(source, source_mask), length)
        before = fresh if after is None else cut(before, after, fresh)
        words_in = batch.target_in[:, piece].to(device, non_blocking=True)
        z, after = model.step(words_in, before, min(start + words, length), mask=mask)
        z = z.flatten(0, 1)[real.to(device, non_blocking=True)]
        if mark is not None:
            mark("forward")
        loss, nll = output_loss(z, model.output.weight, model.output.bias, target, objective)
        yield Part(loss, nll, len(real) // (2 if objective.r_drop else 1))


def batch_loss(
    model: Model, batch: Batch, objective: Objective, mark: Callable[[str], None] | None = None
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The summed loss and negative log-likelihood of a batch, end symbols included. `batch` is on the CPU.

    `mark` is called with `forward` where the output layer begins.
    """
    device, batch = model.device, passes(batch, objective)
    # Found before anything moves: the answer of an accelerator would have to be waited for.
    real = batch.target_mask.flatten().nonzero().squeeze(1)
    target = batch.target_out.flatten()[real].to(device, non_blocking=True)
    full = batch.target_tokens == batch.target_mask.numel()
    source_mask = batch.source_mask.to(device, non_blocking=True)
    target_mask = None if full else batch.target_mask.to(device, non_blocking=True)
    sources = model.encode(batch.source.to(device, non_blocking=True), source_mask)
    z = model.decode(batch.target_in.to(device, non_blocking=True), sources, target_mask).flatten(0, 1)
    z = z if full else z[real.to(device, non_blocking=True)]
    if mark is not None:
        mark("forward")
    return output_loss(z, model.output.weight, model.output.bias, target, objective)


def output_loss(
    z: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    objective: Objective,
    chunk_bytes: int | None = None,
    counted: Bool[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The summed smoothed loss of the logits z W^T + b to train on, and the summed negative log-likelihood to report.

    The smoothed loss gives the reference 1 - smoothing and shares the rest equally among the other V - 1 words (Domhan 2018,
    section 4.1, whose code also excludes the reference).

    With `r_drop` = a > 0 the rows are two passes over the same N / 2 words, the second behind the first, and the loss of a word is
    (L_1 + L_2) / 2 + a / 4 (KL(p_1 || p_2) + KL(p_2 || p_1)), half of that of R-Drop (Wu et al. 2021, equation 4), so that a = 0 is
    the loss of one pass; the likelihood is the mean of both.

    The gradients are made together with the loss, a few rows at a time: with q the smoothed distribution and p the
    model's, dL/dlogits = p - q. The likelihood has no gradient. Rows that are not `counted` add nothing, as if they were not there.
    Log-probabilities and sums are float32 at least.
    """
    if objective.r_drop:
        z, target = _side_by_side(z), _side_by_side(target)
        counted = None if counted is None else _side_by_side(counted)
    chunk_bytes = chunk_bytes or (CHUNK_BYTES if z.device.type == "cpu" else CHUNK_BYTES_THERE)
    plan = chunk_bytes, torch.is_grad_enabled(), in_blocks(z)
    made = _OutputLoss.apply(z, weight, bias, target, counted, objective, *plan)  # type: ignore[no-untyped-call]  # torch's own
    return cast("tuple[Tensor, Tensor]", made)


def _side_by_side(rows: Tensor) -> Tensor:
    """The rows of both passes, those of a word next to each other."""
    return torch.stack(rows.chunk(2), 1).flatten(0, 1)


class _Sums:
    """Sums of losses and gradients over rows of logits."""

    def __init__(self, z: Tensor, bias: Tensor | None, objective: Objective, size: int, needs: bool):
        wide = accumulated(z.dtype)
        self.bias, (self.smoothing, self.r_drop), self.size, self.needs = bias, objective, size, needs
        self.share = self.smoothing / (size - 1) if self.smoothing else 0.0  # of each word but the reference
        self.nll, self.total, self.apart = (z.new_zeros((), dtype=wide) for _ in range(3))
        self.d_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)

    def loss(self) -> Tensor:
        """The summed loss; `total` is that of -log p over all words, `apart` that of the divergences of both passes."""
        loss = self.nll.clone()
        if self.share:
            loss = (1 - self.smoothing) * self.nll + self.share * (self.total - self.nll)
        return loss / 2 + self.r_drop / 4 * self.apart if self.r_drop else loss

    def likelihood(self) -> Tensor:
        """The summed negative log-likelihood."""
        return self.nll / 2 if self.r_drop else self.nll.clone()


class _KernelSums(_Sums):
    """By kernels of training, in place."""

    def __init__(self, kernels: TrainingKernels, z: Tensor, bias: Tensor | None, *plan: Any):
        super().__init__(z, None if bias is None else bias.float(), *plan)
        self._kernels = kernels

    def add(self, product: Tensor, target: Tensor, counted: Tensor | None) -> None:
        """Adds the losses of rows of z W^T; where gradients are needed, replaces the rows by dL/dlogits."""
        assert counted is None
        d_bias = self.d_bias if self.needs else None
        sums = self._kernels.loss(product, target, self.bias, self.smoothing, d_bias, self.needs, self.r_drop)
        self.nll += sums.nll
        self.total += sums.total
        self.apart += sums.apart


class _TiledSums(_Sums):
    """By torch, over tiles of a few rows, which stay in a cache where they are written in place: fresh memory costs more than the
    arithmetic on it.
    """

    def __init__(self, tile: int, z: Tensor, bias: Tensor | None, objective: Objective, size: int, needs: bool):
        super().__init__(z, bias, objective, size, needs)
        self._logits, self._p = (z.new_empty(tile, size, dtype=accumulated(z.dtype)) for _ in range(2))

    def add(self, product: Tensor, target: Tensor, counted: Tensor | None) -> None:
        """Adds the losses of rows of z W^T; where gradients are needed, replaces the rows by dL/dlogits."""
        tile = len(self._logits)
        for k in range(0, len(product), tile):
            rows = slice(k, k + tile)
            self._add(product[rows], target[rows, None], None if counted is None else counted[rows])

    def _add(self, product: Tensor, target: Tensor, counted: Tensor | None) -> None:
        logits, p = self._logits[: len(product)].copy_(product), self._p[: len(product)]
        if self.bias is not None:
            logits += self.bias
        torch.softmax(logits, 1, out=p)
        # The largest probability is at least 1 / V, so its logarithm is exact: log sum exp = max - log p_max.
        log_norm = logits.amax(1) - p.amax(1).log()
        self.nll += _sum(log_norm - logits.gather(1, target)[:, 0], counted)
        if self.share:
            self.total += _sum(self.size * log_norm - logits.sum(1), counted)
        pull = self._pull(logits.sub_(log_norm[:, None]), p, counted) if self.r_drop else None
        if not self.needs:
            return
        if self.share:
            p -= self.share
        p.scatter_add_(1, target, p.new_full((1, 1), self.smoothing + self.share - 1).expand_as(target))
        if pull is not None:
            p.add_(pull.flatten(0, 1), alpha=self.r_drop / 2).mul_(0.5)
        if counted is not None:
            p *= counted[:, None]
        if self.d_bias is not None:
            self.d_bias += p.sum(0)
        product.copy_(p)

    def _pull(self, logp: Tensor, p: Tensor, counted: Tensor | None) -> Tensor:
        """Adds the divergences of pairs of rows; returns their gradient by the logits of each.

        d KL(p || q) / d logits of p = p (log p - log q - KL(p || q)), of q: q - p.
        """
        one, other, further = p[::2], p[1::2], logp[::2] - logp[1::2]
        there, back = (one * further).sum(1), -(other * further).sum(1)
        self.apart += _sum(there + back, None if counted is None else counted[::2])
        nearer = one - other
        first = one * (further - there[:, None]) + nearer
        return torch.stack([first, other * (-further - back[:, None]) - nearer], 1)


def _sum(values: Tensor, counted: Tensor | None) -> Tensor:
    return (values if counted is None else values * counted).sum()


def _sums(
    z: Tensor, bias: Tensor | None, objective: Objective, size: int, rows: int, needs: bool, every: bool
) -> _KernelSums | _TiledSums:
    """Sums for blocks of so many rows of logits at most, `every` one of which counts or not."""
    with torch.enable_grad():
        kernels = training_kernels_for(z) if every else None
    if kernels is not None:
        return _KernelSums(kernels, z, bias, objective, size, needs)
    wide = accumulated(z.dtype)
    most = TILE_BYTES.get(z.device.type, wide.itemsize * size * rows)
    tile = min(rows, max(1, most // (wide.itemsize * size)))
    return _TiledSums(tile if not objective.r_drop else max(2, tile // 2 * 2), z, bias, objective, size, needs)


class _Layer:
    """The products of an output layer, by torch. `words`: the length of its rows of logits."""

    def __init__(self, weight: Tensor):
        self._weight, self.words = weight, len(weight)

    def logits(self, z: Tensor, into: Tensor) -> None:
        """z W^T."""
        matmul_into(z, self._weight.t(), into)

    def back(self, g: Tensor, into: Tensor) -> None:
        """g W."""
        matmul_into(g, self._weight, into)

    def gradient(self, g: Tensor, z: Tensor, total: Tensor | None) -> Tensor:
        """g^T z, added to `total`."""
        return gradient(g, z, total)


class _KernelLayer(_Layer):
    """By kernels, with a few more words, of zeros, where these are no multiple of what kernels multiply by."""

    def __init__(self, kernels: TrainingKernels, weight: Tensor):
        weight = F.pad(weight, (0, 0, 0, -len(weight) % DEEP))
        super().__init__(weight)
        self._kernels, self._packed = kernels, kernels.packed(weight)

    def logits(self, z: Tensor, into: Tensor) -> None:
        self._packed.times(z, None, into)

    def back(self, g: Tensor, into: Tensor) -> None:
        self._packed.gradient(g, into)

    def gradient(self, g: Tensor, z: Tensor, total: Tensor | None) -> Tensor:
        return self._kernels.weight_gradient(g, z, False, total)[0]


def _layer(weight: Tensor, z: Tensor, blocks: bool) -> _Layer:
    with torch.enable_grad():
        kernels = training_kernels_for(z) if blocks else None
    fits = kernels is not None and weight.dtype in kernels.products and not weight.shape[1] % DEEP
    return _KernelLayer(kernels, weight) if kernels is not None and fits else _Layer(weight)


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        counted: Tensor | None,
        objective: Objective,
        chunk_bytes: int,
        needs: bool,
        blocks: bool,
    ) -> tuple[Tensor, Tensor]:
        size, count, z = weight.shape[0], len(z), z.contiguous()
        if blocks:
            z = F.pad(z, (0, 0, 0, -count % GRAIN))
        rows = BLOCK if blocks else max(2, chunk_bytes // (z.element_size() * size) // 2 * 2)
        sums, layer = _sums(z, bias, objective, size, rows, needs, counted is None), _layer(weight, z, blocks)
        products = z.new_empty(min(rows, len(z)), layer.words)
        d_z = torch.empty_like(z) if needs else None
        d_weight = None if len(z) else torch.zeros_like(weight)
        for start in range(0, len(z), rows):
            part, words = z[start : start + rows], target[start : start + rows]
            real = None if counted is None else counted[start : start + rows]
            product = products[: len(part)]
            layer.logits(part, product)
            sums.add(product[: len(words), :size], words, real)
            if d_z is None:
                continue
            product[len(words) :] = 0
            layer.back(product, d_z[start : start + len(part)])
            d_weight = layer.gradient(product, part, d_weight)
        if d_z is not None and d_weight is not None:
            d_z, d_weight = d_z[:count], d_weight[:size]
        ctx.gradients = d_z, d_weight, sums.d_bias
        ctx.dtypes = weight.dtype, None if bias is None else bias.dtype
        nll = sums.likelihood()
        ctx.mark_non_differentiable(nll)
        return sums.loss(), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # handed over, so that others are added to them in place
        if d_loss.device.type != "cpu" or d_loss != 1:
            gradients = [None if g is None else g * d_loss.to(g.dtype) for g in gradients]
        d_z, d_weight, d_bias = gradients
        weight_type, bias_type = ctx.dtypes
        return (
            d_z,
            d_weight.to(weight_type),
            None if d_bias is None else d_bias.to(bias_type),
            *[None] * 6,
        )
