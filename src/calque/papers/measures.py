"""Every column of a table, measured once for each finished cell and kept in its entry."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from calque.data.lines import Lines
from calque.ground.diagnostics import CalqueError
from calque.ground.files import only
from calque.ledger.entry import Entry, record
from calque.ledger.entry import read as read_entries
from calque.papers.decoded import IN_SUBWORDS, decode_rows, replaced_lines
from calque.papers.finished import FinishedCell, Folder, NotMeasured, reason
from calque.papers.layout import CELLS, LOCKS, PLAIN_REFERENCE, REFERENCE, Tell
from calque.papers.metrics import METRICS
from calque.papers.scoring import LEFT_OUT, has_case, measure_of, translations, write_lines
from calque.papers.sets import Measured, accuracies, error_rate, moses
from calque.run.tensors import writing


def complete(out: Path, root: Path, tell: Tell) -> dict[str, str]:
    """Fills rows that are decoded otherwise, and every column of the table, for all finished cells; returns what is not measured,
    and why.

    What stands in a cell is kept. Raises X706 where `out` holds no reproduction.
    """
    folder = Folder(out, root, tell)
    if not any((out / CELLS).glob("*.json")):
        return {}
    with writing(out):
        (out / LOCKS).mkdir(exist_ok=True)
    told = dict(decode_rows(folder))
    metrics = dict.fromkeys(c.metric for c in folder.table.columns if c.metric in _MEASURES)
    rows: dict[tuple[str, str], list[str]] = {}
    entries = read_entries(out / CELLS)
    for entry in entries:
        for metric in metrics:
            for found in _measured(folder, entry.id, metric):
                rows.setdefault(found, []).append(str(entry.conditions["row"]))
    for (what, why), some in rows.items():
        of = f" of {', '.join(dict.fromkeys(some))}" if len(some) < len(entries) else ""
        told[what + of] = why
    return told


def _measured(folder: Folder, name: str, metric: str) -> Iterator[tuple[str, str]]:
    """Measures a metric of a cell, unless it stands there; yields what is not measured, and why."""
    columns = [c for c in folder.table.columns if c.metric == metric]
    with only(folder.out / LOCKS / name) as free:
        subject = FinishedCell(folder, next(e for e in read_entries(folder.out / CELLS) if e.id == name))
        missing = [c for c in columns if c.figure not in subject.entry.figures]
        if not missing or (metric == "accuracy" and _ACCURACY in subject.entry.conditions):
            yield from ((str(c), "the contrastive pairs here have no such error") for c in missing)
            return
        if not free:
            yield metric, f"another process works on {subject.cell.row}"
            return
        try:
            figures, conditions = _MEASURES[metric](subject)
        except NotMeasured as why:
            yield metric, str(why)
        except CalqueError as fault:
            yield metric, reason(fault)
        else:
            folder.tell(f"{subject.cell.row}, seed {subject.cell.seed}: {metric} measured")
            _keep(folder, subject.entry, figures, conditions)
            left = [c for c in missing if c.figure not in figures]
            yield from ((str(c), "the contrastive pairs here have no such error") for c in left)


_ACCURACY = "accuracy of"


def _keep(folder: Folder, entry: Entry, figures: Mapping[str, float], conditions: Mapping[str, str]) -> None:
    made = dataclasses.replace(
        entry,
        figures={**entry.figures, **figures},
        conditions={**entry.conditions, **conditions},
        notes="" if "METEOR" in figures and entry.notes == LEFT_OUT else entry.notes,
    )
    with writing(folder.out):
        record(folder.out / CELLS, made)


def _text(metric: str) -> Callable[[FinishedCell], Measured]:
    """The measure of a metric of translations: their text is written where it is not that of the cell, and scored."""

    def measured(subject: FinishedCell) -> Measured:
        folder, scored = subject.folder, METRICS[metric]
        more = _WRITERS[metric](subject) if metric in _WRITERS else {}
        made = measure_of(metric, folder.corpus, folder.root, folder.out)
        lines = list(Lines(_translations(subject, metric)))
        sums = made.statistics(lines, list(Lines(folder.out / scored.reference))).sum(0)
        return {scored.figure: round(float(made.score(sums)), 3)}, {
            f"{scored.figure} signature": made.signature(),
            **more,
        }

    return measured


def _translations(subject: FinishedCell, metric: str) -> Path:
    return translations(metric, subject.folder.out, subject.cell.row, subject.cell.seed)


def _write_replaced(subject: FinishedCell) -> dict[str, str]:
    if not subject.words:
        raise NotMeasured(IN_SUBWORDS)
    if subject.row.decoding.unknown:
        write_lines(_translations(subject, "unk-bleu"), list(Lines(_translations(subject, "bleu"))))
        return {}
    lines, count = replaced_lines(subject.folder, subject.run, subject.cell)
    write_lines(_translations(subject, "unk-bleu"), lines)
    return {"unknown words replaced": f"{count:,}"}


def _write_plain(subject: FinishedCell) -> dict[str, str]:
    """Translations and references as one writes them: Moses' rules put the former together, the latter are those of the corpus."""
    folder, corpus = subject.folder, subject.folder.corpus
    files = corpus.plain_test(folder.root)
    if files is None:
        raise NotMeasured("no plain text of the test set is known for this corpus")
    cut, raw = files
    if not cut.is_file() or not raw.is_file():
        raise NotMeasured(f"the data root has no {raw.name} beside the tokenised text, to be compared with")
    references = list(Lines(folder.out / REFERENCE))
    if list(Lines(cut)) != references or len(written := list(Lines(raw))) != len(references):
        raise NotMeasured("the test text is not that of the corpus, of which alone the plain text is known")
    join = moses().MosesDetokenizer(lang=corpus.target)
    lines = [str(join.detokenize(line.split())) for line in list(Lines(_translations(subject, "bleu")))]
    write_lines(folder.out / PLAIN_REFERENCE, written)
    write_lines(_translations(subject, "nist-bleu"), lines)
    case = "" if has_case(references) else ", without case, since the training text has none"
    return {"NIST BLEU of": f"text put together by Moses' rules against {raw.name} as it was written{case}"}


_WRITERS = {"unk-bleu": _write_replaced, "nist-bleu": _write_plain}
_MEASURES: Mapping[str, Callable[[FinishedCell], Measured]] = {
    **{metric: _text(metric) for metric in ("meteor", "uncased-bleu", "unk-bleu", "nist-bleu")},
    "accuracy": accuracies,
    "aer": error_rate,
}
"""What is measured of a finished cell; BLEU and perplexity stand there from the first."""
