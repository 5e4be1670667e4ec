"""The forms of the average that table 1 of Zhang 2018 compares, as layers whose cost can be computed.

The layer `average` is the third form, a scan. The other two give the same outputs; definitions cannot name them.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from calque.layers.average import Average
from calque.layers.contract import Context, Layer, NoArgs, Registry, Site
from calque.layers.cost import BEFORE, Cost, Products
from calque.layers.registry import builtin


class SummedAverage(Average):
    """A sum, one addition after the other: n sequential operations (equation 5, over a whole sentence)."""

    @classmethod
    def cost(cls, args: NoArgs, site: Site) -> Cost:
        return super().cost(args, site)._replace(reach=BEFORE._replace(sequential="n"))

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        total, means = torch.zeros_like(x[:, 0]), []
        for j in range(x.shape[1]):
            total = total + x[:, j]
            means.append(total / (j + 1))
        return torch.stack(means, 1)


class MaskedAverage(Average):
    """The product with a matrix of 1/j (section 3.1, figure 3): no sequential operations, n^2 d more multiply-adds."""

    @classmethod
    def cost(cls, args: NoArgs, site: Site) -> Cost:
        return super().cost(args, site)._replace(products=Products(visible=site.width), reach=BEFORE)

    def forward(self, x: Float[Tensor, "B T D"], ctx: Context) -> Float[Tensor, "B T D"]:
        return mask(x.shape[1]).to(x) @ x


def mask(n: int) -> Float[Tensor, "n n"]:
    """Row j, from 1, has 1/j up to column j and zeros after it."""
    return torch.ones(n, n, dtype=torch.float64).tril() / torch.arange(1, n + 1)[:, None]


FORMS: Mapping[str, type[Layer]] = {"sum": SummedAverage, "mask": MaskedAverage}
"""By name."""


def registry_of(form: str) -> Registry:
    """The layers of the package with a form of the average; the empty name is the scan."""
    layers = dict(builtin())
    if form:
        layers[Average.name] = FORMS[form]
    return Registry(layers.values())
