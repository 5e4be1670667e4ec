"""The report: one HTML file that needs no network, and beside it the pictures and tables of its figures."""

from collections.abc import Mapping
from pathlib import Path

from calque.analyse import cache as kept
from calque.analyse.analysis import Analysis
from calque.analyse.drawn import DrawnFigure, NotDrawn
from calque.analyse.html import Section, page
from calque.analyse.pieces import PIECES, Piece
from calque.analyse.runs import stem
from calque.ground.diagnostics import error
from calque.ground.files import staged, sweep, write_whole
from calque.run.tensors import writing

REPORT = "report.html"


def make_section(analysis: Analysis, name: str, piece: Piece) -> Section:
    """A piece, as it was kept or made now. Raises CalqueError for what was asked for wrongly."""
    there = False
    try:
        part, there = analysis.kept.part(
            stem("section", name), [name, analysis.fingerprint], lambda: kept.plain(piece.draw(analysis))
        )
        made = kept.drawn(part)
    except NotDrawn as why:
        made = [f"Not drawn: {why}."]
    drawn = tuple(one for one in made if isinstance(one, DrawnFigure))
    analysis.tell(f"{piece.title}: {len(drawn)} drawn{' before' * there}")
    return Section(name, piece.title, drawn, tuple(one for one in made if isinstance(one, str)))


def write_report(analysis: Analysis, out: Path, pieces: Mapping[str, Piece] = PIECES, alone: bool = False) -> Path:
    """Writes each section's files, and after each of them `report.html`, into `out`; returns the path of the report.

    `alone`: figures that were asked for by name; X830 where none of them can be drawn. Raises K301 for what cannot be written.
    """
    analysis.check()
    with writing(out):  # told before hours of work, not after
        new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        with staged(out / REPORT, b""):
            pass
        if new:  # nothing may come to be drawn
            out.rmdir()
        for folder in (out, analysis.kept.folder):  # of an analysis that was killed
            if folder is not None and folder.is_dir():
                sweep(folder)
    sections: list[Section] = []
    missing = [piece.title for piece in pieces.values()]
    for name, piece in pieces.items():
        sections.append(make_section(analysis, name, piece))
        missing = missing[1:]
        if alone and not any(section.drawn for section in sections):
            continue
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
            for drawn in sections[-1].drawn:
                for kind, body in drawn.files().items():
                    write_whole(out / f"{drawn.name}.{kind}", body)
            write_whole(out / REPORT, page(analysis, sections, missing).encode())
    if alone and not any(section.drawn for section in sections):
        reason = "; ".join(note.removeprefix("Not drawn: ").rstrip(".") for s in sections for note in s.notes)
        raise error("X830", None, name=", ".join(s.name for s in sections), reason=reason)
    return out / REPORT
