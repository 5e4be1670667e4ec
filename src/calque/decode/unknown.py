"""Unknown words in translations: each becomes the translation of the source word that it is aligned with."""

from collections.abc import Sequence
from typing import NamedTuple

from calque.data.codecs import split
from calque.data.vocabulary import UNK
from calque.decode.attention import attend
from calque.decode.sentences import Translation, Translator

DICTIONARY, COPY, LEFT = "dictionary", "copy", "left"


class Replacement(NamedTuple):
    """What became of one unknown word: that of translation `rank` of line `line`, at `position`, all from 0."""

    line: int
    rank: int
    position: int
    source: str | None
    """the source word it is aligned with; None: it is left"""
    word: str | None
    """its replacement"""

    def how(self, loaded: Translator) -> str:
        """By the dictionary, by a copy of the source word, or not at all."""
        if self.source is None:
            return LEFT
        return DICTIONARY if self.source in loaded.dictionary else COPY


def replacements(
    loaded: Translator, lines: Sequence[str], found: Sequence[Sequence[Translation]], alone: bool = False
) -> list[Replacement]:
    """Every unknown word of the translations of each line, in order, and what takes its place.

    The source word is the one attended to most, `decode.align_offset` words on; its translation is that of `loaded.dictionary`,
    else the word itself (Luong 2015, section 4; Gehring 2017, section 4.4). `<unk>` is left where the end symbol is attended to
    most, as in Gehring's code, or where the offset leads outside the line. Each translation is forced once more, so that the search
    keeps no attention. Target vocabularies are of words.
    """
    asked = [(i, k) for i, each in enumerate(found) for k, one in enumerate(each) if UNK in one.ids]
    if not asked:
        return []
    weights = attend(loaded, [lines[i] for i, _ in asked], [found[i][k].ids for i, k in asked], alone)
    made = []
    for (i, k), attended in zip(asked, weights, strict=True):
        words = split(lines[i])
        for t, (token, position) in enumerate(zip(found[i][k].ids, attended.argmax(1).tolist(), strict=True)):
            if token != UNK:
                continue
            at = position + loaded.decode.align_offset
            source = words[at] if position < len(words) and 0 <= at < len(words) else None
            made.append(Replacement(i, k, t, source, None if source is None else loaded.dictionary.get(source, source)))
    return made


def replace_unknown(
    loaded: Translator, lines: Sequence[str], found: Sequence[Sequence[Translation]], alone: bool = False
) -> list[list[Translation]]:
    """The translations of each line with another text where it holds `<unk>`, see `replacements`; ids and scores stay."""
    return replaced(loaded, found, replacements(loaded, lines, found, alone))


def replaced(
    loaded: Translator, found: Sequence[Sequence[Translation]], made: Sequence[Replacement]
) -> list[list[Translation]]:
    """The translations with these replacements in their texts."""
    texts: dict[tuple[int, int], list[str]] = {}
    for one in made:
        tokens = texts.setdefault((one.line, one.rank), loaded.target.tokens(found[one.line][one.rank].ids))
        if one.word is not None:
            tokens[one.position] = one.word
    changed = [list(each) for each in found]
    for (i, k), tokens in texts.items():
        changed[i][k] = changed[i][k]._replace(text=" ".join(tokens))
    return changed
