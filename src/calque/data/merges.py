"""Byte-pair merges as subword-nmt writes them, applied to one word at a time (Sennrich, Haddow and Birch 2016)."""

import math
import re
from itertools import pairwise
from pathlib import Path

from calque.data.lines import Lines
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

END = "</w>"
_VERSION = re.compile(r"#version: (0\.[12])(\.0+)*")


class Merges:
    """An ordered list of merges. The first merge in the list that applies to a word is applied everywhere in it, then the next.

    In version 0.2 of the format `</w>` is part of the last character of a word, in 0.1 (no version line) it is a symbol of its own.
    The pieces are those of subword-nmt in both versions.
    """

    def __init__(self, ranks: dict[tuple[str, str], int], text: str, separate_end: bool):
        self.ranks, self.text, self.separate_end = ranks, text, separate_end

    @classmethod
    def read(cls, path: Path) -> "Merges":
        """Reads a file. Raises D101 or D103 where it cannot be read, D202 for each line that is not two symbols."""
        lines = list(Lines(path))
        first = _VERSION.fullmatch(lines[0].strip()) if lines else None
        ranks: dict[tuple[str, str], int] = {}
        faults = []
        for number, line in enumerate(lines[1:] if first else lines, 2 if first else 1):
            pair = line.strip("\r ").split(" ")
            if len(pair) == 2 and all(pair):
                ranks.setdefault((pair[0], pair[1]), number)
            else:
                faults.append(Diagnostic("D202", Place(str(path), number), {"line": line}))
        if faults:
            raise CalqueError(faults[:5])
        if not ranks:
            raise error("D202", Place(str(path)), line="")
        return cls(ranks, "".join(f"{line}\n" for line in lines), not first or first[1] == "0.1")

    def apply(self, word: str) -> list[str]:
        """The pieces of a word, which concatenate to it."""
        pieces = list(word)
        if len(pieces) < 2:
            return pieces
        pieces = [*pieces, END] if self.separate_end else [*pieces[:-1], pieces[-1] + END]
        while len(pieces) > 1:
            pairs = list(pairwise(pieces))
            best = min(pairs, key=lambda pair: self.ranks.get(pair, math.inf))
            if best not in self.ranks:
                break
            merged, i = [], 0
            while i < len(pieces):
                here = i < len(pairs) and pairs[i] == best
                merged.append(best[0] + best[1] if here else pieces[i])
                i += 2 if here else 1
            pieces = merged
        last = pieces.pop().removesuffix(END)
        return [*pieces, last] if last else pieces
