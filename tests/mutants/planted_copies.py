"""Faults of layers that hold copies of a chain, or leave one out; added to the others."""

import torch
from planted_modern import MUTANTS, Patch, mutant
from torch import Tensor

from calque.adl.tree import Node
from calque.layers import build
from calque.layers.drop_path import DropPath
from calque.layers.moe import Mixture

__all__ = ["MUTANTS"]


@mutant("shared-copies", "shape")
def copies_with_weights_of_their_own(patch: Patch) -> None:
    patch.setattr(build, "_share", lambda copy, owner: None)


@mutant("shared-copies", "shape")
def shared_weights_counted_in_each_copy(patch: Patch) -> None:
    patch.setattr(Node, "parameters", property(lambda self: self.cost.parameters))


@mutant("moe", "batch")
def experts_with_a_capacity(patch: Patch) -> None:
    real = Mixture._weights

    def weights(self: Mixture, x: Tensor) -> Tensor:
        g = real(self, x)
        places = (g.flatten(0, 1) > 0).cumsum(0).view(g.shape)
        return torch.where(places <= x.shape[0] * x.shape[1] // 3, g, 0.0)

    patch.setattr(Mixture, "_weights", weights)


@mutant("moe", "equal")
def steps_that_weigh_the_chosen_experts_among_all(patch: Patch) -> None:
    real = Mixture.step

    def step(self: Mixture, x: Tensor, state: object, ctx: object) -> object:
        self.renorm, renorm = not self.renorm, self.renorm
        try:
            return real(self, x, state, ctx)  # type: ignore[arg-type]
        finally:
            self.renorm = renorm

    patch.setattr(Mixture, "step", step)


@mutant("drop_path", "train")
def a_body_left_out_while_evaluated(patch: Patch) -> None:
    patch.setattr(
        DropPath, "_drawn", lambda self, rows, like: torch.nn.functional.dropout(like.new_ones(rows, 1), self.p)
    )


@mutant("drop_path", "train")
def steps_without_the_scale_of_what_is_kept(patch: Patch) -> None:
    real = DropPath._left
    patch.setattr(
        DropPath,
        "_left",
        lambda self, x, y, z: real(self, x, y, z if z is None or x.shape[1] > 1 else z.sign()),
    )
