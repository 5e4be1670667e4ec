"""What layers share that are a scan h_t = a_t h_{t-1} + b_t whose factors and terms follow from the input at t alone."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Int, Setting, arg
from calque.layers.contract import Context, Layer, Parts, Site
from calque.layers.cost import BEFORE, Cost, Held, Products
from calque.layers.scan import scan
from calque.layers.state import Scan, State


class GatedScan(Layer):
    """From left to right; h_0 is zero, and h is float32 in every precision. It writes `drive`."""

    matrices: ClassVar[int] = 2
    """Maps of the input to `width`, with a bias each, but for the `unbiased` ones."""
    unbiased: ClassVar[int] = 0

    @dataclass(frozen=True)
    class Args:
        width: int = arg(Int(), Setting("d"), "width of the state, and out")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.width = args.width

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(
            args.width * (cls.matrices * (site.width + 1) - cls.unbiased),
            Products(cls.matrices * args.width * site.width),
            Held(exact=args.width),
            BEFORE._replace(sequential="log n", path="n"),
        )

    @abstractmethod
    def drive(self, x: Float[Tensor, "B n D"]) -> tuple[Float[Tensor, "B n E"], Float[Tensor, "B n E"]]:
        """a and b at every position, in the type of sums. A gate rounded to one in bfloat16 would never forget."""

    def read(self, h: Float[Tensor, "B n E"], x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n E"]:
        """The output at every position; the state itself unless a layer says otherwise."""
        return h

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        a, b = self.drive(x)
        return self.read(scan(b, a), x).to(x.dtype)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Scan.new(batch, ctx.like, self.width)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        before = cast("Scan", state)
        a, b = self.drive(x)
        h = scan(b, a, before.h)
        return self.read(h, x).to(x.dtype), before.write(h, ctx.mask)
