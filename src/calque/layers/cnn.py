from dataclasses import dataclass
from typing import cast

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Int, Setting, Word, arg
from calque.layers.activations import ACTIVATIONS
from calque.layers.contract import DECODER, ENCODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import Cost, Held, Products, Reach
from calque.layers.linears import linear_of
from calque.layers.projections import linear, matrix_of
from calque.layers.sliding import neighbours
from calque.layers.state import State, Window
from calque.native.program import Program, Value


class Convolution(Layer):
    """cnn(H, v, k)_t = v(W [h_{t - floor(k/2)}; ...; h_{t + floor(k/2)}] + b) in the encoder,
    v(W [h_{t-k+1}; ...; h_t] + b) in the decoder (Domhan 2018, section 2.3).

    Zeros stand outside the sentence, padding included. `glu` computes twice the width and halves it. With a dilation D the
    inputs are D apart, so the field is (k-1) D + 1 positions.
    """

    name = "cnn"
    known_as = ("conv", "Conv1d(_, width, kernel) -> v=id", "convolution")
    examples = (
        Example("cnn"),
        Example("cnn(glu)"),
        Example("cnn(tanh, kernel=5, width=6)"),
        Example("cnn(id, kernel=3, dilation=2)"),
        Example("cnn(relu, kernel=4)", (DECODER,)),
        Example("cnn(relu, kernel=1)"),
    )

    @dataclass(frozen=True)
    class Args:
        v: str = arg(
            Word(choices=("relu", "glu", "tanh", "id")),
            "relu",
            "the non-linearity",
            known_as=("activation", "act_type"),
        )
        kernel: int = arg(Int(1, 1023), 3, "inputs under the filter; odd in the encoder")
        width: int = arg(Int(), Setting("d"), "width out")
        dilation: int = arg(Int(1, 1024), 1, "positions between two inputs", known_as=("dilate", "dilation_rate"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        out = args.width * (2 if args.v == "glu" else 1)
        # Conv1d only holds the weights: [out, d_in, kernel]; the products run channels last.
        self.conv = nn.Conv1d(site.width, out, args.kernel, dilation=args.dilation)
        self.product: nn.Module | None = None
        self.v, self.function, self.width_in = args.v, ACTIVATIONS[args.v], site.width
        self.kernel, self.dilation, self.field = args.kernel, args.dilation, (args.kernel - 1) * args.dilation
        self.causal = site.side == DECODER

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if site.side == ENCODER and args.kernel % 2 == 0:
            raise Fault("C305", "kernel", kernel=args.kernel)
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        out, seen = args.width * (2 if args.v == "glu" else 1), site.width * args.kernel
        field = (args.kernel - 1) * args.dilation
        reach = Reach(-field, 0) if site.side == DECODER else Reach(-(field // 2), field - field // 2)
        return Cost(out * (seen + 1), Products(out * seen), Held(row=field * site.width), reach)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        if ctx.mask is not None:
            x = x * ctx.mask[:, :, None].to(x.dtype)
        before = self.field if self.causal else self.field // 2
        return self._convolve(F.pad(x, (0, 0, before, self.field - before)), x.shape[1])

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Window.new(batch, self.field, ctx.like, self.width_in)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        seen, after = cast("Window", state).write(x, ctx.mask)
        return self._convolve(seen, x.shape[1]), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if state is None:
            before = self.field // 2
            seen = p.neighbours(x, before, self.field - before, self.dilation)
            return p.act(p.linear(seen, self.product), self.v), None
        seen, after = p.window(x, cast("Window", state).last, self.field, self.dilation)
        return p.act(p.linear(seen, self.product), self.v), Window(cast("Tensor", after))

    def _convolve(self, seen: Float[Tensor, "B W D"], n: int) -> Float[Tensor, "B T E"]:
        if self.product is not None and n == 1:
            return self.function(self.product(seen[:, :: self.dilation].reshape(len(seen), 1, -1)))
        windows = neighbours(seen, self.kernel, self.dilation)
        if self.product is not None:
            return self.function(self.product(windows))
        return self.function(linear(windows, matrix_of(self.conv.weight, self._matrix), self.conv.bias))

    def _matrix(self) -> Float[Tensor, "E K"]:
        """The weights with the columns of an input side by side, as `neighbours` has them."""
        return self.conv.weight.transpose(1, 2).flatten(1)

    def fuse(self, exact: bool) -> None:
        self.product = linear_of(self._matrix(), self.conv.bias)
        del self.conv
