"""Test sets below the data root that are no text to translate: links by hand, and contrastive pairs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from calque.align.links import Gold, check_inside, read_gold
from calque.analyse.contrast import decide, read_set
from calque.data.codecs import split
from calque.data.lines import Lines, check_corpus
from calque.data.vocabulary import UNK
from calque.decode.attention import align_lines
from calque.evaluate.aer import alignment_error_rate
from calque.ground.diagnostics import error
from calque.papers.corpora import TrainingCorpus
from calque.papers.finished import FinishedCell, NotMeasured
from calque.papers.metrics import METRICS
from calque.papers.scoring import has_case

GOLD, CONTRASTIVE = "align-gold", "contrastive-{}{}"
"""Below the data root: `align-gold/deen.de`, `.en`, `.talp`, and a folder or a JSON file of contrastive pairs by languages."""
PAIRS = 1000
"""Contrastive pairs scored of each kind of error, evenly spaced."""
ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
"""What Moses' tokeniser writes for characters that its decoder reads otherwise."""

Measured = tuple[Mapping[str, float], Mapping[str, str]]
"""Figures and conditions by name."""


def error_rate(subject: FinishedCell) -> Measured:
    """The alignment error rate of forced decoding, as a share (Luong 2015, section 5.4), and what it was taken of.

    Text by hand is likened to what the models know: escaped as the corpus is, and without capitals where that has none. Raises
    `NotMeasured`.
    """
    folder = subject.folder
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
    found = alignment_error_rate(align_lines(subject.run.loaded, sources, targets), gold)
    told = f"{len(gold)} sentences of {GOLD}/{stem.name}, of another domain than the training text"
    if subject.words:
        here = subject.run.loaded
        ids = [
            i for codec, text in ((here.source, sources), (here.target, targets)) for s in codec.encode(text) for i in s
        ]
        told += f", {100 * ids.count(UNK) / len(ids):.0f} % of their words unknown"
    return {METRICS["aer"].figure: round(found.value / 100, 4)}, {"AER signature": found.signature, "AER of": told}


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
    escaped = "".join(ESCAPES.get(c, c) for c in line)
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
        found = str(self.cut.tokenize(line, return_str=True))
        return found if self.case else found.lower()


def moses() -> Any:
    """The package with the rules of Moses. Raises X301 where it is not installed."""
    try:
        import sacremoses
    except ImportError:
        raise error("X301", extra="moses", package="sacremoses") from None
    return sacremoses
