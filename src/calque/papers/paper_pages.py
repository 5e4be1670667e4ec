"""A page for each paper whose tables are in the ledger: what was run, each table beside the paper's, and its claims."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ground.table import pipes
from calque.ledger.entry import Entry
from calque.papers import read_paper, timed_report, trained_report
from calque.papers.claims import UNTESTED, ClaimVerdict
from calque.papers.layout import SPEED
from calque.papers.metrics import TIMED
from calque.papers.render import claims_table, under_trained_remarks
from calque.papers.report import Report, ReportOptions
from calque.papers.request import Request, request_of
from calque.papers.theme_pages import GENERATED, code
from calque.zoo.row_texts import place

WORDS = {
    HOLDS: "holds here",
    FAILS: "does not hold here",
    UNDECIDED: "cannot be decided here",
    UNTESTED: "not tested",
}
"""Verdicts as pages say them."""
COUNTED = {HOLDS: "hold", FAILS: "do not hold", UNDECIDED: "undecided", UNTESTED: "not tested"}
"""The same of several claims."""


@dataclass(frozen=True)
class ReproducedTable:
    """A table of a paper as the ledger has it: its report, and the entries that it is made of.

    `name` is that of its picture, `PAPER-TABLE`, numbered where a table was reproduced several times.
    """

    name: str
    report: Report
    entries: tuple[Entry, ...]

    @property
    def timed(self) -> bool:
        """Whether its rows were timed."""
        return self.entries[0].kind == SPEED

    @property
    def seconds(self) -> float:
        """Training time of all cells together."""
        return sum(entry.figures.get("training seconds", 0.0) for entry in self.entries)

    @property
    def conclusion(self) -> str:
        """How many of its rows are under-trained, and what came of the paper's claims."""
        rows, under = len(set(self.report.keys)), len(self.report.under_trained)
        counts = Counter(COUNTED[one.verdict] for one in self.report.claims)
        said = ", ".join(f"{count} {words}" for words, count in counts.items())
        return f"{under} of {rows} rows under-trained; claims: {said or 'none'}"


def tables_of(entries: Sequence[Entry]) -> dict[str, list[ReproducedTable]]:
    """The tables of each paper that entries of a ledger reproduce: one for the cells of each request, one for each timing."""
    cells: dict[Request, list[Entry]] = {}
    timings: list[tuple[Request, Entry]] = []
    for entry in entries:
        request = request_of(entry.command)
        if request is not None and "row" in entry.conditions:
            cells.setdefault(request, []).append(entry)
        elif request is not None and entry.kind == SPEED:
            timings.append((request, entry))
    made = [(f"{r.paper}-{r.table}", _trained(r, some), tuple(some)) for r, some in cells.items()]
    made += [(f"{r.paper}-{r.table}-{SPEED}", _timed(r, e, cells.get(r, [])), (e,)) for r, e in timings]
    tables: dict[str, list[ReproducedTable]] = {}
    count: Counter[str] = Counter()
    for stem, report, some in made:
        count[stem] += 1
        name = stem if count[stem] == 1 else f"{stem}-{count[stem]}"
        tables.setdefault(report.request.paper, []).append(ReproducedTable(name, report, some))
    return tables


def _trained(request: Request, entries: Sequence[Entry]) -> Report:
    column = ReportOptions(held=request.pair).column(request.paper, request.printed)
    return trained_report.make_report(request, entries, column, None)


def _timed(request: Request, entry: Entry, cells: Sequence[Entry]) -> Report:
    column = ReportOptions(held=request.pair).column(request.paper, request.printed, TIMED)
    return timed_report.make_report(request, entry, cells, column)


def paper_page(name: str, tables: Sequence[ReproducedTable]) -> str:
    """The page of a paper."""
    paper = read_paper.paper(name)
    lines = [
        f"# {paper.cite}: {paper.title}",
        "",
        GENERATED,
        "",
        f"Paper: <{paper.address}>",
        "",
        "## What was run",
        "",
    ]
    lines += [*_runs(tables), "", "## What not to conclude", "", *(f"- {one}" for one in _cautions(tables)), ""]
    for table in tables:
        lines += _section(table)
    return "\n".join(lines).rstrip() + "\n"


def _runs(tables: Sequence[ReproducedTable]) -> list[str]:
    head = ("table", "text", "recipe", "rows", "a cell", "in all", "machine", "date")
    rows = []
    for table in tables:
        request, entries = table.report.request, table.entries
        held = {str(e.conditions.get("machine")) + f", {e.conditions.get('threads')} threads" for e in entries}
        trained = f"{_seeds(entries)}, {request.budget}"
        timed = f"{entries[0].conditions.get('repeats')} repeats, {entries[0].conditions.get('weights')} weights"
        rows.append(
            (
                f"[{_title(table)}](#{_anchor(table)})",
                "random words" if entries[0].conditions.get("weights") == "random" else request.corpus,
                request.recipe,
                str(len(set(table.report.keys))),
                timed if table.timed else trained,
                "-" if table.timed else f"{table.seconds / 3600:.1f} hours of training",
                "; ".join(sorted(held)),
                " to ".join(sorted({min(e.date for e in entries), max(e.date for e in entries)})),
            )
        )
    return pipes(head, rows, range(len(head)))


def _seeds(entries: Sequence[Entry]) -> str:
    count = max(Counter(entry.conditions.get("row") for entry in entries).values())
    return "one seed" if count == 1 else f"{count} seeds"


def _cautions(tables: Sequence[ReproducedTable]) -> Iterator[str]:
    """What the tables of a paper do not show."""
    trained = [table for table in tables if not table.timed]
    under = sum(len(table.report.under_trained) for table in trained)
    rows = sum(len(set(table.report.keys)) for table in trained)
    if under:
        yield (
            f"**{'All' if under == rows else f'{under} of'} {rows} trained rows are "
            "[under-trained](../reproduce.md#under-trained-models).** "
            "Nothing follows from their figures or from their order, and no claim is tested on them."
        )
    if trained:
        yield (
            "The text is not the paper's: figures cannot be compared with the paper's, and what can be compared, of models that "
            "have learned, is the order of rows."
        )
    if any(_seeds(table.entries) == "one seed" for table in trained):
        yield "One seed shows nothing about what another seed would give."
    if any(table.timed for table in tables):
        yield "Seconds are those of another machine than the paper's; compare ratios of rows, in the columns `times`."
    if any(table.entries[0].conditions.get("weights") == "random" for table in tables):
        yield "Timings with random weights translate random words into sentences of a fixed length."
    if any(table.timed and table.report.under_trained for table in tables):
        yield "Timed models that have not learned write sentences of other lengths than models that have."


def _section(table: ReproducedTable) -> Iterator[str]:
    report = table.report
    notes = [_note(table, key) for key in report.keys]
    extra = ("to conclude",) if table.timed else ("budget", "to conclude")
    rows = [
        (*row, *((note,) if table.timed else (report.request.budget, note)))
        for row, note in zip(report.rows, notes, strict=True)
    ]
    head = (*report.head, *extra)
    yield from (f"## {_title(table)}", "", f"{report.request.printed.title}. {report.beside}", "")
    yield from pipes(head, rows, {*report.left, *range(len(report.head), len(head))})
    yield ""
    if report.bars is not None:
        yield from (f"![the figures as bars]({table.name}.png)", "")
    yield from (f"### Claims about {_title(table).lower()}", "")
    yield from _claims(report)
    yield ""
    yield from (f"- {one}" for one in under_trained_remarks(report.under_trained))
    links = ", ".join(f"[{_entry_name(entry)}]({entry.id}.json)" for entry in table.entries)
    yield from (f"- Command: {code(report.command)}", f"- Entries, with all conditions: {links}", "")


def _claims(report: Report) -> list[str]:
    if not report.claims:
        return ["The paper makes none in these columns."]
    return claims_table([_in_words(one) for one in report.claims], report.columns)


def _in_words(one: ClaimVerdict) -> ClaimVerdict:
    return ClaimVerdict(one.claim, WORDS[one.verdict], one.tested, one.missing, one.reason)


def _note(table: ReproducedTable, row: str) -> str:
    if row in table.report.under_trained:
        return "nothing: under-trained"
    return "ratios only: another machine" if table.timed else "order only: other text than the paper's"


def _entry_name(entry: Entry) -> str:
    row = entry.conditions.get("row")
    return "timing" if row is None else f"{row}, seed {entry.seed}"


def _title(table: ReproducedTable) -> str:
    number = table.name.rpartition("-")[2]
    again = f", {number}" if number.isdigit() else ""
    return place(table.report.request.table).capitalize() + ": speed" * table.timed + again


def _anchor(table: ReproducedTable) -> str:
    return "".join(c for c in _title(table).lower().replace(" ", "-") if c.isalnum() or c == "-")
