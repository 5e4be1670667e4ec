"""Codecs around a codec that read a line in another form."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from calque.data.codecs import Codec


class RewritingCodec(Codec):
    """A codec that reads each line as `line` writes it."""

    def __init__(self, codec: Codec):
        self.codec = codec
        self.kind, self.size, self.begins, self.symbols = codec.kind, codec.size, codec.begins, codec.symbols

    @abstractmethod
    def line(self, line: str) -> str:
        """The line as it is read."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.codec.encode([self.line(line) for line in lines])

    def cut(self, ids: Sequence[int], most: int | None) -> Sequence[int]:
        return self.codec.cut(ids, most)

    def cut_anew(self, sentences: Sequence[Sequence[int]], strength: float, seed: int) -> list[list[int]]:
        return self.codec.cut_anew(sentences, strength, seed)

    def pieces(self, line: str) -> list[str]:
        return self.codec.pieces(self.line(line))

    def words(self, line: str) -> list[int]:
        return self.codec.words(self.line(line))

    def lowers(self, line: str) -> bool:
        return self.codec.lowers(line)

    def in_letters_of(self, line: str, text: str) -> str:
        return self.codec.in_letters_of(line, text)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self.codec.tokens(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return self.codec.decode(ids)

    def save(self, folder: Path, side: str) -> None:
        self.codec.save(folder, side)
