"""The page of all layers with their laws and costs: `python -m calque.prove.layers_page > docs/layer-table.md`."""

import inspect
import re
import sys
from collections.abc import Iterator

from calque.adl.check import check
from calque.adl.declaration import Cost, Held, Products
from calque.adl.signature import REQUIRED
from calque.adl.tree import CheckedChain
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.contract import DECODER, ENCODER, Example, Layer, Registry
from calque.layers.registry import builtin
from calque.prove.prover import LAWS, TRIALS

WIDTH, HEADS = 512, 8
_YEAR = re.compile(r"\(([^()]*\b(?:19|20)\d\d\b[^()]*(?:\([^()]*\)[^()]*)*)\)")
_HEAD = f"""# Layers, laws, costs

<!-- Made by `python -m calque.prove.layers_page > docs/layer-table.md`; a test makes it again. -->

Every layer of the language, one class in one file of `src/calque/layers`. `calque layers NAME` prints the page of one, with its
equation; the reference has all of them.

**Laws.** The test suite proves every law for every example of a layer, on each side where it may stand, with {TRIALS} sets of
random numbers, in float64, gradients included. No layer is exempt. `calque prove` proves them for [layers of your
own](own-layer.md), and that page says what they demand.

The column *proved* has the sides and the number of examples. The laws are

- of an encoder: {{encoder}}
- of a decoder: {{decoder}}

**Costs** are those of the text in the first column at `d = {WIDTH}` and `heads = {HEADS}`, without the layers in its bodies, as
`calque explain` adds them up; a law compares them with the built module. Multiply-adds are those of matrix products, for one
position: n is the length of the text, t the number of positions so far, S the length of the source; *once* is once per sentence.
The state is what a decoder carries for one sentence, in numbers. *Sequential* counts operations over n positions that run one
after the other, *path* those between the most distant input and output; combinators have those of their bodies.
"""


def page() -> str:
    """The page in Markdown."""
    laws = {side: ", ".join(f"*{name}*" for name, _ in LAWS[side]) for side in ("encoder", "decoder")}
    registry = builtin()
    rows = [row for _, layer in sorted(registry.items()) for row in _row(layer, registry)]
    head = ("text", "class", "equation from", "proved", "parameters", "training", "step", "state", "sequential", "path")
    lines = [_HEAD.format(**laws), f"| {' | '.join(head)} |", f"|---|---|---|---|{'---:|' * 4}---|---|", *rows]
    return "\n".join(lines) + "\n"


def _row(layer: type[Layer], registry: Registry) -> Iterator[str]:
    """The row of a layer, on the decoder's side where it may stand there."""
    example = _shown(layer)
    side = DECODER if DECODER in example.sides else ENCODER
    cost = _cost_of(layer, example, side, registry)
    products = cost.products or Products()
    reach = cost.reach
    cells = (
        f"`{example.text}`",
        f"`{layer.__name__}`",
        source_of(layer),
        _proved(layer),
        f"{cost.parameters:,}",
        _products(cost.whole or products, "n"),
        _products(products, "t") if side == DECODER else "",
        _state(cost.state or Held()) if side == DECODER else "",
        "" if reach is None else reach.sequential,
        "" if reach is None else reach.path,
    )
    yield f"| {' | '.join(cells)} |"


def _shown(layer: type[Layer]) -> Example:
    """The layer with its defaults, or its first example where an argument has none."""
    first: Example = next((e for e in layer.examples if DECODER in e.sides), layer.examples[0])
    if any(p.default is REQUIRED for p in layer.signature().parameters):
        return first
    return Example(layer.name, layer.sides, first.encoder)


def _cost_of(layer: type[Layer], example: Example, side: str, registry: Registry) -> Cost:
    texts = {ENCODER: example.encoder, DECODER: "id", side: example.text}
    sides = f"encoder = {texts[ENCODER]}\ndecoder = {texts[DECODER]}\n"
    settings = {"d": WIDTH, "heads": HEADS, "p": 0.1}
    while True:
        text = "".join(f"{name} = {value}\n" for name, value in settings.items()) + sides
        try:
            checked = check(Text(layer.name, text), registry)
            chain: CheckedChain = getattr(checked, side)
            return next(node.cost for node in chain.nodes() if node.name == layer.name)
        except CalqueError as fault:
            # A setting that nothing reads is an error.
            unread = {str(d.fields["name"]) for d in fault.diagnostics if d.code == "C127"} - {"d"}
            if not unread:
                raise
            for name in unread:
                del settings[name]


def source_of(layer: type[Layer]) -> str:
    """The paper and the equation that the page of a layer names first; empty where the layer is of no paper."""
    found = _YEAR.search(" ".join((inspect.getdoc(layer) or "").split()))
    return "" if found is None else found[1].replace("|", "\\|")


def _proved(layer: type[Layer]) -> str:
    examples = len(layer.examples)
    sides = sorted({side for example in layer.examples for side in example.sides}, reverse=True)
    return f"{'both' if len(sides) == 2 else sides[0]}, {examples}"


def _products(cost: Products, length: str) -> str:
    each = _sum((cost.position, ""), (cost.visible, length), (cost.source, "S"))
    once = _sum((cost.memory, "S"), (cost.among, "S²"), (cost.ahead, "n"), (cost.across, "n S"))
    return "; once ".join(part for part in (each, once if once != "0" else "") if part)


def _state(held: Held) -> str:
    return _sum((held.row + held.exact, ""), (held.place, "t"), (held.memory, "S"), (held.ahead, "n"))


def _sum(*terms: tuple[int, str]) -> str:
    shown = [f"{number:,}{' ' if unit else ''}{unit}" for number, unit in terms if number]
    return " + ".join(shown) or "0"


def main() -> None:
    """Writes the page to stdout."""
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
