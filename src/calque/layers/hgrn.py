from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from calque.adl.signature import Real, arg
from calque.layers.contract import Example, Parts, Site
from calque.layers.gated_scan import GatedScan
from calque.layers.projections import Projection
from calque.layers.state import State, accumulated
from calque.layers.stepping import scanned
from calque.native.program import Kind, Program, Value


class HierarchicallyGated(GatedScan):
    """hgrn(x_t) = sigmoid(W_g x_t + b_g) * h_t, h_t = f_t h_{t-1} + (1 - f_t) silu(W x_t + b),
    f_t = floor + (1 - floor) sigmoid(W_f x_t + b_f), from left to right (Qin et al. 2023, "Hierarchically Gated Recurrent Neural
    Network", section 3).

    Upper layers remember longer where they have a higher `floor`; the paper learns the floors of all layers together, here each is
    a number of the text. The paper's state is complex, with phases that are learned; this is its real form, as in its successor
    HGRN2. Its norm and its last projection stand behind: `hgrn -> rms_norm -> linear`.
    """

    name = "hgrn"
    known_as = ("HGRN", "hgru")
    examples = (Example("hgrn"), Example("hgrn(6, floor=0.5)"))
    matrices = 3

    @dataclass(frozen=True)
    class Args(GatedScan.Args):
        floor: float = arg(
            Real(0.0, 1.0, below=True), 0.0, "the least that is kept of the state", known_as=("lower_bound",)
        )

    def __init__(self, args: Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.input = Projection(site.width, args.width)
        self.forget = Projection(site.width, args.width)
        self.gate = Projection(site.width, args.width)
        self.floor = args.floor

    def drive(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kind = accumulated(x.dtype)
        f = self.floor + (1 - self.floor) * torch.sigmoid(self.forget(x).to(kind))
        return f, (1 - f) * F.silu(self.input(x).to(kind))

    def read(self, h: Tensor, x: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(x).to(h.dtype)) * h

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        said = p.linear(x, self.forget), p.act(p.linear(x, self.input), "silu")
        y, after = scanned(self, p, Kind.GATED, said, state, (self.floor, 1 - self.floor))
        return p.multiply(p.act(p.linear(x, self.gate), "sigmoid"), y), after
