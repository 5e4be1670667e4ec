"""The pages of reproduced tables, made from the files of the ledger.

python -m calque.papers.table_pages docs/results docs/reproductions
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.ground.diagnostics import CalqueError, render_all
from calque.ground.files import write_whole
from calque.ledger.entry import Entry, read
from calque.papers import render, speed_report
from calque.papers.paper import Claim
from calque.papers.picture import draw
from calque.papers.report import ByRow, ReportOptions, TableReport, make_report
from calque.papers.request import Request, asked_by
from calque.papers.speed import SPEED, columns_of
from calque.papers.verdicts import UNTESTED, ClaimVerdict

NO_TEXT = "its translations are not in the ledger, and a test needs them"


@dataclass(frozen=True)
class TablePage:
    """A page by the name of its file, and the report of its picture, where it has one."""

    name: str
    body: str
    report: TableReport | None = None


def pages(folder: Path) -> list[TablePage]:
    """A page for the cells of each call in a ledger, and one for each timing."""
    cells: dict[Request, list[Entry]] = {}
    timings: list[tuple[Request, Entry]] = []
    for entry in read(folder):
        asked = asked_by(entry.command)
        if asked is not None and "row" in entry.conditions:
            cells.setdefault(asked, []).append(entry)
        elif asked is not None and entry.kind == SPEED:
            timings.append((asked, entry))
    made = [_trained(asked, entries) for asked, entries in cells.items()]
    made += [_timed(asked, entry, cells.get(asked, [])) for asked, entry in timings]
    return list(_named(made))


def _trained(asked: Request, entries: Sequence[Entry]) -> tuple[str, TableReport | str]:
    report = make_report(asked, entries, ReportOptions(held=asked.pair).column(asked.paper, asked.printed), _untestable)
    return f"{asked.paper}-{asked.table}", report


def _timed(asked: Request, entry: Entry, cells: Sequence[Entry]) -> tuple[str, TableReport | str]:
    metric = columns_of(asked.printed)[0].metric
    column = ReportOptions(metric=metric, held=asked.pair).column(asked.paper, asked.printed)
    return f"{asked.paper}-{asked.table}-{SPEED}", speed_report.markdown(
        speed_report.make_report(asked, entry, cells, column)
    )


def _untestable(claims: Sequence[Claim], by_row: ByRow) -> list[ClaimVerdict]:
    return [ClaimVerdict(claim, UNTESTED, (), (), NO_TEXT) for claim in claims]


def _named(made: Sequence[tuple[str, TableReport | str]]) -> Iterator[TablePage]:
    """Pages with names of their own: a number behind the second of one table."""
    count: dict[str, int] = {}
    for stem, what in made:
        count[stem] = count.get(stem, 0) + 1
        name = stem if count[stem] == 1 else f"{stem}-{count[stem]}"
        body = what if isinstance(what, str) else render.markdown(what, f"{name}.png")
        yield TablePage(name, body, None if isinstance(what, str) else what)


def write_pages(ledger: Path, out: Path) -> None:
    """Writes the pages and their pictures into a folder, and removes those of entries that are gone."""
    made = pages(ledger)
    for page in made:
        write_whole(out / f"{page.name}.md", page.body.encode())
        if page.report is not None:
            draw(page.report, out / f"{page.name}.png")
    known = {page.name for page in made}
    for file in (*out.glob("*.md"), *out.glob("*.png")):
        if file.stem not in known:
            file.unlink()


def main(arguments: Sequence[str]) -> int:
    """Writes the pages of the ledger named; exit status 0, 1 for a faulty ledger, 2 for wrong usage."""
    if len(arguments) != 2:
        print("usage: python -m calque.papers.table_pages LEDGER FOLDER", file=sys.stderr)
        return 2
    try:
        write_pages(*map(Path, arguments))
    except CalqueError as fault:
        print(render_all(fault.diagnostics), file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
