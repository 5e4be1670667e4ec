from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from calque.adl.signature import Body, Flag, Int, arg
from calque.layers.contract import BodyArg, Context, Example, Fault, Layer, Merge, Parts, Site, Stateless
from calque.layers.cost import HERE, Cost, Held, Products
from calque.layers.projections import Projection
from calque.layers.state import State, States, accumulated


class Mixture(Layer):
    """moe(l)(h) = sum_e g_e l_e(h), where g = softmax(top(W h)): `top` keeps the largest numbers of each position and sets the
    others to minus infinity (Shazeer et al. 2017, equations 1 to 5).

    The experts l_e are copies of the body, each with weights of its own. Each position chooses its experts by itself, and none is
    ever turned away: there is no capacity, so that a sentence does not depend on its batch. Differences from the paper: no noise
    before the choice, and no loss that balances the experts.

    renorm=no   g = softmax(W h), of which the largest are kept as they are (Fedus et al. 2021, equation 2, for `top=1`). Where a
                position has one expert, only this form has a gradient for W

    Where gradients are on and the body works position by position, as `ffl` does, and holds no label, each expert computes the
    positions that chose it. Otherwise every expert computes every position and g picks: so neighbours change no bit of a sentence,
    and a body may have a state, such as `rnn`. The declared products are of this second form. g is computed in float32 in every
    precision.
    """

    name = "moe"
    known_as = ("mixture_of_experts", "MoE", "experts", "switch", "sparse_moe")
    examples = (
        Example("moe(ff(6) -> linear)"),
        Example("res(moe(norm -> ffl, 3, top=1, renorm=no))"),
        Example("moe(rnn(6), 3, top=2)"),
        Example("moe(mh_dot_src_att(2), 2, top=1)", ("decoder",)),
    )

    @dataclass(frozen=True)
    class Args:
        body: BodyArg = arg(Body(copies="experts"), doc="the chain that each expert is a copy of")
        experts: int = arg(Int(2, 256), 4, "copies of the body", known_as=("num_experts", "num_local_experts", "n"))
        top: int = arg(
            Int(1, 256), 2, "experts of a position, at most `experts`", known_as=("k", "top_k", "num_experts_per_tok")
        )
        renorm: bool = arg(Flag(), True, "the weights of the chosen experts sum to one", known_as=("norm_topk_prob",))

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.router = Projection(site.width, args.experts, bias=False)
        self.top, self.renorm = args.top, args.renorm
        self._experts = list(parts.values())
        # A labelled point is of all positions.
        inner = [module for module in self.modules() if module is not self]
        self._apart = all(map(_by_position, inner)) and not any(isinstance(m, Layer) and m.labelled for m in inner)

    @classmethod
    def infer(cls, args: Args, site: Site) -> int:
        if args.top > args.experts:
            raise Fault("C403", "top", name="top", low=1, high=args.experts, found=args.top)
        return args.body.width

    @classmethod
    def cost(cls, args: Args, site: Site) -> Cost:
        size = site.width * args.experts
        return Cost(size, Products(size), Held(), HERE, used=args.top)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T E"]:
        g = self._weights(x)
        if self._apart and torch.is_grad_enabled():
            return self._routed(x, g, ctx)
        return _mixed([expert(x, ctx) for expert in self._experts], g)

    def init_state(self, batch: int, capacity: int, ctx: Context) -> State:
        return States(tuple(expert.init_state(batch, capacity, ctx) for expert in self._experts))

    def step(self, x: Float[Tensor, "B n D"], state: State, ctx: Context) -> tuple[Tensor, State]:
        if self._apart and torch.is_grad_enabled():
            return self._routed(x, self._weights(x), ctx), state
        before = cast("States", state).parts
        pairs = [expert.step(x, s, ctx) for expert, s in zip(self._experts, before, strict=True)]
        return _mixed([y for y, _ in pairs], self._weights(x)), States(tuple(s for _, s in pairs))

    def _weights(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n X"]:
        """g of every expert, zero for those that are not chosen."""
        scores: Tensor = self.router(x).to(accumulated(x.dtype))
        best, numbers = scores.topk(self.top, -1)
        kept = best.softmax(-1) if self.renorm else scores.softmax(-1).gather(-1, numbers)
        return torch.zeros_like(scores).scatter(-1, numbers, kept).to(x.dtype)

    def _routed(self, x: Float[Tensor, "B n D"], g: Float[Tensor, "B n X"], ctx: Context) -> Float[Tensor, "B n E"]:
        """The mixture, each expert at the positions that chose it; at one, with weight zero, where none did."""
        flat, weights, alone = x.flatten(0, 1), g.flatten(0, 1), ctx._replace(mask=None)
        total: Tensor | None = None
        for k, expert in enumerate(self._experts):
            chosen = weights[:, k].detach().nonzero()[:, 0]
            if not len(chosen):
                chosen = chosen.new_zeros(1)
            y = expert(flat[chosen][None], alone)[0] * weights[chosen, k, None]
            empty = y.new_zeros(len(flat), y.shape[1]) if total is None else total
            total = empty.index_add(0, chosen, y)
        return cast("Tensor", total).view(*x.shape[:2], -1)


def _by_position(layer: torch.nn.Module) -> bool:
    """Whether a module, if it is a layer, works position by position; a chain does where its layers do."""
    return not isinstance(layer, Layer) or isinstance(layer, Stateless | Merge) or layer.name == "->"


def _mixed(outputs: list[Tensor], g: Float[Tensor, "B n X"]) -> Float[Tensor, "B n E"]:
    total = outputs[0] * g[..., :1]
    for k, y in enumerate(outputs[1:], 1):
        total = total + y * g[..., k : k + 1]
    return total
