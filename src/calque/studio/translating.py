"""Trained runs on the page: translations with their scores, and attention to the source."""

import contextlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calque.ground.diagnostics import error
from calque.ground.exits import exits_as_errors
from calque.studio.requests import SentenceToTranslate
from calque.workflow.stamp import Stamp, run_stamp

if TYPE_CHECKING:
    from calque.workflow.api import Run

KEPT = 2
"""Runs that stay in memory."""
_FILES = ("model.json", "model.safetensors")


class TrainedRuns:
    """The runs that the page may open: those named at the start, those below `runs`, and those that the studio has trained.

    The page names none by its path: a run can bring Python code of its own.
    """

    def __init__(self, named: Sequence[Path], folder: Path, beside: Path = Path("runs")):
        self.named, self.folder, self.beside = tuple(named), folder, beside
        self._loaded: OrderedDict[Path, tuple[Stamp, Run]] = OrderedDict()
        self._lock = threading.Lock()

    def paths(self) -> dict[str, Path]:
        """The folders by the names that the page shows."""
        found = {_shown(str(path)): path for path in (*self.named, *_runs_below(self.beside))}
        return found | {_shown(f"studio: {path.name}"): path for path in _runs_below(self.folder)}

    def names(self) -> list[str]:
        """The names that the page shows, those that the studio has trained last."""
        return list(self.paths())

    def translate(self, name: str, asked: SentenceToTranslate) -> dict[str, object]:
        """The hypotheses of a sentence with their scores, and the attention to the source of the chosen one.

        Raises K446 for an unknown name, and what `load` raises.
        """
        path = self.path(name)
        with self._lock, exits_as_errors():
            return translated_json(self._load(path), asked)

    def path(self, name: str) -> Path:
        """The folder of a run by the name that the page shows. Raises K446."""
        path = self.paths().get(name)
        if path is None:
            raise error("K446", None, name=name)
        return path

    def _load(self, path: Path) -> "Run":
        from calque.workflow.api import load

        stamp = run_stamp(path)  # before the files are read, so that a later change is seen
        before, run = self._loaded.pop(path, (None, None))
        if run is None or before != stamp:
            run = load(path)
        self._loaded[path] = stamp, run
        while len(self._loaded) > KEPT:
            self._loaded.popitem(last=False)
        return run


def _shown(name: str) -> str:
    """The name of a folder as JSON can hold it: bytes that are not UTF-8 are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _runs_below(folder: Path) -> list[Path]:
    """The runs in a folder, the newest last."""
    if not folder.is_dir():
        return []
    found = []
    for file in folder.glob("*/model.json"):
        with contextlib.suppress(OSError):  # a run that is being replaced
            if all(file.with_name(name).is_file() for name in _FILES):
                found.append((file.stat().st_mtime, file.parent))
    return [run for _, run in sorted(found)]


def translated_json(run: "Run", asked: SentenceToTranslate) -> dict[str, object]:
    """The hypotheses of a sentence, the best first: text, score, log-probability, tokens; and attention by layer and head."""
    from calque.analyse.layer_names import layers_in_words
    from calque.data.vocabulary import EOS

    decode = replace(run.loaded.decode, beam=asked.beam, sample=False)
    here = replace(run.loaded, decode=decode)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = type(run)(here, run.experiment).candidates([asked.sentence], asked.beam)[0]
    chosen = found[min(asked.chosen, len(found) - 1)]
    ids = here.source.encode([asked.sentence])[0]
    ids = [*ids[: decode.max_source_tokens or None], *[EOS] * here.source_end]
    words = layers_in_words(here.model.checked)
    return {
        "warnings": [str(one.message) for one in warned],
        "hypotheses": [
            {"text": t.text, "score": t.score, "logp": t.logp, "tokens": here.target.tokens([*t.ids, EOS])}
            for t in found
        ],
        "source": here.source.tokens(ids),
        "target": here.target.tokens([*chosen.ids, EOS]),
        "attention": [
            {"path": path, "words": words.get(path, path), "heads": heads}
            for path, heads in _attention(run, ids, list(chosen.ids)).items()
        ],
    }


def _attention(run: "Run", source: list[int], target: list[int]) -> dict[str, list[list[list[float]]]]:
    """The weights of each layer that reads the source: head by head, a row for each target token."""
    from calque.analyse.forced_attention import attention_weights

    model = run.loaded.model
    paths = model.source_attentions()
    if not (paths and source):
        return {}
    weights = attention_weights(model, source, target)
    return {
        path: [[[round(w, 4) for w in row] for row in head] for head in weights[path].tolist()]
        for path in paths
        if path in weights
    }
