"""How far simultaneous translations lag behind their sources, in words.

Of a sentence: |x| words of the source, |y| of the translation, |y*| of the reference; d_t, how many words of the source had been
read when word t of the translation was written.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from calque.data.scripts import words_in
from calque.evaluate.scores import Score
from calque.ground.diagnostics import Place, error


class Delays(NamedTuple):
    """The delays of a sentence."""

    delays: tuple[float, ...]
    """d_t for each word of the translation"""
    source: int
    """|x|"""

    def average_lagging(self, words: float) -> float:
        """AL = 1/τ Σ_{t=1..τ} (d_t - (t - 1) |x| / words), τ the first t with d_t = |x| (Ma et al. 2019, equation 8).

        `words`: |y| in the paper, |y*| in SimulEval, max(|y|, |y*|) for LAAL (Papi et al. 2022). The last one does not call a
        translation that is too long a fast one.
        """
        last = next((t for t, d in enumerate(self.delays, 1) if d >= self.source), len(self.delays))
        return fmean(d - t * self.source / words for t, d in enumerate(self.delays[:last]))

    def average_proportion(self) -> float:
        """AP = Σ_t d_t / (|x| |y|) (Cho and Esipova 2016, equation 3): 1 where everything was read before the first word."""
        return sum(self.delays) / (self.source * len(self.delays))

    def differentiable_lagging(self) -> float:
        """DAL = 1/|y| Σ_t (d'_t - (t - 1) |x| / |y|), d'_t = max(d_t, d'_{t-1} + |x| / |y|) (Cherry and Foster 2019).

        Each word takes its time, also where several are written at once.
        """
        step, at, lags = self.source / len(self.delays), float("-inf"), []
        for t, d in enumerate(self.delays):
            at = max(d, at + step)
            lags.append(at - t * step)
        return fmean(lags)


def lagging(sentences: Sequence[Delays], references: Sequence[str]) -> list[Score]:
    """LAAL, AL, AP and DAL: means over the sentences whose source and translation both have a word; without any, none of them.

    AL is that of SimulEval, with |y*|. Words are those of `calque.data.scripts.words_in`.
    """
    both = zip(sentences, map(len, map(words_in, references)), strict=True)
    counted = [(one, n) for one, n in both if one.delays and one.source]
    if not counted:
        return []
    values = {
        "LAAL": [one.average_lagging(max(len(one.delays), n)) for one, n in counted],
        "AL": [one.average_lagging(n or len(one.delays)) for one, n in counted],
        "AP": [one.average_proportion() for one, _ in counted],
        "DAL": [one.differentiable_lagging() for one, _ in counted],
    }
    return [Score(name, fmean(each), f"unit:word|lines:{len(counted)}", {}) for name, each in values.items()]


def read_delays(path: Path, lines: Iterable[str], hypotheses: Sequence[str]) -> list[Delays]:
    """Reads what `calque interpret --delays` writes, lines as in SimulEval's `instances.log`, for as many hypotheses.

    Raises D522 for a line that is none, D523 where a hypothesis has not as many words.
    """
    places = (Place(str(path), number) for number in itertools.count(1))
    return [_delays(*each) for each in zip(lines, hypotheses, places, strict=False)]


def _delays(line: str, hypothesis: str, place: Place) -> Delays:
    try:
        row = json.loads(line)
        found = Delays(tuple(row["delays"]), row["source_length"])
        right = sorted(found.delays) == list(found.delays) and all(0 <= delay <= found.source for delay in found.delays)
    except (ValueError, TypeError, KeyError):
        right = False
    if not right or not isinstance(found.source, int) or any(isinstance(delay, str) for delay in found.delays):
        raise error("D522", place)
    if len(found.delays) != (expected := len(words_in(hypothesis))):
        raise error("D523", place, expected=expected, found=len(found.delays))
    return found
