"""What a translation must contain, as an automaton over its words: which phrases it has, and how many words it still needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.data.vocabulary import BOS

Form = tuple[int, ...]
"""The ids of a phrase. One that begins with BOS stands at the beginning of a translation."""
Required = tuple[tuple[Form, ...], ...]
"""The phrases that a translation must contain, each in one of its forms."""
SLOTS = 2
"""Hypotheses for each number of words that are still needed."""
MOST_ROWS = 128
"""Hypotheses of a sentence, at most, unless the beam itself is wider."""


def distinct(phrases: Iterable[Iterable[Sequence[int]]]) -> Required:
    """Each phrase once, with each of its forms once; forms without words are left out."""
    forms = (tuple(dict.fromkeys(tuple(form) for form in phrase if len(form))) for phrase in phrases)
    return tuple(dict.fromkeys(each for each in forms if each))


def flat(required: Required) -> list[int]:
    """The words of all forms."""
    return [word for forms in required for form in forms for word in form]


def shortest(forms: Iterable[Form]) -> int:
    """The words of the shortest form that can stand anywhere."""
    return min(len(form) for form in forms if form[0] != BOS)


def words_needed(required: Required) -> int:
    """R, the least number of words that contain all phrases one behind the other."""
    return sum(map(shortest, required))


def rows_needed(required: Required, beam: int) -> int:
    """K, the live hypotheses of a sentence: the beam, doubled until it is SLOTS (R + 1), but only up to MOST_ROWS."""
    rows = beam
    while required and rows < SLOTS * (words_needed(required) + 1) and 2 * rows <= MOST_ROWS:
        rows *= 2
    return rows


class Matched(NamedTuple):
    """What hypotheses match; `...` are the dimensions of the hypotheses."""

    node: Int[Tensor, "..."]
    """the longest end of the hypothesis with which a form begins"""
    has: Bool[Tensor, "... C"]
    """the phrases that it contains, followed by something that continues no word"""


class Automata(NamedTuple):
    """For each sentence an automaton of Aho and Corasick (1975) over the forms of its C phrases.

    A node is the beginning of a form: the longest with which the words so far end, where BOS counts as the first of them. Node 0 is
    the empty one. A phrase is contained once its word has ended: at the end of the hypothesis, or before a piece that begins
    another word. Padded: of words by -1, of phrases by phrases of no words.
    """

    words: Int[Tensor, "b W"]
    """places of the words of all forms among the candidates; every other word leads to node 0"""
    onward: Int[Tensor, "b N W"]
    """the node behind a node and a word"""
    ends: Bool[Tensor, "b N C"]
    """whether a form of the phrase ends at this node"""
    saved: Int[Tensor, "b N C"]
    """of a phrase that is still to come, so many words less are needed, since the hypothesis ends with the beginning of a form"""
    saved_apart: Int[Tensor, "b N C"]
    """the same where the next word of the form begins another word, so that one which ends here has ended"""
    length: Int[Tensor, "b C"]
    """the words of the shortest form"""
    begins: Bool[Tensor, "b V"]
    """whether a word before this candidate has ended"""

    def needed(self, matched: Matched) -> Int[Tensor, "b ..."]:
        """The least number of further words that a hypothesis needs to contain all phrases, each by itself.

        sum of `length` over the phrases that it lacks, less the most that its end saves of one of them; either its last word ends
        here, or it goes on. Where every form begins with the beginning of a word, some word leads from a hypothesis that needs r
        words, r > 0, to one that needs at most r - 1.
        """
        lacks = ~matched.has
        goes_on = self._missing(lacks, self.saved, matched.node)
        ends = self._missing(lacks & ~self._at(self.ends, matched.node), self.saved_apart, matched.node)
        return torch.minimum(ends, goes_on)

    def _missing(self, lacks: Tensor, saved: Tensor, node: Int[Tensor, "b ..."]) -> Int[Tensor, "b ..."]:
        missing = (self._of_each(self.length, node) * lacks).sum(-1)
        return missing - (self._at(saved, node) * lacks).amax(-1)

    def elsewhere(self, matched: Matched, words: Int[Tensor, "b K A"]) -> Int[Tensor, "b K A"]:
        """What hypotheses need behind words of no form."""
        nowhere = torch.zeros_like(matched.node)
        ended = self.needed(Matched(nowhere, matched.has | self._at(self.ends, matched.node)))
        inside = self.needed(Matched(nowhere, matched.has))
        return torch.where(self._begin(words), ended[:, :, None], inside[:, :, None])

    def behind(self, matched: Matched) -> Matched:
        """What hypotheses [b, K] match behind each of the words: [b, K, W]."""
        begin = self._begin(self.words.clamp(min=0))[:, None, :, None]
        has = matched.has[:, :, None] | (self._at(self.ends, matched.node)[:, :, None] & begin)
        return Matched(self._at(self.onward, matched.node), has)

    def after(self, matched: Matched, words: Int[Tensor, "b K"]) -> Matched:
        """What hypotheses [b, K] match behind a word each."""
        same = words[:, :, None] == self.words[:, None]
        node = (self._at(self.onward, matched.node) * same).sum(2)  # a word stands once in `words`, or leads to node 0
        return Matched(node, matched.has | (self._at(self.ends, matched.node) & self._begin(words)[:, :, None]))

    def _begin(self, words: Int[Tensor, "b ..."]) -> Bool[Tensor, "b ..."]:
        return self.begins.gather(1, words.flatten(1)).view_as(words)

    @staticmethod
    def _at(table: Tensor, node: Int[Tensor, "b ..."]) -> Tensor:
        """The rows of a table [b, N, n] at nodes."""
        rows = node.flatten(1)[:, :, None].expand(-1, -1, table.shape[2])
        return table.gather(1, rows).view(*node.shape, table.shape[2])

    @staticmethod
    def _of_each(x: Int[Tensor, "b C"], like: Int[Tensor, "b ..."]) -> Tensor:
        return x.view(len(x), *[1] * (like.dim() - 1), x.shape[1])


class _Automaton:
    """The automaton of one sentence, as lists."""

    def __init__(self, required: Required, begins: Bool[Tensor, " V"]):
        self._begins = begins
        self.words = sorted({word for forms in required for form in forms for word in form})
        self._children: list[dict[int, int]] = [{}]
        self.ends: list[set[int]] = [set()]
        self.saved: list[dict[int, int]] = [{}]
        self.saved_apart: list[dict[int, int]] = [{}]
        self.length = list(map(shortest, required))
        for phrase, forms in enumerate(required):
            for form in forms:
                self._add(phrase, form)
        self.onward = self._close()

    def _add(self, phrase: int, form: Form) -> None:
        node = 0
        for read, word in enumerate(form, 1):
            if word not in self._children[node]:
                self._children[node][word] = len(self._children)
                self._children.append({})
                self.ends.append(set())
                self.saved.append({})
                self.saved_apart.append({})
            node = self._children[node][word]
            if read < len(form):
                saved = self.length[phrase] - (len(form) - read)
                _raise(self.saved[node], {phrase: saved})
                _raise(self.saved_apart[node], {phrase: saved} if self._begins[form[read]] else {})
        self.ends[node].add(phrase)

    def _close(self) -> list[list[int]]:
        """The node behind every node and word, level by level; a node has what its longest proper end has, too."""
        onward = [[0] * len(self.words) for _ in self._children]
        shorter = [0] * len(self._children)
        level = [0]
        while level:
            deeper = []
            for node in level:
                end = shorter[node]
                if node:
                    self.ends[node] |= self.ends[end]
                    _raise(self.saved[node], self.saved[end])
                    _raise(self.saved_apart[node], self.saved_apart[end])
                for at, word in enumerate(self.words):
                    fallback = onward[end][at] if node else 0
                    child = self._children[node].get(word)
                    onward[node][at] = fallback if child is None else child
                    if child is not None:
                        shorter[child] = fallback
                        deeper.append(child)
            level = deeper
        return onward

    def read(self, words: Sequence[int]) -> tuple[int, set[int]]:
        """The node behind BOS and these words, and the phrases that they contain without an end."""
        node, has, place = 0, set[int](), {word: at for at, word in enumerate(self.words)}
        for word in (BOS, *words):
            has |= self.ends[node] if self._begins[word] else set()
            node = self.onward[node][place[word]] if word in place else 0
        return node, has


def _raise(numbers: dict[int, int], least: Mapping[int, int]) -> None:
    """Raises numbers that are lower than these."""
    for phrase, number in least.items():
        numbers[phrase] = max(number, numbers.get(phrase, 0))


def lacks(required: Required, words: Sequence[int], begins: Bool[Tensor, " V"]) -> bool:
    """Whether a phrase is missing in these words and their end. `begins`: whether a word before an id has ended."""
    if not required:
        return False
    one = _Automaton(required, begins)
    node, has = one.read(words)
    return len(has | one.ends[node]) < len(required)


def automata(
    required: Sequence[Required], prefixes: Sequence[Sequence[int]] | None, begins: Bool[Tensor, " V"]
) -> tuple[Automata, Matched]:
    """The automata of sentences, whose words are ids, and what their prefixes match, [b]. `begins`: whether a word before an id has
    ended.
    """
    each = [_Automaton(one, begins) for one in required]
    nodes, words = max(len(a.onward) for a in each), max(len(a.words) for a in each)
    phrases = max(len(a.length) for a in each)
    shape = len(each), nodes, phrases
    table = Automata(
        torch.full((len(each), words), -1),
        torch.zeros(len(each), nodes, words, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.bool),
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(len(each), phrases, dtype=torch.int64),
        begins.expand(len(each), -1),
    )
    matched = Matched(torch.zeros(len(each), dtype=torch.int64), torch.zeros(len(each), phrases, dtype=torch.bool))
    for b, one in enumerate(each):
        table.words[b, : len(one.words)] = torch.tensor(one.words, dtype=torch.int64)
        table.onward[b, : len(one.onward), : len(one.words)] = torch.tensor(one.onward, dtype=torch.int64)
        table.length[b, : len(one.length)] = torch.tensor(one.length, dtype=torch.int64)
        for node, ends in enumerate(one.ends):
            table.ends[b, node, list(ends)] = True
        for numbers, listed in ((table.saved, one.saved), (table.saved_apart, one.saved_apart)):
            for node, saved in enumerate(listed):
                numbers[b, node, list(saved)] = torch.tensor(list(saved.values()), dtype=torch.int64)
        node, has = one.read(prefixes[b] if prefixes else ())
        matched.node[b] = node
        matched.has[b, list(has)] = True
    return table, matched
