"""Figures that no paper's column asks for, of each trained cell: chrF, scores of further test sets of a corpus, bytes of state."""

from collections.abc import Iterator
from pathlib import Path

from calque.data.lines import Lines, check_corpus
from calque.evaluate.statistics import measure
from calque.ledger.entry import Entry
from calque.papers.metrics import HYPOTHESES, REFERENCE, STATE
from calque.papers.output import FinishedCell, OutputFolder
from calque.papers.request import MEMBERS
from calque.papers.scoring import write_lines
from calque.run.folder import MODEL

FURTHER = "further"
"""Below an output folder: `further/SET/hypotheses/ROW/SEED.txt` and `further/SET/reference.txt`."""
CHRF = "chrF"


def missing(folder: OutputFolder, entry: Entry) -> list[str]:
    """What a cell lacks: `chrF`, bytes of state, and further test sets whose text is there and whose model is not gone."""
    lacking = [CHRF] * (CHRF not in entry.figures)
    if MEMBERS in entry.conditions or not (_run(folder, entry) / f"{MODEL}.json").is_file():
        return lacking
    sets = folder.corpus.further(folder.root)
    lacking += [STATE] * (STATE not in entry.figures)
    return [*lacking, *(name for name in sets if f"BLEU, {name}" not in entry.figures)]


def figures_of(subject: FinishedCell, name: str) -> dict[str, float]:
    """chrF of the test set, bytes of state, or BLEU and chrF of a further test set, which the model of the cell translates."""
    folder, cell = subject.folder, subject.cell
    if name == CHRF:
        hypotheses = folder.out / HYPOTHESES / cell.row / f"{cell.seed}.txt"
        return dict(_scores(subject, list(Lines(hypotheses)), list(Lines(folder.out / REFERENCE)), ""))
    if name == STATE:
        return {STATE: folder.state(folder.definition(cell.row)[0])}
    source, reference = folder.corpus.further(folder.root)[name]
    check_corpus(source, reference)
    references, lines = list(Lines(reference)), subject.run.translate(list(Lines(source)))
    write_lines(folder.out / FURTHER / name / REFERENCE, references)
    write_lines(folder.out / FURTHER / name / HYPOTHESES / cell.row / f"{cell.seed}.txt", lines)
    return dict(_scores(subject, lines, references, f", {name}"))


def _scores(
    subject: FinishedCell, hypotheses: list[str], references: list[str], behind: str
) -> Iterator[tuple[str, float]]:
    for name, metric in (("BLEU", "bleu"), (CHRF, "chrf")):
        if behind or metric == "chrf":
            made = measure(metric, tokenize=subject.folder.corpus.tokenize)
            yield f"{name}{behind}", round(float(made.score(made.statistics(hypotheses, references).sum(0))), 3)


def _run(folder: OutputFolder, entry: Entry) -> Path:
    return folder.run(FinishedCell(folder, entry).cell)
