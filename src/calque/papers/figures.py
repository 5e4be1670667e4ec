"""A paper's figure from the runs of its rows: what `calque analyse` draws, with the runs found by the zoo's names."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from calque.analyse.analysis import Analysis, AnalysisSettings
from calque.analyse.cache import KEPT, AnalysisCache
from calque.analyse.write_report import write_report
from calque.ground.diagnostics import CalqueError, Place, error
from calque.papers.figure_list import SWEEPS, PaperFigure, piece_of
from calque.papers.layout import CELLS, RUNS, Tell
from calque.papers.request import request_in
from calque.run.folder import ARCHITECTURE, MODEL

CONTRAST = "contrastive-ende"
"""Below the data root, where there is one."""


def default_folder(paper: str, table: str) -> Path:
    """Where `calque reproduce` puts a table or figure unless it is told otherwise."""
    return Path("runs") / "reproduce" / paper / table


def draw_figure(figure: PaperFigure, folders: Sequence[Path], root: Path, out: Path, tell: Tell) -> Path:
    """Draws a figure into `out` as `calque analyse` does, and returns the path of its report.

    folders  run folders, and output folders of `calque reproduce`; none: those of the tables whose rows the figure shows

    Raises X830 for what it needs besides, X841 without trained rows, X842 for a folder that is neither, and what
    `calque.analyse` raises.
    """
    piece = piece_of(figure)
    where = list(folders) or [default_folder(figure.paper, table) for table in figure.tables]
    runs: list[Path] = []
    ledgers: tuple[Path, ...] = ()
    if figure.piece == SWEEPS:
        ledgers = tuple(folder / CELLS if (folder / CELLS).is_dir() else folder for folder in where)
        missing = not any(any(ledger.glob("*.json")) for ledger in ledgers)
    else:
        runs = [run for folder in where for run in runs_in(folder, figure, named=bool(folders))]
        missing = figure.needs_runs and not runs
    if missing:
        rows = [f"{table}/{row.key}" for table, some in figure.tables.items() for row in some]
        raise error("X841", None, name=figure.name, paper=figure.paper, table=next(iter(figure.tables)), rows=rows)
    pairs = root / CONTRAST
    settings = AnalysisSettings(contrast=pairs if pairs.is_dir() else None, ledger=ledgers)
    words = ["calque", "analyse", *map(str, runs)]
    for option, some in (("--ledger", ledgers), ("--contrast", [pairs] if settings.contrast else [])):
        words += [word for one in some for word in (option, str(one))]
    words += ["--out", str(out)]
    command = shlex.join(words)
    tell(f"{command} --figure {figure.name}")
    return write_report(
        Analysis(runs, settings, command, tell, AnalysisCache(out / KEPT)), out, {figure.name: piece}, alone=True
    )


def runs_in(folder: Path, figure: PaperFigure, named: bool) -> list[Path]:
    """A run folder itself; of an output folder the first seed of each row that is finished.

    These are the figure's rows, where the folder is of their table, else all. A folder that was not `named` may be missing;
    else X842.
    """
    if (folder / ARCHITECTURE).is_file():
        return [folder]
    if not (folder / RUNS).is_dir():
        if named:
            raise error("X842", Place(str(folder)))
        return []
    try:
        request = request_in(folder)
        wanted = figure.tables.get(request.table) if request.paper == figure.paper else None
    except CalqueError:
        wanted = None
    held = sorted(p.name for p in (folder / RUNS).iterdir())
    names = held if wanted is None else [row.key for row in wanted if row.key in held]
    found = []
    for name in names:
        seeds = sorted((s for s in (folder / RUNS / name).iterdir() if s.name.isdigit()), key=lambda s: int(s.name))
        found += [seed for seed in seeds if (seed / f"{MODEL}.json").is_file()][:1]
    return found
