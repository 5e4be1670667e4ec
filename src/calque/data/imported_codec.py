"""The codec of a model that another tool trained: sentencepiece cuts, and a list of its own says which piece has which id."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from calque.data.codecs import SPACES, Codec, split
from calque.data.vocabulary import SPECIALS, UNK
from calque.ground.diagnostics import Place, error, reason_of
from calque.ground.files import write_whole


@dataclass(frozen=True)
class ImportedPieces:
    """What stands beside the sentencepiece model.

    tokens   the piece of each id; the first four are `SPECIALS`
    hidden   ids that are no text: names of languages, masks, unused rows
    text     text that every line begins with
    begins   ids that every translation begins with, such as the name of its language; a search gets them for nothing
    first    ids in front of a line that is not blank
    last     ids behind such a line
    marks    a line may begin with a word such as `>>de<<`, which is one piece
    """

    tokens: tuple[str, ...]
    hidden: tuple[int, ...] = ()
    text: str = ""
    begins: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    marks: bool = False


class ImportedCodec(Codec):
    """Pieces of sentencepiece with ids from a list. Raises ValueError where the list is not one, RuntimeError for the model."""

    kind = "imported"

    def __init__(self, model: bytes, pieces: ImportedPieces):
        self.model, self.listed = model, pieces
        self._processor = SentencePieceProcessor(model_proto=model)
        self.size = len(pieces.tokens)
        if pieces.tokens[: len(SPECIALS)] != SPECIALS or len(set(pieces.tokens)) != self.size:
            raise ValueError(f"its first pieces are not {', '.join(SPECIALS)}, or one occurs twice")
        self._lookup = {token: k for k, token in enumerate(pieces.tokens) if k >= len(SPECIALS)}
        self._silent = {0, 1, 2, *pieces.hidden}
        self.begins, self.closes = pieces.begins, pieces.last
        marks = (token for token in pieces.tokens if token.startswith(">>") and token.endswith("<<"))
        self.symbols = tuple(marks) if pieces.marks else ()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [self._ids(line) for line in lines]

    def _ids(self, line: str) -> list[int]:
        inner = [self._lookup.get(piece, UNK) for piece in self._cut(line)]
        around = self._around(bool(inner))
        return [*around[0], *inner, *around[1]]

    def _around(self, words: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids in front of a line and behind it; `words`: it is not blank."""
        return (*self.begins, *self.listed.first * words), self.listed.last * words

    def _cut(self, line: str) -> list[str]:
        if not line.strip(SPACES):
            return []
        line, mark = f"{self.listed.text}{line}", ""
        if self.listed.marks and line.startswith(">>") and "<<" in line:
            mark, _, line = line.partition("<<")
            mark += "<<"
        pieces: list[str] = self._processor.encode(line, out_type=str)
        return [mark, *pieces] if mark else pieces

    def pieces(self, line: str) -> list[str]:
        inner = self._cut(line)
        around = [self.tokens(ids) for ids in self._around(bool(inner))]
        return [*around[0], *inner, *around[1]]

    def words(self, line: str) -> list[int]:
        # As many characters as the text in front has belong to the first word of the line.
        owner = [k for k, word in enumerate(split(line)) for c in word if c not in SPACES]
        before = sum(c not in SPACES for c in self.listed.text)
        numbers, at = [], -before
        for piece in self._cut(line):
            numbers.append(owner[max(0, min(at, len(owner) - 1))] if owner else 0)
            at += sum(c not in SPACES for c in piece)
        front, behind = self._around(bool(numbers))
        return [0] * len(front) + numbers + [numbers[-1] if numbers else 0] * len(behind)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.listed.tokens[i] for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        shown = [int(i) for i in ids if int(i) not in self._silent]
        pieces = [f"\u2581{SPECIALS[UNK]}" if i == UNK else self.listed.tokens[i] for i in shown]
        return str(self._processor.decode_pieces(pieces)).strip() if pieces else ""

    def save(self, folder: Path, side: str) -> None:
        write_whole(folder / f"sentencepiece.{side}.model", self.model)
        body = json.dumps(asdict(self.listed), ensure_ascii=False, indent=0)
        write_whole(folder / f"pieces.{side}.json", (body + "\n").encode())

    @classmethod
    def load(cls, folder: Path, side: str, kind: str) -> "ImportedCodec":
        """Reads what `save` wrote. Raises D101 or D204."""
        path = folder / f"pieces.{side}.json"
        try:
            model = (folder / f"sentencepiece.{side}.model").read_bytes()
            listed = json.loads(path.read_bytes())
            many = {key: tuple(listed[key]) for key in ("tokens", "hidden", "begins", "first", "last")}
            return cls(model, ImportedPieces(**many, text=str(listed["text"]), marks=bool(listed["marks"])))
        except OSError as fault:
            raise error("D101", Place(str(path)), reason=reason_of(fault)) from None
        except (RuntimeError, ValueError, KeyError, TypeError) as fault:
            reason = str(fault) if isinstance(fault, ValueError) else "it is not a list of pieces with its model"
            raise error("D204", Place(str(path)), reason=reason) from None
