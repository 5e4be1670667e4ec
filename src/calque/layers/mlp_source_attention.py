from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from calque.adl.signature import Int, Point, Setting, SourceDefault, arg
from calque.layers.contract import DECODER, Example, Parts, Site, SourceArg
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.dot import normalised
from calque.layers.source import SourceAttention, widths
from calque.layers.state import Memory


class MlpSourceAttention(SourceAttention):
    """mlp_src_att(H, U) = softmax(S) U, S_ij = w_o^T tanh(W_q h_i + W_k u_j) (Domhan 2018, section 2.3; Bahdanau et al. 2014).

    No biases. The contexts have the width of the values.
    """

    name = "mlp_src_att"
    examples = (
        Example("mlp_src_att", (DECODER,)),
        Example("mlp_src_att(6, keys=@e, values=@end)", (DECODER,), "linear(4) @ e -> linear(10)"),
    )

    @dataclass(frozen=True)
    class Args:
        hidden: int = arg(Int(), Setting("d"), "width of the scoring layer")
        from_: SourceArg | None = arg(Point(optional=True), SourceDefault("end"), "what keys and values are made of")
        keys: SourceArg | None = arg(
            Point(optional=True), None, "what keys are made of, with `values`, instead of `from`"
        )
        values: SourceArg | None = arg(Point(optional=True), None, "what values are made of")

        EITHER: ClassVar = (("from",), ("keys", "values"))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.q = nn.Linear(site.width, args.hidden, bias=False)
        self.k = nn.Linear(widths(args)[0], args.hidden, bias=False)
        self.score = nn.Linear(args.hidden, 1, bias=False)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        return widths(args)[1]

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        key, value = widths(args)
        return Cost(
            args.hidden * (site.width + key + 1),
            Products(args.hidden * site.width, source=args.hidden + value, memory=args.hidden * key),
            Held(memory=args.hidden + value, masks=1),
            HERE,
        )

    def remember(self, keys: Float[Tensor, "S N D"], values: Float[Tensor, "S N E"]) -> tuple[Tensor, Tensor]:
        return self.k(keys), values

    def look(self, x: Float[Tensor, "S T D"], memory: Memory) -> tuple[Tensor, Tensor]:
        hidden = (self.q(x)[:, :, None] + memory.keys[:, None]).tanh_()  # [S, T, N, hidden], the largest tensor: once
        scores = self.score(hidden).squeeze(3)[:, None]
        blocked = None if memory.blocked is None else memory.blocked[:, None, None]
        weights = normalised(scores, blocked).to(memory.values.dtype)
        return torch.matmul(weights[:, 0], memory.values), weights
