"""Terms: words of the source that are to be translated in a certain way, wherever a line has them.

A list of terms is text, one a line: the source, a tab, and one form of the target or several, separated by tabs.
"""

import functools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import torch

from calque.data.codecs import JOINER, Codec, MergeCodec
from calque.data.lines import EXAMPLES, Lines
from calque.data.recased_codec import in_capitals
from calque.data.scripts import without_spaces
from calque.data.vocabulary import BOS, SPECIALS, UNK
from calque.decode.required import Edges, Form, Required, distinct
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

Phrases = Sequence[str | Sequence[str]]
"""What a translation must contain: texts, or the forms of each, of which one is enough."""
_SPACE = "\u2581"
"""The character that pieces have for the space before a word."""
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_BEFORE = '("„“«-。、，？'
"""Characters before a phrase without a space: those that are pieces by themselves show how a phrase is cut there."""


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

        A term is a run of whole words; one without capital letters is found in any letter case, others as they are written, and in
        lines all in capitals.
        """
        words, found, at = words_of(line), [], 0
        all_capitals = in_capitals(line)
        small = [word.lower() for word in words]
        while at < len(words):
            term = self._longest(words, small, at, all_capitals)
            if term is not None:
                found.append(term.forms)
            at += 1 if term is None else len(term.words)
        return found

    def _longest(self, words: Sequence[str], small: Sequence[str], at: int, any_case: bool) -> Term | None:
        for end in range(min(at + self.longest, len(words)), at, -1):
            written = tuple(words[at:end])
            terms = self.by_words.get(tuple(small[at:end]), ())
            # Of terms that differ in letter case alone, the one as written comes first.
            for term in sorted(terms, key=lambda one: one.words != written):
                if any_case or term.any_case or term.words == written:
                    return term
        return None


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in composed characters, and its other characters one by one, as those of scripts without spaces between
    words.
    """
    found: list[str] = []
    for kind, some in groupby(unicodedata.normalize("NFC", text), _kind):
        letters = "".join(some)
        found += [] if kind == "space" else [letters] if kind == "word" else letters
    return tuple(found)


@functools.cache
def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    return "word" if _in_word(character) and not without_spaces(character) else "alone"


def _in_word(character: str) -> bool:
    """Whether a character is a part of a word: a letter, a digit, a mark above or below them, an underscore."""
    return character.isalnum() or character == "_" or unicodedata.category(character) in ("Mn", "Mc")


def stands_in(phrase: str, text: str) -> bool:
    """Whether a text has the words of a phrase, one behind the other."""
    words, found = words_of(phrase), words_of(text)
    return any(found[i : i + len(words)] == words for i in range(len(found) - len(words) + 1))


def load_terms(path: Path, target: Codec) -> Terms:
    """Reads a list of terms.

    Raises D101, D103 or D105 (unreadable), D106 (no term), and for each wrong line D608 (not a source with forms), D609 (a source
    that stands above already) or D610 (a form that the target vocabulary cannot write): the first few, and the number of the rest.
    """
    rows = [_row(path, number, line) for number, line in enumerate(Lines(path), 1) if line.strip()]
    cuts = Cuts(target, [form for _, _, forms in rows for form in forms])
    found: defaultdict[tuple[str, ...], list[Term]] = defaultdict(list)
    faults: list[Diagnostic] = []
    for place, source, forms in rows:
        try:
            term = _term(source, forms, cuts, place)
            if any(one.words == term.words for one in found[_key(term)]):
                raise error("D609", place, source=source)
            found[_key(term)].append(term)
        except CalqueError as fault:
            faults += fault.diagnostics
    if len(faults) > EXAMPLES:
        more = {"more": len(faults) - EXAMPLES, "of": "D608 to D610"}
        faults[EXAMPLES:] = [Diagnostic("D110", Place(str(path)), more)]
    if faults:
        raise CalqueError(faults)
    if not found:
        raise error("D106", Place(str(path)))
    return Terms({key: tuple(terms) for key, terms in found.items()}, max(map(len, found)))


def _row(path: Path, number: int, line: str) -> tuple[Place, str, list[str]]:
    """The place, the source and the forms of a line; empty fields at its end are none."""
    source, *forms = (field.strip() for field in line.rstrip().split("\t"))
    return Place(str(path), number), source, forms


def _key(term: Term) -> tuple[str, ...]:
    return tuple(word.lower() for word in term.words)


def _term(source: str, forms: Sequence[str], cuts: "Cuts", place: Place) -> Term:
    words = words_of(source)
    if not words or not forms or not all(forms):
        raise error("D608", place)
    return Term(words, cuts.forms(forms, place))


class Cuts:
    """The forms in which a codec writes texts, all of which it cuts in one call.

    A text that begins with a small letter begins with a capital one, too, at the beginning of a translation. Behind another
    character, without a space, a text may be cut in another way: in scripts without spaces, and behind a bracket or a quotation
    mark.
    """

    def __init__(self, codec: Codec, texts: Iterable[str]):
        self._begins = edges_of(codec).begins
        self._marks = [mark for mark, ids in zip(_BEFORE, codec.encode(list(_BEFORE)), strict=True) if UNK not in ids]
        texts = [text for text in dict.fromkeys(texts) if text]
        every = [*self._marks, *texts, *map(_capital, texts), *(mark + text for mark in self._marks for text in texts)]
        every = list(dict.fromkeys(every))
        self._ids = {
            text: tuple(ids[len(codec.begins) :]) for text, ids in zip(every, codec.encode(every), strict=True)
        }

    def forms(self, texts: Iterable[str], place: Place) -> tuple[Form, ...]:
        """The forms of some of the texts. Raises D610 for one that the codec cannot write."""
        forms: list[Form] = []
        for text in texts:
            ids, capital = self._ids[text], self._ids[_capital(text)]
            if UNK in ids or not ids:
                raise error("D610", place, form=text)
            forms += [ids, *self._behind(text)]
            if capital != ids and UNK not in capital:
                forms.append((BOS, *capital))
        return tuple(dict.fromkeys(forms))

    def _behind(self, text: str) -> list[Form]:
        """The ids of a text behind each mark that is a piece by itself there.

        Such a form can begin only where no space is needed, so that it must not be the shortest of its phrase: see
        `calque.decode.required.words_needed`.
        """
        both = ((self._ids[mark], self._ids[mark + text]) for mark in self._marks)
        forms = [ids[len(one) :] for one, ids in both if len(ids) > len(one) and ids[: len(one)] == one]
        return [form for form in forms if self._begins[form[0]] or len(form) >= len(self._ids[text])]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@functools.lru_cache(maxsize=4)
def edges_of(codec: Codec) -> Edges:
    """Where words of a codec's vocabulary begin and end."""
    tokens = codec.tokens(range(codec.size))
    if codec.kind == MergeCodec.kind:
        opens = [token.endswith(JOINER) for token in tokens]
        return Edges(torch.zeros(codec.size, dtype=torch.bool), torch.tensor(opens), len(codec.begins))
    if not any(token.startswith(_SPACE) for token in tokens):
        return Edges.of_words(codec.size)._replace(given=len(codec.begins))
    inside = [i >= len(SPECIALS) and (_is_byte(t) or _part_of_word(t[:1])) for i, t in enumerate(tokens)]
    opens = [i >= len(SPECIALS) and (_is_byte(t) or _part_of_word(t[-1:])) for i, t in enumerate(tokens)]
    return Edges(~torch.tensor(inside), torch.tensor(opens), len(codec.begins))


def _is_byte(token: str) -> bool:
    return _BYTE.fullmatch(token) is not None


def _part_of_word(character: str) -> bool:
    return bool(character) and _in_word(character) and not without_spaces(character)


def required_of(target: Codec, terms: Terms | None, lines: Sequence[str], phrases: Sequence[Phrases]) -> list[Required]:
    """What the translation of each line must contain: its terms, and the phrases that were asked for. Raises D610."""
    asked = [[[one] if isinstance(one, str) else one for one in some] for some in phrases]
    texts = [text for some in asked for forms in some for text in forms]
    cuts = Cuts(target, texts) if texts else None
    required = []
    for number, (line, some) in enumerate(zip(lines, asked, strict=True), 1):
        needed = [] if terms is None else terms.of(line)
        if cuts is not None:
            needed += [cuts.forms(forms, Place("required", number)) for forms in some]
        required.append(distinct(needed))
    return required
