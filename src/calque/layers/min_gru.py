import torch
from torch import Tensor

from calque.layers.contract import Example, Parts, Site
from calque.layers.gated_scan import GatedScan
from calque.layers.projections import Projection
from calque.layers.state import State, accumulated
from calque.layers.stepping import scanned
from calque.native.program import Kind, Program, Value


class MinimalGated(GatedScan):
    """min_gru(x_t) = h_t, h_t = (1 - z_t) h_{t-1} + z_t (W x_t + b), z_t = sigmoid(W_z x_t + b_z), from left to right
    (Feng et al. 2024, "Were RNNs All We Needed?", section 3.1).

    The paper's second form, for training in logarithms, passes W x + b through a positive function; this is the first one. The
    state is zero before the first position, and float32 in every precision.
    """

    name = "min_gru"
    known_as = ("minGRU", "min_lstm", "qrnn")
    examples = (Example("min_gru"), Example("min_gru(6)"))

    def __init__(self, args: GatedScan.Args, site: Site, parts: Parts):
        super().__init__(args, site, parts)
        self.input = Projection(site.width, args.width)
        self.gate = Projection(site.width, args.width)

    def drive(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kind = accumulated(x.dtype)
        z = torch.sigmoid(self.gate(x).to(kind))
        return 1 - z, z * self.input(x).to(kind)

    def program(self, p: Program, x: Value, state: State | None) -> tuple[Value, State | None]:
        said = p.linear(x, self.gate), p.linear(x, self.input)
        return scanned(self, p, Kind.GATED, said, state, (1.0, -1.0))
