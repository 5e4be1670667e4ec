"""The pages of results, made from the files of the ledger: an index, a page for each paper and one for all claims, and a page for
each kind of figure.

`calque reproduce report --all` reads DOCS/results, and writes DOCS/results.md, DOCS/results/*.md, and pictures of tables.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque import zoo
from calque.evaluate.significance import FAILS, HOLDS, UNDECIDED
from calque.ground.files import write_whole
from calque.ground.table import pipes
from calque.ledger.entry import KINDS, Entry, read
from calque.ledger.theme_pages import GENERATED, theme_page
from calque.papers import read_paper
from calque.papers.claims import UNTESTED
from calque.papers.claims_page import claims_page, judged_claims, summary
from calque.papers.corpora import CORPORA
from calque.papers.evidence import LedgerEvidence
from calque.papers.figure_claims import FigureVerdict, figure_claims, judge_figure
from calque.papers.ledger_tables import ReproducedTable, tables_of
from calque.papers.notes import notes_of, plan_of
from calque.papers.paper_pages import paper_page
from calque.papers.picture import picture
from calque.papers.quality_speed import quality_speed
from calque.zoo.row_texts import place

LEDGER = "results"
CLAIMS = f"{LEDGER}/claims.md"
INTRODUCTION = (
    "Every figure on these pages comes from a file of the [ledger](results), which the command that measured it wrote, with "
    "machine, versions, commit, data and seeds. `make results` writes the pages; no figure is typed."
)
RULE = "Which rows count as under-trained: [the rule](reproduce.md#under-trained-models)."
COUNTED = {
    HOLDS: ("holds", "hold"),
    FAILS: ("does not hold", "do not hold"),
    UNDECIDED: ("undecided", "undecided"),
    UNTESTED: ("not tested", "not tested"),
}
"""Verdicts of one claim, and of several."""


@dataclass(frozen=True)
class LedgerPages:
    """All pages and pictures of a ledger: of its entries, and of the numbers of sentences and the notes in its folder."""

    entries: Sequence[Entry]
    tables: Mapping[str, Sequence[ReproducedTable]]
    figures: Mapping[str, Sequence[FigureVerdict]]
    folder: Path | None

    @classmethod
    def of(cls, folder: Path) -> "LedgerPages":
        """The pages of a folder of entries. Raises what is wrong with an entry, and X857."""
        return cls.made(read(folder), LedgerEvidence(folder))

    @classmethod
    def made(cls, entries: Sequence[Entry], evidence: LedgerEvidence | None) -> "LedgerPages":
        """The pages of entries; without evidence no claim about translations is tested."""
        tables = tables_of(entries, evidence)
        figures = {
            paper: [judge_figure(claim, _shown(tables.get(paper, ()), claim.table), evidence) for claim in claims]
            for paper, claims in figure_claims().items()
        }
        return cls(entries, tables, figures, evidence.folder if evidence is not None else None)

    @property
    def pages(self) -> dict[str, str]:
        """Every page by its file below the folder of documents."""
        used = {entry.id for some in self.tables.values() for table in some for entry in table.entries}
        others = [entry for entry in self.entries if entry.id not in used]
        themes = {kind: list(some) for kind, some in itertools.groupby(others, key=lambda e: e.kind)}
        notes = {p: notes_of(self.folder, p) for p in self.tables} if self.folder is not None else {}
        plan = plan_of(self.folder) if self.folder is not None else None
        made = {
            f"{LEDGER}/{paper}.md": paper_page(paper, some, self.figures.get(paper, ()), notes.get(paper))
            for paper, some in self.tables.items()
        }
        claims = {CLAIMS: claims_page(self.tables, self.figures, notes, self.entries, plan)} if self.tables else {}
        pages = {f"{LEDGER}/{kind}.md": theme_page(kind, some) for kind, some in themes.items()}
        return {"results.md": self._index(themes), **made, **claims, **pages}

    @property
    def pictures(self) -> dict[str, bytes]:
        """Bars and learning curves of each table of trained rows, quality over speed of timed ones, by file. Raises X301."""
        made: dict[str, bytes] = {}
        for table, beside in ((table, some) for some in self.tables.values() for table in some):
            if table.report.bars is not None:
                made[f"{LEDGER}/{table.name}.png"] = picture(table.report.bars)
            if table.report.curves is not None:
                made[f"{LEDGER}/{table.name}-curves.png"] = table.report.curves.picture()
            if (found := quality_speed(table, beside)) is not None:
                made[f"{LEDGER}/{table.name}.png"] = found.picture()
        return made

    def _index(self, themes: Mapping[str, Sequence[Entry]]) -> str:
        lines = ["# Results", "", GENERATED, "", INTRODUCTION, ""]
        rows = [
            (
                f"[{read_paper.paper(paper).cite}]({LEDGER}/{paper}.md)",
                place(table.report.request.table) + ", speed" * table.timed,
                "timed" if table.timed else "; ".join(table.budgets) + " a cell",
                conclusion(table),
            )
            for paper, some in self.tables.items()
            for table in some
        ]
        if rows:
            first = next(iter(CORPORA))
            said = summary(CORPORA[first].title, judged_claims(self.tables, self.figures, first))
            lines += ["## Papers", "", f"{said} [All claims]({CLAIMS}), with what it cost to test them.", "", RULE, ""]
            lines += [*pipes(("paper", "table", "budget", "what came of it"), rows, range(4)), ""]
        if themes:
            lines += ["## Other figures", ""]
        for kind, entries in themes.items():
            titles = "; ".join(dict.fromkeys(entry.title for entry in entries))
            lines.append(f"- [{KINDS[kind]}]({LEDGER}/{kind}.md): {titles}.")
        return "\n".join(lines).rstrip() + "\n"


def conclusion(table: ReproducedTable) -> str:
    """How many rows of a table are under-trained, and what came of the paper's claims."""
    counts = Counter(one.verdict for one in table.report.claims)
    said = ", ".join(f"{count} {COUNTED[verdict][count > 1]}" for verdict, count in counts.items())
    return f"under-trained rows: {len(table.report.under_trained)} of {table.row_count}; claims: {said or 'none'}"


def _shown(tables: Sequence[ReproducedTable], name: str) -> ReproducedTable | None:
    """The trained table whose rows a figure shows."""
    return next((table for table in tables if table.report.request.table == name and not table.timed), None)


def pages(entries: Sequence[Entry], evidence: LedgerEvidence | None = None) -> dict[str, str]:
    """Every page by its file below the folder of documents."""
    return LedgerPages.made(entries, evidence).pages


def write_pages(docs: Path) -> list[Path]:
    """Writes all pages and pictures below the folder of documents, removes those that no entry stands for any more, and keeps
    the results of tests. Returns the files that it wrote.

    Raises what `LedgerPages.of` raises, and X301 without matplotlib.
    """
    evidence = LedgerEvidence(docs / LEDGER)
    ledger = LedgerPages.made(read(docs / LEDGER), evidence)
    made = {name: body.encode() for name, body in ledger.pages.items()} | ledger.pictures
    evidence.remembered.write()
    for name, body in made.items():
        write_whole(docs / name, body)
    papers = tuple(f"{paper}-" for paper in zoo.papers())
    for file in (docs / LEDGER).iterdir():
        drawn = file.suffix == ".png" and file.name.startswith(papers)
        if (file.suffix == ".md" or drawn) and f"{LEDGER}/{file.name}" not in made:
            file.unlink()
    return [docs / name for name in made]
