"""A paper's tables that need no training: orders of complexity, and counts of the data, beside what is found here."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calque.adl.settings import parse_settings
from calque.adl.syntax import Number
from calque.data.compiled import prepare
from calque.ground.diagnostics import error
from calque.ground.files import write_whole
from calque.ground.table import aligned, pipes
from calque.papers import orders, read_paper, recipes
from calque.papers.corpora import TrainingCorpus
from calque.papers.layout import DATA, Tell
from calque.papers.paper import ORDERS, ComputedTable
from calque.papers.recipes import Budget
from calque.run.tensors import writing
from calque.zoo.row_texts import place

MOST = 100_000
"""The longest sentence and the widest layer that costs are told for."""


@dataclasses.dataclass(frozen=True)
class ComputedPage:
    """A finished table: `faults` says how many figures are not as the paper has them, where that can be said."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]
    command: str
    found: Any
    faults: int = 0


def write_computed(page: ComputedPage, out: Path) -> str:
    """Writes `report.md` and `report.json` into `out`, and returns the table as text. Raises K301 where it cannot."""
    told = [*(f"- {one}" for one in page.remarks), "", f"    {page.command}", ""]
    body = "\n".join([f"# {page.title}", "", *pipes(page.head, page.rows, (0, 1)), "", *told])
    about = {"title": page.title, "command": page.command, "remarks": page.remarks, "rows": page.found}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "report.md", body.encode())
        write_whole(out / "report.json", (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())
    lines = [page.title, "", *aligned(page.head, page.rows, (0, 1)), "", *page.remarks]
    return "\n".join([*lines, "", page.command]) + "\n"


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
    found: dict[str, tuple[int, ...]] = {}
    for one in settings:
        for name, statement in parse_settings([one]).items():
            if name not in known:
                raise error("X222", statement.name_span, name=name, near=None, names=list(known) or None)
            value = statement.value.value if isinstance(statement.value, Number) else None
            if not isinstance(value, int) or not 2 <= value <= MOST or (name == "d" and value % 2):
                raise error("X840", statement.name_span, name=name, high=MOST, found=one)
            found[name] = (*found.get(name, ()), value)
    return found


def _title(paper: str, table: ComputedTable) -> str:
    return f"{read_paper.paper(paper).cite}, {place(table.name)}: {table.title}"


def _orders(paper: str, table: ComputedTable, numbers: dict[str, tuple[int, ...]]) -> ComputedPage:
    lengths, widths = numbers.get("n", orders.LENGTHS), numbers.get("d", orders.WIDTHS)
    places = [(n, d) for d in widths for n in lengths]
    rows, found, faults = [], [], 0
    for computed in orders.compute(table, lengths, widths):
        row = computed.row
        for k, (name, grown) in enumerate(computed.columns.items()):
            printed = row.figures[k] if row.figures else "-"
            said = "-" if grown.as_printed is None else "yes" if grown.as_printed else "no"
            faults += grown.as_printed is False
            values = [f"{grown.at[at]:,.0f}" for at in places]
            exponents = " ".join(f"{x:.2f}" for x in grown.exponents)
            rows.append((row.label if not k else "", name, printed, grown.order, said, exponents, *values))
            at = [{"n": n, "d": d, "value": grown.at[n, d]} for n, d in places]
            more = {"paper": printed, "here": grown.order, "as printed": grown.as_printed, "exponents": grown.exponents}
            found.append({"row": row.key, "label": row.label, "column": name, **more, "at": at})
    head = ("layer", "of", "paper", "here", "so?", "exponents", *(f"n={n} d={d}" for n, d in places))
    remarks = (
        "complexity: multiply-adds of n positions; sequential: operations that wait for each other; path: the most operations on "
        "the shortest way between two positions. All by the code of `calque explain`.",
        "so?: over 36 lengths and widths the numbers are a sum of the terms of the paper's order, each with a factor above zero "
        "(and a constant, where operations are counted). Exponents: of n and of d, each far beyond the other.",
        "The average as a running sum (original) and as a product with a matrix (masked) are forms that are costed and not used.",
    )
    words = [f"--set {name}={value}" for name, some in numbers.items() for value in some]
    command = " ".join(["calque", "reproduce", "compute", paper, table.name, *words])
    return ComputedPage(_title(paper, table), head, tuple(rows), remarks, command, found, faults)


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
    counts = (len(prepared.split("train")), len(prepared.split("test")), prepared.source_mean, prepared.target_mean)
    rows, found = [], []
    for label, some, gamma in (
        (
            f"here: {corpus.title}",
            (f"{counts[0]:,}", f"{counts[1]:,}", f"{counts[2]:.2f}", f"{counts[3]:.2f}"),
            prepared.gamma,
        ),
        *((row.label, row.figures, float(row.figures[2]) / float(row.figures[3])) for row in table.rows),
    ):
        rows.append((label, *some, f"{gamma:.4f}"))
        found.append({"label": label, **dict(zip(table.columns, some, strict=True)), "gamma": round(gamma, 4)})
    remarks = (
        f"Lengths: means over training pairs in subwords ({data.subwords}), the end symbol left out. gamma = source / target, "
        "by which hard-coded attention to the source is centred; of the paper's rows it is computed from its printed lengths.",
    )
    words = [f"--set {one}" for one in overrides]
    command = " ".join(["calque", "reproduce", "compute", paper, table.name, "--corpus", corpus.option, *words])
    return ComputedPage(_title(paper, table), ("corpus", *table.columns, "gamma"), tuple(rows), remarks, command, found)
