"""Random texts of the language: programs that are meant to be valid, and texts that are not.

Programs are drawn against the signatures of the layers there are, so a new layer is covered on the day it is written.
"""

import random

from calque.adl.signature import REQUIRED, Body, Flag, Int, Point, Real, Signature, Word
from calque.layers.registry import builtin

SIGNATURES = {name: layer.signature() for name, layer in builtin().items()}
SIDES = {name: layer.sides for name, layer in builtin().items()}
WORDS = "d_in repeat res res_d ffl tenc birnn encoder decoder adl d heads p i j x yes no none end f relu 1 2 8 0 0.1 1e-6 999999999"
MARKS = "()[],=@+-*/#;$\\\"'.:{}é٣𝄞\n\t\0\ufeff"
PIECES = (*SIGNATURES, *WORDS.split(), *MARKS, "->", "->", "->", "→", "(", ")", ")", ",", "=", " ", "\n", "\r\n")


def argument(draw: random.Random, kind: object, side: str, depth: int) -> str | None:
    """A value for a parameter of a kind; None: leave it out."""
    if isinstance(kind, Body):
        return chain(draw, side, depth - 1) + " -> linear"
    if isinstance(kind, Point):
        return draw.choice((None, "@end -> linear(d)")) if kind.chain and side == "decoder" else None
    if isinstance(kind, Flag):
        return draw.choice((None, "yes", "no"))
    if isinstance(kind, Word):
        return draw.choice((None, *kind.choices))
    if isinstance(kind, Real):
        return draw.choice((None, "100", "1e4") if kind.low >= 1 else (None, "0", "0.25", "p", "1e-3"))
    if isinstance(kind, Int):
        return draw.choice((None, "1", "2", "3", "4", "d", "2*d", "w", "d/2 + 1", "2*d_in"))
    return None


def call(draw: random.Random, signature: Signature, side: str, depth: int) -> str:
    written, named = [], False
    for parameter in signature.parameters:
        many = draw.randint(2, 3) if parameter.kind.many else 1
        for _ in range(many):
            value = argument(draw, parameter.kind, side, depth)
            if parameter.default is not REQUIRED and draw.random() < (
                0.8 if parameter.later or parameter.only else 0.5
            ):
                value = None  # arguments are about one another: the more are given, the fewer fit
            if value is not None and parameter.name in ("kernel", "heads", "kv_heads", "groups"):
                value = "1"
            if value is None and parameter.default is REQUIRED:
                value = parameter.kind.choices[0] if isinstance(parameter.kind, Word) else "1"
            if signature.either and parameter.name in signature.either[1]:
                value = None
            if value is None:
                named = True
            else:
                written.append(f"{parameter.name}={value}" if named else value)
    return signature.name + (f"({', '.join(written)})" if written else "")


def chain(draw: random.Random, side: str, depth: int) -> str:
    """A chain; `back` to the width `d` at its end more often than not, so that residuals and feeding fit."""
    names = [name for name, sides in SIDES.items() if side in sides]
    parts = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.randrange(8) if depth > 0 else 7
        if kind == 0:
            parts.append(f"repeat({draw.choice(('1', '2', 'n - 2', 'n'))}, {chain(draw, side, depth - 1)})")
        elif kind == 1:
            parts.append(f"linear -> res({chain(draw, side, depth - 1)} -> linear)")
        elif kind == 2:
            index = draw.choice("ijk")
            parts.append(
                f"repeat(2, linear(2*{index}) -> {chain(draw, side, depth - 1)} -> linear(w + {index}), index={index})"
            )
        elif kind == 3:
            parts.append(f"block({chain(draw, side, depth - 1)})")
        else:
            signature = SIGNATURES[draw.choice(names)]
            if depth <= 0 and any(isinstance(p.kind, Body) for p in signature.parameters):
                signature = SIGNATURES["norm"]
            parts.append(draw.choice(("", "linear -> ")) + call(draw, signature, side, depth))
    if draw.random() < 0.7:
        parts.append("linear")
    return " -> ".join(parts)


def program(draw: random.Random) -> str:
    """A text that is valid more often than not. Its settings are read."""
    return (
        f"d = {draw.choice((4, 8, 12))}\nheads = {draw.choice((1, 2))}\np = 0.2\nw = d/4\nn = 2\n"
        f"block(b, k = 2*w) = norm -> b -> linear(k) -> linear -> dropout(p) -> repeat(n, id)\n"
        f"encoder = mh_dot_self_att(width=4*w*heads) -> block({chain(draw, 'encoder', 3)}) @ e\n"
        f"decoder = mh_dot_src_att(from=@e) -> {chain(draw, 'decoder', 3)}\n"
    )


def soup(draw: random.Random) -> str:
    """Tokens in any order."""
    count = draw.choice((3, 10, 40, 200, 1000))
    space = draw.choice(("", " "))
    return space.join(draw.choice(PIECES) for _ in range(draw.randint(0, count)))


def mutated(draw: random.Random, text: str) -> str:
    """A text with a few characters or pieces gone, doubled, swapped or replaced."""
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        at = draw.randrange(len(text) + 1)
        to = min(len(text), at + draw.choice((0, 1, 1, 4, 30)))
        kind = draw.randrange(4)
        new = ("", draw.choice(PIECES), text[at:to] * 2, chr(draw.randrange(0xD7FF)))[kind]
        text = text[:at] + new + text[to:]
    return text


def doubling(first: str, step: str, last: str, count: int) -> str:
    """Definitions `f0`, `f1`, ... each of which uses the one before twice."""
    steps = "".join(f"f{j}{step.replace('F', f'f{j - 1}')}\n" for j in range(1, count))
    return f"f0{first}\n{steps}encoder = {last.replace('F', f'f{count - 1}')}"


def large(draw: random.Random) -> str:
    """A text that asks for much: nesting, numbers, names, doubling definitions, long lines."""
    k = draw.choice((5, 20, 60, 300, 3000))
    few, leaf, number = min(k, 60), draw.choice(("id", "nrom")), draw.choice("2i")
    sides = (
        "encoder = " + "(" * k,
        "encoder = " + "res(" * k + "id" + ")" * k,
        "encoder = linear(" + "-" * k + "1)",
        "encoder = linear(" + "(" * k + "1" + ")" * k + ")",
        "encoder = linear(" + draw.choice("+-*/").join("1" * k) + ")",
        "encoder = linear(" + "9" * k + ")",
        "encoder = norm(1e" + "9" * k + ")",
        "encoder = " + "a" * k * 20,
        "encoder = " + " -> ".join(["id"] * k),
        "encoder = id" + "@a" * k,
        "encoder = " + " -> ".join(f"id@a{j}" for j in range(k)) + "\ndecoder = mlp_src_att(from=@b)",
        "encoder = "
        + " -> ".join(f"id@a{j}" for j in range(k))
        + "\ndecoder = "
        + "mlp_src_att(from=@b) -> " * k
        + "id",
        "encoder = " + "repeat(1000, " * few,
        "encoder = " + "repeat(1000, " * few + "id" + ")" * few,
        "encoder = " + "repeat(i*1000, " * few + "id" + ")" * few,
        doubling("(x) = x -> x", "(x) = F(F(x))", f"F({leaf})", few),
        doubling("(x) = x -> x", "(x) = F(x) -> F(x)", f"F({leaf})", few),
        doubling(f" = id -> {leaf}", " = F -> F", "F", few),
        doubling("(a) = linear(a*a)", "(a) = F(a*a + a)", f"repeat(2, F({number}))", few),
        doubling(" = 3", " = F*F", "linear(F)", few),
        "".join(f"a{j} = id\n" for j in range(k)) + "encoder = id",
        "encoder = id\n" + "x = (\n" * k,
        "encoder = " + "nrom -> " * k + "id",
        "encoder = cnn(" + "kernal=3, " * k + ")",
        "f(" + ", ".join(f"a{j} = a{j - 1}" for j in range(1, few)) + ") = id\nencoder = f(id)",
        "\n" * k * 20 + "encoder = $" + " " * k * 20,
        "# " + "é" * k * 20 + "\nencoder = id",
        "encoder = concat(" + "id, " * k + ")",
        "encoder = id\n" * k,
    )
    return draw.choice(sides) + "\ndecoder = mh_dot_src_att\n"


def any_text(draw: random.Random, valid: list[str]) -> str:
    """One of all these."""
    kind = draw.randrange(10)
    if kind < 2:
        return soup(draw)
    if kind < 6:
        return mutated(draw, draw.choice(valid))
    if kind < 7:
        return mutated(draw, program(draw))
    if kind < 8:
        return program(draw)
    if kind < 9:
        return mutated(draw, large(draw))
    return large(draw)
