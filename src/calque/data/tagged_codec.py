"""Sources all of which begin with the same symbol."""

from collections.abc import Sequence
from pathlib import Path

from calque.data.codecs import SPACES, Codec
from calque.ground.diagnostics import Place


def tagged(codec: Codec, tag: str) -> Codec:
    """The codec, with this symbol in front of every line that has words; without a tag the codec itself. Raises D209."""
    return TaggedCodec(codec, tag) if tag else codec


class TaggedCodec(Codec):
    """A codec with a symbol in front of every line that has words; the symbol belongs to the first of them.

    `others`: lines that begin with a symbol already keep it alone.
    """

    def __init__(self, codec: Codec, tag: str, others: bool = False, place: Place | None = None):
        """Raises D209 at `place` where the codec has no such symbol."""
        codec.check_symbol(tag, place)
        self.codec, self.tag, self.others = codec, tag, others
        self.kind, self.size, self.begins, self.symbols = codec.kind, codec.size, codec.begins, codec.symbols

    def line(self, line: str) -> str:
        """The line with its symbol."""
        words = line.split(None, 1) if line.strip(SPACES) else []
        return f"{self.tag} {line}" if words and not (self.others and words[0] in self.symbols) else line

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.codec.encode([self.line(line) for line in lines])

    def cut(self, ids: Sequence[int], most: int | None) -> Sequence[int]:
        return self.codec.cut(ids, most)

    def cut_anew(self, sentences: Sequence[Sequence[int]], strength: float, seed: int) -> list[list[int]]:
        return self.codec.cut_anew(sentences, strength, seed)

    def pieces(self, line: str) -> list[str]:
        return self.codec.pieces(self.line(line))

    def words(self, line: str) -> list[int]:
        written = self.line(line)
        before = 0 if written is line else 1
        return [max(0, number - before) for number in self.codec.words(written)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self.codec.tokens(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self.codec.decode(ids)

    def save(self, folder: Path, side: str) -> None:
        self.codec.save(folder, side)
