"""Unknown words in translations: each is replaced by the translation of the source word that it is aligned with."""

from collections.abc import Sequence
from typing import NamedTuple

from calque.data.codecs import split
from calque.data.vocabulary import UNK
from calque.decode.attention import attend
from calque.decode.sentences import Translation, Translator

DICTIONARY, COPY, LEFT = "dictionary", "copy", "left"


class Replacement(NamedTuple):
    """The replacement of one unknown word: of translation `rank` of line `line`, at `position`, all from 0."""

    line: int
    rank: int
    position: int
    source: str | None
    """the source word that it is aligned with; None: the word is left"""
    word: str | None
    """its replacement"""

    def how(self, loaded: Translator) -> str:
        """How it is replaced: by the dictionary, by a copy of the source word, or not at all."""
        if self.source is None:
            return LEFT
        return DICTIONARY if self.source in loaded.dictionary else COPY


def replacements(
    loaded: Translator,
    lines: Sequence[str],
    translations: Sequence[Sequence[Translation]],
    alone: bool = False,
    given: Sequence[int] = (),
) -> list[Replacement]:
    """Every unknown word of the translations of each line, in order, with its replacement; not of the `given` first tokens of each.

    The source word is the one with the most attention, shifted by `decode.align_offset`; its replacement is its translation in
    `loaded.dictionary`, else the word itself (Luong 2015, section 4; Gehring 2017, section 4.4). `<unk>` is left where the end
    symbol has the most attention, as in Gehring's code, or where the offset leads outside the line. Each translation is forced once
    more, so that the search need not keep attention. Tokens of the target vocabulary are words.
    """
    numbers = [(i, k) for i, each in enumerate(translations) for k, one in enumerate(each) if UNK in one.ids]
    if not numbers:
        return []
    targets = [translations[i][k].ids for i, k in numbers]
    weights = attend(loaded, [lines[i] for i, _ in numbers], targets, alone)
    changes = []
    for (i, k), attended in zip(numbers, weights, strict=True):
        words, first = split(lines[i]), given[i] if given else 0
        most = zip(translations[i][k].ids[first:], attended.argmax(1).tolist()[first:], strict=True)
        for t, (token, position) in enumerate(most, first):
            if token == UNK:
                source = _at(words, position, loaded.decode.align_offset)
                word = None if source is None else loaded.dictionary.get(source, source)
                changes.append(Replacement(i, k, t, source, word))
    return changes


def _at(words: Sequence[str], position: int, offset: int) -> str | None:
    """The word so far from a position; None where the position is that of the end symbol, or there is no such word."""
    return words[position + offset] if position < len(words) and 0 <= position + offset < len(words) else None


def replace_unknown(
    loaded: Translator,
    lines: Sequence[str],
    translations: Sequence[Sequence[Translation]],
    alone: bool = False,
    given: Sequence[int] = (),
) -> list[list[Translation]]:
    """The translations of each line, with unknown words replaced in their texts, see `replacements`; ids and scores stay."""
    return replaced(loaded, translations, replacements(loaded, lines, translations, alone, given))


def with_given(
    loaded: Translator, text: str, ids: Sequence[int], translations: Sequence[Translation]
) -> list[Translation]:
    """The translations that begin with a given text, if any, in its own words where some of them are unknown to the vocabulary."""
    if UNK not in ids or not text:
        return list(translations)
    known, words = loaded.target.decode(list(ids)), " ".join(split(text))
    return [
        one._replace(text=words + one.text.removeprefix(known)) if one.text.startswith(known) else one
        for one in translations
    ]


def replaced(
    loaded: Translator, translations: Sequence[Sequence[Translation]], changes: Sequence[Replacement]
) -> list[list[Translation]]:
    """The translations with these replacements in their texts."""
    texts: dict[tuple[int, int], list[str]] = {}
    for one in changes:
        tokens = texts.setdefault((one.line, one.rank), loaded.target.tokens(translations[one.line][one.rank].ids))
        if one.word is not None:
            tokens[one.position] = one.word
    result = [list(each) for each in translations]
    for (i, k), tokens in texts.items():
        result[i][k] = result[i][k]._replace(text=" ".join(tokens))
    return result
