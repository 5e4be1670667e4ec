"""Vocabulary selection: only words that a lexical table offers for the words of the source can be chosen.

A table is that of `calque.align.lexical_table`. Its tokens are entries of the run's vocabularies, as its codecs cut text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.align.lexical_table import read_table
from calque.data.codecs import Codec
from calque.data.vocabulary import EOS, SPECIALS, UNK
from calque.decode.scorer import Candidates
from calque.ground.diagnostics import Place, error


@dataclass(frozen=True)
class Selection:
    """The words offered: the `per_word` best for each source token, the `frequent` first of the vocabulary, which lists the most
    frequent ones first, and the special symbols.

    By sentence, each has its own words, whatever its batch; else a batch shares those of all its sentences.
    """

    best: Int[Tensor, "W n"]
    """by source id; filled up with the end symbol"""
    always: Bool[Tensor, " V"]
    by_sentence: bool = True

    def candidates(
        self,
        source: Int[Tensor, "B S"],
        prefixes: Sequence[Sequence[int]] | None = None,
        whole: bool = False,
    ) -> Candidates:
        """The candidates of a batch; a sentence's own prefix is among them. Padding may be any special symbol.

        `whole`: each sentence its own, and the output layer is computed for all words, so that its shape is always the same.
        """
        offered = self.best.to(source.device)[source].flatten(1)
        allowed = self.always.to(source.device).repeat(len(source), 1).scatter_(1, offered, True)
        for b, prefix in enumerate(prefixes or ()):
            allowed[b, list(prefix)] = True
        union = allowed.any(0)
        # Rows of the output layer are packed anew, which pays for few of them only; on an accelerator they would be no graph's.
        elsewhere = source.device.type != "cpu"
        most = self.by_sentence and (elsewhere or 2 * int(union.sum()) > len(union))
        if whole or most:
            return Candidates(None, ~allowed)
        ids = None if bool(union.all()) else union.nonzero()[:, 0]
        if not self.by_sentence:
            return Candidates(ids)
        forbidden = ~(allowed if ids is None else allowed[:, ids])
        return Candidates(ids, forbidden if bool(forbidden.any()) else None)


def load_selection(
    path: Path, source: Codec, target: Codec, per_word: int, frequent: int, by_sentence: bool = True
) -> Selection:
    """Reads a table.

    Raises X806 where the settings offer no word, what `read_table` raises, D106 for an empty table, and D603 for a token that the
    vocabulary lacks.
    """
    if not per_word and not frequent:
        raise error("X806")
    known = [{t: i for i, t in enumerate(c.tokens(range(c.size)))} for c in (source, target)]

    def check(s: str, t: str, place: Place) -> None:
        for side, token, ids in (("source", s, known[0]), ("target", t, known[1])):
            if ids.get(token, EOS) < UNK:
                raise error("D603", place, side=side, token=token)

    table = read_table(path, check)
    if not table:
        raise error("D106", Place(str(path)))
    pairs = {(known[0][s], known[1][t]): probability for (s, t), probability in table.items()}
    best = torch.full((source.size, max(1, per_word)), EOS)
    if per_word:
        words, places, chosen = _ranked(pairs, per_word)
        best[words, places] = chosen
    always = torch.arange(target.size) < len(SPECIALS) + frequent
    return Selection(best, always, by_sentence)


def _ranked(pairs: Mapping[tuple[int, int], float], n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Source id, rank and target id of the n most probable targets of each source, equals in the order of ids."""
    ids = np.array(list(pairs))
    probabilities = np.fromiter(pairs.values(), float)
    order = np.lexsort((ids[:, 1], -probabilities, ids[:, 0]))
    ids = ids[order]
    first = np.searchsorted(ids[:, 0], ids[:, 0])
    rank = np.arange(len(ids)) - first
    kept = rank < n
    return torch.from_numpy(ids[kept, 0]), torch.from_numpy(rank[kept]), torch.from_numpy(ids[kept, 1])
