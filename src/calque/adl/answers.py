"""What a layer answers when a definition is checked: whether its arguments have an effect, its width, its cost.

The methods of a plugin's layer may return anything.
"""

import re
from typing import Any, cast

from calque.adl.declaration import Cost, Fault, LayerArguments, LayerType, Site
from calque.adl.signature import value_of
from calque.ground.diagnostics import CalqueError, Place, codes, error

OWN = "X424"
"""The code for what a plugin's layer refuses, with a message of its own."""


def width_of(layer: LayerType, args: LayerArguments, site: Site) -> int:
    """The width of the layer's output. Raises X423, and the `Fault` of arguments that do not fit."""
    out: Any = layer.infer(args, site)
    if not isinstance(out, int) or isinstance(out, bool) or out < 1:
        raise wrong_result(layer, "infer", short(out), "a width, a whole number from 1")
    return out


def effective(layer: LayerType, args: LayerArguments) -> None:
    """Raises the `Fault` C220 of an argument that has no effect, and is not its default."""
    for p in layer.signature().parameters:
        if p.only is not None and value_of(args, p.name) != p.default:
            other, values = p.only
            found = value_of(args, other)
            if found not in values:
                raise Fault("C220", p.name, name=p.name, other=other, found=found, values=values)


def cost_of(layer: LayerType, args: LayerArguments, site: Site) -> Cost:
    """The layer's cost. Raises X423."""
    if of_plugin(layer):
        cost: Any = cast("Any", layer).cost(args, site)
        if not isinstance(cost, Cost):
            raise wrong_result(layer, "cost", short(cost), "a `Cost`")
    return layer.account(args, site)


def wrong_result(layer: Any, method: str, found: str, expected: str) -> CalqueError:
    """X423, at the beginning of a method that returned something else."""
    function = getattr(layer, method)
    code = getattr(function, "__func__", function).__code__
    place = Place(code.co_filename, code.co_firstlineno)
    return error("X423", place, layer=layer.name, method=method, found=found, expected=expected)


def refused(layer: str, fault: Fault) -> tuple[str, dict[str, object]]:
    """The code and the fields of the error for a `Fault`; X424 where its code is unknown or a field of the message is missing."""
    known = codes().get(fault.code)
    if known is not None and set(re.findall(r"{(\w+)", known.message)) <= fault.fields.keys():
        return fault.code, fault.fields
    return OWN, {"layer": layer, "reason": ", ".join(map(str, [fault.code, *fault.fields.values()]))}


def of_plugin(layer: Any) -> bool:
    """Whether a layer is not one of Calque's."""
    return not layer.__module__.startswith("calque.")


def short(found: object) -> str:
    """A value in one line."""
    shown = repr(found)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
