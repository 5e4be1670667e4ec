"""METEOR (Denkowski and Lavie 2011, 2014) with its exact and stem modules, as releases 1.4 and 1.5 compute it.

The two have the same parameters, normalisation and search. They differ in the function words: 1.4, which MultEval runs, uses the
list of the scored language; 1.5 uses the English one for every language, because its command line sets the list before it reads
the language. They are also called differently: MultEval passes words unchanged (`normalise="none"`), the README of 1.5 recommends
`-norm`. The synonym and paraphrase modules need large resources and are left out. The signature shows that; such a score is not
comparable with one of all modules.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from calque.evaluate.meteor_align import EXACT, align
from calque.evaluate.meteor_text import ANY, NORMALISED, NUMBER, normalise, words
from calque.ground.diagnostics import Place, error, nearest

NORMALISATIONS = ("norm", "lower", "none")
VERSIONS = ("1.5", "1.4")
STATISTICS = 11
"""Numbers per sentence: see `statistics`."""
Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Language:
    """The published settings of a language: the task `rank` where it was tuned, else the language-independent ones."""

    name: str
    stemmer: bool = True
    alpha: float = 0.75
    beta: float = 1.4
    gamma: float = 0.7
    delta: float = 0.5
    stem_weight: float = 0.5
    """The weight of a stem match; an exact match counts 1."""

    @property
    def listed(self) -> bool:
        """Whether function words have another weight than content words, so that the score needs their list."""
        return self.delta != 0.5


LANGUAGES: Mapping[str, Language] = {
    "en": Language("english", True, 0.85, 0.2, 0.6, 0.75, 0.6),
    "cs": Language("czech", False, 0.95, 0.2, 0.6, 0.8, 0.0),
    "fr": Language("french", True, 0.9, 1.4, 0.6, 0.65, 0.2),
    "es": Language("spanish", True, 0.65, 1.3, 0.5, 0.8, 0.8),
    "de": Language("german", True, 0.95, 1.0, 0.55, 0.55, 0.8),
    "ru": Language("russian"),
    "pt": Language("portuguese"),
    "da": Language("danish"),
    "ro": Language("romanian"),
    "hu": Language("hungarian"),
    "tr": Language("turkish"),
    "fi": Language("finnish"),
    "nl": Language("dutch"),
    "it": Language("italian"),
    "no": Language("norwegian"),
    "sv": Language("swedish"),
    "other": Language("other", False),
}


@dataclass(frozen=True)
class Lists:
    """Function words, and words that keep their full stop; `name` is their name in the signature.

    They are part of METEOR, under its licence, and not of this package: `calque data meteor` downloads them.
    """

    words: frozenset[str] = frozenset()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    name: str = "none"


def language_of(code: str) -> Language:
    """The settings of a language by its two letters, or of any by `other`. Raises X320 for another word."""
    if code not in LANGUAGES:
        raise error("X320", None, name=code, names=tuple(LANGUAGES), near=nearest(code, LANGUAGES))
    return LANGUAGES[code]


def read_lists(code: str, folder: Path, *, version: str = "1.5", normalise: str = "norm") -> Lists:
    """The lists of a language from a folder: `LANGUAGE.words`, and `LANGUAGE.prefixes` where text is normalised.

    Languages without tuned parameters count function and content words alike and need none. Raises D520 where a file is
    missing, X403 where it is not UTF-8.
    """
    language = language_of(code)
    function_words, prefixes, name = frozenset[str](), dict[str, str](), "none"
    if language.listed:
        whose = code if version == "1.4" else "en"
        text, original = _read(folder / f"{LANGUAGES[whose].name}.words", code)
        function_words = frozenset(line for line in text.split("\n") if line)
        name = whose if original else hashlib.sha256(text.encode()).hexdigest()[:8]
    if normalise == "norm" and code in NORMALISED:
        text, _ = _read(folder / f"{language.name}.prefixes", code)
        for line in text.split("\n"):
            if (parts := line.split()) and not parts[0].startswith("#"):
                prefixes[parts[0]] = NUMBER if parts[1:2] == ["#NUMERIC_ONLY#"] else ANY
    return Lists(function_words, prefixes, name)


def _read(path: Path, code: str) -> tuple[str, bool]:
    """A list, and whether it is the original."""
    try:
        body = path.read_bytes()
    except OSError:
        raise error("D520", Place(str(path)), language=code) from None
    try:
        return body.decode(), hashlib.sha256(body).hexdigest() == _original().get(path.name)
    except UnicodeDecodeError as e:
        raise error("X403", Place(str(path)), offset=e.start) from None


@functools.cache
def _original() -> Mapping[str, str]:
    from calque.data.public import corpus

    return {Path(out).name: made.sha256 for out, made in corpus("meteor").outputs.items()}


class Meteor:
    """METEOR for one language.

    With m matches, of which a share is exact, and weights w by module and d (delta) for content, 1 - d for function words:

        P = sum over modules of w (d content + (1-d) function matches) / (d content + (1-d) function words), of the
            hypothesis; R the same of the reference
        F = P R / (alpha P + (1 - alpha) R)
        score = 100 F (1 - gamma (chunks / m)^beta)

    (Denkowski and Lavie 2011, section 2.2.) A corpus is scored from the sums of its sentences' statistics. A sentence that
    is its reference, word for word, has no fragmentation: its one chunk is not counted.

    Raises X320 (language), X321 (no normalisation for it), X301 (no stemmer installed).
    """

    def __init__(self, code: str, lists: Lists | None = None, *, normalise: str = "norm", version: str = "1.5"):
        self.code, self.language = code, language_of(code)
        self.lists = lists or Lists()
        if normalise not in NORMALISATIONS or version not in VERSIONS:
            raise ValueError(f"expected one of {NORMALISATIONS} and one of {VERSIONS}, found {normalise} and {version}")
        if normalise == "norm" and code not in NORMALISED:
            raise error("X321", None, name=code)
        self.normalise = normalise
        self.stem: Callable[[str], str] | None = None
        stemmer = "none"
        if self.language.stemmer:
            self.stem, stemmer = _stemmer(self.language.name)
        here = self.language
        parameters = ",".join(str(x) for x in (here.alpha, here.beta, here.gamma, here.delta))
        self._references = 1
        self._settings = "|".join(
            [
                f"lang:{code}",
                f"mod:{'exact+stem' if self.stem else 'exact'}",
                f"par:{parameters}",
                f"wt:{f'1.0,{here.stem_weight}' if self.stem else '1.0'}",
                f"fw:{self.lists.name}",
                f"norm:{normalise}",
                f"stem:{stemmer}",
                f"version:{version}",
            ]
        )

    @property
    def signature(self) -> str:
        """The settings, with the number of references of the last statistics."""
        return f"nrefs:{self._references}|{self._settings}"

    def words(self, line: str) -> list[str]:
        """The words of a sentence as they are compared."""
        if self.normalise == "norm":
            line = normalise(line, self.code, self.lists.prefixes)
        elif self.normalise == "lower":
            line = line.lower()
        return words(line)

    def statistics(self, hypotheses: Sequence[str], *references: Sequence[str]) -> Float[np.ndarray, "N 11"]:
        """Per sentence: words of hypothesis and reference; function words of both; exact matches of content and of
        function words; stem matches of content and of function words, by the hypothesis' words and by the reference's;
        chunks. Of several references, with the one by which the sentence has the best score."""
        self._references = len(references)
        rows = [
            self._best(self.words(h), list(map(self.words, r))) for h, *r in zip(hypotheses, *references, strict=True)
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, STATISTICS)

    def _best(self, hypothesis: list[str], references: list[list[str]]) -> list[int]:
        rows = [self._sentence(hypothesis, reference) for reference in references]
        return rows[0] if len(rows) == 1 else rows[int(np.argmax(self.score(np.array(rows))))]

    def _sentence(self, hypothesis: list[str], reference: list[str]) -> list[int]:
        function = [[word.lower() in self.lists.words for word in side] for side in (hypothesis, reference)]
        matches, chunks = align(hypothesis, reference, self.stem)
        counts = [0] * 6  # exact content and function; stem content and function of the hypothesis, of the reference
        for match in matches:
            ours, theirs = function[0][match.hypothesis], function[1][match.reference]
            if match.module == EXACT:
                counts[ours] += 1
            else:
                counts[2 + ours] += 1
                counts[4 + theirs] += 1
        whole = len(matches) == len(hypothesis) == len(reference) and chunks == 1
        lengths = [len(hypothesis), len(reference), sum(function[0]), sum(function[1])]
        return [*lengths, *counts, 0 if whole else chunks]

    def parts(self, sums: Sums) -> tuple[Sums, Sums, Sums, Sums]:
        """Precision, recall, penalty and score (from 0 to 100) of sums of statistics."""
        here = self.language
        h, r, hf, rf, ec, ef, hc, hs, rc, rs, chunks = np.moveaxis(np.asarray(sums, np.float64), -1, 0)

        def weigh(content: Sums, function: Sums) -> Sums:
            return np.asarray(here.delta * content + (1 - here.delta) * function)

        exact = weigh(ec, ef)
        matches = ec + ef + hc + hs
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = (exact + here.stem_weight * weigh(hc, hs)) / weigh(h - hf, hf)
            recall = (exact + here.stem_weight * weigh(rc, rs)) / weigh(r - rf, rf)
            mean = 1 / ((1 - here.alpha) / precision + here.alpha / recall)
            penalty = here.gamma * (chunks / matches) ** here.beta
            score = 100 * np.maximum(mean * (1 - penalty), 0)
        none = matches == 0
        precision, recall, penalty, score = (np.where(none, 0.0, x) for x in (precision, recall, penalty, score))
        return precision, recall, penalty, score

    def score(self, sums: Sums) -> Sums:
        """The score of sums of statistics."""
        return self.parts(sums)[-1]


@dataclass(frozen=True, slots=True)
class MeteorSettings:
    """The settings of METEOR: language, release, and lists (by default those of the data root)."""

    language: str
    version: str = "1.5"
    lists: Lists | None = None

    def make(self, tokenize: str = "13a", lowercase: bool = False) -> Meteor:
        """The scorer for text with these settings of BLEU. With `tokenize="none"`, words between spaces are taken unchanged, or in
        lower case; with any other, METEOR normalises the text by its own rules.

        Raises X320, X321, X301, and what `read_lists` does.
        """
        normalise = "norm" if tokenize != "none" else "lower" if lowercase else "none"
        lists = self.lists
        if lists is None:
            from calque.data.public import data_root

            lists = read_lists(self.language, data_root() / "meteor", version=self.version, normalise=normalise)
        return Meteor(self.language, lists, normalise=normalise, version=self.version)


def _stemmer(name: str) -> tuple[Callable[[str], str], str]:
    """Snowball's stemmer of a language, and its version."""
    try:
        import snowballstemmer
    except ImportError:
        raise error("X301", package="snowballstemmer", extra="meteor") from None
    from importlib.metadata import version

    stem: Callable[[str], str] = snowballstemmer.stemmer(name).stemWord
    if name == "german":
        stem = functools.partial(_german, stem)
    return functools.cache(stem), f"snowball-{version('snowballstemmer')}"


def _german(stem: Callable[[str], str], word: str) -> str:
    """The German stemmer before Snowball 2.0, as in METEOR: plurals in -nisse keep both s."""
    root = stem(word)
    return root + "s" if root.endswith("nis") and word.endswith(("nisse", "nissen", "nisses")) else root
