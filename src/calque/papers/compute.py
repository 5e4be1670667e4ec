"""A paper's tables that need no training: orders of complexity (Zhang 2018, table 1), and counts of a corpus.

Of an order as printed the cost code computes numbers, and a fit says whether these grow so.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from calque.adl.check import CheckedDefinition, check
from calque.adl.settings import parse_settings
from calque.adl.syntax import Number
from calque.data.compiled import prepare
from calque.explain.averages import registry_of
from calque.explain.node_costs import figures
from calque.explain.paths import path_length, waits
from calque.ground.diagnostics import Text, error
from calque.ground.files import write_whole
from calque.ground.table import aligned, pipes
from calque.papers import read_paper, recipes
from calque.papers.corpora import TrainingCorpus
from calque.papers.paper import ORDERS, ComputedRow, ComputedTable
from calque.papers.recipes import Budget
from calque.papers.request import DATA, Tell
from calque.run.tensors import writing
from calque.zoo.row_texts import place

MOST = 100_000
"""The longest sentence and the widest layer for which costs are computed."""
LENGTHS, WIDTHS = (25, 50, 100), (256, 512)
HEADS = 8
_GRID = tuple(2**k for k in range(3, 9))
_FAR = 2**13
"""Where exponents are taken: so far that one term outweighs the others."""
_EXACT = 1e-9
_FACTOR = re.compile(r"(?P<log>log )?(?P<of>[nd])(?:\^(?P<power>\d+))?|1")

Term = Callable[[float, float], float]
"""Of n and d."""


def terms_of(order: str) -> list[Term]:
    """The terms of an order: `n^2 d + n d^2`, `log n`, `1`. Raises ValueError."""
    return [_term(text.strip()) for text in order.split("+")]


def _term(text: str) -> Term:
    factors = []
    rest = text
    while rest:
        match = _FACTOR.match(rest)
        if match is None:
            raise ValueError(f"{text} is no term of an order")
        factors.append(match)
        rest = rest[match.end() :].lstrip()

    def term(n: float, d: float) -> float:
        product = 1.0
        for match in factors:
            if match["of"]:
                value = {"n": n, "d": d}[match["of"]]
                product *= math.ceil(math.log2(value)) if match["log"] else value ** int(match["power"] or 1)
        return product

    return term


@dataclass(frozen=True)
class Growth:
    """How a column of a row grows: its values by length and width, its exponents of n and d far out, and its order."""

    at: dict[tuple[int, int], float]
    exponents: tuple[float, float]
    order: str
    as_printed: bool | None
    """None where the paper prints nothing."""


class CostAt:
    """The costs of a row at any length and width."""

    def __init__(self, row: ComputedRow):
        self.row = row
        self._checked = cache(self._read)

    def _read(self, width: int) -> CheckedDefinition:
        text = f"adl = 0\nd = {width}\nheads = {math.gcd(HEADS, width)}\nencoder = mh_dot_self_att\ndecoder = {self.row.decoder}\n"
        return check(Text(self.row.label, text), registry_of(self.row.form))

    def complexity(self, n: int, d: int) -> float:
        """Multiply-adds of n positions."""
        return n * figures(self._checked(d).decoder).products.per_position(n, 0)

    def sequential(self, n: int, d: int) -> float:
        """Operations that wait for each other."""
        return waits(self._checked(d).decoder, n)

    def path(self, n: int, d: int) -> float:
        """The most operations on the shortest way between two positions."""
        return path_length(self._checked(d).decoder, n)


CANDIDATES = {
    "complexity": ("n d^2", "n^2 d + n d^2"),
    "sequential": ("1", "log n", "n"),
    "path": ("1", "n"),
}
"""The orders that are tried after the printed one, by column."""


def growth(row: ComputedRow, name: str, lengths: Sequence[int] = LENGTHS, widths: Sequence[int] = WIDTHS) -> Growth:
    """What a column, one of `ORDERS`, of a row computes."""
    of: Callable[[int, int], float] = getattr(CostAt(row), name)
    printed = row.figures[ORDERS.index(name)] if row.figures else None
    tried = [one for one in (printed, *CANDIDATES[name]) if one is not None]
    order = next((one for one in tried if grows_with(of, one, name != "complexity")), "another")
    # Along n everything else is small, and along d too.
    far = (_slope(of(_FAR, 8), of(2 * _FAR, 8)), _slope(of(8, _FAR), of(8, 2 * _FAR)))
    at = {(n, d): of(n, d) for d in widths for n in lengths}
    return Growth(at, far, order, None if printed is None else order == printed)


def _slope(before: float, after: float) -> float:
    return math.log2(after / before)


def grows_with(of: Callable[[int, int], float], order: str, offset: bool) -> bool:
    """Whether a number is a sum of an order's terms, each with a factor above zero, over a grid of lengths and widths.

    `offset`: a constant may be added, since layers that do not wait may follow one that does.
    """
    places = [(n, d) for n in _GRID for d in _GRID]
    columns = terms_of(order)
    values = np.array([of(n, d) for n, d in places])
    matrix = np.array([[term(n, d) for term in columns] + [1.0] * (offset and order != "1") for n, d in places])
    scaled = matrix / values[:, None]  # relative errors count
    factors, *_ = np.linalg.lstsq(scaled, np.ones(len(places)), rcond=None)
    return bool(np.abs(scaled @ factors - 1).max() < _EXACT and (factors[: len(columns)] > 0).all())


@dataclass(frozen=True)
class ComputedPage:
    """A finished table; `records` are its rows for programs, and `faults` counts the orders that are not as the paper has them.

    `options` are those of the command that computes it.
    """

    paper: str
    table: ComputedTable
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    remarks: tuple[str, ...]
    options: Sequence[str]
    records: Sequence[Mapping[str, object]]
    faults: int = 0

    @property
    def title(self) -> str:
        """The paper, the table, and what it is about."""
        return f"{read_paper.paper(self.paper).cite}, {place(self.table.name)}: {self.table.title}"

    @property
    def command(self) -> str:
        """The command that computes it."""
        return " ".join(["calque", "reproduce", "compute", self.paper, self.table.name, *self.options])

    def write(self, out: Path) -> str:
        """Writes `report.md` and `report.json` into `out`, and returns the table as text. Raises K301 where it cannot."""
        items = [*(f"- {one}" for one in self.remarks), "", f"    {self.command}", ""]
        body = "\n".join([f"# {self.title}", "", *pipes(self.head, self.rows, (0, 1)), "", *items])
        about = {"title": self.title, "command": self.command, "remarks": self.remarks, "rows": self.records}
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            write_whole(out / "report.md", body.encode())
            write_whole(out / "report.json", (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())
        lines = [self.title, "", *aligned(self.head, self.rows, (0, 1)), "", *self.remarks, "", self.command]
        return "\n".join(lines) + "\n"


def compute_table(
    paper: str,
    table: ComputedTable,
    settings: Sequence[str],
    corpus: TrainingCorpus,
    overrides: tuple[str, ...],
    root: Path,
    out: Path,
    tell: Tell,
) -> ComputedPage:
    """The table: of orders from `settings`, n=LENGTH and d=WIDTH, any number of each; of counts from a corpus and `overrides`.

    Raises X221, X222 and X840 for settings, X703 for a corpus that is not there, and what preparing it raises.
    """
    if table.columns == ORDERS:
        return _orders(paper, table, _numbers(settings))
    if settings:
        _numbers(settings, ())
    return _counts(paper, table, corpus, overrides, root, out, tell)


def _numbers(settings: Sequence[str], known: Sequence[str] = ("n", "d")) -> dict[str, tuple[int, ...]]:
    """The lengths and widths that settings name."""
    numbers: dict[str, tuple[int, ...]] = {}
    for one in settings:
        for name, statement in parse_settings([one]).items():
            if name not in known:
                raise error("X222", statement.name_span, name=name, near=None, names=list(known) or None)
            value = statement.value.value if isinstance(statement.value, Number) else None
            if not isinstance(value, int) or not 2 <= value <= MOST or (name == "d" and value % 2):
                raise error("X840", statement.name_span, name=name, high=MOST, found=one)
            numbers[name] = (*numbers.get(name, ()), value)
    return numbers


def _orders(paper: str, table: ComputedTable, numbers: Mapping[str, tuple[int, ...]]) -> ComputedPage:
    lengths, widths = numbers.get("n", LENGTHS), numbers.get("d", WIDTHS)
    places = [(n, d) for d in widths for n in lengths]
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, object]] = []
    faults = 0
    for row in table.rows:
        for k, name in enumerate(table.columns):
            grown = growth(row, name, lengths, widths)
            printed = row.figures[k] if row.figures else "-"
            same = {None: "-", True: "yes", False: "no"}[grown.as_printed]
            faults += grown.as_printed is False
            exponents = " ".join(f"{x:.2f}" for x in grown.exponents)
            values = [f"{grown.at[at]:,.0f}" for at in places]
            rows.append((row.label if not k else "", name, printed, grown.order, same, exponents, *values))
            at = [{"n": n, "d": d, "value": grown.at[n, d]} for n, d in places]
            more = {"paper": printed, "here": grown.order, "as printed": grown.as_printed, "exponents": grown.exponents}
            records.append({"row": row.key, "label": row.label, "column": name, **more, "at": at})
    head = ("layer", "of", "paper", "here", "so?", "exponents", *(f"n={n} d={d}" for n, d in places))
    words = [f"--set {name}={value}" for name, some in numbers.items() for value in some]
    return ComputedPage(paper, table, head, rows, ORDER_REMARKS, words, records, faults)


ORDER_REMARKS = (
    "complexity: multiply-adds of n positions; sequential: operations that wait for each other; path: the most operations on "
    "the shortest way between two positions. All by the code of `calque explain`.",
    "so?: over 36 lengths and widths the numbers are a sum of the terms of the paper's order, each with a factor above zero "
    "(and a constant, where operations are counted). Exponents: of n and of d, each far beyond the other.",
    "The average as a running sum (original) and as a product with a matrix (masked) are forms that are costed and not used.",
)


def _counts(
    paper: str,
    table: ComputedTable,
    corpus: TrainingCorpus,
    overrides: tuple[str, ...],
    root: Path,
    out: Path,
    tell: Tell,
) -> ComputedPage:
    data = recipes.experiment("budget", Budget(updates=1), corpus.data(root), "-", 1, overrides).data
    prepared = prepare(data, out / DATA, Path(), tell)
    means = [f"{mean:.2f}" for mean in (prepared.source_mean, prepared.target_mean)]
    counts = (f"{len(prepared.split('train')):,}", f"{len(prepared.split('test')):,}", *means)
    lines = [(f"here: {corpus.title}", counts, prepared.gamma)]
    lines += [(row.label, row.figures, float(row.figures[2]) / float(row.figures[3])) for row in table.rows]
    rows = [(label, *some, f"{gamma:.4f}") for label, some, gamma in lines]
    records = [
        {"label": label, **dict(zip(table.columns, some, strict=True)), "gamma": round(gamma, 4)}
        for label, some, gamma in lines
    ]
    remarks = (
        f"Lengths: means over training pairs in subwords ({data.subwords}), the end symbol left out. gamma = source / target, "
        "by which hard-coded attention to the source is centred; of the paper's rows it is computed from its printed lengths.",
    )
    words = ["--corpus", corpus.own_file or corpus.name, *(f"--set {one}" for one in overrides)]
    return ComputedPage(paper, table, ("corpus", *table.columns, "gamma"), rows, remarks, words, records)
