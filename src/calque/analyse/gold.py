"""The distance of attention's argmax from links by hand (Luong 2015, section 5.4 and table 6)."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from calque.align.links import Gold, Links
from calque.analyse.canvas import Panels, fills_of, styles_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.evaluate.aer import alignment_error_rate


def word_weights(
    weights: Float[Tensor, "*heads T S"], target: Sequence[int], source: Sequence[int]
) -> Float[Tensor, "*heads words words"]:
    """Weights from target words to source words, summed over the pieces of either.

    `target` and `source` give the number of each piece's word; the rows and columns after them (end symbols) are left out.
    """
    sides = []
    for words in (target, source):
        side = weights.new_zeros(max(words) + 1, len(words))
        side[list(words), range(len(words))] = 1
        sides.append(side)
    return sides[0] @ weights[..., : len(target), : len(source)] @ sides[1].T


def argmax_links(weights: Float[Tensor, "T S"]) -> Links:
    """One source word for each target word: that of the largest weight, the first of equals; none where all are zero."""
    best = weights.max(1)
    return frozenset(
        (s, t) for t, (s, w) in enumerate(zip(best.indices.tolist(), best.values.tolist(), strict=True)) if w
    )


class HeadLinks:
    """The links of every head of every source attention, and of the mean of its heads, sentence by sentence."""

    ROWS = ("chooses", "reads")
    """The row of the weights that belongs to a target word: that of the step that chooses it, or of the next, which reads it."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, str, str], list[Links]] = {}

    def add(
        self, weights: Mapping[str, Float[Tensor, "heads T S"]], target: Sequence[int], source: Sequence[int]
    ) -> None:
        """Adds a sentence whose reference was forced: the weights of layers by path; T is the number of target pieces plus one."""
        for path, one in weights.items():
            every = torch.cat([one.mean(0, keepdim=True), one])
            for row, shift in zip(self.ROWS, (0, 1), strict=True):
                for head, weights_of_words in enumerate(word_weights(every[:, shift:], target, source)):
                    key = path, str(head) if head else "mean", row
                    self.links.setdefault(key, []).append(argmax_links(weights_of_words))


def aer_table(runs: Mapping[str, HeadLinks], gold: Sequence[Gold]) -> Table:
    """A row for each layer and head of each run: the error rate by the row that chooses a word and by the one that reads it."""
    rows: list[tuple[Cell, ...]] = []
    for run, aligned in runs.items():
        for path, head in dict.fromkeys(key[:2] for key in aligned.links):
            rates = [alignment_error_rate(aligned.links[path, head, row], gold).value for row in HeadLinks.ROWS]
            rows.append((run, path, head, *rates))
    return Table.of(("run", "layer", "head", "AER %, row that chooses", "AER %, row that reads"), rows)


def draw_aer(table: Table, sentences: int, words: Mapping[str, Mapping[str, str]]) -> DrawnFigure:
    """A panel for each run: a bar for the mean of each layer's heads, dots for its heads.

    `words`: the layers of each run in words, by path.
    """
    runs = table.each("run")
    if not runs:
        raise NotDrawn("no run attends to the source")
    canvas = Panels(len(runs), 2.3, sharey=True)
    style, fill = styles_of(table.columns[3:]), fills_of(table.columns[3:])
    for axes, run in zip(canvas.axes, runs, strict=True):
        layers = table.where(run=run).each("layer")
        for k, layer in enumerate(layers):
            part = table.where(run=run, layer=layer)
            for place, name in ((-0.2, table.columns[3]), (0.2, table.columns[4])):
                mean = part.where(head="mean").numbers(name)
                heads = [v for v, head in zip(part.numbers(name), part.column("head"), strict=True) if head != "mean"]
                axes.bar(k + place, mean, 0.38, alpha=0.5, label=name[7:], **fill[name])
                axes.plot([k + place] * len(heads), heads, ls="none", ms=3, **style[name])
        axes.set_xticks(range(len(layers)), [str(k + 1) for k in range(len(layers))])
        axes.set_ylim(0, 100)
        axes.set_xlabel("layer that attends to the source")
        axes.set_ylabel("AER, %")
        axes.set_title(str(run))
        axes.grid(axis="x", visible=False)
    canvas.legend()
    named = ". ".join(
        f"{run}: {'; '.join(words[str(run)][str(path)] for path in table.where(run=run).each('layer'))}" for run in runs
    )
    return DrawnFigure(
        "aer",
        "Alignment error rate per layer and head",
        f"AER = 100 (1 − (|A∩S| + |A∩P|) / (|A| + |S|)) over {sentences} sentences with the reference forced; A links each target "
        "word to the source word with the largest weight, pieces of words put together, end symbols left out. Bars: the mean of a "
        "layer's heads; dots: its heads. A word's row is that of the step that chooses it, or of the one that reads it. "
        f"Layers from left to right: {named}.",
        table,
        *canvas.files(),
        "The lower a bar, the closer the layer's attention is to the links by hand; 100 is no link in common.",
    )
