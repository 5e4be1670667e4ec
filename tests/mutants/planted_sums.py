"""Faults planted in scans, fixed weights on the sentence itself and on its source, and lengths, added to those of `planted`."""

from collections.abc import Callable
from typing import Any

import torch
from planted import MUTANTS, Patch, mutant
from torch import Tensor
from torch.nn import functional as F

from calque.layers import average, hard_coded, scan
from calque.layers.average import Average
from calque.layers.banded import banded
from calque.layers.contract import Context
from calque.layers.hard_coded import HardCodedSelfAttention
from calque.layers.hard_coded_source import HardCodedSourceAttention
from calque.layers.history import Chunk
from calque.layers.learn_length import LearnedLength
from calque.layers.pool import Pool
from calque.layers.ssru import SimplestRecurrent
from calque.layers.state import Cell, Foreseen, Scan, State, Window

__all__ = ["MUTANTS"]

# -- scans


@mutant("average", "equal")
def sum_not_advanced(patch: Patch) -> None:
    patch.setattr(Scan, "write", lambda self, h, mask: self)


@mutant("average", "equal")
def sum_advanced_once_a_chunk(patch: Patch) -> None:
    patch.setattr(Scan, "write", lambda self, h, mask: Scan(h[:, 0]))


@mutant("average", "equal")
def divisor_off_by_one(patch: Patch) -> None:
    def step(self: Average, x: Tensor, state: Scan, ctx: Context) -> Any:
        sums = scan.scan(x, start=state.h)
        return sums / ctx.now.positions[:, :, None].clamp(min=1), state.write(sums, ctx.mask)

    patch.setattr(Average, "step", step)


@mutant("average", "equal")
def running_sum_in_bfloat16(patch: Patch) -> None:
    real = Scan.write
    patch.setattr(Scan, "write", lambda self, h, mask: Scan(real(self, h, mask).h.bfloat16().to(h.dtype)))


@mutant("ssru", "equal")
def one_factor_too_late_in_the_gradient(patch: Patch) -> None:
    patch.setattr(Tensor, "roll", lambda self, *given: self)


@mutant("ssru", "equal")
def gradient_of_the_factors_forgotten(patch: Patch) -> None:
    real = scan.scan
    patch.setattr(
        "calque.layers.gated_scan.scan", lambda b, a=None, start=None: real(b, a if a is None else a.detach(), start)
    )


@mutant("ssru", "equal")
def start_of_a_chunk_not_decayed(patch: Patch) -> None:
    real = scan.scan

    def begun(b: Tensor, a: Tensor | None = None, start: Tensor | None = None) -> Tensor:
        if start is not None:
            b = torch.cat([(b[:, 0] + start)[:, None], b[:, 1:]], 1)
        return real(b, a)

    patch.setattr("calque.layers.gated_scan.scan", begun)


@mutant("ssru", "equal")
def output_kept_instead_of_the_state(patch: Patch) -> None:
    real = Scan.write
    patch.setattr(Scan, "write", lambda self, h, mask: real(self, h.relu(), mask))


@mutant("average", "reorder")
def sum_not_selected(patch: Patch) -> None:
    patch.setattr(Scan, "select", lambda self, rows: Scan(self.h[: len(rows)]))


@mutant("ssru", "idle")
def scan_takes_idle_inputs(patch: Patch) -> None:
    real = Scan.write
    patch.setattr(Scan, "write", lambda self, h, mask: real(self, h, None))


@mutant("ssru", "idle")
def scan_never_stands_still(patch: Patch) -> None:
    real = Scan.write
    patch.setattr(
        Scan,
        "write",
        lambda self, h, mask: real(self, h, mask if mask is None else F.pad(mask[:, 1:], (1, 0), value=True)),
    )


@mutant("average", "state")
def sum_not_counted(patch: Patch) -> None:
    patch.setattr(Scan, "bytes", lambda self: 0)


@mutant("average", "causal")
def average_over_the_sentence(patch: Patch) -> None:
    patch.setattr(average, "scan", lambda b, a=None, start=None: b.sum(1, keepdim=True).expand_as(b))


# -- windows with fixed weights


@mutant("pool", "padding")
def mean_over_padding(patch: Patch) -> None:
    real = Pool.forward
    patch.setattr(Pool, "forward", lambda self, x, ctx: real(self, x, ctx._replace(mask=None)))


@mutant("pool", "equal")
def divided_by_the_inputs_there_are(patch: Patch) -> None:
    real = Pool.forward

    def forward(self: Pool, x: Tensor, ctx: Context) -> Tensor:
        there = real(self, torch.ones_like(x), ctx)
        return real(self, x, ctx) / there.clamp(min=1e-3)  # not in steps, where zeros stand before the first

    patch.setattr(Pool, "forward", forward)


@mutant("pool", "causal")
def decoder_pools_around_its_position(patch: Patch) -> None:
    real = Pool.__init__

    def init(self: Pool, args: Any, site: Any, parts: Any) -> None:
        real(self, args, site, parts)
        self.causal = False

    patch.setattr(Pool, "__init__", init)


@mutant("hc_self_att", "equal")
def window_one_too_short(patch: Patch) -> None:
    def init_state(self: HardCodedSelfAttention, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, max(0, self.before - 1), ctx.like, self.values)

    def step(self: HardCodedSelfAttention, x: Tensor, state: Window, ctx: Context) -> Any:
        seen, after = state.write(self.v(x), ctx.mask)
        return self.out(banded(seen, self.table[min(1, self.before) :])), after

    patch.setattr(HardCodedSelfAttention, "init_state", init_state)
    patch.setattr(HardCodedSelfAttention, "step", step)


@mutant("hc_self_att", "equal")
def renormalised_in_steps(patch: Patch) -> None:
    real = HardCodedSelfAttention._attend

    def attend(self: HardCodedSelfAttention, seen: Tensor) -> Tensor:
        y = real(self, seen)
        return y / self.table.sum(0)[0].clamp(min=0.1) if y.shape[1] == 1 else y

    patch.setattr(HardCodedSelfAttention, "_attend", attend)


@mutant("hc_self_att", "causal")
def decoder_sees_what_the_encoder_sees(patch: Patch) -> None:
    real = HardCodedSelfAttention._attend
    patch.setattr(HardCodedSelfAttention, "_attend", lambda self, seen: real(self, seen.roll(-1, 1)))


@mutant("hc_self_att", "padding")
def weights_on_padding(patch: Patch) -> None:
    real = HardCodedSelfAttention.forward
    patch.setattr(HardCodedSelfAttention, "forward", lambda self, x, ctx: real(self, x, ctx._replace(mask=None)))


@mutant("hc_self_att", "reorder")
def values_of_another_hypothesis(patch: Patch) -> None:
    patch.setattr(Window, "select", lambda self, rows: Window(self.last[: len(rows)]))


@mutant("hc_self_att", "equal")
def gradient_of_the_band_turned_round(patch: Patch) -> None:
    real = hard_coded.banded

    def turned(seen: Tensor, weights: Tensor) -> Tensor:
        y = real(seen.detach(), weights)
        through = real(seen, weights.flip(0))
        return y + through - through.detach()

    patch.setattr(hard_coded, "banded", lambda s, w: turned(s, w) if s.shape[1] > len(w) else real(s, w))


@mutant("hc_self_att", "shape")
def cost_forgets_the_output(patch: Patch) -> None:
    real = HardCodedSelfAttention.cost.__func__
    patch.setattr(
        HardCodedSelfAttention,
        "cost",
        classmethod(lambda cls, args, site: real(cls, type(args)(**{**vars(args), "out": False}), site)),
    )


@mutant("ssru", "batch")
def state_of_the_mean_row(patch: Patch) -> None:
    real = SimplestRecurrent.step

    def step(self: SimplestRecurrent, x: Tensor, state: Scan, ctx: Context) -> Any:
        return real(self, x, Scan(state.h + 1e-12 * state.h.mean(0)), ctx)

    patch.setattr(SimplestRecurrent, "step", step)


# -- lengths


@mutant("learn_length", "padding")
def length_of_the_longest_sentence(patch: Patch) -> None:
    real = LearnedLength._row

    def row(self: LearnedLength, ctx: Context) -> Tensor:
        return real(self, ctx._replace(sources={"end": ctx.sources["end"]._replace(mask=None)}))

    patch.setattr(LearnedLength, "_row", row)


@mutant("learn_length", "equal")
def lengths_in_the_order_of_beams(patch: Patch) -> None:
    def init_state(self: LearnedLength, batch: int, capacity: int, ctx: Context) -> State:
        return Cell((self._row(ctx).repeat(ctx.beams, 1),))

    patch.setattr(LearnedLength, "init_state", init_state)


# -- what is foreseen of a sentence


def foreseen_otherwise(patch: Patch, change: Callable[[Tensor], Tensor]) -> None:
    """In steps alone."""
    real = HardCodedSourceAttention.init_state

    def init_state(self: HardCodedSourceAttention, batch: int, capacity: int, ctx: Context) -> State:
        return Foreseen(change(real(self, batch, capacity, ctx).values))

    patch.setattr(HardCodedSourceAttention, "init_state", init_state)


@mutant("hc_src_att", "equal")
def centre_one_behind_in_steps(patch: Patch) -> None:
    foreseen_otherwise(patch, lambda t: t.roll(1, 1))


@mutant("hc_src_att", "equal")
def gamma_turned_round_in_steps(patch: Patch) -> None:
    real = HardCodedSourceAttention.init_state

    def init_state(self: HardCodedSourceAttention, batch: int, capacity: int, ctx: Context) -> State:
        held, self.gamma = self.gamma, 1 / self.gamma
        found = real(self, batch, capacity, ctx)
        self.gamma = held
        return found

    patch.setattr(HardCodedSourceAttention, "init_state", init_state)


@mutant("hc_src_att", "equal")
def foreseen_without_gradient(patch: Patch) -> None:
    foreseen_otherwise(patch, Tensor.detach)


@mutant("hc_src_att", "equal")
def sentences_of_the_first_rows(patch: Patch) -> None:
    real = HardCodedSourceAttention.step
    patch.setattr(
        HardCodedSourceAttention,
        "step",
        lambda self, x, state, ctx: real(self, x, Foreseen(state.values[:1].expand_as(state.values)), ctx),
    )


@mutant("hc_src_att", "idle")
def idle_rows_read_on(patch: Patch) -> None:
    real = HardCodedSourceAttention.step

    def step(self: HardCodedSourceAttention, x: Tensor, state: Foreseen, ctx: Context) -> Any:
        chunk = ctx.now
        most = chunk.history._replace(positions=chunk.history.positions.max().expand_as(chunk.history.positions))
        return real(self, x, state, ctx._replace(chunk=Chunk(most, chunk.n, chunk.mask, chunk.visible)))

    patch.setattr(HardCodedSourceAttention, "step", step)


@mutant("hc_src_att", "padding")
def source_padding_weighs(patch: Patch) -> None:
    real = HardCodedSourceAttention._foresee

    def foresee(self: HardCodedSourceAttention, places: int, ctx: Context) -> Tensor:
        points = {key: point._replace(mask=None) for key, point in ctx.sources.items()}
        return real(self, places, ctx._replace(sources=points))

    patch.setattr(HardCodedSourceAttention, "_foresee", foresee)


@mutant("hc_src_att", "padding")
def clamped_to_the_longest_sentence(patch: Patch) -> None:
    real = HardCodedSourceAttention._weights
    patch.setattr(
        HardCodedSourceAttention, "_weights", lambda self, c, s, lengths, device: real(self, c, s, None, device)
    )


@mutant("hc_src_att", "reorder")
def foreseen_kept_of_other_sentences(patch: Patch) -> None:
    patch.setattr(Foreseen, "keep", lambda self, rows, sentences: Foreseen(self.values[: len(sentences)]))


@mutant("hc_src_att", "reorder")
def foreseen_selected_by_rows(patch: Patch) -> None:
    patch.setattr(
        Foreseen, "select", lambda self, rows: Foreseen(self.values[rows[: len(self.values)] % len(self.values)])
    )


@mutant("hc_src_att", "state")
def foreseen_not_counted(patch: Patch) -> None:
    patch.setattr(Foreseen, "bytes", lambda self: 0)
