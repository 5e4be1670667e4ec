from dataclasses import dataclass
from typing import ClassVar, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from calque.adl.signature import Flag, Int, Point, Real, Setting, SourceDefault, Word, arg
from calque.layers.contract import DECODER, Context, Example, Fault, Parts, Site, SourceArg
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.dot import compare, head_scale, join, split
from calque.layers.drop import drop
from calque.layers.linears import scaled
from calque.layers.local import Near, WindowArgs
from calque.layers.projections import Projection, in_blocks, linear_of_all, matmul
from calque.layers.source import RealPositions, SourceAttention, weigh, widths
from calque.layers.state import Memory, State
from calque.native.accelerator import accelerator_kernels_for
from calque.native.kernels import kernels_for
from calque.native.program import NoProgram, Program, Value
from calque.native.training import ALL, LONGEST, training_kernels_for


@dataclass(frozen=True)
class _DotArgs:
    """The arguments beside those of the window."""

    heads: int = arg(Int(1, 1024), Setting("heads"), "number of heads; divides the widths it cuts")
    width: int = arg(
        Int(),
        Setting("d"),
        "width of projected queries, keys and values of all heads together, and of W_o's output",
    )
    s: int | None = arg(Int(optional=True), None, "scores are divided by sqrt(s); none: by the root of a head's width")
    project: str = arg(Word(choices=("all", "q", "none")), "all", "which of queries, keys and values are projected")
    out: bool = arg(Flag(), True, "project the contexts with W_o")
    bias: bool = arg(Flag(), False, "biases of all projections")
    dropout: float = arg(Real(0.0, 1.0, below=True), 0.0, "probability of a zero among the weights")
    from_: SourceArg | None = arg(Point(optional=True), SourceDefault("end"), "what keys and values are made of")
    keys: SourceArg | None = arg(Point(optional=True), None, "what keys are made of, with `values`, instead of `from`")
    values: SourceArg | None = arg(Point(optional=True), None, "what values are made of")


class DotSourceAttention(SourceAttention):
    """mh_dot_src_att(H, U) = [C_1; ...; C_h] W_o, C_i = softmax(H W_q,i (U W_k,i)^T / sqrt(s)) U W_v,i (Domhan 2018, section 2.3).

    `project` says which of W_q, W_k, W_v there are: all of them; q alone (Luong 2015's "general" score); none (ConvS2S as in
    section 2.4, Luong's "dot"), where the contexts have the width of the values. `dot_src_att` is this layer with one head and
    no W_o. As in `mh_dot_self_att`, `s = none` divides by the root of a head's width where the paper's text says d.

    With `window=D` a position sees 2D + 1 positions of the source (Luong 2015, section 3.2): around min(t, S - 1), its own or the
    last word's (local-m), or with `center=predict` around p_t = S sig(v_p^T tanh(W_p h_t)), S the number of real source
    tokens, with weights softmax(.) exp(-2 (s - p_t)^2 / D^2) that are not made to sum to one again (local-p); `renorm` does so,
    and with `gauss=scores` it is the scores that are multiplied, as in later code of the authors. Positions count from 0, and
    every head has a v_p of its own.
    """

    name = "mh_dot_src_att"
    known_as = (
        "src_att",
        "mh_src_att",
        "mh_dot_att",
        "cross_attention",
        "cross_att",
        "encoder_attention",
        "encoder_decoder_attention",
        "source_attention",
    )
    joint = ("q", "k", "v")
    examples = (
        Example("mh_dot_src_att(heads=2)", (DECODER,)),
        Example("mh_dot_src_att(heads=1, width=6, s=8, out=no, bias=yes, from=@end -> norm)", (DECODER,)),
        Example("dot_src_att(s=1, project=none)", (DECODER,)),
        Example(
            "dot_src_att(project=q, s=1, keys=@e -> linear(10), values=@end)", (DECODER,), "linear(6) @ e -> linear"
        ),
        Example("dot_src_att(project=none, s=1, window=1)", (DECODER,)),
        Example("dot_src_att(project=q, s=1, window=2, center=predict)", (DECODER,)),
        Example("mh_dot_src_att(heads=2, window=1, center=predict, bounds=real, renorm=yes)", (DECODER,)),
        Example("mh_dot_src_att(heads=2, window=2, center=predict, gauss=scores)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args(WindowArgs, _DotArgs):
        EITHER: ClassVar = (("from",), ("keys", "values"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        key, value = widths(args)
        query, context = (args.width, args.width) if args.project == "all" else (key, value)
        self.q: nn.Module = nn.Identity() if args.project == "none" else Projection(site.width, query, bias=args.bias)
        self.k = Projection(key, args.width, bias=args.bias) if args.project == "all" else nn.Identity()
        self.v = Projection(value, args.width, bias=args.bias) if args.project == "all" else nn.Identity()
        self.out = Projection(context, args.width, bias=args.bias) if args.out else nn.Identity()
        self.heads, self.width, self.dropout = args.heads, site.width, args.dropout
        self.scale = head_scale(args.s, query // args.heads)
        self.local = args.local(site.width, args.heads)
        self._asked: Tensor | None = None
        self._told: Tensor | None = None

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        key, value = widths(args)
        args.check_window(cls.name)
        if args.project == "none" and key != site.width:
            raise Fault("C206", layer=cls.name, expected=key, found=site.width)
        for width in (args.width,) if args.project == "all" else (key, value):
            if width % args.heads:
                raise Fault("C205", "heads", heads=args.heads, width=width)
        return args.width if args.out or args.project == "all" else value

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        key, value = widths(args)
        query, context = (args.width, args.width) if args.project == "all" else (key, value)
        asked = 0 if args.project == "none" else query * site.width
        remembered = args.width * (key + value) if args.project == "all" else 0
        out = args.width * context * args.out
        predicted = args.window_products(site.width, args.heads)
        biased = {"all": 3 * args.width, "q": query, "none": 0}[args.project] + args.width * args.out
        return Cost(
            asked + remembered + out + predicted + biased * args.bias,
            Products(asked + out + predicted, source=query + context, memory=remembered),
            Held(memory=query + context, masks=1),
            HERE,
        )

    def remember(
        self, keys: Float[Tensor, "S N D"], values: Float[Tensor, "S N E"], mask: Bool[Tensor, "S N"] | None
    ) -> tuple[Tensor, Tensor]:
        real = RealPositions(keys, mask, self.k)
        rows = real.of(keys)
        parts = [real.back(part) for part in self._project(rows, rows if keys is values else real.of(values))]
        both = parts if len(parts) == 2 else parts[0].chunk(2, -1)
        k, v = (split(x, self.heads) for x in both)
        few = len(keys) == 1 and 2 * self.heads * keys.shape[1] <= self.width
        if few and self._asked is not None and self._told is not None:
            columns, rows = matmul(k[0], self._asked), matmul(v[0], self._told)
            return columns.flatten(0, 1).t().contiguous()[None], rows.flatten(0, 1)[None]
        # Laid out once as the product with queries reads them; every step would copy them again.
        return k.contiguous(), v.contiguous()

    def _project(self, keys: Tensor, values: Tensor) -> list[Tensor]:
        """Keys and values, in one tensor where one product makes them."""
        if keys is values and isinstance(self.k, Projection) and isinstance(self.v, Projection) and in_blocks(keys):
            return [linear_of_all(keys, self.k, self.v)]
        return [self.k(keys), self.v(values)]

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        plain = self.local is None and ctx.record is None and not (self.training and self.dropout)
        kernels = training_kernels_for(x) if plain else None
        if kernels is None:
            return super().forward(x, ctx)
        keys, values, real = self._points(ctx)
        if max(x.shape[1], keys.shape[1]) > LONGEST or len(x) != len(keys):
            return super().forward(x, ctx)
        parts = [self.q(x), *self._project(keys, values)]
        key = parts[0].shape[2]
        widths = key, key, sum(part.shape[2] for part in parts) - 2 * key
        return cast("Tensor", self.out(kernels.attend(parts, widths, self.heads, 1 / self.scale, real, (ALL, ALL))))

    def look(self, x: Float[Tensor, "S T D"], memory: Memory, near: Near | None) -> tuple[Tensor, Tensor]:
        if memory.keys.dim() == 3:
            scores = matmul(x, memory.keys).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            weights = weigh(scores, memory, near).to(memory.values.dtype)
            return matmul(weights.transpose(1, 2).flatten(2), memory.values), weights
        scores = compare(split(self.q(x), self.heads), memory.keys.transpose(2, 3), self.scale)
        weights = weigh(scores, memory, near).to(memory.values.dtype)
        contexts = matmul(drop(weights, self.dropout, self.training), memory.values)
        return self.out(join(contexts)), weights

    def read(self, x: Float[Tensor, "R n D"], memory: Memory, ctx: Context) -> Tensor:
        alone = x.shape[1] == 1 and ctx.record is None and self.local is None and memory.keys.dim() == 4
        head = max(x.shape[-1] for x in memory[:2])
        fast, kernels = None, None
        if alone and not self.training:
            fast, kernels = accelerator_kernels_for(x, head), kernels_for(x)
        if fast is None and kernels is None:
            return super().read(x, memory, ctx)
        keys, values = memory.keys[:, :, :, None], memory.values[:, :, :, None]
        q, scale, blocked = self.q(x)[:, 0], 1 / self.scale, memory.blocked
        if fast is not None:
            contexts = fast.attend(q, keys, values, scale, blocked=blocked)
        elif kernels is not None:
            contexts = kernels.attend(q, keys, values, keys.shape[2], scale, blocked=blocked)
        return cast("Tensor", self.out(contexts[:, None]))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        memory = cast("Memory", state)
        if memory.keys.dim() != 4:
            raise NoProgram(self.name)
        near = None if self.local is None else self.local.program(p, x)
        contexts = p.attend_source(
            p.linear(x, self.q), memory.keys, memory.values, memory.blocked, 1 / self.scale, near
        )
        return p.linear(contexts, self.out), state

    def fuse(self, exact: bool) -> None:
        """q_i . k_i = x . (W_q,i^T k_i), and W_o C = sum_i a_i (W_o,i v_i): of one short sentence alone, products with W_q and W_o
        are made once, for its keys and values, not at every step.

        Then a step reads 2 H N numbers of d each instead of those two matrices. Many sentences share the matrices, and a long one
        has more keys than they have rows.
        """
        if not isinstance(self.q, nn.Linear):
            return
        self.q, self.scale = scaled(self.q, 1 / self.scale), 1.0
        if not exact:  # a sentence alone would come out otherwise than among others
            return
        if isinstance(self.out, nn.Linear) and self.q.bias is None and self.out.bias is None and self.local is None:
            self._asked = self.q.weight.unflatten(0, (self.heads, -1))
            self._told = self.out.weight.unflatten(1, (self.heads, -1)).permute(1, 2, 0)
