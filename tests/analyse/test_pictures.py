"""Words in pictures: with long and with many labels nothing overlaps and nothing is cut off."""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

from calque.align.links import Gold
from calque.analyse import contrast, curves, decode_time, gold, heads, lengths, matrices, pareto, sweeps
from calque.analyse import unknown_words as unknown
from calque.analyse.drawn import DrawnFigure, Table
from calque.analyse.runs import DECODER, ENCODER, SOURCE
from calque.bench import length_plot as bench
from calque.ground.plot import figure, width_of, wrapped
from calque.ledger.entry import read
from calque.papers import drawing as papers
from calque.papers.ledger_tables import ReproducedTable, tables_of
from calque.papers.metrics import METRICS
from calque.papers.paper_pages import paper_page
from calque.papers.picture import Bars, picture
from extents import faults
from parts import some

DOCS = Path(__file__).parents[2] / "docs"
SHORT = ("transformer", "rnn")
LONG = (
    "a transformer with average attention, input feeding and $x^2$ of everything, seed 1",
    "runs/reproduce/gehring2017/table1/deep_convolutional_with_positions_and_length/1",
    "Base + reverse + dropout + local-p attention (general) + feed input + unk replace",
)
MANY = tuple(f"run number {k} of a large study" for k in range(14))
NAMES = {"short": SHORT, "long": LONG, "many": MANY, "one": LONG[1:2]}
BOTH = (*LONG, *MANY[:5])


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is wrong with the words of every figure that is saved, as it is laid out in the file."""
    found: list[str] = []
    count = 0
    save = Figure.savefig

    def watched(self: Figure, *args: Any, **more: Any) -> None:
        nonlocal count
        save(self, *args, **more)
        count += 1
        before = self.dpi
        self.set_dpi(more["dpi"])
        self.draw_without_rendering()
        found.extend(faults(self))
        self.set_dpi(before)

    monkeypatch.setattr(Figure, "savefig", watched)
    yield found
    assert count, "nothing was drawn"


def bars(labels: Sequence[str], scale: float = 30.0, deviation: float | None = None) -> Bars:
    draw = random.Random(len(labels))
    some = [(draw.uniform(0.1, 1) * scale, deviation) for _ in labels]
    there = [one if k % 3 else (None, None) for k, one in enumerate(some)]
    where = "IWSLT'14 German-English, tst2010 to tst2013 and dev2010, which is the development set of another task"
    titles = (f"here: {where}, 1–10 seeds a row", f"paper: {where}; memory of 11 GB")
    command = "calque reproduce paper table --rows " + ",".join(label.replace(" ", "") for label in labels)
    axis = "BLEU, unknown words replaced, mean and deviation over seeds; higher is better"
    title = "Vaswani and many others 2017, table 12: a comparison of the variants that are discussed in section 5, in detail"
    return Bars(title, labels, some, there, titles, axis, command)


@pytest.mark.medium
@pytest.mark.parametrize("labels", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize(
    ("scale", "deviation"),
    [(4.2, 1.31), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((30.0, None), (65_000_000.0, 120_000.0)))],
)
def test_bars_beside_the_papers(saved: list[str], labels: Sequence[str], scale: float, deviation: float | None) -> None:
    assert picture(bars(labels, scale, deviation)).startswith(b"\x89PNG")
    assert saved == []


@functools.cache
def tables() -> list[ReproducedTable]:
    """Those of the ledger, which takes seconds to read."""
    return [table for each in tables_of(read(DOCS / "results")).values() for table in each if not table.timed]


@pytest.mark.medium
@pytest.mark.parametrize("part", range(3))
def test_pictures_of_the_pages(saved: list[str], part: int) -> None:
    for table in tables()[part::3]:
        shown = table.report.bars
        assert shown is not None
        page = paper_page(table.report.request.paper, [table])
        decimals = METRICS[table.report.content["column"]["metric"]].decimals
        for label, (mean, _) in zip(shown.labels, shown.here, strict=True):
            assert mean is not None
            assert label in page
            assert f"{mean:,.{decimals}f}" in page
        picture(shown)
        assert saved == []


def runs_table(names: Sequence[str], columns: Sequence[str], rows: int = 1) -> Table:
    """Numbers of all runs, growing with the row."""
    draw = random.Random(3)
    found = [(name, *((k + 1) * draw.uniform(1, 9) for _ in columns)) for name in names for k in range(rows)]
    return Table.of(("run", *columns), found)


def draw_pareto(names: Sequence[str]) -> DrawnFigure:
    return pareto.draw(runs_table(names, ("BLEU", "milliseconds per sentence", "parameters", "state KiB")), "c")


def draw_curves(names: Sequence[str]) -> DrawnFigure:
    def log(k: int) -> list[dict[str, Any]]:
        return [
            {"kind": kind, "update": u, "seconds": u * 7.5, "target_tokens_per_second": 41_234.5, "nll": 9 / u + k}
            for u in range(100, 2_100_000, 250_000)
            for kind in ("train", "valid")
        ]

    return curves.draw(curves.learning_curves({name: log(k) for k, name in enumerate(names)}))


def draw_lengths(names: Sequence[str]) -> DrawnFigure:
    columns = ("from", "to", "mean", "sentences", "BLEU", "chrF", "output words", "reference words")
    return lengths.draw(runs_table(names, columns, 4), "size")


def draw_differences(names: Sequence[str]) -> DrawnFigure:
    rows = [(n, 1000 * k, 1000 * k + 999, 123_456, 30.0, -k - 1.0) for n in names for k in range(5)]
    table = Table.of(("run", "from", "to", "sentences", "BLEU", f"BLEU less that of {names[0]}"), rows)
    return lengths.draw_differences(table, names[0])


def draw_times(names: Sequence[str]) -> DrawnFigure:
    columns = ("from", "to", "mean", "sentences", "seconds", "deviation", "output words")
    return decode_time.draw(runs_table(names, columns, 3), "beam 5", "machine")


def draw_distances(names: Sequence[str]) -> DrawnFigure:
    shares = [0.09] * len(heads.DISTANCES)
    rows = [
        (names[0], kind, f"{kind} {layer}", head, 100, 2.0, 1.0, *shares)
        for kind in (ENCODER, DECODER, SOURCE)
        for layer in range(2 * len(names))
        for head in range(2)
    ]
    columns = ("run", "attention", "layer", "head", "queries", "mean |distance|", "mean distance", *heads.DISTANCES)
    return heads.draw_distances(Table.of(columns, rows), names[0], 10, "distances", {row[2]: row[2] for row in rows})


def draw_off_diagonality(names: Sequence[str]) -> DrawnFigure:
    rows = [
        (kind, n, k / 5, (k + 1) / 5, 123_456, 30.0) for kind in (ENCODER, DECODER) for n in names for k in range(5)
    ]
    return heads.draw_off_diagonality(Table.of(("attention", "run", "from", "to", "sentences", "BLEU"), rows), names[0])


def draw_aer(names: Sequence[str]) -> DrawnFigure:
    links = [frozenset({(0, 0), (1, 1)})]
    aligned = {name: gold.HeadLinks() for name in names[:4]}
    for one in aligned.values():
        one.links = {(f"decoder.1[{k}]", h, row): links for k in range(40) for h in ("mean", "1") for row in one.ROWS}
    table = gold.aer_table(aligned, [Gold(frozenset({(0, 0)}), frozenset({(0, 0)}))])
    return gold.draw_aer(
        table, 1, {name: {str(path): f"{path} in words" for path in table.each("layer")} for name in names}
    )


def pairs(names: Sequence[str]) -> tuple[list[contrast.ContrastivePair], dict[str, list[bool]]]:
    kinds = (
        "polarity_particle_nicht_del.human",
        "a_kind_of_error_with_a_very_long_name_that_nobody_would_choose.mt",
        "b",
    )
    some = [contrast.ContrastivePair(kind, "s", "c", "w", d) for kind in kinds for d in range(1, 30)]
    return some, {name: [k % 3 == 0 for k in range(len(some))] for name in names}


def draw_kinds(names: Sequence[str]) -> DrawnFigure:
    return contrast.draw_kinds(contrast.by_kind(*pairs(names)), "t")


def draw_contrast_distances(names: Sequence[str]) -> DrawnFigure:
    return contrast.draw_distances(contrast.by_distance(*pairs(names)), "t")


def draw_unknown(names: Sequence[str]) -> DrawnFigure:
    columns = ("words", "unknown", "unknown %", "by the dictionary", "copied", "left", "x", "y")
    return unknown.draw(runs_table(names, columns), 10, "dictionary.txt")


def draw_sweeps(names: Sequence[str]) -> DrawnFigure:
    rows = [(name, x, 20.0 + k, 0.4, 3, k % 2) for k, name in enumerate(names) for x in (64, 1024, 1030, 1036, 65536)]
    return sweeps.draw("#1", Table.of(("line", "#1", "BLEU", "deviation", "seeds", "not converged"), rows), "ledger")


def draw_matrix(names: Sequence[str]) -> DrawnFigure:
    words = [word for name in names for word in name.split()][:40]
    title = f"Attention of {names[0]}, decoder.1[2].1.1.1 — mh_dot_src_att, block 2, mean of 8 heads"
    return matrices.draw(torch.ones(3, len(words)), words, ("a", "b" * 30, "</s>"), "m", title)


def draw_query(names: Sequence[str]) -> DrawnFigure:
    words = [word for name in names for word in name.split()]
    return papers.query_weights(words, 0, torch.ones(3, len(words)), "a layer", "query")


def draw_bench(names: Sequence[str]) -> None:
    speed = {"median": 41_000.0, "slowest": 30_000.0, "fastest": 50_000.0}
    cells = [
        {"system": name, "beam": beam, "length": n, "target_tokens_per_second": speed}
        for name in names
        for beam in (1, 5)
        for n in (10, 20, 40, 80)
    ]
    bench.draw(cells, f"{names[0]}: 64 sentences a batch, float32, 2 threads of a processor with a long name", "svg")


DRAWINGS: list[Callable[[Sequence[str]], object]] = [
    draw_pareto,
    draw_curves,
    draw_lengths,
    draw_differences,
    draw_times,
    draw_distances,
    draw_off_diagonality,
    draw_aer,
    draw_kinds,
    draw_contrast_distances,
    draw_unknown,
    draw_sweeps,
    draw_matrix,
    draw_query,
    draw_bench,
]


@pytest.mark.medium
@pytest.mark.parametrize("draw", some(DRAWINGS))
@pytest.mark.parametrize(
    "names", [pytest.param(BOTH, id="both"), *(pytest.param(n, id=k, marks=pytest.mark.slow) for k, n in NAMES.items())]
)
def test_words_of_every_kind_of_picture(
    saved: list[str], draw: Callable[[Sequence[str]], object], names: Sequence[str]
) -> None:
    if draw is draw_differences and len(names) == 1:
        names = (*names, "base")
    draw(names)
    assert saved == []


@pytest.mark.medium
def test_distances_beyond_the_last_are_named() -> None:
    drawn = draw_contrast_distances(["run"]).svg.decode()
    assert "&gt;15" in drawn


def test_words_are_wrapped_to_a_width() -> None:
    empty = figure(3, 1)
    text = "one two three four five six, seven/eight " + "x" * 60 + ",y" * 40
    lines = wrapped(empty, text, 1.5, 9)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert max(width_of(empty, line, 9) for line in lines) <= 1.5
    assert wrapped(empty, "short", 1.5, 9) == ["short"]
    assert wrapped(empty, "", 1.5, 9) == [""]
    # No single word in a line of its own where the line before can give some.
    assert wrapped(empty, "here: Multi30k En-De, test2016, 1 seed a row", 2.7, 9)[-1] != "row"


def test_what_overlaps_is_seen() -> None:
    """The measure that all of the above stands on."""
    made = figure(3, 2)
    left, right = made.subplots(1, 2)
    left.set_title("a title that is much too long for its panel")
    right.set_title("another title that is much too long")
    made.draw_without_rendering()
    found = faults(made)
    assert any(fault.startswith("overlap: 'a title") for fault in found)
    assert any(fault.startswith("cut off: 'another") for fault in found)
