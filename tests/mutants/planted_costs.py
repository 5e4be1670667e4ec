"""Costs that are declared wrongly, added to the faults of `planted_sums`."""

from collections.abc import Callable
from typing import Any

from planted_sums import MUTANTS, Patch, mutant

from calque.layers.cnn import Convolution
from calque.layers.contract import Layer
from calque.layers.cost import HERE, Cost, Products
from calque.layers.feed import Feed
from calque.layers.hard_coded_source import HardCodedSourceAttention
from calque.layers.mlp_source_attention import MlpSourceAttention
from calque.layers.self_attention import SelfAttention

__all__ = ["MUTANTS"]


def changed(patch: Patch, layer: type[Layer], change: Callable[[Any], Cost]) -> None:
    real: Any = layer.cost.__func__  # type: ignore[attr-defined]
    patch.setattr(layer, "cost", classmethod(lambda cls, args, site: change(real(cls, args, site))))


@mutant("mh_dot_self_att", "cost")
def products_that_do_not_grow(patch: Patch) -> None:
    changed(patch, SelfAttention, lambda c: c._replace(products=c.products._replace(visible=0)))


@mutant("mlp_src_att", "cost")
def memory_made_anew_at_every_step(patch: Patch) -> None:
    def every_step(c: Any) -> Cost:
        p: Products = c.products
        return c._replace(products=p._replace(memory=0, source=p.source + p.memory))  # type: ignore[no-any-return]

    changed(patch, MlpSourceAttention, every_step)


@mutant("cnn", "cost")
def window_of_one_less(patch: Patch) -> None:
    changed(patch, Convolution, lambda c: c._replace(state=c.state._replace(row=max(0, c.state.row - 1))))


@mutant("cnn", "cost")
def convolution_that_sees_no_neighbour(patch: Patch) -> None:
    changed(patch, Convolution, lambda c: c._replace(reach=HERE))


@mutant("feed", "cost")
def feed_that_keeps_nothing(patch: Patch) -> None:
    changed(patch, Feed, lambda c: c._replace(state=c.state._replace(row=0)))


@mutant("hc_src_att", "cost")
def foreseen_once_a_step(patch: Patch) -> None:
    def every_step(c: Any) -> Cost:
        p: Products = c.products
        return c._replace(products=p._replace(ahead=0, position=p.ahead))  # type: ignore[no-any-return]

    changed(patch, HardCodedSourceAttention, every_step)


@mutant("hc_src_att", "cost")
def foreseen_by_source_position(patch: Patch) -> None:
    changed(
        patch, HardCodedSourceAttention, lambda c: c._replace(state=c.state._replace(ahead=0, memory=c.state.ahead))
    )
