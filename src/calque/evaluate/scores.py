"""BLEU, chrF and TER of a whole corpus, computed by sacrebleu, and METEOR.

A score without its settings cannot be compared with another, so each carries a signature, in sacrebleu's style.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calque.data.scripts import unspaced
from calque.ground.diagnostics import Diagnostic, Place, error

if TYPE_CHECKING:
    from calque.evaluate.meteor_metric import MeteorSettings

METRICS = ("bleu", "chrf", "ter", "meteor")
TOKENISERS = ("13a", "intl", "zh", "char", "ja-mecab", "ko-mecab", "flores101", "flores200", "none")
BY_SPACES = ("13a", "intl", "none")
"""Tokenisations whose words end at spaces."""
_SPLITS_CHARACTERS = ("zh", "char", "ja-mecab")
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
SAMPLE = 1000
"""Lines that decide whether a text has spaces between words."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score from 0 to 100 (TER may exceed 100, and less is better), the signature of its settings, and its parts."""

    name: str
    value: float
    signature: str
    detail: Mapping[str, float | tuple[float, ...]]

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} {self.signature}"


def sacrebleu_metric(name: str, tokenize: str = "13a", lowercase: bool = False, warn: bool = True) -> Any:
    """sacrebleu's BLEU, chrF or TER, by its name in `METRICS`; `tokenize` is for BLEU and TER, `warn` for BLEU.

    Raises X323 where a package of the tokeniser is not installed, X324 where its model or dictionary cannot be used.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "bleu":
        try:  # `force`: no warning of text that looks tokenised
            return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none" or not warn)
        # sacrebleu exits where the connection is not safe, and asserts that MeCab has no dictionary of the user's.
        except (AssertionError, OSError, RuntimeError, SystemExit) as fault:
            if isinstance(fault, RuntimeError) and tokenize in _EXTRAS:
                raise error("X323", tokenize=tokenize, extra=_EXTRAS[tokenize]) from None
            reason = str(getattr(fault, "reason", fault)) or type(fault).__name__
            raise error("X324", tokenize=tokenize, reason=reason) from None
    if name == "chrf":
        return CHRF(lowercase=lowercase)
    if name == "ter":
        by_characters = tokenize in _SPLITS_CHARACTERS
        return TER(normalized=by_characters, asian_support=by_characters, case_sensitive=not lowercase)
    raise ValueError(f"no such metric: {name}")


def tokeniser_for(references: Sequence[str]) -> str:
    """The tokenisation for plain text of any language: `char` where it has no spaces between words, else `13a`."""
    return "char" if unspaced(references[:SAMPLE]) else "13a"


def misread(references: Sequence[str], place: Place | None, metrics: Sequence[str], tokenize: str) -> Diagnostic | None:
    """The warning D505 where BLEU or TER takes whole lines for words, since the text has no spaces between words."""
    counted = [name for name in metrics if name in ("bleu", "ter")]
    if not counted or tokenize not in BY_SPACES or tokeniser_for(references) in BY_SPACES:
        return None
    return Diagnostic("D505", place, {"tokenize": tokenize}, severity="warning")


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *more: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    warn: bool = True,
) -> Score:
    """BLEU = 100 bp exp(mean over n = 1..4 of ln p_n), bp = min(1, exp(1 - r/h)) (Papineni et al. 2002).

    p_n is the share of the hypotheses' n-grams that the reference of the same sentence holds, each counted at most as often as in
    it; h and r are the corpus lengths in tokens. Of several references (`more`) each n-gram counts as often as in the one that has
    it most, and r the tokens of the one whose length is nearest. Where no n-gram matches, p_n is halved from one order to the next
    (sacrebleu's `exp`).

    `tokenize` is one of `TOKENISERS`: "13a" (as in WMT); "none", split at white space alone, which on tokenised text is the BLEU of
    multi-bleu; "char", "zh", "ja-mecab" for languages without spaces between words; pieces of "flores200". `warn`: sacrebleu says
    on stderr where text looks tokenised and is split again. Raises X323, X324.

    `detail`: precisions (of n = 1..4, in per cent), bp, ratio (h/r), hypothesis_length, reference_length.
    """
    return _score(sacrebleu_metric("bleu", tokenize, lowercase, warn), hypotheses, references, *more)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *more: Sequence[str], lowercase: bool = False) -> Score:
    """chrF2: 100 (1 + 4) P R / (4 P + R) over character n-grams, n = 1..6, white space left out (Popović 2015).

    Of several references, the best one of each sentence counts.
    """
    return _score(sacrebleu_metric("chrf", lowercase=lowercase), hypotheses, references, *more)


def ter(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *more: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Score:
    """TER: 100 times insertions, deletions, substitutions and shifts of words, per word of the reference (Snover 2006).

    Words stand between spaces; with the `tokenize` "zh", "char" or "ja-mecab" each Chinese character is one, too, and
    punctuation is split off (sacrebleu's `normalized` and `asian_support`, which leave some kana together). Of several references
    the one with the fewest edits counts, per word of a reference on average.

    `detail`: edits, reference_length.
    """
    return _score(sacrebleu_metric("ter", tokenize, lowercase), hypotheses, references, *more)


def meteor(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *more: Sequence[str],
    settings: "MeteorSettings",
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Score:
    """METEOR of the exact and stem modules: see `calque.evaluate.meteor_metric`.

    `detail`: precision, recall, penalty, each from 0 to 1. Raises what `MeteorSettings.make` does.
    """
    _as_many(hypotheses, references, *more)
    made = settings.make(tokenize, lowercase)
    precision, recall, penalty, score = made.parts(made.statistics(hypotheses, references, *more).sum(0))
    detail = {"precision": float(precision), "recall": float(recall), "penalty": float(penalty)}
    return Score("METEOR", float(score), made.signature, detail)


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu",),
    *,
    more: Sequence[Sequence[str]] = (),
    tokenize: str = "13a",
    lowercase: bool = False,
    meteor_settings: "MeteorSettings | None" = None,
) -> list[Score]:
    """The scores named by `metrics` (of `METRICS`), in that order; `tokenize` concerns BLEU, METEOR and TER.

    `more`: further references of each sentence.

    Raises X322 for METEOR without settings, since it cannot guess the language.
    """

    def meteor_score() -> Score:
        if meteor_settings is None:
            raise error("X322")
        return meteor(hypotheses, *every, settings=meteor_settings, tokenize=tokenize, lowercase=lowercase)

    every = references, *more
    made = {
        "bleu": lambda: bleu(hypotheses, *every, tokenize=tokenize, lowercase=lowercase),
        "chrf": lambda: chrf(hypotheses, *every, lowercase=lowercase),
        "ter": lambda: ter(hypotheses, *every, tokenize=tokenize, lowercase=lowercase),
        "meteor": meteor_score,
    }
    return [made[name]() for name in metrics]


def _as_many(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    for each in references:
        if not hypotheses or len(hypotheses) != len(each):
            # sacrebleu would silently score the shorter of the two.
            raise ValueError(
                f"expected as many hypotheses as references, and one at least: {len(hypotheses)} and {len(each)}"
            )


def _score(metric: Any, hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    _as_many(hypotheses, *references)
    score = metric.corpus_score(list(hypotheses), list(map(list, references)))
    detail: dict[str, float | tuple[float, ...]] = {}
    if score.name == "BLEU":
        detail = {
            "precisions": tuple(score.precisions),
            "bp": score.bp,
            "ratio": score.ratio,
            "hypothesis_length": score.sys_len,
            "reference_length": score.ref_len,
        }
    if score.name == "TER":
        detail = {"edits": score.num_edits, "reference_length": score.ref_length}
    return Score(score.name, float(score.score), metric.get_signature().format(), detail)
