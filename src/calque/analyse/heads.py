"""Where attention heads look: the distance from a query to the argmax of its weights (You 2020, figures 2, 6 and 8)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from calque.analyse.canvas import Panels, lines_of
from calque.analyse.drawn import Cell, DrawnFigure, NotDrawn, Table
from calque.analyse.lengths import scored
from calque.analyse.runs import KINDS
from calque.evaluate.statistics import measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

RADIUS = 5
"""Greater distances are one group."""
FEW = 8
"""A panel has room for so many heads at least."""
OFF = 2
"""Steps from the query at which a token is off the diagonal."""
BINS = 5
READING = (
    "A column that is dark at one height is a head that looks at one distance whatever the words are: at 0 at the query itself, "
    "at -1 at the word before it; a column that is pale everywhere looks at different distances."
)
_ENDS = (f"-{RADIUS} or less", f"{RADIUS} or more")
DISTANCES = (_ENDS[0], *map(str, range(1 - RADIUS, RADIUS)), _ENDS[1])


def argmax_distances(weights: Float[Tensor, "heads T S"]) -> Int[Tensor, "heads T"]:
    """The position of the largest weight of each query, the first of equals, minus that of the query.

    In the decoder both are positions of its input. In source attention the query is a target position; positions are counted on
    each side.
    """
    import torch

    return weights.argmax(2) - torch.arange(weights.shape[1])


def off_diagonality(layers: Iterable[Float[Tensor, "heads T S"]]) -> float | None:
    """The share of tokens, over all heads and layers given, whose argmax is two steps away or more; None without a token.

    You 2020, section 6.2, defines it for a token's attention and does not say how to combine heads and layers; here each counts
    alike.
    """
    off = total = 0
    for weights in layers:
        distances = argmax_distances(weights)
        off += int((distances.abs() >= OFF).sum())
        total += distances.numel()
    return off / total if total else None


class DistanceCounts:
    """Counts of the distances at which each head of each layer looks, over sentences."""

    def __init__(self) -> None:
        self.by_head: dict[tuple[str, int], Counter[int]] = {}

    def add(self, weights: Mapping[str, Float[Tensor, "heads T S"]]) -> None:
        """Counts the queries of one sentence."""
        for path, one in weights.items():
            # A hard-coded head may look past the sentence: no weight, no distance.
            seen = one.sum(2) > 0
            for head, (distances, looks) in enumerate(zip(argmax_distances(one), seen, strict=True), 1):
                self.by_head.setdefault((path, head), Counter()).update(distances[looks].tolist())


def distance_table(counted: Mapping[str, DistanceCounts], kinds: Mapping[str, Mapping[str, str]]) -> Table:
    """A row for each head: the mean absolute and mean signed distance, and the share of queries at each distance.

    `kinds` gives the kind of attention for each run and path.
    """
    rows: list[tuple[Cell, ...]] = []
    for run, distances in counted.items():
        for (path, head), counts in distances.by_head.items():
            if not (total := sum(counts.values())):
                continue
            absolute = sum(abs(d) * n for d, n in counts.items()) / total
            signed = sum(d * n for d, n in counts.items()) / total
            clipped: Counter[int] = Counter()
            for d, n in counts.items():
                clipped[max(-RADIUS, min(RADIUS, d))] += n
            shares = [clipped[d] / total for d in range(-RADIUS, RADIUS + 1)]
            rows.append((run, kinds[run][path], path, head, total, absolute, signed, *shares))
    columns = ("run", "attention", "layer", "head", "queries", "mean |distance|", "mean distance", *DISTANCES)
    return Table.of(columns, rows)


def draw_distances(
    table: Table, run: str, sentences: int, name: str, words: Mapping[str, str], brief: bool = False
) -> DrawnFigure:
    """A panel for each kind of attention: a column for each head, a row for each distance, dark where heads look.

    `words`: the layers in words, by path. `brief`: a caption before this one explains the picture.
    """
    table = table.where(run=run)
    kinds = [kind for kind in KINDS if kind in table.column("attention")]
    if not kinds:
        raise NotDrawn(f"{run} has no attention whose weights are recorded")
    canvas = Panels(len(kinds), 2.5)
    widest = max(FEW, *(len(table.where(attention=kind).rows) for kind in kinds))
    for axes, kind in zip(canvas.axes, kinds, strict=True):
        image = _panel(axes, table.where(attention=kind))
        axes.set_title(kind)
        axes.set_xlim(-0.5, widest - 0.5)  # a head is as wide in every panel
        canvas.figure.colorbar(image, ax=axes, label="share of queries")
    what = (
        f"Where each head's largest weight lies relative to the query, in tokens, over {sentences} sentences of the text with the "
        "reference forced. A column is a head, lines part the layers, dots are mean absolute distances. In source attention the "
        "query is the target position, and positions are counted on each side. "
    )
    named = {kind: [words[str(path)] for path in table.where(attention=kind).each("layer")] for kind in kinds}
    paths = ". ".join(
        f"{kind[0].upper()}{kind[1:]}, from left to right: {'; '.join(some)}" for kind, some in named.items()
    )
    caption = f"{'' if brief else what}{paths}."
    return DrawnFigure(name, f"Argmax distance per head: {run}", caption, table, *canvas.files(), READING)


def _panel(axes: "Axes", table: Table) -> "AxesImage":
    """The heads of one kind of attention."""
    shares = np.array([row[-len(DISTANCES) :] for row in table.rows], float).T
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower", interpolation="nearest")
    means = [min(RADIUS, v) + RADIUS for v in table.numbers("mean |distance|")]
    axes.plot(range(len(means)), means, "o", color="#D55E00", ms=4, label="mean |distance|")
    layers = table.column("layer")
    starts = [k for k in range(len(layers)) if not k or layers[k] != layers[k - 1]]
    for start in starts[1:]:
        axes.axvline(start - 0.5, color="0.3", lw=0.8)
    middles = [(a + b - 1) / 2 for a, b in zip(starts, [*starts[1:], len(layers)], strict=True)]
    axes.set_xticks(middles, [str(k) for k in range(1, len(starts) + 1)])
    axes.set_yticks(range(len(DISTANCES)), [f"≤-{RADIUS}", *DISTANCES[1:-1], f"≥{RADIUS}"])
    axes.set_ylabel("argmax less query")
    axes.set_xlabel("heads, by layer")
    axes.grid(visible=False)
    return image


def bins_of(shares: Sequence[float | None], count: int = BINS) -> list[list[int]]:
    """The numbers of the sentences in each bin of [0, 1]. Bins have one width; 1 belongs to the last."""
    bins: list[list[int]] = [[] for _ in range(count)]
    for i, share in enumerate(shares):
        if share is not None:
            bins[min(int(share * count), count - 1)].append(i)
    return bins


def by_off_diagonality(
    shares: Mapping[str, Sequence[float | None]],
    references: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    tokenize: str = "13a",
) -> Table:
    """BLEU of each run in bins of sentences by off-diagonality, for each kind of attention in `shares`; no empty bins."""
    rows: list[tuple[Cell, ...]] = []
    metric = measure("bleu", tokenize=tokenize)
    for kind, shares_of_sentences in shares.items():
        parts = bins_of(shares_of_sentences)
        used = [k for k, part in enumerate(parts) if part]
        for run, hypotheses in systems.items():
            bleu = scored(hypotheses, references, [parts[k] for k in used], metric)
            rows += [(kind, run, k / BINS, (k + 1) / BINS, len(parts[k]), b) for k, b in zip(used, bleu, strict=True)]
    return Table.of(("attention", "run", "from", "to", "sentences", "BLEU"), rows)


def draw_off_diagonality(table: Table, base: str) -> DrawnFigure:
    """A panel for each side, a line for each run."""
    kinds = table.each("attention")
    if not kinds:
        raise NotDrawn("no line has words on both sides")
    canvas = Panels(len(kinds), 2.5)
    runs = table.each("run")
    style = lines_of(runs)
    for axes, kind in zip(canvas.axes, kinds, strict=True):
        part = table.where(attention=kind)
        bins = part.where(run=runs[0])
        place = {start: k for k, start in enumerate(bins.column("from"))}
        for run in runs:
            line = part.where(run=run)
            at = [place[v] for v in line.column("from")]
            axes.plot(at, line.numbers("BLEU"), label=str(run), lw=1.3, ms=5, **style[run])
        ends = zip(bins.numbers("from"), bins.numbers("to"), bins.column("sentences"), strict=True)
        axes.set_xticks(range(len(place)), [f"{100 * a:.0f}–{100 * b:.0f}%\nn={n}" for a, b, n in ends])
        axes.set_xlim(-0.4, len(place) - 0.6)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("off-diagonality, and sentences in the bin")
        axes.set_ylabel("BLEU")
        axes.set_title(f"{kind} of {base}")
    canvas.legend()
    return DrawnFigure(
        "off-diagonality",
        "BLEU by off-diagonality",
        f"BLEU of the sentences of each bin, taken as a corpus. A token is off the diagonal where the largest weight of a head of "
        f"{base} lies two steps or more from it, while the reference is forced; a sentence's off-diagonality is the share of such "
        "tokens over all heads and layers of that side.",
        table,
        *canvas.files(),
        "Further right are sentences whose attention looks further away; a run that falls more than the others there needs such "
        "attention.",
    )
