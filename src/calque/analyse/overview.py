"""The first sections of a report: the headline numbers of its runs, and their architectures."""

from typing import TYPE_CHECKING

from calque.analyse.architecture import architecture
from calque.analyse.drawn import DrawnFigure, Table
from calque.analyse.lengths import ruler
from calque.analyse.runs import AnalysedRun, stem
from calque.run.log import mean_speed, read_log

if TYPE_CHECKING:
    from calque.analyse.analysis import Analysis

COLUMNS = (
    "run",
    "BLEU",
    "chrF",
    "parameters",
    "updates",
    "training minutes",
    "training, target tokens/s",
    "translation, source words/s",
    "architecture",
)


def headline(a: "Analysis") -> DrawnFigure:
    """Quality, size, training and speed of each run."""
    text, rows = a.text, []
    count = sum(map(ruler(text.sources), text.sources))
    for s in a.subjects:
        (bleu, chrf), trained = a.scores[s.name], a.trained(s)
        rows.append(
            (
                *(
                    s.name,
                    bleu.value,
                    chrf.value,
                    s.parameters,
                    trained.get("update"),
                    trained.get("seconds", 0) / 60 or None,
                ),
                *(mean_speed(read_log(s.folder)), count / s.decoding_seconds, s.checked.hash),
            )
        )
    signatures = [
        f"{name} signature: `{score.signature}`."
        for name, score in zip(("BLEU", "chrF"), a.scores[a.base.name], strict=True)
    ]
    caption = (
        f"{len(text.sources):,} lines, {text.title}. {' '.join(signatures)} Translation: all lines with beam "
        f"{beams(a.subjects)}, batched as each run has it, on {a.machine['machine']}, threads: {a.machine['threads']}; the time "
        "that loading takes is left out. Training: as the run's log has it, on the machine of the run."
    )
    reading = (
        "Higher BLEU and chrF are better; a difference of less than a point can be chance, which `calque compare` tests, and "
        "speeds compare only between runs measured on one machine."
    )
    return DrawnFigure("overview", "Headline numbers", caption, Table.of(COLUMNS, rows), reading=reading)


def beams(subjects: list[AnalysedRun]) -> str:
    """The beam of all runs, or that of each."""
    widths = {s.name: s.run.loaded.decode.beam for s in subjects}
    if len(set(widths.values())) == 1:
        return f"{next(iter(widths.values()))}"
    return ", ".join(f"{beam} ({name})" for name, beam in widths.items())


def diagrams(a: "Analysis") -> list[DrawnFigure]:
    """The diagram of each architecture; one that several runs share is drawn once."""
    groups: dict[str, list[AnalysedRun]] = {}
    for s in a.subjects:
        groups.setdefault(s.checked.hash, []).append(s)
    figures = []
    for some in groups.values():
        title = ", ".join(s.name for s in some)
        caption = (
            f"Drawn from the run's definition: `calque explain {some[0].folder} --diagram out.svg` draws it again."
        )
        figures.append(architecture(some[0].checked, stem("architecture", some[0].name), title, caption))
    return figures
