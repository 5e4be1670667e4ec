"""The pages of results, made from the files of the ledger: an index, a page for each paper, and a page for each kind of figure.

python -m calque.papers.results DOCS reads DOCS/results/*.json, and writes DOCS/results.md, DOCS/results/*.md, and a picture
for each table of trained rows.
"""

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import write_whole
from calque.ground.table import pipes
from calque.ledger.entry import KINDS, Entry, read
from calque.papers import read_paper
from calque.papers.paper_pages import ReproducedTable, paper_page, tables_of
from calque.papers.picture import picture
from calque.papers.theme_pages import GENERATED, theme_page
from calque.zoo.row_texts import place

LEDGER = "results"


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
    lines = [
        "# Results",
        "",
        GENERATED,
        "",
        "Every figure on these pages comes from a file of the [ledger](results), which the command that measured it wrote, with "
        "machine, versions, commit, data and seeds. `make results` writes the pages; no figure is typed.",
        "",
    ]
    if tables:
        lines += [
            "## Papers",
            "",
            "Which rows count as under-trained: [the rule](reproduce.md#under-trained-models).",
            "",
        ]
        rows = [
            (
                f"[{read_paper.paper(paper).cite}]({LEDGER}/{paper}.md)",
                place(table.report.request.table) + ", speed" * table.timed,
                table.report.request.budget + " a cell" if not table.timed else "timed",
                table.conclusion,
            )
            for paper, some in tables.items()
            for table in some
        ]
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
