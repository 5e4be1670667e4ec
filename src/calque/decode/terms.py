"""Terms: words of the source that are to be translated in a certain way, wherever a line has them.

A list of terms is text, one a line: the source, a tab, and one form of the target or several, separated by tabs.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from calque.data.codecs import Codec
from calque.data.lines import EXAMPLES, Lines
from calque.data.scripts import without_spaces
from calque.data.vocabulary import BOS, UNK
from calque.decode.required import Form, Required, distinct
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

Phrases = Sequence[str | Sequence[str]]
"""What a translation must contain: texts, or the forms of each, of which one is enough."""
_SPACE = "\u2581"
"""The character that pieces have for the space before a word."""
_WORD = re.compile(r"\w+|[^\w\s]")
_BEFORE = "。、，？"
"""Characters before a phrase of a script without spaces: one of them that is a piece by itself shows how a phrase is cut there."""


class Term(NamedTuple):
    """A term of a list."""

    words: tuple[str, ...]
    """of the source, as written"""
    forms: tuple[Form, ...]

    @property
    def any_case(self) -> bool:
        """Whether it is found in any letter case: a term that has no capital letter."""
        return all(word == word.lower() for word in self.words)


@dataclass(frozen=True)
class Terms:
    """The terms of a list, by their words in small letters."""

    by_words: dict[tuple[str, ...], tuple[Term, ...]]
    longest: int
    """words of a source"""

    def of(self, line: str) -> list[tuple[Form, ...]]:
        """The forms of each term that a line has. From left to right the longest term counts, and none inside another.

        A term is a run of whole words; one without capital letters is found in any letter case, others as they are written.
        """
        words, found, at = words_of(line), [], 0
        small = [word.lower() for word in words]
        while at < len(words):
            term = self._longest(words, small, at)
            if term is not None:
                found.append(term.forms)
            at += 1 if term is None else len(term.words)
        return found

    def _longest(self, words: Sequence[str], small: Sequence[str], at: int) -> Term | None:
        for end in range(min(at + self.longest, len(words)), at, -1):
            written = tuple(words[at:end])
            terms = self.by_words.get(tuple(small[at:end]), ())
            # Of terms that differ in letter case alone, the one as written comes first.
            for term in sorted(terms, key=lambda one: one.words != written):
                if term.any_case or term.words == written:
                    return term
        return None


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, and its other characters; those of scripts without spaces between words one by one."""
    found: list[str] = []
    for word in _WORD.findall(text):
        for alone, some in groupby(word, without_spaces):
            letters = "".join(some)
            found += letters if alone else [letters]
    return tuple(found)


def stands_in(phrase: str, text: str) -> bool:
    """Whether a text has the words of a phrase, one behind the other."""
    words, found = words_of(phrase), words_of(text)
    return any(found[i : i + len(words)] == words for i in range(len(found) - len(words) + 1))


def load_terms(path: Path, target: Codec) -> Terms:
    """Reads a list of terms.

    Raises D101, D103 or D105 (unreadable), D106 (no term), and for each wrong line D608 (not a source with forms), D609 (a source
    that stands above already) or D610 (a form that the target vocabulary cannot write): the first few, and the number of the rest.
    """
    found: defaultdict[tuple[str, ...], list[Term]] = defaultdict(list)
    faults: list[Diagnostic] = []
    bad = 0
    for number, line in enumerate(Lines(path), 1):
        place = Place(str(path), number)
        if not line.strip():
            continue
        try:
            term = _term(line, target, place)
            if any(one.words == term.words for one in found[_key(term)]):
                raise error("D609", place, source=line.split("\t")[0].strip())
            found[_key(term)].append(term)
        except CalqueError as fault:
            bad += 1
            if bad <= EXAMPLES:
                faults += fault.diagnostics
    if bad > EXAMPLES:
        faults.append(Diagnostic("D110", Place(str(path)), {"more": bad - EXAMPLES, "of": "D608 to D610"}))
    if faults:
        raise CalqueError(faults)
    if not found:
        raise error("D106", Place(str(path)))
    return Terms({key: tuple(terms) for key, terms in found.items()}, max(map(len, found)))


def _key(term: Term) -> tuple[str, ...]:
    return tuple(word.lower() for word in term.words)


def _term(line: str, target: Codec, place: Place) -> Term:
    source, *forms = (field.strip() for field in line.split("\t"))
    words = words_of(source)
    if not words or not forms or not all(forms):
        raise error("D608", place)
    return Term(words, forms_of(forms, target, place))


def forms_of(texts: Iterable[str], target: Codec, place: Place | None = None) -> tuple[Form, ...]:
    """The forms in which the target codec writes each of some texts. Raises D610 where it cannot.

    A text that begins with a small letter begins with a capital one, too, at the beginning of a translation. In a script
    without spaces between words, one form is behind other text, one at the beginning of a sentence.
    """
    forms: list[Form] = []
    for text in texts:
        capital = text[0].upper() + text[1:]
        forms += _cuts(text, target, place)
        if capital != text:
            forms += [(BOS, *form) for form in _cuts(capital, target, None) if UNK not in form]
    return tuple(dict.fromkeys(forms))


@functools.lru_cache(maxsize=4)
def word_begins(codec: Codec) -> Bool[Tensor, " V"]:
    """Whether a word has ended before an id: before every one but pieces inside words, which begin with a letter or a digit."""
    tokens = codec.tokens(range(codec.size))
    if not any(token.startswith(_SPACE) for token in tokens):
        return torch.ones(codec.size, dtype=torch.bool)
    inside = [token[:1].isalnum() and not without_spaces(token[0]) for token in tokens]
    return ~torch.tensor(inside)


def _cuts(text: str, target: Codec, place: Place | None) -> list[Form]:
    """The ids of a text at the beginning of a sentence, and behind other text where these differ."""
    begins = len(target.begins)
    whole = tuple(target.encode([text])[0][begins:])
    if place is not None and (UNK in whole or not whole):
        raise error("D610", place, form=text)
    cuts = [whole]
    if without_spaces(text[0]):
        for before in _BEFORE:
            one, both = (target.encode([each])[0][begins:] for each in (before, before + text))
            if len(both) > len(one) and both[: len(one)] == one:
                cuts.append(tuple(both[len(one) :]))
                break
    return cuts


def required_of(target: Codec, terms: Terms | None, lines: Sequence[str], phrases: Sequence[Phrases]) -> list[Required]:
    """What the translation of each line must contain: its terms, and the phrases that were asked for. Raises D610."""
    required = []
    for number, (line, asked) in enumerate(zip(lines, phrases, strict=True), 1):
        needed = [] if terms is None else terms.of(line)
        place = Place("stdin", number)
        needed += [forms_of([one] if isinstance(one, str) else one, target, place) for one in asked]
        required.append(distinct(needed))
    return required
