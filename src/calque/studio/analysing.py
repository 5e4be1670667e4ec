"""The report of `calque analyse` for runs that the page has chosen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.analyse.analysis import Analysis, AnalysisSettings
from calque.analyse.cache import KEPT, AnalysisCache
from calque.analyse.pieces import PIECES
from calque.analyse.write_report import write_report
from calque.experiment import load
from calque.experiment.toml import EXPERIMENT
from calque.studio.jobs import Tell
from calque.studio.reports import report_folder


def analyse(asked: Mapping[str, Any], tell: Tell) -> None:
    """Writes the report of the runs, and tells each section as it is drawn. What was drawn before is taken over."""
    runs = [Path(run) for run in asked["runs"]]
    out = report_folder(Path(asked["folder"]).parent, asked)
    titles = {piece.title for piece in PIECES.values()}
    tell("begin", {"sections": len(titles)})

    def watch(line: str) -> None:
        title, _, found = line.rpartition(": ")
        if title in titles:
            tell("section", {"title": title, "drawn": not found.startswith("0 ")})
        else:
            tell("note", {"text": line})

    settings = AnalysisSettings(text=_text(runs), lines=asked["lines"])
    command = f"calque analyse {' '.join(run.name for run in runs)} --lines {asked['lines']}"
    path = write_report(Analysis(runs, settings, command, watch, AnalysisCache(out / KEPT)), out)
    tell("end", {"report": path.name})


def _text(runs: Sequence[Path]) -> tuple[Path, Path] | None:
    """None, which is the runs' own test text; the validation text of the first run where it has no other."""
    data = load(runs[0] / EXPERIMENT).data
    if data.test or len(data.valid) != 2:
        return None
    return Path(data.valid[0]), Path(data.valid[1])
