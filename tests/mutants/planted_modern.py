"""Faults planted in the layers of today, added to the others."""

from functools import cached_property

import torch
from planted_local import MUTANTS, Patch, mutant
from torch import Tensor

from calque.layers import linear_attention, matrix_scan, self_attention
from calque.layers.contract import Context
from calque.layers.history import Chunk
from calque.layers.light_cnn import LightConvolution
from calque.layers.linear_attention import LinearAttention
from calque.layers.rms_norm import RootMeanSquareNorm
from calque.layers.rnn import Recurrent
from calque.layers.rotary import Rotation
from calque.layers.sliding import outside
from calque.layers.state import Cell, Scan

__all__ = ["MUTANTS"]


@mutant("mh_dot_self_att", "equal")
def every_step_turned_as_the_first(patch: Patch) -> None:
    patch.setattr(Rotation, "_rows", lambda self, x, chunk: self._upto(x.shape[1], x)[: x.shape[1]])


@mutant("mh_dot_self_att", "idle")
def all_rows_turned_as_the_first(patch: Patch) -> None:
    real = Rotation._rows

    def rows(self: Rotation, x: Tensor, chunk: Chunk | None) -> Tensor:
        table = real(self, x, chunk)
        return table[:1] if table.dim() == 4 else table

    patch.setattr(Rotation, "_rows", rows)


@mutant("mh_dot_self_att", "equal")
def distances_the_other_way_in_steps(patch: Patch) -> None:
    real = Chunk.distance.func
    changed = cached_property(lambda self: -real(self))
    changed.__set_name__(Chunk, "distance")
    patch.setattr(Chunk, "distance", changed)


@mutant("mh_dot_self_att", "padding")
def padding_inside_a_sliding_window(patch: Patch) -> None:
    patch.setattr(self_attention, "outside", lambda real, length: outside(torch.ones_like(real), length))


@mutant("mh_dot_self_att", "record")
def weights_of_a_window_one_place_off(patch: Patch) -> None:
    real = self_attention.among_all
    patch.setattr(
        self_attention,
        "among_all",
        lambda weights, positions, before, total: real(weights, positions + (len(positions) > 1), before, total),
    )


@mutant("rms_norm", "shape")
def a_gain_that_was_not_declared(patch: Patch) -> None:
    real = RootMeanSquareNorm.__init__

    def init(self: RootMeanSquareNorm, args: object, site: object, parts: object) -> None:
        real(self, args, site, parts)
        self.gain = self.gain if self.gain is not None else torch.nn.Parameter(torch.ones(site.width))  # type: ignore[attr-defined]

    patch.setattr(RootMeanSquareNorm, "__init__", init)


@mutant("linear_att", "equal")
def a_chunk_that_forgets_what_was_before(patch: Patch) -> None:
    real = linear_attention.one_position
    patch.setattr(linear_attention, "one_position", lambda drive, s: real(drive, torch.zeros_like(s)))


@mutant("linear_att", "idle")
def a_matrix_that_takes_idle_inputs(patch: Patch) -> None:
    real = Scan.write
    patch.setattr(Scan, "write", lambda self, h, mask: real(self, h, None))


@mutant("linear_att", "causal")
def scores_of_later_positions(patch: Patch) -> None:
    patch.setattr(matrix_scan, "CHUNK", 64)
    patch.setattr(Tensor, "triu", lambda self, diagonal=0: torch.zeros_like(self))


@mutant("linear_att", "cost")
def products_of_the_loop_alone(patch: Patch) -> None:
    real = LinearAttention.cost.__func__  # type: ignore[attr-defined]
    patch.setattr(
        LinearAttention, "cost", classmethod(lambda cls, args, site: real(cls, args, site)._replace(whole=None))
    )


@mutant("light_cnn", "padding")
def padding_under_a_light_filter(patch: Patch) -> None:
    real = LightConvolution.forward
    patch.setattr(LightConvolution, "forward", lambda self, x, ctx: real(self, x, ctx._replace(mask=None)))


@mutant("rnn", "train")
def a_state_that_loses_numbers_while_evaluated(patch: Patch) -> None:
    real = Recurrent._pushed

    def pushed(self: Recurrent, before: tuple[Tensor, ...]) -> Tensor:
        return real(self, (torch.nn.functional.dropout(before[0], self.dropout), *before[1:]))

    patch.setattr(Recurrent, "_pushed", pushed)


@mutant("rnn", "equal")
def a_cell_normalised_in_steps_alone(patch: Patch) -> None:
    real = Recurrent.step

    def step(self: Recurrent, x: Tensor, state: Cell, ctx: Context) -> object:
        self.norm, norm = False, self.norm
        try:
            return real(self, x, state, ctx)
        finally:
            self.norm = norm

    patch.setattr(Recurrent, "step", step)
