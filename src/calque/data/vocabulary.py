"""Vocabularies: which token has which id."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calque.data.lines import Lines
from calque.experiment.symbols import SPECIALS
from calque.ground.diagnostics import Place, error
from calque.ground.files import write_whole

__all__ = ["BOS", "EOS", "PAD", "SPECIALS", "UNK", "Vocabulary"]

PAD, BOS, EOS, UNK = 0, 1, 2, 3


class Vocabulary:
    """Tokens by id; the first four are `SPECIALS`.

    Text never gives a special id: a word that is spelt `</s>` is an unknown word.
    """

    def __init__(self, tokens: Iterable[str]):
        """`tokens` without the specials, each once."""
        self.tokens: tuple[str, ...] = SPECIALS + tuple(tokens)
        self.lookup: Mapping[str, int] = {t: i for i, t in enumerate(self.tokens) if i >= len(SPECIALS)}

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """One id per token, UNK for unknown tokens."""
        find = self.lookup.get
        return [find(token, UNK) for token in tokens]

    @classmethod
    def count(
        cls, counts: Mapping[str, int], size: int = 0, minimum: int = 1, symbols: Sequence[str] = ()
    ) -> "Vocabulary":
        """The symbols, then the most frequent tokens, equal counts in the order of code points.

        `size` bounds the entries, specials included (0: no bound); tokens counted less than `minimum` times stay out.
        """
        others = {*SPECIALS, *symbols}
        known = (t for t, n in counts.items() if n >= minimum and t not in others)
        ranked = sorted(known, key=lambda token: (-counts[token], token))
        return cls([*symbols, *(ranked[: max(0, size - len(others))] if size else ranked)])

    def save(self, folder: Path, side: str) -> None:
        """Writes `vocabulary.<side>.txt`, one token per line in the order of ids."""
        write_whole(_file(folder, side), "".join(f"{token}\n" for token in self.tokens).encode())

    @classmethod
    def load(cls, folder: Path, side: str) -> "Vocabulary":
        """Reads what `save` wrote. Raises D101 or D103 where it cannot, D204 where the file is not a vocabulary."""
        path = _file(folder, side)
        for _ in Lines(path):  # raises where it cannot be read
            pass
        # A carriage return may be part of a token, so that a line feed alone ends one.
        tokens = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise error("D204", Place(str(path), 1), reason=f"it does not begin with {', '.join(SPECIALS)}")
        if len(set(tokens)) != len(tokens):
            raise error("D204", Place(str(path)), reason="a token occurs twice")
        return cls(tokens[len(SPECIALS) :])


def _file(folder: Path, side: str) -> Path:
    return folder / f"vocabulary.{side}.txt"
