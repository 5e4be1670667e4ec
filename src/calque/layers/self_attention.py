from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Flag, Int, Real, Setting, arg
from calque.layers.contract import DECODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import BEFORE, EVERYWHERE, Cost, Held, Products
from calque.layers.dot import attend, compare, head_scale, join, normalised, split
from calque.layers.drop import drop
from calque.layers.history import KeysValues
from calque.layers.linears import scaled, stacked
from calque.layers.projections import Projection, in_blocks, linear_of_all
from calque.layers.state import State


class SelfAttention(Layer):
    """mh_dot_self_att(H) = [C_1; ...; C_h] W_o, C_i = softmax(H W_q,i (H W_k,i)^T / sqrt(s)) H W_v,i (Domhan 2018, section 2.3).

    In the decoder a position sees itself and those before it. Differences from the paper, each an argument: it names `s = d`,
    while practice and its own code take the width of a head (`s = none`); the output projection W_o is absent from its formula
    and present in its code. `dropout` drops attention weights, which the paper does not mention.
    """

    name = "mh_dot_self_att"
    known_as = (
        "self_attention",
        "self_att",
        "mh_self_att",
        "multi_head",
        "MultiheadAttention(width, heads)",
        "multi_head_attention",
        "multi_head_self_attention",
        "mha",
        "attention",
        "att",
        "dot_self_att -> heads=1",
    )
    joint = ("q", "k", "v")
    examples = (
        Example("mh_dot_self_att(heads=2)"),
        Example("mh_dot_self_att(heads=1, width=6, s=1, out=no, bias=yes)"),
    )

    @dataclass(frozen=True)
    class Args:
        heads: int = arg(Int(1, 1024), Setting("heads"), "number of heads; divides `width`")
        width: int = arg(Int(), Setting("d"), "width of queries, keys and values of all heads together, and out")
        s: int | None = arg(
            Int(optional=True), None, "scores are divided by sqrt(s); none: by the root of a head's width"
        )
        out: bool = arg(Flag(), True, "project the contexts with W_o")
        bias: bool = arg(Flag(), False, "biases of all projections")
        dropout: float = arg(Real(0.0, 1.0, below=True), 0.0, "probability of a zero among the weights")

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.q = Projection(site.width, args.width, bias=args.bias)
        self.k = Projection(site.width, args.width, bias=args.bias)
        self.v = Projection(site.width, args.width, bias=args.bias)
        self.out = Projection(args.width, args.width, bias=args.bias) if args.out else nn.Identity()
        self.qkv: nn.Module | None = None
        self.heads, self.width, self.dropout = args.heads, args.width, args.dropout
        self.scale = head_scale(args.s, args.width // args.heads)
        self.causal = site.side == DECODER

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.width % args.heads:
            raise Fault("C205", "heads", heads=args.heads, width=args.width)
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        products = args.width * (3 * site.width + args.out * args.width)
        return Cost(
            products + args.width * args.bias * (3 + args.out),
            Products(products, visible=2 * args.width),
            Held(place=2 * args.width),
            BEFORE if site.side == DECODER else EVERYWHERE,
        )

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        q, k, v = (split(y, self.heads) for y in self._project(x))
        blocked: Tensor | None
        if self.causal:  # padding stands behind every real query, so causality hides it
            blocked = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        else:
            blocked = None if ctx.mask is None else ~ctx.mask[:, None, None]
        contexts, weights = attend(q, k.transpose(2, 3), v, blocked, self.scale, self.dropout if self.training else 0.0)
        if ctx.record is not None:
            ctx.record(self.path, weights)
        return cast("Tensor", self.out(join(contexts)))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return KeysValues.new(batch, ctx.beams, self.heads, capacity, self.width // self.heads, ctx.like)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        rows, n, _ = x.shape
        chunk = ctx.now
        q, k, v = self._project(x)
        before = cast("KeysValues", state)
        if ctx.record is None and (kernels := chunk.kernels(x)) is not None:
            new = k[:, 0], v[:, 0]
            contexts = kernels.attend(q[:, 0], *before, chunk.visible, 1 / self.scale, new, chunk.history.origin)
            return cast("Tensor", self.out(contexts[:, None])), before
        after = before.write(k, v, chunk)
        # The hypotheses of a sentence are queries of one memory, each of which looks at its own past alone.
        queries = split(q.reshape(rows // chunk.beams, chunk.beams * n, -1), self.heads)
        keys, values = after.visible(chunk)
        weights = normalised(chunk.own(compare(queries, keys, self.scale)), chunk.blocked).to(values.dtype)
        used = drop(weights, self.dropout, self.training)
        contexts = torch.matmul(chunk.spread(used), values)
        if ctx.record is not None:
            ctx.record(self.path, chunk.by_row(weights))
        return cast("Tensor", self.out(join(contexts).reshape(rows, n, -1))), after

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.qkv is not None:
            q, k, v = self.qkv(x).chunk(3, -1)
            return q, k, v
        if in_blocks(x):
            q, k, v = linear_of_all(x, self.q, self.k, self.v)
            return q, k, v
        return self.q(x), self.k(x), self.v(x)

    def fuse(self, exact: bool) -> None:
        self.qkv = stacked(scaled(self.q, 1 / self.scale), self.k, self.v)
        self.scale = 1.0
        del self.q, self.k, self.v
