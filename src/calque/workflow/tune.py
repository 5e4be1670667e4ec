"""Settings of the search, chosen by BLEU on a development set over a grid (Gehring 2017, section 4.4)."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from calque.decode.translate import Translator, translate_lines
from calque.decode.unknown import replace_unknown
from calque.evaluate import bleu
from calque.experiment import load
from calque.ground.files import write_whole
from calque.run.folder import EXPERIMENT, MODEL
from calque.run.tensors import read_about, writing
from calque.train.phases import write_run_experiment
from calque.workflow.api import Run
from calque.workflow.validation import tokenisation

JOURNAL = "tune.jsonl"
"""What has been tried, in the run folder."""


@dataclass(frozen=True)
class Grid:
    """What to try; the values of Gehring 2017. Offsets concern runs that replace unknown words; others try their own."""

    beam: tuple[int, ...] = (5, 10)
    word_penalty: tuple[float, ...] = (0.0, -0.5, -1.0, -1.5)
    align_offset: tuple[int, ...] = (-1, 0, 1)


@dataclass(frozen=True)
class Trial:
    """Keys of [decode], and the BLEU of the development set under them."""

    beam: int
    word_penalty: float
    align_offset: int
    bleu: float


def searches(grid: Grid) -> int:
    """How often a development set is translated, at most: once for each beam and penalty."""
    return len(grid.beam) * len(grid.word_penalty)


def tune(
    folder: Path,
    run: Run,
    sources: Sequence[str],
    references: Sequence[str],
    grid: Grid = Grid(),
    progress: Callable[[int], None] = lambda lines: None,
) -> Iterator[Trial]:
    """Every trial of the grid, in its order, as it is finished; what the run's journal holds is not done again.

    The journal knows a trial by the model, the text, the dictionary and the other settings. The text is translated once for each
    beam and penalty: an offset only changes what replaces unknown words. `progress` is called with numbers of lines, which sum to
    `searches` times the text.
    """
    loaded = replace(run.loaded, decode=replace(run.loaded.decode, sample=False), scores=False)
    replacing = loaded.decode.replace_unknown
    offsets = grid.align_offset if replacing else (loaded.decode.align_offset,)
    about = _about(folder, loaded, sources, references)
    journal = folder / JOURNAL
    held = _held(journal)
    for beam, penalty in itertools.product(grid.beam, grid.word_penalty):
        base = replace(loaded.decode, beam=beam, word_penalty=penalty, replace_unknown=False)
        found = None
        for offset in offsets:
            keys = {"about": about, "beam": beam, "word_penalty": penalty, "align_offset": offset}
            score = next((one["bleu"] for one in held if {**one, "bleu": 0} == {**keys, "bleu": 0}), None)
            if score is None:
                if found is None:
                    _write(journal, held)  # so that a journal that cannot be written is reported before the work
                    found = translate_lines(replace(loaded, decode=base), sources, progress=progress)
                best = [each[:1] for each in found]
                if replacing:
                    best = replace_unknown(replace(loaded, decode=replace(base, align_offset=offset)), sources, best)
                lines = [each[0].text for each in best]
                score = bleu(lines, references, tokenize=tokenisation(run.experiment.data)).value
                held.append({**keys, "bleu": score})
                _write(journal, held)
            yield Trial(beam, penalty, offset, score)
        if found is None:  # all of it was in the journal
            progress(len(sources))


def best_of(trials: Sequence[Trial]) -> Trial:
    """The trial with the highest BLEU, of equals the first."""
    return max(trials, key=lambda trial: trial.bleu)


def keep(folder: Path, trial: Trial) -> None:
    """Writes the keys of a trial into the run's experiment, by which it translates from then on. Raises K301."""
    file = folder / EXPERIMENT
    experiment = load(file)
    keys = {key: value for key, value in asdict(trial).items() if key != "bleu"}
    with writing(file):
        write_run_experiment(folder, replace(experiment, decode=replace(experiment.decode, **keys)))


def _about(folder: Path, loaded: Translator, sources: Sequence[str], references: Sequence[str]) -> str:
    fixed = replace(loaded.decode, beam=1, word_penalty=0.0, align_offset=0)
    words: Mapping[str, str] = loaded.dictionary
    what: list[Any] = [
        read_about(folder / MODEL)["sha256"],
        asdict(fixed),
        dict(words),
        list(sources),
        list(references),
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def _write(journal: Path, held: Sequence[Mapping[str, Any]]) -> None:
    with writing(journal):
        write_whole(journal, "".join(json.dumps(one) + "\n" for one in held).encode())


def _held(journal: Path) -> list[dict[str, Any]]:
    if not journal.is_file():
        return []
    found = []
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            one = json.loads(line)
        except ValueError:  # damaged: that trial is done again
            continue
        if isinstance(one, dict) and isinstance(one.get("bleu"), float):
            found.append(one)
    return found
