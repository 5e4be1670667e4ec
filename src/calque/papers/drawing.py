"""Draws the papers' figures: sections of `calque analyse` with the paper's buckets and figures, and three kinds of their own.

Of their own are architectures, the mask of Zhang 2018, and the hard-coded heads of You 2020; they need no trained model.
"""

import copy
import dataclasses
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from calque import zoo
from calque.adl.check import check
from calque.analyse import matrices
from calque.analyse.analysis import Analysis, AnalysisSettings
from calque.analyse.architecture import architecture
from calque.analyse.cache import KEPT, AnalysisCache
from calque.analyse.canvas import COLOURS, WIDTH, Panels
from calque.analyse.drawn import Cell, DrawnFigure, Table
from calque.analyse.pieces import PIECES, Found, Piece, line_of, weights_of
from calque.analyse.runs import ENCODER, stem
from calque.analyse.write_report import write_report
from calque.explain.averages import mask, registry_of
from calque.ground.diagnostics import CalqueError, Place, Text, error, nearest
from calque.layers.build import build
from calque.layers.contract import Context
from calque.layers.registry import builtin
from calque.papers import read_paper
from calque.papers.figures import DIAGRAM, MASK, QUERY, SWEEPS, PaperFigure, paper_figures
from calque.papers.paper import Row
from calque.papers.request import CELLS, RUNS, Tell, default_folder, request_in
from calque.run.folder import ARCHITECTURE, MODEL
from calque.zoo.row_texts import place

WORDS = ("Jane", "went", "to", "the", "office")
"""The sentence of You 2020, figure 1, and the place of its query."""
PLACE = 2
OFFSETS = (-1, 0, 1)
INPUTS = 4
"""Of Zhang 2018, figure 3."""
CONTRAST = "contrastive-ende"
"""Below the data root, where there is one."""


def draw_figure(figure: PaperFigure, folders: Sequence[Path], root: Path, out: Path, tell: Tell) -> Path:
    """Draws a figure into `out` as `calque analyse` does, and returns the path of its report.

    folders  run folders, and output folders of `calque reproduce`; none: those of the tables whose rows the figure shows

    Raises X830 for what it needs besides, X841 without trained rows, X842 for a folder that is neither, and what
    `calque.analyse` raises.
    """
    runs, ledgers = _sources(figure, folders)
    pairs = root / CONTRAST if (root / CONTRAST).is_dir() else None
    command = _command(runs, ledgers, pairs, out)
    tell(f"{command} --figure {figure.name}")
    settings = AnalysisSettings(contrast=pairs, ledger=tuple(ledgers))
    analysis = Analysis(runs, settings, command, tell, AnalysisCache(out / KEPT))
    return write_report(analysis, out, {figure.name: piece_of(figure)}, alone=True)


def _sources(figure: PaperFigure, folders: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The runs, or the ledgers, that a figure shows."""
    tables = _tables(figure)
    where = list(folders) or [default_folder(figure.paper, table) for table in tables]
    runs: list[Path] = []
    ledgers: list[Path] = []
    if figure.piece == SWEEPS:
        ledgers = [folder / CELLS if (folder / CELLS).is_dir() else folder for folder in where]
        missing = not any(any(ledger.glob("*.json")) for ledger in ledgers)
    else:
        runs = [run for folder in where for run in runs_in(folder, figure, named=bool(folders))]
        missing = figure.needs_runs and not runs
    if missing:
        raise error("X841", None, name=figure.name, paper=figure.paper, table=tables[0], rows=_rows(figure))
    return runs, ledgers


def _tables(figure: PaperFigure) -> list[str]:
    """The tables whose rows a figure shows; a table that is drawn shows its own."""
    return list(figure.tables) or [figure.name.partition("/")[2]]


def _rows(figure: PaperFigure) -> list[str]:
    """The rows that a figure shows, or its table."""
    return [f"{table}/{row.key}" for table, some in figure.tables.items() for row in some] or _tables(figure)


def _command(runs: Sequence[Path], ledgers: Sequence[Path], pairs: Path | None, out: Path) -> str:
    """The `calque analyse` that draws the same figure."""
    words = ["calque", "analyse", *map(str, runs)]
    for option, paths in (("--ledger", ledgers), ("--contrast", [pairs] if pairs else []), ("--out", [out])):
        words += [word for path in paths for word in (option, str(path))]
    return shlex.join(words)


def runs_in(folder: Path, figure: PaperFigure, named: bool) -> list[Path]:
    """A run folder itself; of an output folder the first seed of each row that is finished.

    These are the figure's rows, where the folder is of their table, else all. A folder that was not `named` may be missing;
    else X842.
    """
    if (folder / ARCHITECTURE).is_file():
        return [folder]
    if not (folder / RUNS).is_dir():
        if named:
            raise error("X842", Place(str(folder)))
        return []
    try:
        request = request_in(folder)
        wanted = figure.tables.get(request.table) if request.paper == figure.paper else None
    except CalqueError:
        wanted = None
    trained = sorted(p.name for p in (folder / RUNS).iterdir())
    names = trained if wanted is None else [row.key for row in wanted if row.key in trained]
    runs = []
    for name in names:
        seeds = sorted((s for s in (folder / RUNS / name).iterdir() if s.name.isdigit()), key=lambda s: int(s.name))
        runs += [seed for seed in seeds if (seed / f"{MODEL}.json").is_file()][:1]
    return runs


def chosen(asked: Sequence[str], given: Collection[str] = ()) -> dict[str, Piece]:
    """What is drawn for these names, each a piece or a paper's figure; `given` are settings that no paper's replaces.

    Raises X829 for another name.
    """
    known, pieces = paper_figures(), dict[str, Piece]()
    for name in asked:
        figure = known.get(name)
        if figure is None and name not in PIECES:
            names = [*PIECES, *known]
            raise error("X829", None, name=name, near=nearest(name, names), names=names)
        pieces[name] = PIECES[name] if figure is None else piece_of(figure, given)
    return pieces


def piece_of(figure: PaperFigure, given: Collection[str] = ()) -> Piece:
    """A paper's figure as a section: with its own buckets, and what the paper prints beside."""
    own = {name: getattr(figure, name) for name in ("buckets", "equal") if name not in given and getattr(figure, name)}

    def draw(analysis: Analysis) -> Found:
        here = copy.copy(analysis)
        here.settings = dataclasses.replace(analysis.settings, **own)
        if figure.piece == DIAGRAM:
            made: Found = list(architectures(figure.rows))
        elif figure.piece == MASK:
            made = list(average_mask())
        elif figure.piece == QUERY:
            made = _query(here)
        else:
            made = PIECES[figure.piece].draw(here)
        tables = figure.tables if analysis.folders or analysis.settings.ledger else {}
        made += [printed(figure.paper, rows, t) for t, rows in tables.items() if any(r.figures for r in rows)]
        return [*made, *(one for one in (figure.printed, figure.note) if one)]

    cite = read_paper.paper(figure.paper).cite
    return Piece(f"{cite}, {place(figure.name.partition('/')[2])}: {figure.title}", draw)


def _query(a: Analysis) -> Found:
    """The learned heads of each run's first encoder self-attention, in its line, and hard-coded ones; these alone without."""
    drawn: Found = []
    for s in a.subjects if a.folders else ():
        path = next((p for p in s.attentions if s.kind(p) == ENCODER and p not in s.fixed), None)
        if path is None:
            drawn.append(f"{s.name} has no self-attention in its encoder whose weights depend on the text")
            continue
        number = line_of(a)
        tokens = s.run.loaded.source.tokens(s.source_ids(a.text.sources[number]))
        query = len(tokens) // 2
        learned = weights_of(s, number)[path][: len(OFFSETS), query]
        layer = f"{s.layers[path]} of {s.name}, line {number + 1}"
        drawn.append(query_weights(tokens, query, learned, layer, stem("query", s.name)))
    if all(isinstance(one, str) for one in drawn):
        drawn.append(query_weights(WORDS, PLACE, None, "", "query"))
    return drawn


def architectures(names: Sequence[str]) -> list[DrawnFigure]:
    """The diagram of each, as `calque explain --diagram` draws it."""
    caption = "Drawn from its definition (`calque explain {} --diagram out.svg`)."
    return [
        architecture(check(zoo.read(name), builtin()), name.replace("/", "-"), name, caption.format(name))
        for name in names
    ]


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
        outputs: Tensor = build(read.decoder, registry_of(form)).double()(x, Context(like=x.new_empty(0)))
    return outputs[0]


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
