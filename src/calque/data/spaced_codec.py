"""White space other than spaces and tabs, read as what the vocabulary knows."""

import functools
import re

from calque.data.codecs import Codec, split
from calque.data.rewriting_codec import RewritingCodec
from calque.data.vocabulary import UNK

NO_WIDTH = "\u00ad\u200b\u2060\ufeff"
"""Characters that only say where a line may break, or where a text begins."""
_OTHER = re.compile(rf"([^\S \t]|[{NO_WIDTH}])")
_BETWEEN = re.compile(r"([ \t]+)")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


class SpacedCodec(RewritingCodec):
    """A codec that reads other white space, such as no-break spaces of web pages and line feeds, as spaces, and characters without
    width as nothing. It does so where the words on both sides then need fewer pieces of the vocabulary.

    So the no-break space in front of a French question mark stays one for a model whose training text has it.
    """

    def __init__(self, codec: Codec):
        super().__init__(codec)
        # Words repeat in text; the limit bounds the memory of a long-running process.
        self._cost = functools.lru_cache(maxsize=1 << 14)(self._cost_of)

    def line(self, line: str) -> str:
        return "".join(map(self._read, _BETWEEN.split(line))) if _OTHER.search(line) else line

    def words(self, line: str) -> list[int]:
        if not _OTHER.search(line):
            return self.codec.words(line)
        # One word of the line may be read as several.
        owner = [number for number, word in enumerate(split(line)) for _ in split(self._read(word))]
        return [owner[word] for word in self.codec.words(self.line(line))]

    def _read(self, word: str) -> str:
        """A word as it is read. For each character, the words on its two sides decide whether it stays."""
        parts = _OTHER.split(word)
        for k in range(1, len(parts), 2):
            before, character, behind = parts[k - 1 : k + 2]
            instead = "" if character in NO_WIDTH else " "
            if self._cost(before + instead + behind) < self._cost(before + character + behind):
                parts[k] = instead
        return "".join(parts)

    def _cost_of(self, text: str) -> tuple[int, int]:
        """Pieces that are unknown, or single bytes of a character that is, and all pieces."""
        ids = self.codec.encode([text])[0]
        strange = sum(
            i == UNK or _BYTE.fullmatch(token) is not None for i, token in zip(ids, self.codec.tokens(ids), strict=True)
        )
        return strange, len(ids)
