"""What layers share that combine outputs of one width, number by number."""

from dataclasses import dataclass

from calque.adl.signature import Body, arg
from calque.layers.contract import BodyArg, Fault, Merge, Site


class Elementwise(Merge):
    """A function of the bodies' outputs, all n wide, for each number apart; n wide itself."""

    @dataclass(frozen=True)
    class Args:
        bodies: tuple[BodyArg, ...] = arg(Body(many=True), doc="two or more chains of the same width out")

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        widths = [b.width for b in args.bodies]
        if len(set(widths)) > 1:
            raise Fault("C201", layer=cls.name, widths=widths)
        return widths[0]
