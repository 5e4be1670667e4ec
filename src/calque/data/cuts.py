"""Words cut into other pieces at random: subword regularisation.

sentencepiece draws, too, but what it draws differs from process to process with the same seed (0.2.3), so that neither an
interrupted training nor one of several processes would be repeated.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

START = "\u2581"
"""Begins the first piece of a word."""
Cut = tuple[str, ...]


class WordCutter:
    """Draws the pieces of words, given the pieces of a vocabulary and their scores."""

    def __init__(self, scores: Mapping[str, float], unigram: bool):
        self.scores, self.unigram = scores, unigram
        self._longest = max(map(len, scores), default=0)
        self._ways = functools.lru_cache(1 << 16)(self._ways_of)

    def cut(self, pieces: Sequence[str], strength: float, random: Random) -> Cut | None:
        """The word of these pieces in other ones; None where a piece or a character of it is not of the vocabulary.

        BPE: at each step every possible merge is left out with the probability `strength`, and the best of the others is made,
        until none is left (BPE-dropout, Provilkov et al. 2020, algorithm 1). Unigram: a cut x is drawn with a probability in
        proportion to P(x)^strength (Kudo 2018, section 3.2, with l = infinity).
        """
        word = "".join(pieces)
        if not all(piece in self.scores for piece in (*pieces, *word)):
            return None
        return self._drawn(word, strength, random) if self.unigram else self._merged(word, strength, random)

    def _merged(self, word: str, strength: float, random: Random) -> Cut:
        symbols = list(word)
        while merges := [
            (self.scores[pair], -at)
            for at in range(len(symbols) - 1)
            if (pair := symbols[at] + symbols[at + 1]) in self.scores and random.random() >= strength
        ]:
            at = -max(merges)[1]
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        return tuple(symbols)

    def _drawn(self, word: str, strength: float, random: Random) -> Cut:
        ways, end, pieces = self._ways(word, strength), len(word), list[str]()
        while end:
            begins, weights = ways[end]
            begin = random.choices(begins, weights)[0]
            pieces.append(word[begin:end])
            end = begin
        return tuple(reversed(pieces))

    def _ways_of(self, word: str, strength: float) -> list[tuple[list[int], list[float]]]:
        """For each end of a piece, where it may begin, and the probability of each beginning."""
        total, ways = [0.0], [([0], [1.0])]
        for end in range(1, len(word) + 1):
            begins = [i for i in range(max(0, end - self._longest), end) if word[i:end] in self.scores]
            logs = [total[i] + strength * self.scores[word[i:end]] for i in begins]
            most = max(logs)
            total.append(most + math.log(sum(math.exp(x - most) for x in logs)))
            ways.append((begins, [math.exp(x - total[end]) for x in logs]))
        return ways


def words_of(pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where each word begins and ends among the pieces of a sentence."""
    begins = [at for at, piece in enumerate(pieces) if at == 0 or piece.startswith(START)]
    return pairwise([*begins, len(pieces)])
