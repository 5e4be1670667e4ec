"""Figures of the papers that need no trained model: architectures, the mask of Zhang 2018, the hard-coded heads of You 2020."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from calque import zoo
from calque.adl.check import check
from calque.analyse import matrices
from calque.analyse.architecture import architecture
from calque.analyse.canvas import COLOURS, WIDTH, Panels
from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.explain.averages import mask, registry_of
from calque.ground.diagnostics import Text
from calque.layers.build import build
from calque.layers.contract import Context
from calque.layers.registry import builtin
from calque.papers import read_paper
from calque.papers.paper import Row
from calque.zoo.row_texts import place

WORDS = ("Jane", "went", "to", "the", "office")
"""The sentence of You 2020, figure 1, and the place of its query."""
QUERY = 2
OFFSETS = (-1, 0, 1)
INPUTS = 4
"""Of Zhang 2018, figure 3."""


def architectures(names: Sequence[str]) -> list[DrawnFigure]:
    """The diagram of each, as `calque explain --diagram` draws it."""
    found = []
    for name in names:
        caption = f"Drawn from its definition (`calque explain {name} --diagram out.svg`)."
        found.append(architecture(check(zoo.read(name), builtin()), name.replace("/", "-"), name, caption))
    return found


def average_mask(n: int = INPUTS) -> list[DrawnFigure]:
    """What each output of `average` takes of each input: one input after the other is set to one, the rest to zero."""
    computed, product = (_responses("average", n, form) for form in ("", "mask"))
    drawn = matrices.draw(
        product,
        [f"y{k}" for k in range(1, n + 1)],
        [f"g{k}" for k in range(1, n + 1)],
        "average-mask",
        "The cumulative average as a masked matrix",
        f"The matrix of the masked form: output g_j takes 1/j of each input up to y_j. The scan that `average` is computed with "
        f"gives the same to within {float((computed - product).abs().max()):.0e}, and the matrix of section 3.1 to within "
        f"{float((product - mask(n)).abs().max()):.0e}.",
        axes_names=("input of the layer", "its average"),
    )
    return [drawn]


def _responses(layer: str, n: int, form: str = "") -> Float[Tensor, "n n"]:
    """The outputs of a layer of the decoder for the n unit vectors in turn: its weights, where it only adds up."""
    read = check(Text(layer, f"d = {n}\nencoder = id\ndecoder = {layer}\n"), registry_of(form))
    x = torch.eye(n, dtype=torch.float64)[None]
    with torch.no_grad():
        found: Tensor = build(read.decoder, registry_of(form)).double()(x, Context(like=x.new_empty(0)))[0]
    return found


def hard_coded_weights(n: int, offsets: Sequence[int] = OFFSETS) -> Float[Tensor, "heads n n"]:
    """What each head of `hc_self_att`, one for each offset, gives each position: its outputs for unit vectors."""
    heads = len(offsets)
    text = f"d = {heads * n}\nencoder = hc_self_att({', '.join(map(str, offsets))}, project=no, out=no)\ndecoder = id\n"
    x = torch.eye(n, dtype=torch.float64).repeat(1, heads)[None]
    with torch.no_grad():
        y: Tensor = build(check(Text("heads", text), builtin()).encoder, builtin()).double()(
            x, Context(like=x.new_empty(0))
        )
    return y[0].view(n, heads, n).transpose(0, 1)


def query_weights(
    words: Sequence[str], query: int, learned: Float[Tensor, "heads n"] | None, layer: str, name: str
) -> DrawnFigure:
    """The weights of one query: learned heads above, where there are any, hard-coded ones below."""
    hard = hard_coded_weights(len(words))[:, query]
    panels = [("learned", learned)] * (learned is not None) + [("hard-coded", hard)]
    canvas = Panels(len(panels), 2.2, max(WIDTH, 0.8 + 0.2 * len(words)))
    rows: list[tuple[Cell, ...]] = []
    for axes, (kind, weights) in zip(canvas.axes, panels, strict=True):
        assert weights is not None
        wide = 0.8 / len(weights)
        for k, head in enumerate(weights.tolist()):
            label = f"head {k + 1}" if kind == "learned" else f"offset {OFFSETS[k]:+d}".replace("+0", "0")
            places = [s + (k - (len(weights) - 1) / 2) * wide for s in range(len(words))]
            axes.bar(
                places, head, wide, label=f"{kind}, {label}", color=COLOURS[k], alpha=1 if kind == "learned" else 0.6
            )
            rows += [
                (kind, label, words[query], s, word, w) for s, (word, w) in enumerate(zip(words, head, strict=True))
            ]
        axes.set_xticks(range(len(words)), [matrices.shown_token(word) for word in words])
        axes.set_ylabel("weight")
        axes.set_xlabel(f"{kind} heads, looking from “{words[query]}”")
    canvas.legend()
    caption = f"Weights of the query “{words[query]}”. Hard-coded: what `hc_self_att({', '.join(map(str, OFFSETS))})` computes."
    caption += f" Learned: the first heads of {layer}." if learned is not None else ""
    table = Table.of(("attention", "head", "query", "position", "token", "weight"), rows)
    reading = "A group of bars is a word of the sentence; the higher a bar, the more that head takes from the word."
    return DrawnFigure(name, "Heads of attention for one query", caption, table, *canvas.files(), reading)


def printed(paper: str, rows: Sequence[Row], table: str) -> DrawnFigure:
    """The paper's own figures of the rows that a figure shows."""
    whole = read_paper.paper(paper)
    columns = [c for c in whole.table(table).columns if any(row.figure(c) for row in rows)]
    cells = [(row.label, *(None if (f := row.figure(c)) is None else f.value for c in columns)) for row in rows]
    caption = f"What the paper prints of the rows that this figure shows ({place(table)}); on other text than here."
    shown = Table.of(("row", *map(str, columns)), cells)
    return DrawnFigure(f"paper-{paper}-{table}", f"{whole.cite}, {place(table)}", caption, shown)
