"""Random texts of the language: programs that are meant to be valid, and texts that are not.

Programs are drawn against the signatures of the layers there are, so a new layer is covered on the day it is written.
"""

import random

from calque.adl.signature import Body, Flag, Int, Point, Real, Signature, Word
from calque.layers.registry import builtin

SIGNATURES = {name: layer.signature() for name, layer in builtin().layers.items()}
SIDES = {name: layer.sides for name, layer in builtin().layers.items()}
PIECES = (
    *SIGNATURES, *"repeat res res_d ffl tenc birnn encoder decoder adl d heads p i j x yes no none end f g relu glu".split(),
    *"-> -> -> → ( ( ( ) ) ) [ ] , , = = @ + - * / 1 2 8 0 0.1 1e-6 999999999 # ; $ \\ \" ' . : { } é ٣ 𝄞".split(),
    " ", "\n", "\n", "\t", "\r\n", "\0", "\ufeff",
)  # fmt: skip


def argument(draw: random.Random, kind: object, side: str, depth: int) -> str | None:
    """A value for a parameter of a kind; None: leave it out."""
    if isinstance(kind, Body):
        return chain(draw, side, depth - 1)
    if isinstance(kind, Point):
        return draw.choice((None, None, "@end", "@end -> linear" if kind.chain else None))
    if isinstance(kind, Flag):
        return draw.choice((None, "yes", "no"))
    if isinstance(kind, Word):
        return draw.choice((None, *kind.choices))
    if isinstance(kind, Real):
        return draw.choice((None, "0", "0.25", "p", "1e-3"))
    if isinstance(kind, Int):
        return draw.choice((None, "1", "2", "3", "4", "d", "2*d", "w", "d/2 + 1"))
    return None


def call(draw: random.Random, signature: Signature, side: str, depth: int) -> str:
    written, named = [], False
    for parameter in signature.parameters:
        many = draw.randint(2, 3) if parameter.kind.many else 1
        for _ in range(many):
            value = argument(draw, parameter.kind, side, depth)
            needed = repr(parameter.default) == "REQUIRED"
            if value is None and needed:
                value = "2"
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
            parts.append(f"res({chain(draw, side, depth - 1)} -> linear)")
        elif kind == 2:
            parts.append(f"repeat(2, linear(2*i) -> {chain(draw, side, depth - 1)}, index={draw.choice('ijk')})")
        elif kind == 3:
            parts.append(f"block({chain(draw, side, depth - 1)})")
        else:
            signature = SIGNATURES[draw.choice(names)]
            if depth <= 0 and any(isinstance(p.kind, Body) for p in signature.parameters):
                signature = SIGNATURES["norm"]
            parts.append(call(draw, signature, side, depth))
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


def large(draw: random.Random) -> str:
    """A text that asks for much: nesting, numbers, names, doubling definitions, long lines."""
    k = draw.choice((5, 20, 60, 300, 3000))
    end = "\ndecoder = mh_dot_src_att\n"
    few = min(k, 60)
    bodies = (
        lambda: "encoder = " + "(" * k,
        lambda: "encoder = " + "res(" * k + "id" + ")" * k + end,
        lambda: "encoder = linear(" + "-" * k + "1)" + end,
        lambda: "encoder = linear(" + "(" * k + "1" + ")" * k + ")" + end,
        lambda: "encoder = linear(" + draw.choice("+-*/").join("1" * k) + ")" + end,
        lambda: "encoder = linear(" + "9" * k + ")" + end,
        lambda: "encoder = norm(1e" + "9" * k + ")" + end,
        lambda: "encoder = " + "a" * k * 20 + end,
        lambda: "encoder = " + " -> ".join(["id"] * k) + end,
        lambda: "encoder = id" + "@a" * k + end,
        lambda: "encoder = " + " -> ".join(f"id@a{j}" for j in range(k)) + end.replace("att", "att(from=@b)"),
        lambda: "encoder = repeat(" * few + "1000, " * few + end,
        lambda: "encoder = " + "repeat(1000, " * few + "id" + ")" * few + end,
        lambda: "encoder = " + "repeat(i*1000, " * few + "id" + ")" * few + end,
        lambda: "f0(x) = x -> x\n" + "".join(f"f{j}(x) = f{j - 1}(f{j - 1}(x))\n" for j in range(1, few)) + f"encoder = f{few - 1}({draw.choice(('id', 'nrom'))})" + end,
        lambda: "f0 = id -> id\n" + "".join(f"f{j} = f{j - 1} -> f{j - 1}\n" for j in range(1, few)) + f"encoder = f{few - 1}" + end,
        lambda: "f0(a) = linear(a*a)\n" + "".join(f"f{j}(a) = f{j - 1}(a*a + a)\n" for j in range(1, few)) + f"encoder = repeat(2, f{few - 1}({draw.choice('2i')}))" + end,
        lambda: "n0 = 3\n" + "".join(f"n{j} = n{j - 1}*n{j - 1}\n" for j in range(1, few)) + f"encoder = linear(n{few - 1})" + end,
        lambda: "".join(f"a{j} = id\n" for j in range(k)) + "encoder = id" + end,
        lambda: "encoder = id\n" + "x = (\n" * k + end,
        lambda: "encoder = " + "nrom -> " * k + "id" + end,
        lambda: "encoder = cnn(" + "kernal=3, " * k + ")" + end,
        lambda: "f(" + ", ".join(f"a{j} = a{j - 1}" for j in range(1, few)) + ") = id\nencoder = f(id)" + end,
        lambda: "\n" * k * 20 + "encoder = $" + " " * k * 20 + end,
        lambda: "# " + "é" * k * 20 + "\nencoder = id" + end,
        lambda: "encoder = concat(" + "id, " * k + ")" + end,
        lambda: "encoder = id\n" * k + end,
    )  # fmt: skip
    return draw.choice(bodies)()


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
