"""Codecs: sentences to ids and back, one class per way of cutting them."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sentencepiece import SentencePieceProcessor

from calque.data.merges import Merges
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from calque.ground.diagnostics import Place, error
from calque.ground.files import write_whole

JOINER = "@@"
"""Marks a piece that the next one continues, as subword-nmt does."""
_SPACES = " \t\u2581"
"""What stands between words, and what sentencepiece writes for it."""


class Codec(ABC):
    """Sentences to ids without begin and end symbols, and ids to sentences."""

    kind: str
    size: int

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line."""

    @abstractmethod
    def pieces(self, line: str) -> list[str]:
        """The surface of each id that `encode` gives for this line; unknown pieces as they stand in the text."""

    @abstractmethod
    def words(self, line: str) -> list[int]:
        """For each id that `encode` gives for this line, which of the words of `split(line)` it is a part of, from 0."""

    @abstractmethod
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The entry of the vocabulary for each id, specials included."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The sentence; of the specials only `<unk>` is shown."""

    @abstractmethod
    def save(self, folder: Path, side: str) -> None:
        """Writes the files of this codec, `side` in their names."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, side: str, kind: str) -> "Codec":
        """Reads what `save` wrote; raises D101, D103, D202 or D204."""


class WordCodec(Codec):
    """Words between spaces (U+0020) and tabs; those not in the vocabulary are `<unk>`."""

    kind = "words"

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.size = len(vocabulary)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.vocabulary.ids(split(line)) for line in lines]

    def pieces(self, line: str) -> list[str]:
        return split(line)

    def words(self, line: str) -> list[int]:
        return list(range(len(split(line))))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary.tokens[i] for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.tokens([i for i in ids if i not in (PAD, BOS, EOS)]))

    def save(self, folder: Path, side: str) -> None:
        self.vocabulary.save(folder, side)

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "WordCodec":
        return cls(Vocabulary.load(folder, side))


class MergeCodec(WordCodec):
    """Words cut by given merges; a piece that the next one continues ends in `@@`."""

    kind = "codes"

    def __init__(self, merges: Merges, vocabulary: Vocabulary):
        super().__init__(vocabulary)
        self.merges = merges
        # Text repeats its words; the bound keeps a translating process from growing for ever.
        self._ids = functools.lru_cache(maxsize=1 << 20)(self._word_ids)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[i for word in split(line) for i in self._ids(word)] for line in lines]

    def _word_ids(self, word: str) -> list[int]:
        return self.vocabulary.ids(cut(self.merges, word))

    def pieces(self, line: str) -> list[str]:
        return [piece for word in split(line) for piece in cut(self.merges, word)]

    def words(self, line: str) -> list[int]:
        return [k for k, word in enumerate(split(line)) for _ in cut(self.merges, word)]

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).replace(JOINER + " ", "").removesuffix(JOINER)

    def save(self, folder: Path, side: str) -> None:
        super().save(folder, side)
        write_whole(_codes_file(folder, side), self.merges.text.encode())

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "MergeCodec":
        return cls(Merges.read(_codes_file(folder, side)), Vocabulary.load(folder, side))


class PieceCodec(Codec):
    """A sentencepiece model, `bpe` or `unigram`.

    Text is not normalised beyond white space (runs of spaces become one), so what is decoded is spelt as it was.
    """

    _unk: ClassVar[str] = SPECIALS[UNK]

    def __init__(self, model: bytes, kind: str):
        """Raises RuntimeError where `model` is none of sentencepiece's, ValueError where its specials are not ours."""
        self.kind, self.model = kind, model
        self._processor = SentencePieceProcessor(model_proto=model)
        self.size = int(self._processor.get_piece_size())
        if self.size < len(SPECIALS) or tuple(self.tokens(range(len(SPECIALS)))) != SPECIALS:
            raise ValueError(f"its first pieces are not {', '.join(SPECIALS)}")

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = self._processor.encode(list(lines), out_type=int)
        return found

    def pieces(self, line: str) -> list[str]:
        found: list[str] = self._processor.encode(line, out_type=str)
        return found

    def words(self, line: str) -> list[int]:
        # Characters tell: those that stand for spaces, at the heads of pieces or alone, belong to no word.
        owner = [k for k, word in enumerate(split(line)) for c in word if c not in _SPACES]
        found, at = [], 0
        for piece in self.pieces(line):
            found.append(owner[min(at, len(owner) - 1)] if owner else 0)
            at += sum(c not in _SPACES for c in piece)
        return found

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([int(i) for i in ids])) if len(ids) else ""

    def save(self, folder: Path, side: str) -> None:
        write_whole(_model_file(folder, side), self.model)

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "PieceCodec":
        path = _model_file(folder, side)
        try:
            return cls(path.read_bytes(), kind)
        except OSError as fault:
            raise error("D101", Place(str(path)), reason=(fault.strerror or str(fault)).lower()) from None
        except (RuntimeError, ValueError) as fault:
            reason = str(fault) if isinstance(fault, ValueError) else "sentencepiece cannot read it"
            raise error("D204", Place(str(path)), reason=reason) from None


def split(line: str) -> list[str]:
    """Words between runs of spaces and tabs. Other white space (no-break space, U+0085 ...) belongs to words."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def cut(merges: Merges, word: str) -> list[str]:
    """The pieces of a word, all but the last marked with the joiner."""
    pieces = merges.apply(word)
    return [piece + JOINER for piece in pieces[:-1]] + pieces[-1:]


def _codes_file(folder: Path, side: str) -> Path:
    return folder / f"merges.{side}.codes"


def _model_file(folder: Path, side: str) -> Path:
    return folder / f"sentencepiece.{side}.model"
