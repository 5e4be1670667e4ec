"""The pages of results, made from the files of the ledger: an index, a page for each paper, and a page for each kind of figure.

python -m calque.papers.results DOCS reads DOCS/results/*.json, and writes DOCS/results.md, DOCS/results/*.md, and a picture
for each table of trained rows.
"""

import dataclasses
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import write_whole
from calque.ground.table import pipes
from calque.ledger.entry import KINDS, Entry, read
from calque.ledger.theme_pages import GENERATED, code, theme_page
from calque.papers import read_paper, timed_report, trained_report
from calque.papers.claims import UNTESTED
from calque.papers.metrics import TIMED
from calque.papers.picture import picture
from calque.papers.report import Report, ReportOptions, claims_table, under_trained_remarks
from calque.papers.request import SPEED, Request, request_of
from calque.papers.trained_report import TrainedCells
from calque.zoo.row_texts import place

LEDGER = "results"
INTRODUCTION = (
    "Every figure on these pages comes from a file of the [ledger](results), which the command that measured it wrote, with "
    "machine, versions, commit, data and seeds. `make results` writes the pages; no figure is typed."
)
RULE = "Which rows count as under-trained: [the rule](reproduce.md#under-trained-models)."
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
    def random(self) -> bool:
        """Whether models with random weights were timed, on random words."""
        return self.entries[0].conditions.get("weights") == "random"

    @property
    def row_count(self) -> int:
        """How many of the paper's rows it has."""
        return len(set(self.report.keys))

    @property
    def seeds(self) -> str:
        """How many seeds a row has, in words."""
        count = max(Counter(entry.conditions.get("row") for entry in self.entries).values())
        return "one seed" if count == 1 else f"{count} seeds"

    @property
    def title(self) -> str:
        """What its section is called."""
        number = self.name.rpartition("-")[2]
        again = f", {number}" if number.isdigit() else ""
        return place(self.report.request.table).capitalize() + ": speed" * self.timed + again

    @property
    def conclusion(self) -> str:
        """How many of its rows are under-trained, and what came of the paper's claims."""
        counts = Counter(COUNTED[one.verdict] for one in self.report.claims)
        said = ", ".join(f"{count} {words}" for words, count in counts.items())
        return f"{len(self.report.under_trained)} of {self.row_count} rows under-trained; claims: {said or 'none'}"


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
    trained = [(f"{r.paper}-{r.table}", _trained(r, some), tuple(some)) for r, some in cells.items()]
    timed = [(f"{r.paper}-{r.table}-{SPEED}", _timed(r, e, cells.get(r, [])), (e,)) for r, e in timings]
    tables: dict[str, list[ReproducedTable]] = {}
    count: Counter[str] = Counter()
    for stem, report, some in (*trained, *timed):
        count[stem] += 1
        name = stem if count[stem] == 1 else f"{stem}-{count[stem]}"
        tables.setdefault(report.request.paper, []).append(ReproducedTable(name, report, some))
    return tables


def _trained(request: Request, entries: Sequence[Entry]) -> Report:
    column = ReportOptions(default=request.pair).column(request.paper, request.printed)
    return trained_report.make_report(TrainedCells(request, entries, column), None)


def _timed(request: Request, entry: Entry, cells: Sequence[Entry]) -> Report:
    column = ReportOptions(default=request.pair).column(request.paper, request.printed, TIMED)
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
    """What was run for each table, on which machine, and for how long."""
    head = ("table", "text", "recipe", "rows", "a cell", "in all", "machine", "date")
    rows = []
    for table in tables:
        request, entries = table.report.request, table.entries
        first, dates = entries[0].conditions, sorted({min(e.date for e in entries), max(e.date for e in entries)})
        seconds = sum(entry.figures.get("training seconds", 0.0) for entry in entries)
        timed = (f"{first.get('repeats')} repeats, {first.get('weights')} weights", "-")
        trained = (f"{table.seeds}, {request.budget}", f"{seconds / 3600:.1f} hours of training")
        machines = {f"{e.conditions.get('machine')}, {e.conditions.get('threads')} threads" for e in entries}
        anchor = "".join(c for c in table.title.lower().replace(" ", "-") if c.isalnum() or c == "-")
        text = "random words" if table.random else request.corpus
        kept = (f"[{table.title}](#{anchor})", text, request.recipe, str(table.row_count))
        rows.append((*kept, *(timed if table.timed else trained), "; ".join(sorted(machines)), " to ".join(dates)))
    return pipes(head, rows, range(len(head)))


def _cautions(tables: Sequence[ReproducedTable]) -> Iterator[str]:
    """What the tables of a paper do not show."""
    trained, timed = [t for t in tables if not t.timed], [t for t in tables if t.timed]
    under, rows = sum(len(t.report.under_trained) for t in trained), sum(t.row_count for t in trained)
    if under:
        yield (
            f"**{'All' if under == rows else f'{under} of'} {rows} trained rows are "
            "[under-trained](../reproduce.md#under-trained-models).** "
            "Nothing follows from their figures or from their order, and no claim is tested on them."
        )
    shown = {
        "The text is not the paper's: figures cannot be compared with the paper's, and what can be compared, of models that "
        "have learned, is the order of rows.": trained,
        "One seed shows nothing about what another seed would give.": [t for t in trained if t.seeds == "one seed"],
        "Seconds are those of another machine than the paper's; compare ratios of rows, in the columns `times`.": timed,
        "Timings with random weights translate random words into sentences of a fixed length.": [
            t for t in tables if t.random
        ],
        "Timed models that have not learned write sentences of other lengths than models that have.": [
            t for t in timed if t.report.under_trained
        ],
    }
    yield from (caution for caution, some in shown.items() if some)


def _section(table: ReproducedTable) -> Iterator[str]:
    report = table.report
    budget = [] if table.timed else [report.request.budget]
    head = (*report.head, *(["budget"] * len(budget)), "to conclude")
    rows = [(*row, *budget, _note(table, key)) for row, key in zip(report.rows, report.keys, strict=True)]
    yield from (f"## {table.title}", "", f"{report.request.printed.title}. {report.beside}", "")
    yield from pipes(head, rows, {*report.left, *range(len(report.head), len(head))})
    yield ""
    if report.bars is not None:
        yield from (f"![the figures as bars]({table.name}.png)", "")
    yield from (f"### Claims about {table.title.lower()}", "")
    yield from _claims(report)
    yield ""
    yield from (f"- {one}" for one in under_trained_remarks(report.under_trained))
    links = ", ".join(f"[{_entry_name(entry)}]({entry.id}.json)" for entry in table.entries)
    yield from (f"- Command: {code(report.command)}", f"- Entries, with all conditions: {links}", "")


def _claims(report: Report) -> list[str]:
    if not report.claims:
        return ["The paper makes none in these columns."]
    in_words = [dataclasses.replace(one, verdict=WORDS[one.verdict]) for one in report.claims]
    return claims_table(in_words, report.request.printed.columns)


def _note(table: ReproducedTable, row: str) -> str:
    if row in table.report.under_trained:
        return "nothing: under-trained"
    return "ratios only: another machine" if table.timed else "order only: other text than the paper's"


def _entry_name(entry: Entry) -> str:
    row = entry.conditions.get("row")
    return "timing" if row is None else f"{row}, seed {entry.seed}"


def pages(entries: Sequence[Entry]) -> dict[str, str]:
    """Every page by its file below the folder of documents."""
    tables = tables_of(entries)
    used = {entry.id for some in tables.values() for table in some for entry in table.entries}
    others = [entry for entry in entries if entry.id not in used]
    themes = {kind: list(some) for kind, some in itertools.groupby(others, key=lambda e: e.kind)}
    return {
        "results.md": _index(tables, themes),
        **{f"{LEDGER}/{paper}.md": paper_page(paper, some) for paper, some in tables.items()},
        **{f"{LEDGER}/{kind}.md": theme_page(kind, some) for kind, some in themes.items()},
    }


def pictures(entries: Sequence[Entry]) -> dict[str, bytes]:
    """The picture of each table of trained rows, by its file. Raises X301 without matplotlib."""
    tables = [table for some in tables_of(entries).values() for table in some]
    return {f"{LEDGER}/{t.name}.png": picture(t.report.bars) for t in tables if t.report.bars is not None}


def _index(tables: Mapping[str, Sequence[ReproducedTable]], themes: Mapping[str, Sequence[Entry]]) -> str:
    lines = ["# Results", "", GENERATED, "", INTRODUCTION, ""]
    rows = [
        (
            f"[{read_paper.paper(paper).cite}]({LEDGER}/{paper}.md)",
            place(table.report.request.table) + ", speed" * table.timed,
            "timed" if table.timed else table.report.request.budget + " a cell",
            table.conclusion,
        )
        for paper, some in tables.items()
        for table in some
    ]
    if rows:
        lines += ["## Papers", "", RULE, ""]
        lines += [*pipes(("paper", "table", "budget", "what came of it"), rows, range(4)), ""]
    if themes:
        lines += ["## Other figures", ""]
    for kind, entries in themes.items():
        titles = "; ".join(dict.fromkeys(entry.title for entry in entries))
        lines.append(f"- [{KINDS[kind]}]({LEDGER}/{kind}.md): {titles}.")
    return "\n".join(lines).rstrip() + "\n"


def write_pages(docs: Path) -> None:
    """Writes all pages and pictures below the folder of documents, and removes pages of entries that are gone."""
    entries = read(docs / LEDGER)
    made = {name: body.encode() for name, body in pages(entries).items()} | pictures(entries)
    for name, body in made.items():
        write_whole(docs / name, body)
    for file in (docs / LEDGER).glob("*.md"):
        if f"{LEDGER}/{file.name}" not in made:
            file.unlink()


def main(arguments: Sequence[str]) -> int:
    """Writes the pages of the documents named; exit status 0, 1 for a faulty ledger, 2 for wrong usage."""
    if len(arguments) != 1:
        print("usage: python -m calque.papers.results DOCS", file=sys.stderr)
        return 2
    try:
        write_pages(Path(arguments[0]))
    except CalqueError as fault:
        print(render_all(fault.diagnostics), file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
