"""What a layer says of itself when a definition is checked. Layers of one's own are checked, whose methods may return anything."""

import re
from typing import Any, cast

from calque.adl.declaration import Cost, Fault, LayerArguments, LayerType, Site
from calque.ground.diagnostics import CalqueError, Place, codes, error

OWN = "X424"
"""What a layer of one's own refuses, in its own words."""


def width_of(layer: LayerType, args: LayerArguments, site: Site) -> int:
    """The width of the layer's output. Raises X423, and the `Fault` of arguments that do not fit."""
    out: Any = layer.infer(args, site)
    if not isinstance(out, int) or isinstance(out, bool) or out < 1:
        raise strange(layer, "infer", short(out), "a width, a whole number from 1")
    return out


def cost_of(layer: LayerType, args: LayerArguments, site: Site) -> Cost:
    """The layer's cost. Raises X423."""
    if not layer.__module__.startswith("calque."):
        cost: Any = cast("Any", layer).cost(args, site)
        if not isinstance(cost, Cost):
            raise strange(layer, "cost", short(cost), "a `Cost`")
    return layer.account(args, site)


def strange(layer: Any, method: str, found: str, expected: str) -> CalqueError:
    """X423 at a method that returns something else."""
    function = getattr(layer, method)
    code = getattr(function, "__func__", function).__code__
    place = Place(code.co_filename, code.co_firstlineno)
    return error("X423", place, layer=layer.name, method=method, found=found, expected=expected)


def refused(layer: str, fault: Fault) -> tuple[str, dict[str, object]]:
    """The code and the fields of a `Fault`. One that is no code, or lacks what its sentence names, is told in its own words."""
    known = codes().get(fault.code)
    if known is not None and set(re.findall(r"{(\w+)", known.message)) <= fault.fields.keys():
        return fault.code, fault.fields
    return OWN, {"layer": layer, "reason": ", ".join(map(str, [fault.code, *fault.fields.values()]))}


def short(found: object) -> str:
    """A value in one line."""
    shown = repr(found)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
