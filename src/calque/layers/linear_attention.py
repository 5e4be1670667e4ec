import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Flag, Int, Real, Setting, Word, arg
from calque.layers.contract import DECODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import BEFORE, Cost, Held, Products
from calque.layers.dot import join, split
from calque.layers.history import Chunk
from calque.layers.linears import stacked
from calque.layers.matrix_scan import Driven, chunked, one_position
from calque.layers.projections import Projection
from calque.layers.rotary import Rotation
from calque.layers.state import Scan, State, accumulated
from calque.layers.stepping import at_each_position
from calque.native.program import NoProgram, Program, Value

TINY = 1e-30
"""The least sum of weights that outputs are divided by: one of zero can only come from padding, or from rounding."""
LEAST = -50.0
"""Of the logarithm of a decay: nothing is left of a matrix after it. Beside a lower one the sums of logarithms over a chunk would
lose those of all other positions."""
ROOT = 16
"""Decays by channel are this root of a sigmoid, as in their paper: near one at the start. Kernels have these numbers too."""


class LinearAttention(Layer):
    """linear_att(H) = [y_1; ...; y_h] W_o, y_t = S_t^T q_t, S_t = D_t S_{t-1} + k_t v_t^T, from left to right, in every head.

    q, k and v are projections of the input, q divided by the root of a head's key width; S is zero before the first position and
    float32 in every precision. Its size does not grow with the sentence.

    decay    none: D = 1 (linear attention, Katharopoulos et al. 2020)
             constant: 1 - 2^(-5-h), heads h from 0 (retention, Sun et al. 2023, equation 8)
             head: exp(-e^(A_h) delta_t), delta_t = softplus(w_h x_t + b_h), and k_t times delta_t (Mamba-2, Dao and Gu 2024)
             channel: sigmoid(W_2 W_1 x_t + b)^(1/16), one number for each of the keys' width (GLA, Yang et al. 2023, equation 4)
    delta    the delta rule, S_t = D_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T, b_t = sigmoid(w x_t), keys of norm one
             (Yang et al. 2024; with `decay=head`, where delta_t does not multiply k_t, gated DeltaNet)
    feature  what queries and keys pass through; `elu` is elu(x) + 1, and the output is divided by the sum of weights q_t . k_s
             (Katharopoulos et al. 2020, equation 9)
    rope     as in `mh_dot_self_att`; retention turns its queries and keys

    The norm of each head and the gate of retention, GLA and Mamba-2 stand around it: `retention` in the prelude. Training takes
    64 positions at a time, 16 with `decay=channel`. On the encoder's side, where the papers have none, it also reads left to right.
    """

    name = "linear_att"
    known_as = ("linear_attention", "delta_net -> delta=yes", "fast_weights")
    joint = ("q", "k", "v")
    undrawn = ("rate", "offset")
    examples = (
        Example("linear_att(heads=2)"),
        Example("linear_att(heads=2, width=4, key=6, feature=elu)"),
        Example("linear_att(heads=2, decay=constant, rope=100, out=no)"),
        Example("linear_att(heads=2, decay=head, feature=silu)"),
        Example("linear_att(heads=4, width=8, key=4, decay=channel)"),
        Example("linear_att(heads=2, decay=channel, rank=3)"),
        Example("linear_att(heads=2, width=6, key=4, delta=yes, feature=silu)"),
        Example("linear_att(heads=1, decay=head, delta=yes)"),
    )

    @dataclass(frozen=True)
    class Args:
        heads: int = arg(Int(1, 1024), Setting("heads"), "number of heads; divides `width` and `key`")
        width: int = arg(Int(), Setting("d"), "width of the values of all heads together, and out")
        key: int | None = arg(Int(optional=True), None, "width of queries and of keys of all heads; none: `width`")
        decay: str = arg(Word(choices=("none", "constant", "head", "channel")), "none", "what D is")
        delta: bool = arg(Flag(), False, "the delta rule; not with `decay=channel`", known_as=("delta_rule",))
        feature: str = arg(Word(choices=("id", "silu", "elu")), "id", "what queries and keys pass through")
        rope: float | None = arg(Real(1.0, 1e9, optional=True), None, "base of rotary positions")
        rank: int = arg(Int(), 16, "channel: the width between W_1 and W_2", only=("decay", ("channel",)))
        out: bool = arg(Flag(), True, "project the outputs with W_o")

        @property
        def keys(self) -> int:
            """The width of the keys of all heads."""
            return self.width if self.key is None else self.key

        @property
        def held(self) -> int:
            """Numbers of all matrices S."""
            return self.keys // self.heads * (self.width + self.heads * (self.feature == "elu"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.args, self.each = args, args.keys // args.heads
        self.q = Projection(site.width, args.keys, bias=False)
        self.k = Projection(site.width, args.keys, bias=False)
        self.v = Projection(site.width, args.width, bias=False)
        self.out = Projection(args.width, args.width, bias=False) if args.out else nn.Identity()
        self.beta = Projection(site.width, args.heads, bias=False) if args.delta else None
        self.down = Projection(site.width, args.rank, bias=False) if args.decay == "channel" else None
        self.up = Projection(args.rank, args.keys) if args.decay == "channel" else None
        self.step_size = Projection(site.width, args.heads, bias=False) if args.decay == "head" else None
        self.qkv: nn.Linear | None = None
        if args.decay == "head":
            self.rate = nn.Parameter(torch.linspace(1.0, 16.0, args.heads).log())
            self.offset = nn.Parameter(torch.logspace(-3.0, -1.0, args.heads).expm1().log())
        self.rotation = None if args.rope is None else Rotation(args.rope, self.each)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        for width in (args.width, args.keys):
            if width % args.heads:
                raise Fault("C205", "heads", heads=args.heads, width=width)
        if args.rope is not None and args.keys // args.heads % 2:
            raise Fault(
                "C203", "rope", layer=cls.name, what="two halves of a head for `rope`", width=args.keys // args.heads
            )
        if args.delta and args.decay == "channel":
            raise Fault("C214", "delta", one="delta=yes", other="decay=channel")
        if args.feature == "elu" and (args.delta or args.rope is not None):
            raise Fault("C214", "feature", one="feature=elu", other="delta=yes" if args.delta else "rope")
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        wide, heads = site.width, args.heads
        products = wide * (2 * args.keys + args.width) + args.width * args.width * args.out + wide * heads * args.delta
        more = {"head": 2 * heads, "channel": args.keys}.get(args.decay, 0)
        products += {"head": wide * heads, "channel": args.rank * (wide + args.keys)}.get(args.decay, 0)
        values = args.width + heads * (args.feature == "elu")
        steps = Products(products + (2 + args.delta) * args.held)
        # Where a head has one channel, channel by channel is head by head, whose scores are products.
        scored = args.keys * ((args.decay != "channel" or args.keys == heads) + args.delta)
        whole = steps._replace(visible=scored + values)
        decoder = site.side == DECODER
        reach = BEFORE._replace(sequential="log n", path="n")
        return Cost(products + more, steps if decoder else whole, Held(exact=args.held), reach, whole=whole)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        drive = self._driven(x, None)
        zeros = drive.q.new_zeros(len(x), self.args.heads, self.each, drive.v.shape[3])
        return self._read(chunked(drive, zeros), x)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return Scan.new(batch, ctx.like, self.args.held)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        after, drive, outputs = cast("Scan", state), self._driven(x, ctx.now), []
        shape = len(x), self.args.heads, self.each, drive.v.shape[3]
        for t in range(x.shape[1]):
            y, s = one_position(drive.part(t, t + 1), after.h.view(shape))
            after = after.write(s.flatten(1)[:, None], None if ctx.mask is None else ctx.mask[:, t : t + 1])
            outputs.append(y)
        return self._read(torch.cat(outputs, 2), x), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if self.qkv is None:
            raise NoProgram(self.name)
        args, kept = self.args, torch.ones(self.args.heads)
        if args.decay == "constant":
            kept = retained(args.heads, kept.device, kept.dtype).exp()
        elif args.decay == "head":
            kept = self.rate.detach().float().exp()
        decays = None if self.step_size is None else p.linear(x, self.step_size)
        if self.up is not None:
            decays = p.linear(p.linear(x, self.down), self.up)
        beta = None if self.beta is None else p.linear(x, self.beta)
        given = decays, beta

        def one(now: Sequence[Value], before: State) -> tuple[Value, State]:
            more = list(now[1:])
            decayed, strength = (None if value is None else more.pop(0) for value in given)
            y, h = p.matrix(
                (now[0], decayed, strength),
                cast("Scan", before).h,
                (args.heads, self.each, args.width // args.heads),
                (args.feature, ("head", "channel").index(args.decay) + 1 if decays is not None else 0, args.delta),
                (kept, self.offset.detach().float() if args.decay == "head" else None),
                None if self.rotation is None else self.rotation.rows,
            )
            return y, Scan(cast("Tensor", h))

        said = p.linear(x, self.qkv), *(value for value in given if value is not None)
        y, after = at_each_position(self, p, said, state, one)
        return p.linear(y, self.out), after

    def fuse(self, exact: bool) -> None:
        self.qkv = stacked(self.q, self.k, self.v)
        del self.q, self.k, self.v

    def _driven(self, x: Tensor, chunk: Chunk | None) -> Driven:
        """What moves the matrices, in the type that they are kept in."""
        args, kind = self.args, accumulated(x.dtype)
        if self.qkv is None:
            q, k, v = (project(x).to(kind) for project in (self.q, self.k, self.v))
        else:
            q, k, v = self.qkv(x).to(kind).split((args.keys, args.keys, args.width), -1)
        q, k, v = self._featured(q, chunk), self._featured(k, chunk), split(v, args.heads)
        if args.feature == "elu":
            v = F.pad(v, (0, 1), value=1.0)
        else:
            q = q / math.sqrt(self.each)
        decay = None
        if args.decay == "constant":
            decay = retained(args.heads, x.device, kind).view(1, -1, 1, 1).expand(-1, -1, x.shape[1], -1)
        elif self.step_size is not None:
            size = F.softplus(self.step_size(x).to(kind) + self.offset.to(kind)).transpose(1, 2)[..., None]
            decay = (-size * self.rate.to(kind).exp().view(-1, 1, 1)).clamp(min=LEAST)
            k = k if args.delta else k * size
        elif self.down is not None and self.up is not None:
            decay = split((F.logsigmoid(self.up(self.down(x)).to(kind)) / ROOT).clamp(min=LEAST), args.heads)
        beta = None if self.beta is None else torch.sigmoid(self.beta(x).to(kind)).transpose(1, 2)[..., None]
        if beta is not None:
            k = F.normalize(k, dim=-1, eps=1e-6)
        return Driven(q, k, v, decay, beta)

    def _featured(self, x: Tensor, chunk: Chunk | None) -> Float[Tensor, "B H n K"]:
        if self.args.feature != "id":
            x = F.silu(x) if self.args.feature == "silu" else F.elu(x) + 1
        if self.rotation is not None:
            x = self.rotation(x.reshape(*x.shape[:2], self.args.heads, -1), chunk).flatten(2)
        return split(x, self.args.heads)

    def _read(self, y: Float[Tensor, "B H n V"], x: Tensor) -> Tensor:
        if self.args.feature == "elu":
            y = y[..., :-1] / y[..., -1:].clamp(min=TINY)
        return cast("Tensor", self.out(join(y).to(x.dtype)))


def retained(heads: int, device: torch.device, kind: torch.dtype) -> Float[Tensor, " H"]:
    """The logarithm of the decay of each head of retention."""
    return torch.log1p(-(2.0 ** (-5 - torch.arange(heads, device=device, dtype=kind))))
