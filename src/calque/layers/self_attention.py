from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from calque.adl.signature import Flag, Int, Real, Setting, Word, arg
from calque.layers.contract import DECODER, ENCODER, Context, Example, Fault, Layer, Parts, Site
from calque.layers.cost import BEFORE, EVERYWHERE, Cost, Held, Products, Reach
from calque.layers.dot import grouped, head_scale, join, normalised, split
from calque.layers.drop import drop
from calque.layers.history import Chunk, KeysValues
from calque.layers.linears import scaled, stacked
from calque.layers.projections import Projection, in_blocks, linear_of_all
from calque.layers.relative import FORMS, TalkingHeads, distance_rows, relative
from calque.layers.rotary import Rotation
from calque.layers.sliding import among_all, compare_near, outside, read_near, windows
from calque.layers.state import State, Window, accumulated
from calque.native.program import NoProgram, Program, Value
from calque.native.training import ALL, LONGEST, TrainingKernels, training_kernels_for

EPS = 1e-6
"""Added to the mean of squares that queries and keys are divided by the root of."""


class SelfAttention(Layer):
    """mh_dot_self_att(H) = [C_1; ...; C_h] W_o, C_i = softmax(H W_q,i (H W_k,i)^T / sqrt(s)) H W_v,i (Domhan 2018, section 2.3).

    In the decoder a position sees itself and those before it. Differences from the paper, each an argument: it names `s = d`,
    while practice and its own code take the width of a head (`s = none`); the output projection W_o is absent from its formula
    and present in its code. `dropout` drops attention weights, which the paper does not mention.

    rope      queries and keys are turned by angles that grow with their positions (Su et al. 2021)
    kv_heads  so many heads of keys and values, each shared by as many heads of queries in a row (Ainslie et al. 2023)
    qk_norm   each head's query and key divided by their root mean square, times a learned gain that all heads share, before they
              are turned (Henry et al. 2020, as in models of 2025)
    relative  `alibi`: -2^(-8 h / H) times the distance is added to the scores of head h (Press et al. 2021); `t5`: a number that is
              learned for each head and bucket of distances (Raffel et al. 2020); `shaw`: vectors that are learned for each distance
              take part in scores and contexts (Shaw et al. 2018)
    talking   scores, and weights, of all heads are mixed by a matrix each (Shazeer et al. 2020)
    window    a position sees `window` positions before its own, in the encoder as many behind, and the state is as long
              (Beltagy et al. 2020)
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
        "local_attention(window)",
        "sliding_window_attention(window)",
        "gqa(kv_heads)",
        "mqa -> kv_heads=1",
        "rope -> rope=10000",
        "alibi -> relative=alibi",
    )
    joint = ("q", "k", "v")
    undrawn = ("q_gain", "k_gain")
    examples = (
        Example("mh_dot_self_att(heads=2)"),
        Example("mh_dot_self_att(heads=1, width=6, s=1, out=no, bias=yes)"),
        Example("mh_dot_self_att(heads=4, rope=10000, kv_heads=2, qk_norm=yes)"),
        Example("mh_dot_self_att(heads=2, relative=t5, buckets=8, reach=6)"),
        Example("mh_dot_self_att(heads=2, relative=shaw, reach=2)"),
        Example("mh_dot_self_att(heads=2, relative=alibi, talking=yes, bias=yes)"),
        Example("mh_dot_self_att(heads=2, width=4, rope=100, kv_heads=1, window=2)"),
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
        rope: float | None = arg(
            Real(1.0, 1e9, optional=True),
            None,
            "base of rotary positions",
            known_as=("rotary", "rope_theta"),
            later=True,
        )
        kv_heads: int | None = arg(
            Int(1, 1024, optional=True),
            None,
            "heads of keys and values; divides `heads`; none: as many",
            known_as=("num_kv_heads", "num_key_value_heads"),
            later=True,
        )
        qk_norm: bool = arg(Flag(), False, "normalise each head's queries and keys", later=True)
        relative: str = arg(Word(choices=FORMS), "none", "what scores gain from distances", later=True)
        buckets: int = arg(
            Int(4, 1024),
            32,
            "t5: buckets of distances, of both directions together",
            later=True,
            only=("relative", ("t5",)),
        )
        reach: int = arg(
            Int(1, 4096),
            128,
            "t5, shaw: distances from here on count as this one",
            later=True,
            only=("relative", ("t5", "shaw")),
        )
        talking: bool = arg(Flag(), False, "mix the heads before and after the softmax", later=True)
        window: int | None = arg(
            Int(0, 4096, optional=True),
            None,
            "positions seen on a side; none: all",
            known_as=("sliding_window",),
            later=True,
        )

        @property
        def head(self) -> int:
            """The width of a head."""
            return self.width // self.heads

        @property
        def kept(self) -> int:
            """The width of the keys of all heads together, and of the values."""
            return self.head * (self.kv_heads or self.heads)

        def seen(self, side: str) -> tuple[int, int]:
            """How many positions a window holds before a query's own, and behind it."""
            window = self.window or 0
            return window, window if side == ENCODER else 0

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.q = Projection(site.width, args.width, bias=args.bias)
        self.k = Projection(site.width, args.kept, bias=args.bias)
        self.v = Projection(site.width, args.kept, bias=args.bias)
        self.out = Projection(args.width, args.width, bias=args.bias) if args.out else nn.Identity()
        self.qkv: nn.Module | None = None
        self.heads, self.kv, self.dropout = args.heads, args.kv_heads or args.heads, args.dropout
        self.sizes = [args.width, args.kept, args.kept]
        self.scale = head_scale(args.s, args.head)
        self.causal = site.side == DECODER
        self.rotation = None if args.rope is None else Rotation(args.rope, args.head)
        self.q_gain, self.k_gain = (nn.Parameter(torch.ones(args.head)) if args.qk_norm else None for _ in "qk")
        self.relative = relative(args.relative, args.heads, args.head, args.buckets, args.reach, not self.causal)
        self.talk = TalkingHeads(args.heads) if args.talking else None
        self.seen = None if args.window is None else args.seen(site.side)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.width % args.heads:
            raise Fault("C205", "heads", heads=args.heads, width=args.width)
        if args.kv_heads and args.heads % args.kv_heads:
            raise Fault("C213", "kv_heads", shared=args.kv_heads, heads=args.heads)
        if args.rope is not None and args.head % 2:
            raise Fault("C203", "rope", layer=cls.name, what="two halves of a head for `rope`", width=args.head)
        return args.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        products = site.width * (args.width + 2 * args.kept) + args.width * args.width * args.out
        biases = args.width + 2 * args.kept + args.width * args.out
        rows = distance_rows(args.relative, args.reach, site.side == ENCODER)
        learned = {"t5": args.buckets * args.heads, "shaw": 2 * rows * args.head}.get(args.relative, 0)
        mixed = 2 * args.heads**2 * args.talking
        parameters = products + biases * args.bias + learned + mixed + 2 * args.head * args.qk_norm
        products += 2 * args.width * rows
        each = 2 * args.width + mixed
        if args.window is None:
            reach = BEFORE if site.side == DECODER else EVERYWHERE
            return Cost(parameters, Products(products, visible=each), Held(place=2 * args.kept), reach)
        before, behind = args.seen(site.side)
        near = Products(products + each * (before + 1 + behind))
        return Cost(parameters, near, Held(row=2 * args.kept * before), Reach(-before, behind))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        if (kernels := self._training_kernels(x, ctx)) is not None:
            real = None if self.causal else ctx.mask
            window = self.seen or (ALL, 0 if self.causal else ALL)
            plan = (self.sizes[0], self.sizes[1], self.sizes[2]), self.heads, 1 / self.scale, real, window, self.kv
            contexts = kernels.attend(self._parts(x), *plan)
            return cast("Tensor", self.out(contexts))
        q, k, v = self._project(x, None)
        if self.seen is not None:
            return self._near(q, torch.cat([k, v], -1), ctx)
        blocked, distance = None, None
        if self.causal or self.relative is not None:
            at = torch.arange(x.shape[1], device=x.device)
            distance = (at - at[:, None])[None, None]
        if self.causal:  # padding stands behind every real query, so causality hides it
            blocked = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        elif ctx.mask is not None:
            blocked = ~ctx.mask[:, None, None]
        queries = self._scaled(split(q, self.heads))
        scores = grouped(queries, split(k, self.kv).transpose(2, 3))
        weights = self._weigh(queries, scores, distance, blocked).to(v.dtype)
        used = self._used(weights)
        contexts = self._with_distances(grouped(used, split(v, self.kv)), used, distance)
        if ctx.record is not None:
            ctx.record(self.path, weights)
        return cast("Tensor", self.out(join(contexts)))

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        if self.seen is not None:
            return Window.new(batch, self.seen[0], ctx.like, 2 * self.sizes[1])
        return KeysValues.new(batch, ctx.beams, self.kv, capacity, self.sizes[1] // self.kv, ctx.like)

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        rows, n, _ = x.shape
        chunk = ctx.now
        q, k, v = self._project(x, chunk)
        if self.seen is not None:
            seen, near = cast("Window", state).write(torch.cat([k, v], -1), ctx.mask)
            return self._near(q, seen, ctx), near
        before = cast("KeysValues", state)
        plain = self.relative is None and self.talk is None and ctx.record is None
        if plain and (contexts := chunk.attend(q, k, v, before, 1 / self.scale)) is not None:
            return cast("Tensor", self.out(contexts)), before
        after = before.write(k, v, chunk)
        # The hypotheses of a sentence are queries of one memory, each of which looks at its own past alone.
        queries = self._scaled(split(q.reshape(rows // chunk.beams, chunk.beams * n, -1), self.heads))
        keys, values = after.visible(chunk)
        distance = None if self.relative is None else chunk.distance
        scores = chunk.own(grouped(queries, keys))
        weights = self._weigh(queries, scores, distance, chunk.blocked).to(values.dtype)
        used = self._used(weights)
        read = self._with_distances(grouped(chunk.spread(used), values), used, distance)
        if ctx.record is not None:
            ctx.record(self.path, chunk.by_row(weights))
        return cast("Tensor", self.out(join(read).reshape(rows, n, -1))), after

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        if self.qkv is None or self.talk is not None:
            raise NoProgram(self.name)
        gain = None if self.relative is None else self.relative.gain
        if gain is not None:
            gain(1)  # it may have no program
        queries, keys, _ = self.sizes
        projected = p.linear(x, self.qkv)
        q, k, v = projected.part(0, queries), projected.part(queries, keys), projected.part(queries + keys, keys)
        q, k = self._program_placed(p, q, self.q_gain), self._program_placed(p, k, self.k_gain)
        heads, scale = (self.heads, self.kv), 1 / self.scale
        if self.seen is not None and state is not None:
            contexts, last = p.attend_near((q, k, v), cast("Window", state).last, heads, scale, gain)
            return p.linear(contexts, self.out), Window(cast("Tensor", last))
        held = None if state is None else cast("KeysValues", state)
        near = self.seen or (-1, -1)
        return p.linear(p.attend((q, k, v), held, heads, scale, gain, near), self.out), state

    def _near(self, q: Tensor, seen: Float[Tensor, "B W E"], ctx: Context) -> Tensor:
        """The output through a window: `seen` are keys and values, in `step` those of the positions before the chunk as well."""
        before, behind = cast("tuple[int, int]", self.seen)
        length, n = before + 1 + behind, q.shape[1]
        if ctx.chunk is None:
            positions = torch.arange(n, device=q.device)[None]
            seen = F.pad(seen, (0, 0, before, behind))
            real = torch.ones(1, n, dtype=torch.bool, device=q.device) if self.causal or ctx.mask is None else ctx.mask
            blocked = outside(F.pad(real, (before, behind)), length)
        else:
            positions = ctx.chunk.positions
            blocked = (positions[:, :, None] + torch.arange(-before, 1, device=q.device) < 0)[:, None]
        keys, values = (windows(part, self.kv, length) for part in seen.chunk(2, -1))
        queries = self._scaled(split(q, self.heads))
        distance = torch.arange(-before, behind + 1, device=q.device)[None, None, None]
        weights = self._weigh(queries, compare_near(queries, keys), distance, blocked).to(q.dtype)
        used = self._used(weights)
        contexts = self._with_distances(read_near(used, values), used, distance)
        if ctx.record is not None:
            total = n if ctx.chunk is None else ctx.chunk.visible
            ctx.record(self.path, among_all(weights, positions, before, total))
        return cast("Tensor", self.out(join(contexts)))

    def _training_kernels(self, x: Tensor, ctx: Context) -> TrainingKernels | None:
        """Those for a softmax of plain scores, all weights of which are used."""
        more = self.relative is not None or self.talk is not None or ctx.record is not None
        if more or (self.training and self.dropout) or x.shape[1] > LONGEST:
            return None
        return training_kernels_for(x)

    def _parts(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values, in one tensor where one product makes them."""
        if self.qkv is None and self.q_gain is None and self.rotation is None and in_blocks(x):
            return [linear_of_all(x, self.q, self.k, self.v)]
        return list(self._project(x, None))

    def _scaled(self, q: Tensor) -> Tensor:
        return q if self.scale == 1 else q * (1.0 / self.scale)

    def _weigh(self, q: Tensor, scores: Tensor, distance: Tensor | None, blocked: Tensor | None) -> Tensor:
        """The weights that scores become; `q` and they are scaled already."""
        if self.relative is not None and distance is not None:
            scores = scores + self.relative.score(q, distance)
        if self.talk is not None:
            scores = self.talk.mix(self.talk.before, scores)
        return normalised(scores, blocked)

    def _used(self, weights: Tensor) -> Tensor:
        """The weights that values are summed with."""
        if self.talk is not None:
            weights = self.talk.mix(self.talk.after, weights)
        return drop(weights, self.dropout, self.training)

    def _with_distances(self, contexts: Tensor, used: Tensor, distance: Tensor | None) -> Tensor:
        more = None if self.relative is None or distance is None else self.relative.context(used, distance)
        return contexts if more is None else contexts + more

    def _project(self, x: Tensor, chunk: Chunk | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of all heads; queries and keys normalised and turned."""
        if self.qkv is not None:
            q, k, v = self.qkv(x).split(self.sizes, -1)
        elif in_blocks(x):
            q, k, v = torch.split(linear_of_all(x, self.q, self.k, self.v), self.sizes, -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        return self._placed(q, self.q_gain, chunk), self._placed(k, self.k_gain, chunk), v

    def _placed(self, x: Tensor, gain: Tensor | None, chunk: Chunk | None) -> Tensor:
        if gain is None and self.rotation is None:
            return x
        y = x.reshape(*x.shape[:2], -1, self.sizes[0] // self.heads)
        if gain is not None:
            wide = y.to(accumulated(x.dtype))
            y = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).to(x.dtype) * gain
        return (y if self.rotation is None else self.rotation(y, chunk)).flatten(2)

    def _program_placed(self, p: Program, x: Value, gain: Tensor | None) -> Value:
        width = self.sizes[0] // self.heads
        if gain is not None:
            x = p.root_norm(x, gain.repeat(x.width // width), width, EPS)
        return x if self.rotation is None else p.turn(x, self.rotation.rows, width)

    def fuse(self, exact: bool) -> None:
        q: nn.Linear = self.q
        if self.q_gain is None:  # a norm would take the factor away again
            q, self.scale = scaled(q, 1 / self.scale), 1.0
        self.qkv = stacked(q, self.k, self.v)
        del self.q, self.k, self.v
