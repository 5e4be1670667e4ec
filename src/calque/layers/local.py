"""Windows over the source, for every score: where they stand, what they leave, and the arguments that say so
(Luong 2015, section 3.2).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from calque.adl.signature import Flag, Word, arg
from calque.adl.signature import Int as Whole
from calque.layers.contract import Fault
from calque.layers.dot import normalised
from calque.layers.projections import Projection
from calque.layers.state import accumulated
from calque.native.program import Program, Value, Window

MONOTONIC, PREDICT = "monotonic", "predict"
WEIGHTS, SCORES = "weights", "scores"
FLOOR, ROUND, REAL = "floor", "round", "real"


@dataclass(frozen=True)
class WindowArgs:
    """The arguments of a layer that can look through a window, and what follows from them.

    They come last among a layer's arguments: `class Args(WindowArgs, Own)`, since a dataclass takes the fields of its last
    base first.
    """

    window: int | None = arg(
        Whole(optional=True), None, "D, positions on either side of a centre that are seen; none: all are"
    )
    center: str = arg(
        Word(choices=(MONOTONIC, PREDICT)), MONOTONIC, "of a window: at min(t, S - 1), or at a predicted p_t"
    )
    bounds: str = arg(
        Word(choices=(FLOOR, ROUND, REAL)),
        FLOOR,
        "of a predicted p_t: D on either side of floor(p_t), of round(p_t), of p_t",
    )
    renorm: bool = arg(Flag(), False, "make what the Gaussian of a predicted centre leaves sum to one")
    gauss: str = arg(
        Word(choices=(WEIGHTS, SCORES)),
        WEIGHTS,
        "what the Gaussian of a predicted centre multiplies: weights behind the softmax, or scores before it",
        later=True,
    )

    def check_window(self, layer: str, loses: bool = False) -> None:
        """Raises `Fault` C209, C211 and C219 for arguments without effect; `loses`: weights sum to less than one in any case."""
        plain = {"center": MONOTONIC, "bounds": FLOOR, "gauss": WEIGHTS, "renorm": loses and self.window is None}
        given = [name for name in plain if getattr(self, name) not in (plain[name], False)]
        if given and self.window is None:
            raise Fault("C209", given[0], name=given[0], layer=layer)
        if given and self.center == MONOTONIC:
            raise Fault("C211", given[0], name=given[0])
        if self.renorm and self.gauss == SCORES:
            raise Fault("C219", "renorm")

    def window_products(self, width: int, heads: int = 1) -> int:
        """Parameters of W_p and v_p, and multiply-adds per position."""
        return width * (width + heads) if self.window is not None and self.center == PREDICT else 0

    def local(self, width: int, heads: int = 1) -> "Local | None":
        """The window over the source, if there is one."""
        return None if self.window is None else Local(self, width, heads)


class Near(NamedTuple):
    """What windows leave of the source, at each query.

    offset   positions from the centre, or where `bounds` are real from p_t
    outside  what is not in the window, or padding
    share    the Gaussian; None: 1
    renorm   weights sum to one behind it
    scored   it multiplies scores, not weights
    """

    offset: Float[Tensor, "#S #H q N"] | Int[Tensor, "#S #H q N"]
    outside: Bool[Tensor, "#S #H q N"]
    share: Float[Tensor, "S H q N"] | None
    renorm: bool
    scored: bool

    def weights(self, scores: Float[Tensor, "S H q N"]) -> Float[Tensor, "S H q N"]:
        """softmax(scores) inside the window, times the share, or softmax(scores times the share), in float32 at least."""
        if self.share is not None and self.scored:
            return normalised(scores * self.share, self.outside)
        weights = normalised(scores, self.outside)
        if self.share is None:
            return weights
        weights = weights * self.share
        return weights / weights.sum(-1, keepdim=True) if self.renorm else weights


class Local(nn.Module):
    """A window of D positions on either side of a centre. Positions s and t count from 0, S is the number of real tokens.

    monotonic  the centre is min(t, S - 1), t the position of the query: local-m. The paper does not say what follows the last
               word's turn; its code stays there
    predict    p_t = S sig(v_p^T tanh(W_p h_t)), a real number in (0, S), one for each head (equation 9); the window is
               [floor(p_t) - D, floor(p_t) + D], and weights are multiplied with exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D/2,
               behind the softmax (equation 10): they sum to less than one. With `gauss=scores` scores are multiplied before
               it, as `normLocalAttn` of the authors' code does: weights sum to one, and a score of 0 stays the same

    What a window has outside the sentence takes no part in the softmax (footnote 8). No gradient comes through floor.
    """

    def __init__(self, args: WindowArgs, width: int, heads: int = 1):
        super().__init__()
        self.window, self.bounds = args.window or 0, args.bounds
        self.renorm, self.scored = args.renorm, args.gauss == SCORES
        self.hidden = self.position = None
        if args.center == PREDICT:
            self.hidden = Projection(width, width, bias=False)
            self.position = Projection(width, heads, bias=False)

    def program(self, p: Program, x: Value) -> Window:
        """The window in a program."""
        centre = None
        if self.hidden is not None:
            centre = p.linear(p.act(p.linear(x, self.hidden), "tanh"), self.position)
        return Window(centre, self.window, (FLOOR, ROUND, REAL).index(self.bounds) + 4 * self.renorm + 8 * self.scored)

    def forward(
        self,
        x: Float[Tensor, "S q D"],
        places: Int[Tensor, "#S q"],
        length: int,
        blocked: Bool[Tensor, "S N"] | None,
    ) -> Near:
        """What the queries x, at `places`, see of `length` source positions, of which `blocked` ones are padding."""
        s = torch.arange(length, device=x.device)
        words = None if blocked is None else (length - blocked.sum(1))[:, None, None]
        share = None
        if self.hidden is None or self.position is None:
            centre = places[:, None]
            centre = centre.clamp(max=length - 1) if words is None else torch.minimum(centre, words - 1)
            offset = s - centre[..., None]
        else:
            # In float32: eight bits of mantissa do not tell positions apart.
            scores = self.position(torch.tanh(self.hidden(x))).to(accumulated(x.dtype)).transpose(1, 2)
            p = torch.sigmoid(scores) * (length if words is None else words)
            share = torch.exp((s - p[..., None]).square() * (-2.0 / self.window**2))
            centre = {FLOOR: torch.floor(p), ROUND: torch.floor(p + 0.5), REAL: p}[self.bounds]
            offset = s - centre[..., None]
        outside = offset.abs() > self.window
        outside = outside if blocked is None else outside | blocked[:, None, None]
        return Near(offset, outside, share, self.renorm, self.scored)
