"""What claims need of a cell beside its entry: numbers of each sentence of the test text, a file of a few kilobytes.

A ledger holds them beside its entries, `evidence/ID.npz`, and no translations. With them, claims are tested by the same resampling
as on translations.
"""

import hashlib
import io
import itertools
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from calque.analyse.pieces import looks_away
from calque.analyse.runs import DECODER, ENCODER, AnalysedRun, ReferenceText
from calque.data.codecs import split
from calque.data.lines import Lines
from calque.evaluate.significance import Runs
from calque.evaluate.statistics import ORDERS, Measure, measure
from calque.ground.diagnostics import CalqueError, Place, error
from calque.ledger.entry import Entry
from calque.papers.figures import paper_figures
from calque.papers.further import FURTHER
from calque.papers.metrics import HYPOTHESES, METRICS, REFERENCE, TEXTS
from calque.papers.output import OutputFolder
from calque.papers.remembered import Remembered
from calque.papers.request import TableCell
from calque.papers.scoring import measure_of, translations
from calque.run.folder import MODEL
from calque.run.tensors import writing

EVIDENCE, COMPARISONS = "evidence", "comparisons.json"
"""The folder below a ledger, and the results of tests in it, which take too long to be computed at every reading."""
COUNTED = tuple(metric for metric in TEXTS if metric != "meteor")
"""Metrics whose statistics are kept: those of BLEU."""
SIDES = {"encoder": ENCODER, "decoder": DECODER}
_AWAY = "away "
_LOOKING = ("off-diagonality", "distances")


@dataclass(frozen=True)
class SentenceNumbers:
    """Numbers of each sentence, in the order of the test text.

    text          a digest of the references: numbers of one text alone are compared
    source_words  words of the source
    counts        by metric, what BLEU is computed from: see `calque.evaluate.statistics`
    away          by side, the share of tokens whose attention looks two steps away or more (You 2020, section 6.2)
    """

    text: str
    source_words: Float[np.ndarray, " N"]
    counts: Mapping[str, Float[np.ndarray, "N 10"]]
    away: Mapping[str, Float[np.ndarray, " N"]] = field(default_factory=dict)
    further: tuple["SentenceNumbers", ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The digests of the test text and of the further ones."""
        return (self.text, *(one.text for one in self.further))

    def joined(self, sets: int) -> "SentenceNumbers":
        """The sentences of this many test sets one after the other; where attention looks is known of the first set alone."""
        parts = (self, *self.further)[:sets]
        words = np.concatenate([one.source_words for one in parts])
        having = {m: list(itertools.takewhile(lambda one, m=m: m in one.counts, parts)) for m in self.counts}  # type: ignore[misc]
        counts = {metric: np.concatenate([one.counts[metric] for one in some]) for metric, some in having.items()}
        return SentenceNumbers(self.text, words, counts, self.away)

    def first(self, count: int) -> "SentenceNumbers":
        """The first sentences."""
        counts = {metric: some[:count] for metric, some in self.counts.items()}
        away = {side: shares[:count] for side, shares in self.away.items()}
        return SentenceNumbers(self.text, self.source_words[:count], counts, away)

    def completed_by(self, path: Path) -> "SentenceNumbers":
        """These numbers, with the further test sets, and where attention looks, that a file has of the same translations besides.

        A text that is not here, or a model that is gone, loses nothing that was measured before.
        """
        try:
            held = SentenceNumbers.read(path)
        except CalqueError:  # none, or damaged: these take its place
            return self
        both = [(held.counts[metric], self.counts[metric]) for metric in held.counts.keys() & self.counts.keys()]
        same = [np.array_equal(old[:, : 2 + ORDERS], new[:, : 2 + ORDERS]) for old, new in both]
        if held.text != self.text or not same or not all(same):
            return self
        return replace(self, away={**held.away, **self.away}, further=self.further or held.further)

    def write(self, path: Path) -> None:
        """Writes the file; equal numbers make equal files. Raises K301 where it cannot."""
        arrays = self._arrays()
        for number, one in enumerate(self.further, 1):
            arrays |= {f"{number} {name}": some for name, some in one._arrays().items()}
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(path, allow_pickle=False, **arrays)

    def _arrays(self) -> dict[str, np.ndarray]:
        """What a file has of one test set."""
        arrays = {f"{_AWAY}{side}": np.rint(1000 * shares).astype(np.uint16) for side, shares in self.away.items()}
        # How many n-grams a sentence has follows from its words.
        arrays |= {metric: _small(some[:, : 2 + ORDERS].T) for metric, some in self.counts.items()}
        return {"text": np.array(self.text), "words": _small(self.source_words), **arrays}

    @classmethod
    def read(cls, path: Path) -> "SentenceNumbers":
        """The numbers of a file. Raises X857 for one that cannot be read."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls._of(arrays)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as fault:
            raise error("X857", Place(str(path)), reason=str(fault)) from None

    @classmethod
    def _of(cls, arrays: dict[str, np.ndarray]) -> "SentenceNumbers":
        """From the arrays of a file; those of further sets have a number before their names."""
        text, words = str(arrays.pop("text")), arrays.pop("words").astype(np.float64)
        away = {name.removeprefix(_AWAY): some / 1000 for name, some in arrays.items() if name.startswith(_AWAY)}
        counts = {name: _whole(some) for name, some in arrays.items() if name in METRICS}
        further: list[SentenceNumbers] = []
        while (start := f"{len(further) + 1} ") + "text" in arrays:
            further.append(cls._of({n.removeprefix(start): some for n, some in arrays.items() if n.startswith(start)}))
        return cls(text, words, counts, away, tuple(further))


def _small(numbers: Float[np.ndarray, "..."]) -> np.ndarray:
    """Whole numbers in the narrowest type that holds them."""
    kind = np.uint8 if numbers.max(initial=0) < 256 else np.uint16 if numbers.max(initial=0) < 65536 else np.uint32
    return np.ascontiguousarray(numbers).astype(kind)


def _whole(kept: Float[np.ndarray, "6 N"]) -> Float[np.ndarray, "N 10"]:
    """BLEU's statistics from those that are kept: the hypothesis has one n-gram less for each further word of it."""
    numbers = kept.T.astype(np.float64)
    if numbers.shape[1:] != (2 + ORDERS,):
        raise ValueError(f"expected {2 + ORDERS} numbers a sentence, found {numbers.shape[1:]}")
    totals = [np.maximum(numbers[:, 0] - order, 0) for order in range(ORDERS)]
    return np.column_stack([numbers, *totals])


def numbers_of(folder: OutputFolder, entry: Entry) -> SentenceNumbers:
    """The numbers of a finished cell, from its stored translations. Raises what is wrong with the texts."""
    row, seed = str(entry.conditions["row"]), int(str(entry.seed))
    references = list(Lines(folder.out / REFERENCE))
    words = [len(split(line)) for line in folder.test[0]]
    counts = {}
    for metric in COUNTED:
        if METRICS[metric].figure in entry.figures:
            made, beside = measure_of(metric, folder), list(Lines(folder.out / METRICS[metric].reference))
            counts[metric] = made.statistics(list(Lines(translations(metric, folder.out, row, seed))), beside)
    away = _away(folder, row, seed) if f"{folder.request.table}/{row}" in _looked_at(folder.request.paper) else {}
    words_of_each = np.array(words, np.float64)
    return SentenceNumbers(digest_of(references), words_of_each, counts, away, tuple(_further(folder, row, seed)))


def _further(folder: OutputFolder, row: str, seed: int) -> Iterator[SentenceNumbers]:
    """The numbers of the first further test sets that a cell has translated."""
    for name, (source, reference) in folder.corpus.further(folder.root).items():
        made = folder.out / FURTHER / name / HYPOTHESES / row / f"{seed}.txt"
        if not made.is_file():
            return
        references = list(Lines(reference))
        words = np.array([len(split(line)) for line in Lines(source)], np.float64)
        yield SentenceNumbers(
            digest_of(references), words, {"bleu": measure_of("bleu", folder).statistics(list(Lines(made)), references)}
        )


def _looked_at(paper: str) -> set[str]:
    """The first row of each figure that asks where the heads of a model look."""
    return {one.rows[0] for one in paper_figures().values() if one.paper == paper and one.piece in _LOOKING}


def _away(folder: OutputFolder, row: str, seed: int) -> dict[str, Float[np.ndarray, " N"]]:
    """By side: where the learned self-attention of a trained cell looks; nothing where its run folder is gone."""
    run = folder.run(TableCell(row, seed))
    if not (run / f"{MODEL}.json").is_file():
        return {}
    sources, references = map(tuple, folder.test)
    shares = looks_away(AnalysedRun(row, run, ReferenceText("", sources, references, ())))
    return {side: np.array([s or 0.0 for s in shares[kind]]) for side, kind in SIDES.items() if kind in shares}


def digest_of(lines: Sequence[str]) -> str:
    """Twelve digits that name a text."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class LedgerEvidence:
    """The numbers of sentences beside the entries of a ledger, and the tests that were made with them."""

    folder: Path

    @cached_property
    def remembered(self) -> Remembered:
        """The results of tests."""
        return Remembered(self.folder / EVIDENCE / COMPARISONS)

    @cached_property
    def _read(self) -> dict[str, SentenceNumbers | None]:
        return {}

    def path(self, name: str) -> Path:
        """The file of an entry's numbers."""
        return self.folder / EVIDENCE / f"{name}.npz"

    def numbers(self, entry: Entry) -> SentenceNumbers | None:
        """The numbers of an entry; None where the ledger has none. Raises X857."""
        if entry.id not in self._read:
            path = self.path(entry.id)
            self._read[entry.id] = SentenceNumbers.read(path) if path.is_file() else None
        return self._read[entry.id]

    def sentences(self, entries: Sequence[Entry]) -> int:
        """How many sentences the test text of these entries has, further test sets left out."""
        return max((len(one.source_words) for one in map(self.numbers, entries) if one is not None), default=0)

    def rows(self, entries: Mapping[str, Sequence[Entry]]) -> dict[str, list[SentenceNumbers]]:
        """By row: the numbers of its cells, of rows all of whose cells have some, of the text that most cells have.

        A row has the further test sets that all its cells have, one after the other behind the test text, in the order in which the
        cell with the most of them has them: of two rows the first sentences are the same, as many as both have.
        """
        found = {row: [self.numbers(entry) for entry in some] for row, some in entries.items()}
        whole = {row: [one for one in some if one is not None] for row, some in found.items()}
        texts = [one.text for some in whole.values() for one in some]
        text = max(texts, key=texts.count, default="")
        held = {
            row: some
            for row, some in whole.items()
            if some and len(some) == len(entries[row]) and {one.text for one in some} == {text}
        }
        return _joined(held)


def _joined(rows: Mapping[str, Sequence[SentenceNumbers]]) -> dict[str, list[SentenceNumbers]]:
    """Each row with the further test sets that all its cells have."""
    most = max((one.texts for some in rows.values() for one in some), key=len, default=())
    sets = {row: min(_leading(one.texts, most) for one in some) for row, some in rows.items()}
    return {row: [one.joined(sets[row]) for one in some] for row, some in rows.items()}


def _leading(texts: Sequence[str], most: Sequence[str]) -> int:
    """How many of the first texts are those of another list."""
    return next((k for k, (one, other) in enumerate(zip(texts, most, strict=False)) if one != other), len(texts))


def scores_of(metric: str, rows: Mapping[str, Sequence[SentenceNumbers]]) -> tuple[Measure, dict[str, Runs]]:
    """BLEU of the rows whose numbers have the metric, as resampling takes it; its signature stands in the entries."""
    held = {row: some for row, some in rows.items() if all(metric in one.counts for one in some)}
    return replace(measure("bleu", tokenize="none"), signature=str), {
        row: np.stack([one.counts[metric] for one in some]) for row, some in held.items()
    }
