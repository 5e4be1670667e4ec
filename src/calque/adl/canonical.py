"""Canonical text: all arguments with their values, no definitions, and one way to write each thing."""

from collections.abc import Mapping

from calque.adl.core import (
    Bound,
    Call,
    CallChain,
    CoreSource,
    Expression,
    Index,
    InputWidth,
    Sum,
    evaluate,
    has_index,
    is_known,
)
from calque.adl.signature import Body, Parameter

Indices = tuple[int, ...] | None


def program_text(width: int, encoder: CallChain, decoder: CallChain) -> str:
    """The whole definition."""
    return f"adl = 0\nd = {width}\nencoder = {chain_text(encoder)}\ndecoder = {chain_text(decoder)}\n"


def chain_text(chain: CallChain, indices: Indices = None, names: Mapping[int, str] | None = None) -> str:
    """A chain; with `indices`, the numbers of one copy instead of expressions."""
    return " -> ".join(call_text(call, indices, names) for call in chain)


def call_text(call: Call, indices: Indices = None, names: Mapping[int, str] | None = None) -> str:
    """A primitive with all its arguments."""
    names = names or {}
    label = f" @ {call.label}" if call.label else ""
    if call.name == "repeat":
        return _repeat_text(call, indices, names) + label
    parameters = call.signature.parameters
    last = max((k for k, p in enumerate(parameters) if isinstance(p.kind, Body) or p.kind.many), default=-1)
    written = [
        _argument(p, call.args[p.name], k <= last, indices, names)
        for k, p in enumerate(parameters)
        if not (p.later and call.args[p.name] == p.default)
    ]
    return call.name + (f"({', '.join(written)})" if written else "") + label


def _repeat_text(call: Call, indices: Indices, names: Mapping[int, str]) -> str:
    # Indices of the copies around are written as numbers; the others need different names.
    outer = has_index(call.args["body"], call.depth, len(indices or ()))
    name = f"i{call.depth + 1}" if outer else "i"
    n, body = call.args["n"], call.args["body"]
    if not isinstance(n, tuple) and _value(n, indices, names) == "0":
        return "id"
    inner = {**names, call.depth + 1: name}
    index = "" if name == "i" else f", index={name}"
    share = ", share=yes" if call.args["share"] else ""
    return f"repeat({_value(n, indices, names)}, {_value(body, indices, inner)}{index}{share})"


def _argument(parameter: Parameter, bound: Bound, positional: bool, indices: Indices, names: Mapping[int, str]) -> str:
    if parameter.kind.many and isinstance(bound, tuple):
        return ", ".join(_value(value, indices, names) for value in bound)
    value = _value(bound, indices, names)
    return value if positional else f"{parameter.name}={value}"


def _value(bound: Bound | Call, indices: Indices, names: Mapping[int, str]) -> str:
    if bound is None:
        return "none"
    if isinstance(bound, bool):
        return "yes" if bound else "no"
    if isinstance(bound, str):
        return bound
    if isinstance(bound, float):
        return repr(bound)
    if isinstance(bound, int | Index | InputWidth | Sum):
        return _number(bound, indices, names)
    if isinstance(bound, Call):
        return call_text(bound, indices, names)
    if isinstance(bound, CoreSource):
        index = "" if bound.index is None else f"[{_number(bound.index, indices, names)}]"
        behind = f" -> {chain_text(bound.chain, indices, names)}" if bound.chain else ""
        return f"@{bound.label}{index}{behind}"
    return chain_text(tuple(part for part in bound if isinstance(part, Call)), indices, names)


def _number(expression: Expression, indices: Indices, names: Mapping[int, str]) -> str:
    if isinstance(expression, int):
        return str(expression)
    if is_known(expression, len(indices or ())):
        return str(evaluate(expression, indices or ()))
    if isinstance(expression, InputWidth):
        return "d_in"  # in a repetition without copies
    if isinstance(expression, Index):
        return names.get(expression.depth, "i")
    left, right = (_number(side, indices, names) for side in (expression.left, expression.right))
    if " " in left:
        left = f"({left})"
    if " " in right:
        right = f"({right})"
    return f"{left} {expression.op} {right}"
