from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Body, Real, Setting, Word, arg
from calque.layers.contract import BodyArg, Context, Example, Layer, Parts, Site, parts_of, together
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.drop import drop
from calque.layers.gated import check_body
from calque.layers.state import Cell, Empty, State, States
from calque.native.program import Program, Value


class DropPath(Layer):
    """drop_path(l)(h) = z l(h): in training a sentence's z is 0 with probability p, at all of its positions, else 1 / (1 - p); l(h)
    otherwise.

    `res(drop_path(l))` is stochastic depth (Huang et al. 2016, section 3), which leaves l out of a residual sum. Differences: the
    paper draws once for a batch, here each sentence has its own z; it multiplies by 1 - p when it tests, here training divides.

    without=input   drop_path(l)(h) = h where l is left out, and l(h) itself where it is kept: LayerDrop (Fan et al. 2019,
                    section 3.2) of a whole block with its sum, such as `repeat(6, drop_path(tenc, without=input))`

    The computation of l is not saved: the sentences of a batch are computed together.
    """

    name = "drop_path"
    known_as = ("stochastic_depth", "DropPath", "layer_drop", "layerdrop", "drop_layer", "drop_block")
    examples = (
        Example("drop_path(linear)"),
        Example("res(drop_path(norm -> ff(6) -> linear, 0.5))"),
        Example("drop_path(rnn, 0.3, without=input)"),
    )

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(), doc="the chain that is left out of some sentences")
        p: float = arg(
            Real(0.0, 1.0, below=True),
            Setting("p"),
            "probability that a sentence does without",
            known_as=("drop", "rate", "prob", "probability", "dropout"),
        )
        without: str = arg(Word(choices=("zeros", "input")), "zeros", "what takes its place")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.p, self.to_input = args.p, args.without == "input"

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return check_body(cls.name, args.body, site.width) if args.without == "input" else args.body.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        return Cost(0, Products(), Held(), HERE if args.without == "input" else None)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        return self._left(x, self.part("body")(x, ctx), self._drawn(x.shape[0], x))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        z = self._drawn(batch, ctx.like)
        return States((Empty() if z is None else Cell((z,)), self.part("body").init_state(batch, capacity, ctx)))

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        drawn, inner = cast("States", state).parts
        y, inner = self.part("body").step(x, inner, ctx)
        return self._left(x, y, drawn.values[0] if isinstance(drawn, Cell) else None), States((drawn, inner))

    def _drawn(self, rows: int, like: Tensor) -> Float[Tensor, "B 1"] | None:
        """z of each row; None where every row keeps the body."""
        return drop(like.new_ones(rows, 1), self.p, True) if self.training and self.p else None

    def _left(self, x: Tensor, y: Tensor, z: Float[Tensor, "B 1"] | None) -> Tensor:
        """The output for the body's."""
        if z is None:
            return y
        return y.where(z[:, :, None] > 0, x) if self.to_input else y * z[:, :, None]

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        drawn, inner = parts_of(state, 2)
        y, after = self.part("body").program(p, x, inner)
        return y, together(state, (drawn, after))
