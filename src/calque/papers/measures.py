"""Every column of a table, measured once for each finished cell and kept in its entry.

Some need a set below the data root that is no text to translate: links by hand, and contrastive pairs.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calque.align.links import Gold, check_inside, read_gold
from calque.analyse.contrast import decide, read_set
from calque.data.codecs import split
from calque.data.lines import Lines, check_corpus
from calque.data.vocabulary import UNK
from calque.decode.attention import align_lines, aligned_at
from calque.decode.translate import Translator
from calque.evaluate.aer import alignment_error_rate
from calque.ground.diagnostics import CalqueError, error
from calque.ground.files import only
from calque.ledger.entry import Entry, record
from calque.ledger.entry import read as read_entries
from calque.papers import further
from calque.papers.corpora import TrainingCorpus
from calque.papers.decoded import IN_SUBWORDS, decode_rows, replaced_lines
from calque.papers.metrics import AER_BY_STEP, METRICS, PLAIN_REFERENCE, REFERENCE
from calque.papers.output import FinishedCell, NotMeasured, OutputFolder
from calque.papers.paper import Column
from calque.papers.request import CELLS, LOCKS, MEMBERS
from calque.papers.scoring import LEFT_OUT, has_case, measure_of, translations, write_lines
from calque.papers.shared_cells import tables_with
from calque.run.tensors import writing

GOLD, CONTRASTIVE = "align-gold", "contrastive-{}{}"
"""Below the data root: `align-gold/deen.de`, `.en`, `.talp`, and a folder or a JSON file of contrastive pairs by languages."""
PAIRS = 1000
"""Contrastive pairs scored of each kind of error, evenly spaced."""
ESCAPES = str.maketrans(
    {"&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;", "[": "&#91;", "]": "&#93;"}
)
"""What Moses' tokeniser writes for characters that have a meaning to its decoder."""

Measured = tuple[Mapping[str, float], Mapping[str, str]]
"""Figures and conditions by name."""


def complete(folder: OutputFolder, others: bool = False) -> dict[str, str]:
    """Makes the cells of rows that are decoded otherwise, and measures every column of the table that an entry lacks; with `others`
    also those of the paper's other tables that have the same row.

    Returns what is not measured, and why; of other tables nothing.
    """
    if not folder.has_cells:
        return {}
    with writing(folder.out):
        (folder.out / LOCKS).mkdir(exist_ok=True)
    unmeasured = dict(decode_rows(folder))
    rows: dict[tuple[str, str], list[str]] = {}
    entries = read_entries(folder.out / CELLS)
    for entry in entries:
        for what_and_why in _all_measured(folder, entry.id, folder.table.columns):
            rows.setdefault(what_and_why, []).append(str(entry.conditions["row"]))
        if others and MEMBERS not in entry.conditions:
            for table in tables_with(folder.request, str(entry.architecture_hash)):
                deque(_all_measured(folder, entry.id, table.columns), 0)
    for entry in entries:
        _measure_further(folder, entry.id)
    for (what, why), some in rows.items():
        of = f" of {', '.join(dict.fromkeys(some))}" if len(some) < len(entries) else ""
        unmeasured[what + of] = why
    return unmeasured


def _all_measured(folder: OutputFolder, name: str, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Measures columns of a cell that its entry lacks; yields what is not measured, and why."""
    for metric in dict.fromkeys(c.metric for c in columns if c.metric in _MEASURES):
        yield from _measured(folder, name, metric, [c for c in columns if c.metric == metric])


def _measured(folder: OutputFolder, name: str, metric: str, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Measures the columns of one metric of a cell, unless its entry has them; yields what is not measured, and why.

    Waits for another call that measures the cell.
    """
    with only(folder.out / LOCKS / name, folder.tell):
        subject = FinishedCell(folder, next(e for e in read_entries(folder.out / CELLS) if e.id == name))
        missing = [c for c in columns if c.figure not in subject.entry.figures]
        if missing and not (metric == "accuracy" and _ACCURACY in subject.entry.conditions):
            try:
                figures, conditions = _MEASURES[metric](subject)
            except (NotMeasured, CalqueError) as why:
                yield metric, str(NotMeasured.of(why) if isinstance(why, CalqueError) else why)
                return
            folder.tell(f"{subject.cell.row}, seed {subject.cell.seed}: {metric} measured")
            _keep(folder, subject.entry, figures, conditions)
            missing = [c for c in missing if c.figure not in figures]
        yield from ((str(c), "the contrastive pairs here have no such error") for c in missing)


def _measure_further(folder: OutputFolder, name: str) -> None:
    """Measures what no column asks for, of a cell; waits as `_measured` does."""
    with only(folder.out / LOCKS / name, folder.tell):
        subject = FinishedCell(folder, next(e for e in read_entries(folder.out / CELLS) if e.id == name))
        figures: dict[str, float] = {}
        for one in further.missing(folder, subject.entry):
            figures |= further.figures_of(subject, one)
            folder.tell(f"{subject.cell.row}, seed {subject.cell.seed}: {one} measured")
        if figures:
            _keep(folder, subject.entry, figures, {})


_ACCURACY = "accuracy of"


def _keep(folder: OutputFolder, entry: Entry, figures: Mapping[str, float], conditions: Mapping[str, str]) -> None:
    completed = replace(
        entry,
        figures={**entry.figures, **figures},
        conditions={**entry.conditions, **conditions},
        notes="" if "METEOR" in figures and entry.notes == LEFT_OUT else entry.notes,
    )
    with writing(folder.out):
        record(folder.out / CELLS, completed)


def _text(metric: str) -> Callable[[FinishedCell], Measured]:
    """The measure of a metric of translations: their text is written where it is not that of the cell, and scored."""

    def measured(subject: FinishedCell) -> Measured:
        folder, scored = subject.folder, METRICS[metric]
        more = _WRITERS[metric](subject) if metric in _WRITERS else {}
        made = measure_of(metric, folder)
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


def error_rate(subject: FinishedCell) -> Measured:
    """The alignment error rate of forced decoding, as a share (Luong 2015, section 5.4), and what it was taken of: with the weights
    of the step that the row names, and of either step.

    The text is made like the corpus: escaped as it is, and without capitals where it has none. Raises
    `NotMeasured`.
    """
    stem, sources, targets, gold = _linked(subject.folder)
    loaded = subject.run.loaded
    # As the rows of its models say, which may differ in an ensemble, and with all of them by either step.
    ways = loaded, *(aligned_at(loaded, step) for step in (0, 1))
    rates = [alignment_error_rate(align_lines(way, sources, targets), gold) for way in ways]
    taken_of = f"{len(gold)} sentences of {GOLD}/{stem.name}, of another domain than the training text"
    if subject.words:
        taken_of += f", {_unknown_share(subject.run.loaded, sources, targets):.0f} % of their words unknown"
    names = METRICS["aer"].figure, *AER_BY_STEP
    figures = {name: round(one.value / 100, 4) for name, one in zip(names, rates, strict=True)}
    return figures, {"AER signature": rates[0].signature, "AER of": taken_of}


def _linked(folder: OutputFolder) -> tuple[Path, list[str], list[str], list[Gold]]:
    """Text linked by hand, likened to the corpus, its links, and where they are, without ending. Raises `NotMeasured`."""
    stem, turned = _gold(folder.root, folder.corpus)
    files = {side: stem.with_suffix(f".{side}") for side in (folder.corpus.source, folder.corpus.target)}
    if missing := [file.name for file in files.values() if not file.is_file()]:
        raise NotMeasured(f"{', '.join(missing)} is missing beside the links by hand")
    check_corpus(*files.values())
    case = has_case([*folder.test[0], *folder.test[1]])
    sources, targets = ([likened(line, case) for line in Lines(file)] for file in files.values())
    path = stem.with_suffix(".talp")
    gold = [_turned(one) if turned else one for one in read_gold(path)]
    lengths = [(len(split(s)), len(split(t))) for s, t in zip(sources, targets, strict=True)]
    check_inside(path, [one.possible for one in gold], lengths)
    return stem, sources, targets, gold


def _unknown_share(models: Translator, sources: Sequence[str], targets: Sequence[str]) -> float:
    """The percentage of words of both sides that the vocabularies do not have."""
    sides = ((models.source, sources), (models.target, targets))
    ids = [number for codec, text in sides for sentence in codec.encode(text) for number in sentence]
    return 100 * ids.count(UNK) / len(ids)


def _gold(root: Path, corpus: TrainingCorpus) -> tuple[Path, bool]:
    """The files of links by hand without their ending, and whether their first words are the target's."""
    for first, second in ((corpus.source, corpus.target), (corpus.target, corpus.source)):
        stem = root / GOLD / f"{first}{second}"
        if stem.with_suffix(".talp").is_file():
            return stem, first == corpus.target
    raise NotMeasured(f"the data root has no {GOLD}/{corpus.source}{corpus.target}.talp, links by hand")


def _turned(gold: Gold) -> Gold:
    return Gold(*(frozenset((t, s) for s, t in links) for links in gold))


def likened(line: str, case: bool) -> str:
    """A tokenised line as the corpora have it."""
    escaped = line.translate(ESCAPES)
    return escaped if case else escaped.lower()


def accuracies(subject: FinishedCell) -> Measured:
    """The percentage of contrastive pairs decided rightly, by kind of error. Raises `NotMeasured`, and what `moses` raises."""
    folder, corpus = subject.folder, subject.folder.corpus
    name = CONTRASTIVE.format(corpus.source, corpus.target)
    path = next((p for p in (folder.root / name, folder.root / f"{name}.json") if p.exists()), None)
    if path is None:
        raise NotMeasured(f"the data root has no contrastive pairs, {name}")
    case = has_case([*folder.test[0], *folder.test[1]])
    cut = {side: _Tokeniser(side, case) for side in (corpus.source, corpus.target)}
    source, target = (cut[side] for side in (corpus.source, corpus.target))
    pairs = [
        replace(p, source=source(p.source), correct=target(p.correct), contrastive=target(p.contrastive))
        for p in read_set(path, PAIRS)
    ]
    decided: dict[str, list[bool]] = {}
    for pair, right in zip(pairs, decide(subject.run, pairs), strict=True):
        decided.setdefault(METRICS["accuracy"].figure_of(pair.kind), []).append(right)
    figures = {kind: round(100 * sum(some) / len(some), 2) for kind, some in decided.items()}
    of = "; ".join(f"{kind.removeprefix('accuracy, ')} {len(some)}" for kind, some in decided.items())
    return figures, {"accuracy of": f"pairs of {path.name}: {of}"}


class _Tokeniser:
    """Moses' tokeniser of a language, and lower case where the corpus has no other."""

    def __init__(self, language: str, case: bool):
        self.cut, self.case = moses().MosesTokenizer(lang=language), case

    def __call__(self, line: str) -> str:
        tokens = str(self.cut.tokenize(line, return_str=True))
        return tokens if self.case else tokens.lower()


def moses() -> Any:
    """The package with the rules of Moses. Raises X301 where it is not installed."""
    try:
        import sacremoses
    except ImportError:
        raise error("X301", extra="moses", package="sacremoses") from None
    return sacremoses


_WRITERS = {"unk-bleu": _write_replaced, "nist-bleu": _write_plain}
_MEASURES: Mapping[str, Callable[[FinishedCell], Measured]] = {
    **{metric: _text(metric) for metric in ("meteor", "uncased-bleu", "unk-bleu", "nist-bleu")},
    "accuracy": accuracies,
    "aer": error_rate,
}
"""What is measured of a finished cell; BLEU and perplexity are in its entry from the first."""
