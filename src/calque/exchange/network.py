"""A checked definition as the Transformer that other formats describe: sides of blocks, each with its norm.

Formats of other tools have places for the parts of a Transformer, not for a text. `recognise` reads a checked tree as such parts,
or raises X501 at the first layer that has no place. Dropout is not part of a model that only translates, so `dropout` and `id` are
skipped. What a single format has no place for is refused by the format, with `refuse`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from calque.adl.check import CheckedDefinition
from calque.adl.tree import CheckedChain, Node
from calque.ground.diagnostics import error

SELF, SOURCE, FEED, RECURRENT = "self-attention", "source attention", "feed-forward", "recurrence"
NORMS = ("norm", "rms_norm")
_SKIPPED = ("dropout", "id")


@dataclass(frozen=True)
class Block:
    """A residual block: x + f(norm(x)) where `pre` holds, else norm(x + f(x)).

    node   the attention, the recurrent unit, or the first map of a feed-forward network
    out    the second map of a feed-forward network; the map behind a recurrent unit, or an attention without W_o
    gate   the map that is multiplied with the activation, where the network is gated
    act    its activation
    """

    kind: str
    pre: bool
    norm: Node
    node: Node
    out: Node | None = None
    gate: Node | None = None
    act: str = ""


@dataclass(frozen=True)
class Side:
    """An encoder or a decoder. `scale` is the factor of embeddings, `end` a `scale` at the end."""

    name: str
    width: int
    scale: float
    positions: Node | None
    zero_first: Node | None
    input_norm: Node | None
    blocks: tuple[Block, ...]
    final_norm: Node | None
    end: Node | None = None

    @property
    def norms(self) -> list[Node]:
        """Every norm, in order."""
        around = [self.input_norm, *(block.norm for block in self.blocks), self.final_norm]
        return [norm for norm in around if norm is not None]

    def of(self, kind: str) -> list[Block]:
        """The blocks of a kind."""
        return [block for block in self.blocks if block.kind == kind]


@dataclass(frozen=True)
class Transformer:
    """Both sides."""

    width: int
    encoder: Side
    decoder: Side


def refuse(node: Node, to: str, reason: str, instead: str) -> NoReturn:
    """Raises X501 at a layer that a format has no place for; `instead` is what it has a place for."""
    raise error("X501", node.call.span, format=to, found=node.name, reason=reason, instead=instead)


def flat(chain: CheckedChain) -> list[Node]:
    """The layers of a chain in order, copies of repetitions laid out, without those that do nothing in translation."""
    return list(_nodes(chain))


def _nodes(chain: CheckedChain) -> Iterator[Node]:
    for item in chain.items.values():
        if isinstance(item, CheckedChain):
            yield from _nodes(item)
        elif item.name not in _SKIPPED:
            yield item


def recognise(checked: CheckedDefinition, to: str) -> Transformer:
    """The Transformer that a definition describes. Raises X501, where `to` is the name of the format."""
    return Transformer(checked.width, _Reader(checked.encoder, to).side(), _Reader(checked.decoder, to).side())


class _Reader:
    """Reads the layers of one side from first to last."""

    def __init__(self, chain: CheckedChain, to: str):
        self.chain, self.to, self.left = chain, to, flat(chain)

    def take(self, *names: str) -> Node | None:
        """The next layer if it has one of these names."""
        return self.left.pop(0) if self.left and self.left[0].name in names else None

    def side(self) -> Side:
        zero_first = self.take("zero_first")
        scale = self.take("scale")
        positions = self.take("pos", "learn_pos")
        factor = 1.0 if scale is None else _factor(scale, self.to)
        if positions is not None and positions.name == "pos" and positions.args.scale:
            factor *= positions.width_in**0.5
        input_norm = self.take(*NORMS)
        blocks = []
        while (node := self.take("add")) is not None:
            blocks.append(self.block(node))
        final_norm = self.take(*NORMS)
        end = self.take("scale")
        if self.left:
            refuse(
                self.left[0], self.to, "it is not part of a Transformer", "blocks such as `res_nd(...)` or `post(...)`"
            )
        return Side(
            self.chain.side,
            self.chain.width_in,
            factor,
            positions,
            zero_first,
            input_norm,
            tuple(blocks),
            final_norm,
            end,
        )

    def block(self, node: Node) -> Block:
        """A residual block, with the norm behind it if it has none before."""
        bodies = [flat(part) for part in node.parts.values()]
        inner = [body for body in bodies if body]
        if len(bodies) != 2 or len(inner) != 1:
            refuse(node, self.to, "it is not a sum of its input and one body", "`res_nd(...)` or `post(...)`")
        body = inner[0]
        pre = body[0].name in NORMS
        norm = body.pop(0) if pre else self.take(*NORMS)
        if norm is None:
            refuse(
                node, self.to, "a residual sum needs a `norm` in its body or behind it", "`res_nd(...)` or `post(...)`"
            )
        if not body:
            refuse(node, self.to, "its body has no layer beside `norm`", "an attention or `ffl` in the body")
        return self.inner(body, pre, norm)

    def inner(self, body: list[Node], pre: bool, norm: Node) -> Block:
        first = body[0]
        kind = {"mh_dot_self_att": SELF, "mh_dot_src_att": SOURCE, "ssru": RECURRENT}.get(first.name)
        if kind and len(body) == 1:
            return Block(kind, pre, norm, first)
        if kind and len(body) == 2 and body[1].name == "linear" and not getattr(first.args, "out", False):
            return Block(kind, pre, norm, first, body[1])
        return self.feed_forward(body, pre, norm)

    def feed_forward(self, body: list[Node], pre: bool, norm: Node) -> Block:
        """ff -> linear, linear -> act -> linear, or mul(linear -> act, linear) -> linear."""
        names = [node.name for node in body]
        if names == ["ff", "linear"]:
            return Block(FEED, pre, norm, body[0], body[1], None, getattr(body[0].args, "v", "relu"))
        if names == ["linear", "act", "linear"]:
            return Block(FEED, pre, norm, body[0], body[2], None, body[1].args.v)
        if names == ["mul", "linear"] and (gated := _gated(body[0])) is not None:
            return Block(FEED, pre, norm, gated[0], body[1], gated[1], gated[2])
        known = ("ff", "linear", "act", "mul")
        wrong = next((node for node in body if node.name not in known), body[0])
        refuse(
            wrong, self.to, "a block holds one attention or one feed-forward network",
            "`mh_dot_self_att`, `mh_dot_src_att` or `ffl` in each block",
        )  # fmt: skip


def _gated(node: Node) -> tuple[Node, Node, str] | None:
    """The two maps and the activation of mul(linear -> act, linear), in either order; None where it is something else."""
    bodies = sorted((flat(part) for part in node.parts.values()), key=len, reverse=True)
    names = [[inner.name for inner in body] for body in bodies]
    if names == [["linear", "act"], ["linear"]]:
        return bodies[0][0], bodies[1][0], bodies[0][1].args.v
    if names == [["ff"], ["linear"]]:
        return bodies[0][0], bodies[1][0], getattr(bodies[0][0].args, "v", "relu")
    return None


def _factor(node: Node, to: str) -> float:
    value = getattr(node.args, "by", None)
    if not isinstance(value, int | float) or getattr(node.args, "learn", "none") != "none":
        refuse(node, to, "embeddings are scaled by a constant", "`scale` with a number")
    return float(value)


def alternate(side: Side, to: str, kinds: Sequence[str]) -> list[list[Block]]:
    """The blocks of a side in layers of these kinds. Raises X501 at the first block of another kind."""
    for k, block in enumerate(side.blocks):
        expected = kinds[k % len(kinds)]
        if block.kind != expected:
            order = ", ".join(kinds)
            refuse(
                block.node, to, f"a layer of the {side.name} is {order}, and here {expected} has to stand", f"{order}"
            )
    if missing := len(side.blocks) % len(kinds):
        last = side.blocks[-1].node
        refuse(last, to, f"the last layer of the {side.name} ends without {kinds[missing]}", ", ".join(kinds))
    return [list(side.blocks[k : k + len(kinds)]) for k in range(0, len(side.blocks), len(kinds))]


def same(nodes: Sequence[Node], value: Callable[[Node], object], what: str, to: str) -> None:
    """Raises X501 at the first layer whose value differs from that of the first one."""
    for node in nodes[1:]:
        if value(node) != value(nodes[0]):
            refuse(
                node, to, f"every layer has the same {what}: {value(nodes[0])} before, {value(node)} here",
                f"one {what} everywhere",
            )  # fmt: skip


def check_norms(side: Side, to: str, end: bool = False) -> bool:
    """Whether blocks are normalised before their body. Raises X501 where blocks or epsilons differ.

    `end`: a last `scale` may follow.
    """
    for block in side.blocks:
        if block.pre != side.blocks[0].pre:
            refuse(
                block.norm, to, "all blocks have their norm at one place", "`res_nd` everywhere, or `post` everywhere"
            )
    same(side.norms, lambda node: node.name, "kind of norm", to)
    same(side.norms, lambda node: node.args.eps, "epsilon", to)
    for node in side.norms:
        if getattr(node.args, "groups", 1) != 1 or not getattr(node.args, "gain", True):
            refuse(node, to, "a norm is over the whole width and has a gain", "`rms_norm` without `groups`")
    if side.end is not None and not end:
        refuse(side.end, to, "nothing follows the last norm", "no `scale` at the end")
    return side.blocks[0].pre if side.blocks else True


PLAIN = {"rope": None, "kv_heads": None, "qk_norm": False, "relative": "none", "talking": False, "window": None}
"""What self-attention is without the arguments that few formats have a place for."""


def check_attention(block: Block, width: int, to: str, carried: Sequence[str] = ()) -> None:
    """Raises X501 for an attention that has arguments without a place in the format. Of `PLAIN` and `width` it has `carried`."""
    node, args = block.node, block.node.args
    for name, value in PLAIN.items():
        if name not in carried and getattr(args, name, value) != value:
            refuse(node, to, f"it has no place for `{name}`", "attention without it")
    if args.width != width and "width" not in carried:
        refuse(node, to, f"attention is as wide as the model, {width}", f"`width={width}`")
    if not args.out and block.out is None:
        refuse(node, to, "contexts are projected", "`out=yes`")
    if block.kind == SOURCE:
        if args.from_ is None or args.from_.key != "end" or flat(node.parts["from"]):
            refuse(node, to, "source attention reads the end of the encoder as it is", "`from=@end`")
        if args.project != "all":
            refuse(node, to, "queries, keys and values are projected", "`project=all`")
