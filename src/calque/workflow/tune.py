"""Settings of the search, chosen by BLEU on a development set over a grid (Gehring 2017, section 4.4)."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, cast

from calque.decode.attention import aligned_at
from calque.decode.translate import Translation, Translator, translate_lines
from calque.decode.unknown import replace_unknown
from calque.evaluate import bleu
from calque.experiment import DecodeSettings, load
from calque.ground.files import write_whole
from calque.ground.json_lines import json_lines
from calque.run.folder import EXPERIMENT, MODEL
from calque.run.tensors import read_about, writing
from calque.train.phases import write_run_experiment
from calque.workflow.api import Run
from calque.workflow.validation import tokenisation

JOURNAL = "tune.jsonl"
"""The finished trials, in the run folder."""


@dataclass(frozen=True)
class Grid:
    """The values to try, those of Gehring 2017, and both readings of which step's weights align a word.

    Offsets and steps matter to runs that replace unknown words; others keep their own.
    """

    beam: tuple[int, ...] = (5, 10)
    word_penalty: tuple[float, ...] = (0.0, -0.5, -1.0, -1.5)
    align_offset: tuple[int, ...] = (-1, 0, 1)
    align_row: tuple[int, ...] = (0, 1)


@dataclass(frozen=True)
class Trial:
    """Keys of [decode], and the BLEU of the development set with them."""

    beam: int
    word_penalty: float
    align_offset: int
    align_row: int
    bleu: float

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of [decode] alone."""
        return {key: value for key, value in asdict(self).items() if key != "bleu"}


class JournalEntry(TypedDict):
    """A finished trial. `about` is a hash of everything else that its BLEU depends on."""

    about: str
    beam: int
    word_penalty: float
    align_offset: int
    align_row: int
    bleu: float


def searches(grid: Grid) -> int:
    """How often the development set is translated at most: once for each beam and penalty."""
    return len(grid.beam) * len(grid.word_penalty)


def tune(
    folder: Path,
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    grid: Grid = Grid(),
    progress: Callable[[int], None] = lambda lines: None,
) -> Iterator[Trial]:
    """Every trial of the grid, as soon as it is finished, except those in the run's journal (of this model, text and settings).

    The text is translated once for each beam and penalty, since offsets and steps change the replacements of unknown words alone.
    `progress` is called with numbers of lines, in all `searches` times the text.
    """
    loaded = replace(run.loaded, decode=replace(run.loaded.decode, sample=False), scores=False)
    about, tokenize = _about(folder, loaded, sources, references), tokenisation(run.experiment.data, references)
    entries = _read(journal := folder / JOURNAL)
    for beam, penalty in itertools.product(grid.beam, grid.word_penalty):
        searched = replace(loaded, decode=replace(loaded.decode, beam=beam, word_penalty=penalty))
        translations = None
        for offset, row in _aligned(loaded, grid):
            key = (about, beam, penalty, offset, row)
            score = next((entry["bleu"] for entry in entries if _key(entry) == key), None)
            if score is None:
                if translations is None:
                    _write(journal, entries)  # a journal that cannot be written is reported before the work
                    translations = _translate(searched, sources, progress)
                lines = _replaced(searched, sources, translations, offset, row)
                score = bleu(lines, references, tokenize=tokenize).value
                made = Trial(beam, penalty, offset, row, score)
                entries.append(cast("JournalEntry", {"about": about, **asdict(made)}))
                _write(journal, entries)
            yield Trial(beam, penalty, offset, row, score)
        if translations is None:  # the journal had all of them
            progress(len(sources))


def _aligned(loaded: Translator, grid: Grid) -> list[tuple[int, int]]:
    """Offsets and steps to try: those of the grid where unknown words are replaced, else the run's own."""
    own = loaded.decode
    return list(itertools.product(grid.align_offset, grid.align_row)) * own.replace_unknown or [
        (own.align_offset, own.align_row)
    ]


def _translate(loaded: Translator, sources: Sequence[str], progress: Callable[[int], None]) -> list[list[Translation]]:
    """The best translation of each line, in which unknown words are left."""
    searched = replace(loaded, decode=replace(loaded.decode, replace_unknown=False))
    return [each[:1] for each in translate_lines(searched, sources, progress=progress)]


def _replaced(
    loaded: Translator, sources: Sequence[str], translations: Sequence[Sequence[Translation]], offset: int, row: int
) -> list[str]:
    """The translations as text. Unknown words are replaced with this offset and step where the settings replace them."""
    if loaded.decode.replace_unknown:
        decode = replace(loaded.decode, align_offset=offset, replace_unknown=False)
        translations = replace_unknown(aligned_at(replace(loaded, decode=decode), row), sources, translations)
    return [each[0].text for each in translations]


def best_of(trials: Sequence[Trial], present: DecodeSettings) -> Trial:
    """The trial with the highest BLEU; of equals the one with the most values of the present settings, and then the first."""

    def as_now(trial: Trial) -> int:
        return sum(getattr(present, key) == value for key, value in trial.keys.items())

    return max(trials, key=lambda trial: (trial.bleu, as_now(trial)))


def keep(folder: Path, keys: Mapping[str, Any]) -> None:
    """Writes keys of [decode] into the run's experiment; the run translates with them from now on. Raises K301."""
    file = folder / EXPERIMENT
    experiment = load(file)
    with writing(file):
        write_run_experiment(folder, replace(experiment, decode=replace(experiment.decode, **keys)))


def _about(folder: Path, loaded: Translator, sources: Sequence[str], references: Sequence[str]) -> str:
    """A hash of everything that a score depends on, besides the keys of a trial."""
    fixed = replace(loaded.decode, beam=1, word_penalty=0.0, align_offset=0, align_row=0)
    about = [
        read_about(folder / MODEL)["sha256"],
        asdict(fixed),
        dict(loaded.dictionary),
        list(sources),
        list(references),
    ]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _key(entry: JournalEntry) -> tuple[object, ...]:
    keys = (entry.get(key) for key in ("about", "beam", "word_penalty", "align_offset"))
    return (*keys, entry.get("align_row", 0))  # journals of earlier versions have no step


def _write(journal: Path, entries: Sequence[JournalEntry]) -> None:
    with writing(journal):
        write_whole(journal, "".join(json.dumps(entry) + "\n" for entry in entries).encode())


def _read(journal: Path) -> list[JournalEntry]:
    """The entries of a journal; a damaged line is left out, so that its trial is repeated."""
    return [cast("JournalEntry", line) for line in json_lines(journal) if isinstance(line.get("bleu"), float)]
