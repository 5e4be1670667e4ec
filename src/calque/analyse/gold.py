"""Alignments by hand: their files, and how far the argmax of attention is from them (Luong 2015, section 5.4 and table 6)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from calque.analyse.canvas import Canvas, styles_of
from calque.analyse.table import Cell, Drawn, NotDrawn, Table
from calque.data.codecs import JOINER, Codec
from calque.data.text import Lines
from calque.diagnostics import Place, error

Links = frozenset[tuple[int, int]]
"""(source word, target word), from 0."""

_LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})", re.ASCII)
ONE_BASED = ".talp"
"""The ending of files that count words from 1."""


class Gold(NamedTuple):
    """What people linked: `sure` is a part of `possible`."""

    sure: Links
    possible: Links


def read_gold(path: Path) -> list[Gold]:
    """A line for each pair of sentences: `i-j` sure, `ipj` possible; words count from 0, in `.talp` files from 1.

    Raises X823 for what is no link, and D1 for what cannot be read.
    """
    first = int(path.suffix == ONE_BASED)
    found = []
    for number, line in enumerate(Lines(path), 1):
        sure, possible = set(), set()
        for field in line.split():
            match = _LINK.fullmatch(field)
            if match is None or min(int(match[1]), int(match[3])) < first:
                raise error("X823", Place(str(path), number), found=field)
            possible.add(link := (int(match[1]) - first, int(match[3]) - first))
            if match[2] == "-":
                sure.add(link)
        found.append(Gold(frozenset(sure), frozenset(possible)))
    return found


class Counts(NamedTuple):
    """What the error rate of a text is made of: |A & S|, |A & P|, |A|, |S|, summed over its sentences."""

    sure_hits: int
    hits: int
    links: int
    sure: int


def aer(links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]) -> float | None:
    """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), counts summed over the sentences (Och and Ney 2003); None without a link."""
    each = zip(links, sure, possible, strict=True)
    counts = Counts(*map(sum, zip(*((len(a & s), len(a & p), len(a), len(s)) for a, s, p in each), strict=True)))
    total = counts.links + counts.sure
    return 1 - (counts.sure_hits + counts.hits) / total if total else None


def words_of_pieces(codec: Codec, line: str) -> list[int]:
    """The word, from 0, that each piece of a line belongs to."""
    pieces = codec.pieces(line)
    word, found = -1, []
    for k, piece in enumerate(pieces):
        if codec.kind in ("bpe", "unigram"):
            begins = piece.startswith("▁")
        else:
            begins = codec.kind == "words" or not pieces[k - 1].endswith(JOINER)
        word += bool(begins or not k)
        found.append(word)
    return found


def word_weights(
    weights: Float[Tensor, "*heads T S"], target: Sequence[int], source: Sequence[int]
) -> Float[Tensor, "*heads words words"]:
    """Weights from target words to source words: summed over the pieces of a source word, the mean over those of a target word.

    `target` and `source` name the word of each piece; rows and columns behind them (end symbols) are left out.
    """
    rows = weights.new_zeros(max(target) + 1, len(target))
    for k, word in enumerate(target):
        rows[word, k] = 1 / target.count(word)
    columns = weights.new_zeros(len(source), max(source) + 1)
    for k, word in enumerate(source):
        columns[k, word] = 1
    return rows @ weights[..., : len(target), : len(source)] @ columns


def argmax_links(weights: Float[Tensor, "T S"]) -> Links:
    """One source word for each target word: that of the largest weight, the first of equals."""
    return frozenset((int(s), t) for t, s in enumerate(weights.argmax(1)))


class Aligned:
    """The links of every head of every source attention, and of the mean of its heads, sentence by sentence."""

    ROWS = ("chooses", "reads")
    """Which row of the weights stands for a target word: that of the step that chooses it, or of the next, which reads it."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, str, str], list[Links]] = {}

    def add(
        self, weights: Mapping[str, Float[Tensor, "heads T S"]], target: Sequence[int], source: Sequence[int]
    ) -> None:
        """A sentence whose reference was forced: layers by path, T one more than there are target pieces."""
        for path, one in weights.items():
            every = torch.cat([one.mean(0, keepdim=True), one])
            for row, shift in zip(self.ROWS, (0, 1), strict=True):
                for head, weights_of_words in enumerate(word_weights(every[:, shift:], target, source)):
                    key = path, str(head) if head else "mean", row
                    self.links.setdefault(key, []).append(argmax_links(weights_of_words))


def aer_table(runs: Mapping[str, Aligned], gold: Sequence[Gold]) -> Table:
    """A row for each layer and head of each run: the error rate by the row that chooses a word and by the one that reads it."""
    sure, possible = [g.sure for g in gold], [g.possible for g in gold]
    rows: list[tuple[Cell, ...]] = []
    for run, aligned in runs.items():
        for path, head in dict.fromkeys(key[:2] for key in aligned.links):
            rates = [aer(aligned.links[path, head, row], sure, possible) for row in Aligned.ROWS]
            rows.append((run, path, head, *rates))
    return Table.of(("run", "layer", "head", "AER, row that chooses", "AER, row that reads"), rows)


def draw_aer(table: Table, sentences: int) -> Drawn:
    """A panel for each run: a bar for the mean of each layer's heads, dots for its heads."""
    runs = table.each("run")
    if not runs:
        raise NotDrawn("no run attends to the source")
    canvas = Canvas(len(runs), 2.3, sharey=True)
    style = styles_of(table.columns[3:])
    for axes, run in zip(canvas.axes, runs, strict=True):
        layers = table.where(run=run).each("layer")
        for k, layer in enumerate(layers):
            for place, name in ((-0.2, table.columns[3]), (0.2, table.columns[4])):
                found = table.where(run=run, layer=layer)
                mean = found.where(head="mean").column(name)
                heads = [v for v, head in zip(found.column(name), found.column("head"), strict=True) if head != "mean"]
                axes.bar(k + place, mean, 0.38, color=style[name]["color"], alpha=0.5, label=name[5:])
                axes.plot([k + place] * len(heads), heads, "o", ms=3, color=style[name]["color"])
        axes.set_xticks(range(len(layers)), [str(k + 1) for k in range(len(layers))])
        axes.set_ylim(0, 1)
        axes.set_xlabel("layer that attends to the source")
        axes.set_ylabel("AER")
        axes.set_title(str(run))
        axes.grid(axis="x", visible=False)
    canvas.legend()
    return Drawn(
        "aer",
        "Alignment error rate per layer and head",
        f"AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over {sentences} sentences with the reference forced; A links each target word "
        "to the source word with the largest weight, pieces of words put together, end symbols left out. Bars: the mean of a "
        "layer's heads; dots: its heads. A word's row is that of the step that chooses it, or of the one that reads it. The "
        "table has the paths of the layers. Lower is better.",
        table,
        *canvas.files(),
    )


def inside(gold: Iterable[Gold], lengths: Iterable[tuple[int, int]]) -> int | None:
    """The first sentence, from 1, one of whose links leaves it; None where all fit."""
    for number, (one, (source, target)) in enumerate(zip(gold, lengths, strict=True), 1):
        if any(s >= source or t >= target for s, t in one.possible):
            return number
    return None
