"""Unknown words in translations: each becomes the translation of the source word that it is aligned with."""

from collections.abc import Sequence

from calque.data.codecs import split
from calque.data.vocabulary import UNK
from calque.decode.attention import attend
from calque.decode.sentences import Loaded, Translation


def replace_unknown(
    loaded: Loaded, lines: Sequence[str], found: Sequence[Sequence[Translation]], alone: bool = False
) -> list[list[Translation]]:
    """The translations of each line with another text where it holds `<unk>`; ids and scores stay.

    The source word is the one attended to most, `decode.align_offset` words on; its translation is that of `loaded.dictionary`,
    else the word itself (Luong 2015, section 4; Gehring 2017, section 4.4). `<unk>` stays where the end symbol is attended to
    most, as in Gehring's code, or where the offset leads outside the line. Each translation is forced once more, so that the search
    keeps no attention. Target vocabularies are of words.
    """
    asked = [(i, k) for i, each in enumerate(found) for k, one in enumerate(each) if UNK in one.ids]
    changed = [list(each) for each in found]
    if not asked:
        return changed
    weights = attend(loaded, [lines[i] for i, _ in asked], [found[i][k].ids for i, k in asked], alone)
    for (i, k), attended in zip(asked, weights, strict=True):
        one, words = found[i][k], split(lines[i])
        tokens = loaded.target.tokens(one.ids)
        for t, (token, position) in enumerate(zip(one.ids, attended.argmax(1).tolist(), strict=True)):
            at = position + loaded.decode.align_offset
            if token == UNK and position < len(words) and 0 <= at < len(words):
                tokens[t] = loaded.dictionary.get(words[at], words[at])
        changed[i][k] = one._replace(text=" ".join(tokens))
    return changed
