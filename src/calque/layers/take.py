from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Int, arg
from calque.layers.contract import Context, Example, Fault, Parts, Site, Stateless
from calque.layers.state import State
from calque.native.program import Program, Value


class Take(Stateless):
    """take(h, start, width) = h[start : start + width], [d] -> [width]: a slice of the hidden state. No paper names it."""

    name = "take"
    known_as = ("slice", "narrow")
    examples = (Example("take(0, 4)"), Example("take(3, 2)"))

    @dataclass(frozen=True)
    class Args:
        start: int = arg(Int(low=0), doc="the first number taken, from 0")
        width: int = arg(Int(), doc="how many numbers")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.slice = slice(args.start, args.start + args.width)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.start + args.width > site.width:
            raise Fault("C204", start=args.start, end=args.start + args.width, width=site.width)
        return args.width

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return x[..., self.slice]

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        return x.part(self.slice.start, self.slice.stop - self.slice.start), state
