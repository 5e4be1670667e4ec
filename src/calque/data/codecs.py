"""Codecs: sentences to ids and back, one class for each way to split words."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from random import Random

from sentencepiece import SentencePieceProcessor

from calque.data.cuts import WordCutter, words_of
from calque.data.merges import Merges
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary
from calque.ground.diagnostics import Place, error, nearest, reason_of
from calque.ground.files import write_whole

JOINER = "@@"
"""Ends a piece that is not the last of its word, as in subword-nmt."""
SHOWN = 20
"""Symbols that an error names, at most."""
SPACES = " \t\u2581"
"""White space between words, and the character that sentencepiece writes for it."""


class Codec(ABC):
    """Sentences to ids without begin and end symbols, and ids to sentences."""

    kind: str
    size: int
    begins: tuple[int, ...] = ()
    """Ids that every sentence begins with; a search gets them without a choice and for nothing."""
    closes: tuple[int, ...] = ()
    """Ids that every sentence ends with."""
    symbols: tuple[str, ...] = ()
    """Words that are one entry each and are never cut, wherever text has them."""

    def check_symbol(self, word: str, place: Place | None = None) -> None:
        """Raises D209 where a word is no symbol of this vocabulary."""
        if word not in self.symbols:
            meant = nearest(word, self.symbols)
            known = ", ".join(f"`{one}`" for one in self.symbols[:SHOWN]) or "no symbols"
            raise error("D209", place, tag=word, nearest=meant, known=None if meant else known)

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line."""

    def cut(self, ids: Sequence[int], most: int | None) -> Sequence[int]:
        """At most so many ids of a line; those that every line ends with stay."""
        behind = len(self.closes)
        if most is None or not behind < most < len(ids):
            return ids[:most]
        return [*ids[: most - behind], *ids[len(ids) - behind :]] if behind else ids[:most]

    def cut_anew(self, sentences: Sequence[Sequence[int]], strength: float, seed: int) -> list[list[int]]:
        """The same sentences in other pieces, drawn at random. Raises X229 where words can be cut in one way alone."""
        raise error("X229", None, found=self.kind)

    @abstractmethod
    def pieces(self, line: str) -> list[str]:
        """The piece of each id that `encode` gives for this line; unknown pieces as in the text."""

    @abstractmethod
    def words(self, line: str) -> list[int]:
        """For each id that `encode` gives for this line, the number of its word in `split(line)`, from 0."""

    def lowers(self, line: str) -> bool:
        """Whether this is a line in capitals that is read in small letters."""
        return False

    def in_letters_of(self, line: str, text: str) -> str:
        """A translation of the line in the letter case that the line asks for."""
        return text

    @abstractmethod
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The entry of the vocabulary for each id, specials included."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The sentence; special symbols other than `<unk>` are left out."""

    @abstractmethod
    def save(self, folder: Path, side: str) -> None:
        """Writes the files of this codec, `side` in their names; not its symbols."""


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
        """Reads what `save` wrote. Raises D101, D103 or D204."""
        return cls(Vocabulary.load(folder, side))


class MergeCodec(WordCodec):
    """Words split by given merges; a piece that is not the last of its word ends in `@@`."""

    kind = "codes"

    def __init__(self, merges: Merges, vocabulary: Vocabulary):
        super().__init__(vocabulary)
        self.merges = merges
        # Words repeat in text; the limit bounds the memory of a long-running process.
        self._ids = functools.lru_cache(maxsize=1 << 20)(self._word_ids)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[i for word in split(line) for i in self._ids(word)] for line in lines]

    def _word_ids(self, word: str) -> list[int]:
        return self.vocabulary.ids(self._cut(word))

    def _cut(self, word: str) -> list[str]:
        return [word] if word in self.symbols else cut(self.merges, word)

    def pieces(self, line: str) -> list[str]:
        return [piece for word in split(line) for piece in self._cut(word)]

    def words(self, line: str) -> list[int]:
        return [k for k, word in enumerate(split(line)) for _ in self._cut(word)]

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).replace(JOINER + " ", "").removesuffix(JOINER)

    def save(self, folder: Path, side: str) -> None:
        super().save(folder, side)
        write_whole(_codes_file(folder, side), self.merges.text.encode())

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "MergeCodec":
        """Reads what `save` wrote. Raises D101, D103, D202 or D204."""
        return cls(Merges.read(_codes_file(folder, side)), Vocabulary.load(folder, side))


_LINE_ENDS = {ord("\n"): " ", ord("\r"): " "}
"""Bytes that a model may write, where bytes have pieces."""


class PieceCodec(Codec):
    """A sentencepiece model, `bpe` or `unigram`.

    Only white space is normalised (tabs become spaces and runs of spaces one), so that decoding gives the original spelling.
    """

    threads = -1
    """With which several lines are encoded; -1: one for each core."""

    def __init__(self, model: bytes, kind: str):
        """Raises RuntimeError where `model` is not a sentencepiece model, ValueError where its special symbols are others."""
        self.kind, self.model = kind, model
        self._processor = SentencePieceProcessor(model_proto=model)
        self.size = int(self._processor.get_piece_size())
        if self.size < len(SPECIALS) or tuple(self.tokens(range(len(SPECIALS)))) != SPECIALS:
            raise ValueError(f"its first pieces are not {', '.join(SPECIALS)}")

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(
            list(map(without_tabs, lines)), out_type=int, num_threads=self.threads
        )
        return ids

    def cut_anew(self, sentences: Sequence[Sequence[int]], strength: float, seed: int) -> list[list[int]]:
        """The same sentences, their words in pieces as `WordCutter` draws them, the same ones for the same seed.

        A word with a symbol, with `<unk>` or with a byte for a character stays as it is.
        """
        random = Random(seed)
        return [self._cut_anew(ids, strength, random) for ids in sentences]

    def _cut_anew(self, ids: Sequence[int], strength: float, random: Random) -> list[int]:
        cutter, pieces, numbers = self._cutter
        drawn: list[int] = []
        for begin, end in words_of([pieces[i] for i in ids]):
            own = ids[begin:end]
            cut = cutter.cut([pieces[i] for i in own], strength, random)
            drawn += own if cut is None else [numbers[piece] for piece in cut]
        return drawn

    @functools.cached_property
    def _cutter(self) -> tuple[WordCutter, list[str], dict[str, int]]:
        """What draws cuts, the pieces by their ids, and the ids of pieces."""
        of, pieces = self._processor, self.tokens(range(self.size))
        kept = {*self.symbols, *SPECIALS}
        plain = [i for i in range(self.size) if not (pieces[i] in kept or of.is_byte(i) or of.is_control(i))]
        scores = {pieces[i]: float(of.get_score(i)) for i in plain}
        return WordCutter(scores, self.kind == "unigram"), pieces, {pieces[i]: i for i in plain}

    def pieces(self, line: str) -> list[str]:
        pieces: list[str] = self._processor.encode(without_tabs(line), out_type=str)
        return pieces

    def words(self, line: str) -> list[int]:
        # Words are counted by characters; those that replace spaces, at the start of pieces or alone, belong to no word.
        owner = [k for k, word in enumerate(split(line)) for c in word if c not in SPACES]
        numbers, at, left = [], 0, 0
        for i, piece in zip(self.encode([line])[0], self.pieces(line), strict=True):
            numbers.append(owner[min(at, len(owner) - 1)] if owner else 0)
            if self._processor.is_byte(i):  # one of several that are a character together
                left = (left or _bytes_from(int(piece[1:-1], 16))) - 1
                at += left == 0
            else:
                at += sum(c not in SPACES for c in piece)
        return numbers

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        text = str(self._processor.decode([int(i) for i in ids])) if len(ids) else ""
        return text.translate(_LINE_ENDS)

    def save(self, folder: Path, side: str) -> None:
        write_whole(_model_file(folder, side), self.model)

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "PieceCodec":
        """Reads what `save` wrote. Raises D101 or D204."""
        path = _model_file(folder, side)
        try:
            return cls(path.read_bytes(), kind)
        except OSError as fault:
            raise error("D101", Place(str(path)), reason=reason_of(fault)) from None
        except (RuntimeError, ValueError) as fault:
            reason = str(fault) if isinstance(fault, ValueError) else "sentencepiece cannot read it"
            raise error("D204", Place(str(path)), reason=reason) from None


def _bytes_from(first: int) -> int:
    """The number of bytes of the character of UTF-8 that begins with this one."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def without_tabs(line: str) -> str:
    """A line whose tabs are spaces: sentencepiece takes a tab for a character of a word."""
    return line.replace("\t", " ")


def split(line: str) -> list[str]:
    """Words between runs of spaces and tabs. Other white space (no-break space, U+0085 ...) belongs to words."""
    return [word for word in without_tabs(line).split(" ") if word]


def cut(merges: Merges, word: str) -> list[str]:
    """The pieces of a word, all but the last marked with the joiner."""
    pieces = merges.apply(word)
    return [piece + JOINER for piece in pieces[:-1]] + pieces[-1:]


def _codes_file(folder: Path, side: str) -> Path:
    return folder / f"merges.{side}.codes"


def _model_file(folder: Path, side: str) -> Path:
    return folder / f"sentencepiece.{side}.model"


def difference(one: Codec, other: Codec) -> int | None:
    """The first id that is another entry in the other vocabulary, or that only one has; None where both are the same."""
    if one is other:
        return None
    both = range(min(one.size, other.size))
    entries = zip(one.tokens(both), other.tokens(both), strict=True)
    first = next((number for number, (a, b) in enumerate(entries) if a != b), None)
    return len(both) if first is None and one.size != other.size else first
