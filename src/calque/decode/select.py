"""Vocabulary selection: only words that a lexical table offers for the words of the source can be chosen.

A table is text, a line for each pair: source token, target token, probability p(target | source) in (0, 1], separated by
spaces or tabs. Tokens are entries of the run's vocabularies, as its codecs cut text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.data.codecs import Codec, split
from calque.data.text import EXAMPLES, Lines
from calque.data.vocabulary import EOS, SPECIALS, UNK
from calque.decode.scorer import Candidates
from calque.diagnostics import CalqueError, Diagnostic, Place, error


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
        if whole:
            return Candidates(None, ~allowed)
        union = allowed.any(0)
        ids = None if bool(union.all()) else union.nonzero()[:, 0]
        if not self.by_sentence:
            return Candidates(ids)
        forbidden = ~(allowed if ids is None else allowed[:, ids])
        return Candidates(ids, forbidden if bool(forbidden.any()) else None)


class _Pair(NamedTuple):
    source: int
    target: int
    probability: float


def load_selection(
    path: Path, source: Codec, target: Codec, per_word: int, frequent: int, by_sentence: bool = True
) -> Selection:
    """Reads a table.

    Raises D101, D103 or D105 (unreadable), and for each bad line D601 (not three fields), D602 (no probability), D603 (a token
    that the vocabulary lacks) or D604 (a pair that stands there already): the first few, and how many more there are.
    """
    known = [{t: i for i, t in enumerate(c.tokens(range(c.size)))} for c in (source, target)]
    pairs: dict[tuple[int, int], float] = {}
    faults: list[Diagnostic] = []
    bad = 0
    for number, line in enumerate(Lines(path), 1):
        try:
            pair = _pair(line, Place(str(path), number), *known)
            if pair[:2] in pairs:
                raise error("D604", Place(str(path), number), source=split(line)[0], target=split(line)[1])
            pairs[pair[:2]] = pair.probability
        except CalqueError as fault:
            bad += 1
            if bad <= EXAMPLES:
                faults += fault.diagnostics
    if bad > EXAMPLES:
        faults.append(Diagnostic("D110", Place(str(path)), {"more": bad - EXAMPLES, "of": "D601 to D604"}))
    if faults:
        raise CalqueError(faults)
    best = torch.full((source.size, max(1, per_word)), EOS)
    if pairs and per_word:
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


def _pair(line: str, place: Place, source: Mapping[str, int], target: Mapping[str, int]) -> _Pair:
    fields = split(line)
    if len(fields) != 3:
        raise error("D601", place, found=len(fields))
    try:
        probability = float(fields[2])
    except ValueError:
        probability = 0.0
    if not 0 < probability <= 1:  # not a number is not above 0
        raise error("D602", place, found=fields[2])
    for side, token, known in (("source", fields[0], source), ("target", fields[1], target)):
        if known.get(token, EOS) < UNK:
            raise error("D603", place, side=side, token=token)
    return _Pair(source[fields[0]], target[fields[1]], probability)
