"""What layers share that weigh their input against a body's output with gates."""

from dataclasses import dataclass
from typing import ClassVar

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Fault, Merge, Site
from calque.layers.cost import HERE, Cost, Products


def check_body(layer: str, body: BodyArg, width: int) -> int:
    """`width`, which the body must return. Raises `Fault` C202 where it returns another."""
    if body.width != width:
        raise Fault("C202", layer=layer, expected=width, found=body.width)
    return width


class Gated(Merge):
    """A function of its input h and its body's output l(h), both d wide, and of sigmoid(W x + b), W: [k d, k d], k = `count`."""

    count: ClassVar[int]
    """How many gates there are for each number."""

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain whose output is gated with the input")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return check_body(cls.name, args.body, site.width)

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        size = cls.count * site.width
        return Cost(size * (size + 1), Products(size * size), reach=HERE)
