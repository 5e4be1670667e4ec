"""The page of a paper: what was run, each table with its curves and claims, its figures, and what is believed of it."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ground.table import pipes
from calque.ledger.entry import Entry
from calque.ledger.theme_pages import GENERATED, code
from calque.papers import read_paper
from calque.papers.claims import UNTESTED
from calque.papers.figure_claims import RULE as FIGURE_RULE
from calque.papers.figure_claims import FigureVerdict
from calque.papers.ledger_tables import ReproducedTable
from calque.papers.notes import PaperNotes
from calque.papers.quality_speed import quality_speed
from calque.papers.report import Report, claims_table, result_text, under_trained_remarks
from calque.papers.shared_cells import TRAINED_AS

WORDS = {
    HOLDS: "holds here",
    FAILS: "does not hold here",
    UNDECIDED: "cannot be decided here",
    UNTESTED: "not tested",
}
"""Verdicts as pages say them."""


def paper_page(
    name: str, tables: Sequence[ReproducedTable], figures: Sequence[FigureVerdict] = (), notes: PaperNotes | None = None
) -> str:
    """The page of a paper."""
    paper = read_paper.paper(name)
    lines = [f"# {paper.cite}: {paper.title}", "", GENERATED, ""]
    lines += [f"Paper: <{paper.address}>", ""] * bool(paper.address)
    if notes is not None and notes.believed:
        lines += ["## What we believe now", "", notes.believed, ""]
    lines += ["## What was run", "", *_runs(tables), ""]
    if paper.address:
        lines += ["## What differs from the paper", "", *(f"- {one}" for one in _differences(name, tables, notes)), ""]
    lines += ["## What not to conclude", "", *(f"- {one}" for one in _cautions(tables)), ""]
    for table in tables:
        lines += _section(table, quality_speed(table, tables) is not None)
    if figures:
        lines += ["## Claims about figures", "", *_figure_claims(figures), "", FIGURE_RULE, ""]
    return "\n".join(lines).rstrip() + "\n"


def _runs(tables: Sequence[ReproducedTable]) -> list[str]:
    """What was run for each table, on which machine, and for how long."""
    head = ("table", "text", "recipe", "rows", "a cell", "in all", "machine", "date")
    rows = []
    for table in tables:
        request, entries = table.report.request, table.entries
        first, dates = entries[0].conditions, sorted({min(e.date for e in entries), max(e.date for e in entries)})
        timed = (f"{first.get('repeats')} repeats, {first.get('weights')} weights", "-")
        trained = (f"{table.seeds}, {'; '.join(table.budgets)}", f"{hours(entries):.1f} hours of training")
        machines = {f"{e.conditions.get('machine')}, {e.conditions.get('threads')} threads" for e in entries}
        anchor = "".join(c for c in table.title.lower().replace(" ", "-") if c.isalnum() or c == "-")
        text = "random words" if table.random else request.corpus
        kept = (f"[{table.title}](#{anchor})", text, ", ".join(table.recipes), str(table.row_count))
        rows.append((*kept, *(timed if table.timed else trained), "; ".join(sorted(machines)), " to ".join(dates)))
    return pipes(head, rows, range(len(head)))


def hours(entries: Sequence[Entry]) -> float:
    """Hours of training of cells, those of other tables left out."""
    return (
        sum(entry.figures.get("training seconds", 0.0) for entry in entries if TRAINED_AS not in entry.conditions)
        / 3600
    )


def _differences(name: str, tables: Sequence[ReproducedTable], notes: PaperNotes | None) -> Iterator[str]:
    """How what was run differs from what the paper did."""
    for table in tables:
        if table.timed:
            continue
        request = table.report.request
        paper = read_paper.paper(name).pair(request.pair or request.printed.pairs[0]).title
        sizes = f", settings {' '.join(request.settings)}" if request.settings else ", the paper's sizes"
        match = f", widths chosen so that rows match {request.match} by number of parameters" if request.match else ""
        yield f"{table.title}: {table.report.content['corpus']} for {paper}{sizes}{match}; recipe {', '.join(table.recipes)}."
    yield from notes.differs if notes is not None else ()


def _cautions(tables: Sequence[ReproducedTable]) -> Iterator[str]:
    """What the tables of a paper do not show."""
    trained = [t for t in tables if not t.timed]
    under, rows = sum(len(t.report.under_trained) for t in trained), sum(t.row_count for t in trained)
    if under:
        yield (
            f"**{'All' if under == rows else f'{under} of'} {rows} trained rows are "
            "[under-trained](../reproduce.md#under-trained-models).** "
            "Nothing follows from their figures or from their order, and no claim is tested on them."
        )
    printed = {t.name for t in tables if t.report.request.printed.has_figures}
    rules: list[tuple[str, Callable[[ReproducedTable], bool]]] = [
        (
            "The text is not the paper's: figures cannot be compared with the paper's, and what can be compared, of models that "
            "have learned, is the order of rows.",
            lambda t: not t.timed and t.name in printed,
        ),
        (
            "One seed shows nothing about what another seed would give: verdicts are of these runs.",
            lambda t: not t.timed and t.seeds == "one seed",
        ),
        (
            "Rows of one table that had other budgets are compared as they ended; each line names its own.",
            lambda t: len(t.budgets) > 1,
        ),
        (
            "Seconds are those of another machine than the paper's; compare ratios of rows, in the columns `times`.",
            lambda t: t.timed and t.name in printed,
        ),
        ("Timings with random weights translate random words into sentences of a fixed length.", lambda t: t.random),
        (
            "Timed models that have not learned write sentences of other lengths than models that have.",
            lambda t: t.timed and bool(t.report.under_trained),
        ),
    ]
    yield from (caution for caution, applies in rules if any(map(applies, tables)))


def _section(table: ReproducedTable, beside: bool) -> Iterator[str]:
    """The part of a page about a table; `beside`: there is a picture of quality over speed."""
    report = table.report
    own = [] if table.timed else ["recipe, budget"]
    head = (*report.head, *own, "to conclude")
    rows = [
        (*row, *_trained_by(table, key), _note(table, key)) for row, key in zip(report.rows, report.keys, strict=True)
    ]
    yield from (f"## {table.title}", "", f"{report.request.printed.title}. {report.beside}", "")
    yield from pipes(head, rows, {*report.left, *range(len(report.head), len(head))})
    yield ""
    if report.bars is not None:
        yield from (f"![the figures as bars]({table.name}.png)", "")
    if beside:
        yield from (f"![quality against speed]({table.name}.png)", "")
    if report.curves is not None:
        yield from (f"![learning curves]({table.name}-curves.png)", "")
    if report.request.printed.has_figures or report.claims:
        yield from (f"### Claims about {table.title.lower()}", "", *_claims(report), "")
    yield from (f"- {one}" for one in under_trained_remarks(report.under_trained))
    yield from (f"- `{row}` is `{origin}`, which has the same definition." for row, origin in table.borrowed.items())
    links = ", ".join(f"[{_entry_name(entry)}]({entry.id}.json)" for entry in table.entries)
    yield from (f"- Command: {code(command)}" for command in table.commands)
    yield from (f"- Entries, with all conditions: {links}", "")


def _trained_by(table: ReproducedTable, row: str) -> list[str]:
    return [] if table.timed else [f"{table.requests[row].recipe}, {table.requests[row].budget}"]


def _claims(report: Report) -> list[str]:
    if not report.claims:
        return ["The paper makes none in these columns."]
    in_words = [dataclasses.replace(one, verdict=WORDS[one.verdict]) for one in report.claims]
    return claims_table(in_words, report.request.printed.columns)


def _figure_claims(figures: Sequence[FigureVerdict]) -> list[str]:
    rows = [
        (
            one.claim.where,
            f"{one.claim.text} (section {one.claim.section})",
            WORDS[one.verdict],
            "; ".join(map(result_text, one.tested)) or one.why,
            "-"
            if not one.claim.base and not one.claim.pairs
            else f"{one.claim.table}: {', '.join(one.claim.compared)}",
        )
        for one in figures
    ]
    return pipes(("figure", "claim", "here", "tested", "rows"), rows, range(5))


def _note(table: ReproducedTable, row: str) -> str:
    if row in table.report.under_trained:
        return "nothing: under-trained"
    if not table.report.request.printed.has_figures:
        return "of this text and machine"
    return "ratios only: another machine" if table.timed else "order only: other text than the paper's"


def _entry_name(entry: Entry) -> str:
    row = entry.conditions.get("row")
    return "timing" if row is None else f"{row}, seed {entry.seed}"
