"""Faults planted in windows over the source, added to the others."""

from typing import Any

import torch
from planted_costs import MUTANTS, Patch, changed, mutant
from torch import Tensor
from torch.nn import functional as F

from calque.layers import source
from calque.layers.contract import Context
from calque.layers.dot_source_attention import DotSourceAttention
from calque.layers.local import Local, Near
from calque.layers.location_source_attention import LocationSourceAttention
from calque.layers.source import SourceAttention

__all__ = ["MUTANTS"]


@mutant("mh_dot_src_att", "equal")
def centre_one_further_in_steps(patch: Patch) -> None:
    real = source._places
    patch.setattr(source, "_places", lambda x, ctx: real(x, ctx) + (ctx.chunk is not None))


@mutant("mlp_src_att", "equal")
def centre_of_the_first_input_of_a_chunk(patch: Patch) -> None:
    real = source._places
    patch.setattr(source, "_places", lambda x, ctx: real(x, ctx)[:, :1].expand(-1, ctx.beams * x.shape[1]))


@mutant("location_src_att", "equal")
def centres_of_the_beams_in_another_order(patch: Patch) -> None:
    def places(x: Tensor, ctx: Context) -> Tensor:
        if ctx.chunk is None:
            return torch.arange(x.shape[1])[None]
        return ctx.chunk.positions.view(-1, ctx.beams, x.shape[1]).transpose(1, 2).flatten(1)

    patch.setattr(source, "_places", places)


@mutant("mh_dot_src_att", "idle")
def centre_of_the_first_row(patch: Patch) -> None:
    real = source._places
    patch.setattr(source, "_places", lambda x, ctx: real(x, ctx)[:1])


@mutant("mlp_src_att", "padding")
def words_counted_with_the_padding(patch: Patch) -> None:
    real = Local.forward

    def forward(self: Local, x: Tensor, places: Tensor, length: int, blocked: Tensor | None) -> Near:
        near = real(self, x, places, length, None)
        return near if blocked is None else near._replace(outside=near.outside | blocked[:, None, None])

    patch.setattr(Local, "forward", forward)


@mutant("mh_dot_src_att", "padding")
def padding_inside_the_window(patch: Patch) -> None:
    def weights(self: Near, scores: Tensor) -> Tensor:
        at = torch.softmax(scores.masked_fill(self.offset.abs() > 2, -1e9), -1)
        return at if self.share is None else at * self.share

    patch.setattr(Near, "weights", weights)


@mutant("mlp_src_att", "equal")
def gaussian_renormalised_in_steps(patch: Patch) -> None:
    real = Local.forward

    def forward(self: Local, x: Tensor, *given: Any) -> Near:
        near = real(self, x, *given)
        return near._replace(renorm=True) if x.shape[1] == 1 else near

    patch.setattr(Local, "forward", forward)


@mutant("mh_dot_src_att", "equal")
def weights_of_the_window_left_without_gradient(patch: Patch) -> None:
    real = SourceAttention.read

    def read(self: SourceAttention, x: Tensor, memory: Any, ctx: Context) -> Tensor:
        return real(self, x.detach() if ctx.chunk is None and self.local is not None else x, memory, ctx)

    patch.setattr(SourceAttention, "read", read)


@mutant("location_src_att", "padding")
def mass_on_missing_slots_given_to_the_padding(patch: Patch) -> None:
    real = LocationSourceAttention.look

    def look(self: LocationSourceAttention, x: Tensor, memory: Any, near: Near | None) -> Any:
        if near is not None or self.renorm:
            return real(self, x, memory, near)
        length = memory.values.shape[1]
        weights = F.pad(self.score(x).softmax(-1), (0, length - self.score.out_features))[:, None]
        return torch.matmul(weights[:, 0], memory.values), weights

    patch.setattr(LocationSourceAttention, "look", look)


@mutant("mh_dot_src_att", "shape")
def parameters_of_the_centre_forgotten(patch: Patch) -> None:
    patch.setattr("calque.layers.local.WindowArgs.window_products", lambda args, width, heads=1: 0)


@mutant("location_src_att", "cost")
def location_that_compares(patch: Patch) -> None:
    changed(
        patch,
        LocationSourceAttention,
        lambda c: c._replace(products=c.products._replace(source=2 * c.products.source)),
    )


@mutant("mh_dot_src_att", "train")
def window_only_in_evaluation(patch: Patch) -> None:
    real = DotSourceAttention.look

    def look(self: DotSourceAttention, x: Tensor, memory: Any, near: Near | None) -> Any:
        return real(self, x, memory, None if self.training and x.shape[1] > 1 else near)

    patch.setattr(DotSourceAttention, "look", look)
