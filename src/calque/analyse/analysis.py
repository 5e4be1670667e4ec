"""The subject of an analysis, and the values that several of its figures share. Each is computed when it is first needed."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from calque.align.lexical_table import best_of, read_table
from calque.align.links import Gold, check_inside, read_gold
from calque.analyse.cache import AnalysisCache, contents, fingerprint
from calque.analyse.contrast import ContrastivePair, decide, read_set
from calque.analyse.drawn import NotDrawn
from calque.analyse.gold import HeadLinks
from calque.analyse.matrices import address
from calque.analyse.runs import SOURCE, AnalysedRun, ReferenceText, open_subjects, spread_over, stem
from calque.evaluate import Score, bleu, chrf
from calque.ground.diagnostics import Place, error, nearest
from calque.ledger.entry import Entry, conditions
from calque.ledger.entry import read as read_entries
from calque.run.folder import LOG, MODEL
from calque.run.tensors import read_about

ATTENDED = 200
"""Sentences whose attention is recorded for figures over all heads of all runs."""
PAIRS = 400
"""Contrastive pairs of each kind of error that are scored."""

ONE_BASED = ".talp"
"""The ending of files whose links count words from 1."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class AnalysisSettings:
    """The options of the figures; paths are None where there is no such data.

    text        files of the source and the reference; None: the runs' own test text
    lines       lines of the text that are translated, from the top
    base        the run that others are compared with
    buckets     number of buckets by source length, `equal` in size or width
    layers      attention layers to draw, PATH or PATH#HEAD
    line        line of the text whose attention is drawn, from 1; None: one of about ten words
    contrast    contrastive set, of which at most `pairs` of each kind are scored, evenly spaced
    gold        links by hand
    ledger      folders of ledger entries
    dictionary  lexical table that translates unknown words
    """

    text: tuple[Path, Path] | None = None
    lines: int = 1000
    base: str | None = None
    buckets: int = 10
    equal: str = "size"
    layers: tuple[str, ...] = ()
    line: int | None = None
    contrast: Path | None = None
    gold: Path | None = None
    ledger: tuple[Path, ...] = ()
    pairs: int = PAIRS
    dictionary: Path | None = None


@dataclass
class Analysis:
    """Run folders, settings, and the command that draws them. `tell` reports progress."""

    folders: Sequence[Path]
    settings: AnalysisSettings
    command: str
    tell: Tell = field(default=lambda _: None)
    cache: AnalysisCache = field(default_factory=AnalysisCache)

    @cached_property
    def subjects(self) -> list[AnalysedRun]:
        """The runs. Raises `NotDrawn` where none is given, and what `open_subjects` raises."""
        if not self.folders:
            raise NotDrawn("no run is given")
        return open_subjects(self.folders, self.settings.text, self.settings.lines, self.cache)

    @property
    def text(self) -> ReferenceText:
        """The text that all runs translate."""
        return self.subjects[0].text

    @cached_property
    def base(self) -> AnalysedRun:
        """The run that others are compared with: the named one, else the first. Raises X832."""
        wanted = self.settings.base
        if wanted is None:
            return self.subjects[0]
        for subject in self.subjects:
            if wanted == subject.name or Path(wanted).resolve() == subject.folder.resolve():
                return subject
        raise error("X832", None, name=wanted, names=[s.name for s in self.subjects])

    @property
    def tokenize(self) -> str:
        """The tokenisation with which BLEU is computed: that of the base."""
        return self.base.tokenize

    def check(self) -> None:
        """Raises all errors of the settings before anything takes time."""
        if self.folders:
            known = {path: heads for s in self.subjects for path, heads in s.attentions.items()}
            for path, head in map(address, self.settings.layers):
                if path not in known:
                    raise error("X827", None, name=path, near=nearest(path, known), names=list(known))
                if head is not None and not 1 <= head <= known[path]:
                    raise error("X828", None, layer=path, heads=known[path], found=head)
            _ = self.base
            with contextlib.suppress(NotDrawn):
                _ = self.gold
            with contextlib.suppress(NotDrawn):
                _ = self.pairs
            _ = self.dictionary
        with contextlib.suppress(NotDrawn):
            _ = self.cells

    @cached_property
    def cells(self) -> list[Entry]:
        """The entries of all ledgers. Raises `NotDrawn` without one, X402, and what `calque.ledger.entry.read` raises."""
        if not self.settings.ledger:
            raise NotDrawn("no ledger is given (--ledger)")
        for folder in self.settings.ledger:
            if not folder.is_dir():
                raise error("X402", Place(str(folder)), reason="there is no such folder")
        return [entry for folder in self.settings.ledger for entry in read_entries(folder)]

    @cached_property
    def translations(self) -> dict[str, list[str]]:
        """The translations of the text by each run."""
        translations = {}
        for subject in self.subjects:
            translations[subject.name] = subject.translations
            self.tell(f"{subject.name}: {len(self.text.sources):,} lines in {subject.decoding_seconds:.0f} s")
        return translations

    @cached_property
    def scores(self) -> dict[str, tuple[Score, Score]]:
        """BLEU and chrF of each run."""
        references = self.text.references
        return {
            name: (bleu(lines, references, tokenize=self.tokenize), chrf(lines, references))
            for name, lines in self.translations.items()
        }

    @cached_property
    def attended(self) -> list[int]:
        """The lines whose attention is counted, evenly spaced."""
        return list(spread_over(len(self.text.sources), ATTENDED))

    def trained(self, subject: AnalysedRun) -> dict[str, Any]:
        """The figures of a run's training, from its model file: few of a mean of checkpoints, none of an imported model."""
        return dict(read_about(subject.folder / MODEL)["figures"])

    @cached_property
    def machine(self) -> dict[str, str | int | float | None]:
        """The machine of this process."""
        return conditions()

    @cached_property
    def pairs(self) -> list[ContrastivePair]:
        """The contrastive pairs. Raises `NotDrawn` where no set is given."""
        if self.settings.contrast is None:
            raise NotDrawn("no contrastive set is given (--contrast)")
        return read_set(self.settings.contrast, self.settings.pairs)

    @cached_property
    def decided(self) -> dict[str, list[bool]]:
        """For each run, whether it gets each pair right."""
        decisions = {}
        for subject in self.subjects:
            source = [subject.fingerprint, [list(vars(pair).values()) for pair in self.pairs]]
            name = stem("contrast", subject.name)
            decisions[subject.name], _ = self.cache.part(name, source, partial(decide, subject.run, self.pairs))
            self.tell(f"{subject.name}: {len(self.pairs):,} contrastive pairs")
        return decisions

    @cached_property
    def gold(self) -> list[Gold]:
        """The links by hand of the lines. Raises `NotDrawn` where none are given, and what `read_gold` and `check_inside` raise."""
        path = self.settings.gold
        if path is None:
            raise NotDrawn("no links by hand are given (--gold)")
        links = read_gold(path, int(ONE_BASED in path.suffixes))
        check_inside(path, [gold.possible for gold in links], self.text.lengths)
        return links[: len(self.text.sources)]

    @cached_property
    def linked(self) -> list[int]:
        """The lines over which error rates are computed: those with words on both sides, evenly spaced."""
        full = [k for k, lengths in enumerate(self.text.lengths[: len(self.text.sources)]) if all(lengths)]
        return [full[k] for k in spread_over(len(full), ATTENDED)]

    @cached_property
    def aligned(self) -> dict[str, HeadLinks]:
        """The links of the source attention of each run."""
        aligned: dict[str, HeadLinks] = {}
        for subject in self.subjects:
            if not subject.sources_read:
                continue
            links = aligned[subject.name] = HeadLinks()
            for k in self.linked:
                weights = {p: w for p, w in subject.weights(k).items() if subject.kind(p) == SOURCE}
                links.add(weights, *self.pieces(subject, k))
        return aligned

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that figures are made from: runs, their logs, text, settings and their files, the machine."""
        given = vars(self.settings).values()
        files = [
            contents(path)
            for value in given
            for path in (value if isinstance(value, tuple) else [value])
            if isinstance(path, Path)
        ]
        runs = [[s.name, s.fingerprint, contents(s.folder / LOG)] for s in self.subjects] if self.folders else []
        texts = [self.text.sources, self.text.references] if self.folders else []
        machine = [self.machine["machine"], self.machine["threads"]]
        return fingerprint([list(map(str, given)), files, runs, texts, machine])

    @cached_property
    def dictionary(self) -> dict[str, str]:
        """The translations of unknown words; empty where no table is given. Raises what `read_table` raises."""
        path = self.settings.dictionary
        return {} if path is None else best_of(read_table(path))

    def pieces(self, subject: AnalysedRun, number: int) -> tuple[list[int], list[int]]:
        """The word of each piece of a line's reference and source."""
        here = subject.run.loaded
        return here.target.words(self.text.references[number]), here.source.words(self.text.sources[number])
