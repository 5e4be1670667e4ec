"""Sources all of which begin with the same symbol."""

from collections.abc import Sequence
from pathlib import Path

from calque.data.codecs import Codec, split


def tagged(codec: Codec, tag: str) -> Codec:
    """The codec, with this symbol in front of every line that has words, in place of another one; without a tag the codec itself.

    Raises D209.
    """
    inner = codec.codec if tag and isinstance(codec, TaggedCodec) else codec
    return TaggedCodec(inner, tag) if tag else codec


class TaggedCodec(Codec):
    """A codec with a symbol in front of every line that has words; the symbol belongs to the first of them."""

    def __init__(self, codec: Codec, tag: str):
        """Raises D209 where the codec has no such symbol."""
        codec.check_symbol(tag)
        self.codec, self.tag = codec, tag
        self.kind, self.size, self.begins, self.symbols = codec.kind, codec.size, codec.begins, codec.symbols

    def line(self, line: str) -> str:
        """The line with its symbol."""
        return f"{self.tag} {line}" if split(line) else line

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.codec.encode([self.line(line) for line in lines])

    def cut(self, ids: Sequence[int], most: int | None) -> Sequence[int]:
        return self.codec.cut(ids, most)

    def cut_anew(self, sentences: Sequence[Sequence[int]], strength: float, seed: int) -> list[list[int]]:
        return self.codec.cut_anew(sentences, strength, seed)

    def pieces(self, line: str) -> list[str]:
        return self.codec.pieces(self.line(line))

    def words(self, line: str) -> list[int]:
        return [max(0, number - 1) for number in self.codec.words(self.line(line))]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self.codec.tokens(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self.codec.decode(ids)

    def save(self, folder: Path, side: str) -> None:
        self.codec.save(folder, side)
