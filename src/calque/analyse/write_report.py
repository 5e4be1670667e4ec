"""The report: one HTML file that needs no network, and beside it the pictures and tables of its figures."""

from collections.abc import Mapping
from pathlib import Path

from calque.analyse.analysis import Analysis
from calque.analyse.cache import from_json, to_json
from calque.analyse.drawn import DrawnFigure, NotDrawn
from calque.analyse.html import Section, page
from calque.analyse.pieces import PIECES, Piece
from calque.analyse.runs import stem
from calque.ground.diagnostics import error
from calque.ground.files import staged, sweep, write_whole
from calque.run.tensors import writing

REPORT = "report.html"
NOT_DRAWN = "Not drawn: "


def make_section(analysis: Analysis, name: str, piece: Piece) -> Section:
    """A section: from the cache, or drawn now. Raises CalqueError for wrong settings."""
    before = False
    try:
        part, before = analysis.cache.part(
            stem("section", name), [name, analysis.fingerprint], lambda: to_json(piece.draw(analysis))
        )
        content = from_json(part)
    except NotDrawn as why:
        content = [f"{NOT_DRAWN}{why}."]
    figures = tuple(item for item in content if isinstance(item, DrawnFigure))
    analysis.tell(f"{piece.title}: {len(figures)} drawn{' before' * before}")
    return Section(name, piece.title, figures, tuple(item for item in content if isinstance(item, str)))


def write_report(analysis: Analysis, out: Path, pieces: Mapping[str, Piece] = PIECES, alone: bool = False) -> Path:
    """Writes each section's files, and after each of them `report.html`, into `out`; returns the path of the report.

    `alone`: the figures were named; X830 where none of them can be drawn. Raises K301 where `out` cannot be written.
    """
    analysis.check()
    _check_writable(analysis, out)  # before hours of work, not after
    sections: list[Section] = []
    missing = [piece.title for piece in pieces.values()]
    for name, piece in pieces.items():
        sections.append(make_section(analysis, name, piece))
        missing = missing[1:]
        if not alone or any(section.drawn for section in sections):
            _write(out, sections[-1], page(analysis, sections, missing))
    if alone and not any(section.drawn for section in sections):
        reason = "; ".join(note.removeprefix(NOT_DRAWN).rstrip(".") for s in sections for note in s.notes)
        raise error("X830", None, name=", ".join(s.name for s in sections), reason=reason)
    return out / REPORT


def _check_writable(analysis: Analysis, out: Path) -> None:
    """Raises K301 where `out` cannot be written. Removes the incomplete files that a killed analysis left."""
    with writing(out):
        new = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        with staged(out / REPORT, b""):
            pass
        if new:  # perhaps nothing can be drawn
            out.rmdir()
        for folder in (out, analysis.cache.folder):
            if folder is not None and folder.is_dir():
                sweep(folder)


def _write(out: Path, section: Section, report: str) -> None:
    """Writes the files of a section, and the report so far."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for figure in section.drawn:
            for kind, body in figure.files().items():
                write_whole(out / f"{figure.name}.{kind}", body)
        write_whole(out / REPORT, report.encode())
