from dataclasses import dataclass
from typing import ClassVar, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from calque.adl.signature import Int, Point, Setting, SourceDefault, Word, arg
from calque.layers.contract import DECODER, Example, Fault, Parts, Site, SourceArg
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.local import Near, WindowArgs
from calque.layers.projections import Projection, matmul
from calque.layers.source import RealPositions, SourceAttention, weigh, widths
from calque.layers.state import Memory, State
from calque.native.program import Program, Value
from calque.native.training import training_kernels_for


@dataclass(frozen=True)
class _MlpArgs:
    """The arguments beside those of the window."""

    hidden: int = arg(Int(), Setting("d"), "width of the scoring layer", known_as=("width", "units"))
    from_: SourceArg | None = arg(Point(optional=True), SourceDefault("end"), "what keys and values are made of")
    keys: SourceArg | None = arg(Point(optional=True), None, "what keys are made of, with `values`, instead of `from`")
    values: SourceArg | None = arg(Point(optional=True), None, "what values are made of")
    project: str = arg(Word(choices=("all", "q")), "all", "which of W_q and W_k there are")


class MlpSourceAttention(SourceAttention):
    """mlp_src_att(H, U) = softmax(S) U, S_ij = w_o^T tanh(W_q h_i + W_k u_j) (Domhan 2018, section 2.3; Bahdanau et al. 2014).

    No biases. The contexts have the width of the values. It is Luong 2015's "concat" score v_a^T tanh(W_a [h_t; u_s]), W_a in two
    pieces; with `project=q` the piece of u_s is the identity, as in the networks that were measured there (footnote 15).
    `window` and what goes with it are those of `mh_dot_src_att`.
    """

    name = "mlp_src_att"
    reads = ("score",)
    known_as = ("mlp_att", "additive_attention", "bahdanau", "bahdanau_attention")
    examples = (
        Example("mlp_src_att", (DECODER,)),
        Example("mlp_src_att(6, keys=@e, values=@end)", (DECODER,), "linear(4) @ e -> linear(10)"),
        Example("mlp_src_att(project=q, window=1, center=predict)", (DECODER,)),
        Example("mlp_src_att(6, window=2)", (DECODER,)),
        Example("mlp_src_att(window=2, center=predict, gauss=scores)", (DECODER,)),
    )

    @dataclass(frozen=True)
    class Args(WindowArgs, _MlpArgs):
        EITHER: ClassVar = (("from",), ("keys", "values"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.q = Projection(site.width, args.hidden, bias=False)
        self.k = Projection(widths(args)[0], args.hidden, bias=False) if args.project == "all" else nn.Identity()
        self.score = Projection(args.hidden, 1, bias=False)
        self.local = args.local(site.width)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        key, value = widths(args)
        args.check_window(cls.name)
        if args.project == "q" and args.hidden != key:
            raise Fault("C210", "hidden", expected=key, found=args.hidden)
        return value

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        key, value = widths(args)
        asked = args.hidden * site.width + args.window_products(site.width)
        remembered = args.hidden * key if args.project == "all" else 0
        return Cost(
            asked + remembered + args.hidden,
            Products(asked, source=args.hidden + value, memory=remembered),
            Held(memory=args.hidden + value, masks=1),
            HERE,
        )

    def remember(
        self, keys: Float[Tensor, "S N D"], values: Float[Tensor, "S N E"], mask: Bool[Tensor, "S N"] | None
    ) -> tuple[Tensor, Tensor]:
        real = RealPositions(keys, mask, self.k)
        return real.back(self.k(real.of(keys))), values

    def look(self, x: Float[Tensor, "S T D"], memory: Memory, near: Near | None) -> tuple[Tensor, Tensor]:
        weights = weigh(self._scores(self.q(x), memory.keys)[:, None], memory, near).to(memory.values.dtype)
        return matmul(weights[:, 0], memory.values), weights

    def _scores(self, queries: Float[Tensor, "S T E"], keys: Float[Tensor, "S N E"]) -> Float[Tensor, "S T N"]:
        weight = self.score.weight
        kernels = training_kernels_for(queries, keys, weight) if len(queries) == len(keys) else None
        if kernels is not None:
            return kernels.additive_scores(queries, keys, weight[0])
        hidden = (queries[:, :, None] + keys[:, None]).tanh_()  # [S, T, N, E], the largest tensor: once
        return cast("Tensor", self.score(hidden).squeeze(3))

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        near = None if self.local is None else self.local.program(p, x)
        return p.attend_mlp(p.linear(x, self.q), cast("Memory", state), self.score.weight, near), state
