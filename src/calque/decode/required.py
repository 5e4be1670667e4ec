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


def rows_needed(required: Required, beam: int, n_best: int = 1) -> int:
    """K, the live hypotheses of a sentence: the beam, doubled until each of R + 1 banks has SLOTS places, but only up to MOST_ROWS;
    and until each has n_best, if more than one is wanted.
    """
    rows, banks = beam, words_needed(required) + 1
    least = n_best * banks if n_best > 1 else 0
    while required and ((rows < SLOTS * banks and 2 * rows <= MOST_ROWS) or rows < least):
        rows *= 2
    return rows


class Edges(NamedTuple):
    """Where words begin and end. Between two pieces a word has ended if the second begins one or the first does not stay open."""

    begins: Bool[Tensor, " V"]
    """an entry that begins a word, whatever stands before it, or that is no part of one"""
    opens: Bool[Tensor, " V"]
    """an entry whose word may go on with the next"""
    given: int = 0
    """words before a translation that are no part of it; see `Codec.begins`"""

    @classmethod
    def of_words(cls, size: int) -> "Edges":
        """Those of a vocabulary of whole words."""
        return cls(torch.ones(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool))

    def between(self, one: int, other: int) -> bool:
        """Whether a word has ended between two entries."""
        return bool(self.begins[other]) or not bool(self.opens[one])


class Matched(NamedTuple):
    """What hypotheses match; `...` are the dimensions of the hypotheses."""

    node: Int[Tensor, "..."]
    """the longest end of the hypothesis with which a form begins"""
    has: Bool[Tensor, "... C"]
    """the phrases that it contains, followed by something that continues no word"""


class Automata(NamedTuple):
    """For each sentence an automaton of Aho and Corasick (1975) over the forms of its C phrases.

    A node is the beginning of a form: the longest with which the words so far end, where BOS counts as the first of them. Nodes 0
    and 1 are empty, behind a word that has ended and behind one that may go on. A form begins where a word has ended, and a phrase
    is contained once its last word has ended. Padded: of words by -1, of phrases by phrases of no words.
    """

    words: Int[Tensor, "b W"]
    """places of the words of all forms among the candidates; every other word leads to node 0 or 1"""
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
    delay: Int[Tensor, "b N"]
    """1 where no form can begin, since a word goes on"""
    open: Bool[Tensor, "b N"]
    """whether the last word of a node may go on"""
    begins: Bool[Tensor, "b V"]
    opens: Bool[Tensor, "b V"]
    """as in `Edges`, of the candidates"""

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
        begun = (self._at(saved, node) * lacks).amax(-1)
        return missing - begun + self._at(self.delay[:, :, None], node)[..., 0] * ((begun == 0) & (missing > 0))

    def elsewhere(self, matched: Matched, words: Int[Tensor, "b K A"]) -> Int[Tensor, "b K A"]:
        """What hypotheses need behind words of no form."""
        ended = self._ended(matched, words)
        counts = [
            self.needed(Matched(torch.full_like(matched.node, node), has))
            for has in (matched.has | self._at(self.ends, matched.node), matched.has)
            for node in (0, 1)
        ]
        opens = self._of(self.opens, words)
        has, lacks = (torch.where(opens, two[1][:, :, None], two[0][:, :, None]) for two in (counts[:2], counts[2:]))
        return torch.where(ended, has, lacks)

    def behind(self, matched: Matched) -> Matched:
        """What hypotheses [b, K] match behind each of the words: [b, K, W]."""
        words = self.words.clamp(min=0)[:, None].expand(-1, matched.node.shape[1], -1)
        ended = self._ended(matched, words)[:, :, :, None]
        has = matched.has[:, :, None] | (self._at(self.ends, matched.node)[:, :, None] & ended)
        return Matched(self._at(self.onward, matched.node), has)

    def after(self, matched: Matched, words: Int[Tensor, "b K"]) -> Matched:
        """What hypotheses [b, K] match behind a word each."""
        same = words[:, :, None] == self.words[:, None]
        inside = (self._at(self.onward, matched.node) * same).sum(2)  # a word stands once in `words`
        node = torch.where(same.any(2), inside, self._of(self.opens, words).long())
        ended = self._ended(matched, words[:, :, None])
        return Matched(node, matched.has | (self._at(self.ends, matched.node) & ended))

    def _ended(self, matched: Matched, words: Int[Tensor, "b K A"]) -> Bool[Tensor, "b K A"]:
        """Whether the last words of hypotheses have ended before these."""
        open_ = self._at(self.open[:, :, None], matched.node)
        return self._of(self.begins, words) | ~open_

    @staticmethod
    def _of(table: Bool[Tensor, "b V"], words: Int[Tensor, "b ..."]) -> Bool[Tensor, "b ..."]:
        return table.gather(1, words.flatten(1)).view_as(words)

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

    def __init__(self, required: Required, edges: Edges):
        self._edges = edges
        self.words = sorted({word for forms in required for form in forms for word in form})
        self._children: list[dict[int, int]] = []
        self.ends: list[set[int]] = []
        self.saved: list[dict[int, int]] = []
        self.saved_apart: list[dict[int, int]] = []
        self.open: list[bool] = []
        for opens in (False, True):
            self._node(opens)
        self.length = list(map(shortest, required))
        for phrase, forms in enumerate(required):
            for form in forms:
                self._add(phrase, form)
        stuck = not any(edges.begins[form[0]] for forms in required for form in forms if form[0] != BOS)
        self.delay = [int(stuck and opens) for opens in self.open]
        self.onward = self._close()

    def _node(self, opens: bool) -> int:
        self._children.append({})
        self.ends.append(set())
        self.saved.append({})
        self.saved_apart.append({})
        self.open.append(opens)
        return len(self.open) - 1

    def _add(self, phrase: int, form: Form) -> None:
        node = 0
        for read, word in enumerate(form, 1):
            if word not in self._children[node]:
                self._children[node][word] = self._node(bool(self._edges.opens[word]))
            node = self._children[node][word]
            if read < len(form):
                saved = self.length[phrase] - (len(form) - read)
                _raise(self.saved[node], {phrase: saved})
                _raise(self.saved_apart[node], {phrase: saved} if self._edges.between(word, form[read]) else {})
        self.ends[node].add(phrase)

    def _close(self) -> list[list[int]]:
        """The node behind every node and word, level by level; a node has what its longest proper end has, too."""
        begins, opens = self._edges.begins, self._edges.opens
        empty = [int(opens[word]) for word in self.words]
        starts = self._children[0]
        onward = [[0] * len(self.words) for _ in self._children]
        onward[0] = [starts.get(word, empty[at]) for at, word in enumerate(self.words)]
        onward[1] = [starts.get(word, empty[at]) if begins[word] else empty[at] for at, word in enumerate(self.words)]
        level = [(child, int(opens[word])) for word, child in starts.items()]
        while level:
            deeper = []
            for node, end in level:  # `end`: the node of its longest proper end
                self.ends[node] |= self.ends[end]
                _raise(self.saved[node], self.saved[end])
                _raise(self.saved_apart[node], self.saved_apart[end])
                for at, word in enumerate(self.words):
                    child = self._children[node].get(word)
                    onward[node][at] = onward[end][at] if child is None else child
                    if child is not None:
                        deeper.append((child, onward[end][at]))
            level = deeper
        return onward

    def read(self, words: Sequence[int]) -> tuple[int, set[int]]:
        """The node behind BOS and these words, and the phrases that they contain, the last word of which has ended."""
        node, has, place = 0, set[int](), {word: at for at, word in enumerate(self.words)}
        before = BOS
        for word in (BOS, *words[self._edges.given :]):
            has |= self.ends[node] if self._edges.between(before, word) else set()
            node = self.onward[node][place[word]] if word in place else int(self._edges.opens[word])
            before = word
        return node, has


def _raise(numbers: dict[int, int], least: Mapping[int, int]) -> None:
    """Raises numbers that are lower than these."""
    for phrase, number in least.items():
        numbers[phrase] = max(number, numbers.get(phrase, 0))


def lacks(required: Required, words: Sequence[int], edges: Edges) -> bool:
    """Whether a phrase is missing in these words and their end."""
    if not required:
        return False
    one = _Automaton(required, edges)
    node, has = one.read(words)
    return len(has | one.ends[node]) < len(required)


def automata(
    required: Sequence[Required], prefixes: Sequence[Sequence[int]] | None, edges: Edges
) -> tuple[Automata, Matched]:
    """The automata of sentences, whose words are ids, and what their prefixes match, [b]."""
    each = [_Automaton(one, edges) for one in required]
    nodes, words = max(len(a.onward) for a in each), max(len(a.words) for a in each)
    phrases = max(len(a.length) for a in each)
    table = Automata(
        torch.full((len(each), words), -1),
        torch.zeros(len(each), nodes, words, dtype=torch.int64),
        torch.zeros(len(each), nodes, phrases, dtype=torch.bool),
        torch.zeros(len(each), nodes, phrases, dtype=torch.int64),
        torch.zeros(len(each), nodes, phrases, dtype=torch.int64),
        torch.zeros(len(each), phrases, dtype=torch.int64),
        torch.zeros(len(each), nodes, dtype=torch.int64),
        torch.zeros(len(each), nodes, dtype=torch.bool),
        edges.begins.expand(len(each), -1),
        edges.opens.expand(len(each), -1),
    )
    matched = Matched(torch.zeros(len(each), dtype=torch.int64), torch.zeros(len(each), phrases, dtype=torch.bool))
    for b, one in enumerate(each):
        _fill(table, b, one)
        node, has = one.read(prefixes[b] if prefixes else ())
        matched.node[b] = node
        matched.has[b, list(has)] = True
    return table, matched


def _fill(table: Automata, b: int, one: _Automaton) -> None:
    nodes = len(one.onward)
    table.words[b, : len(one.words)] = torch.tensor(one.words, dtype=torch.int64)
    table.onward[b, :nodes, : len(one.words)] = torch.tensor(one.onward, dtype=torch.int64)
    table.length[b, : len(one.length)] = torch.tensor(one.length, dtype=torch.int64)
    table.delay[b, :nodes] = torch.tensor(one.delay)
    table.open[b, :nodes] = torch.tensor(one.open)
    for node, ends in enumerate(one.ends):
        table.ends[b, node, list(ends)] = True
    for numbers, listed in ((table.saved, one.saved), (table.saved_apart, one.saved_apart)):
        for node, saved in enumerate(listed):
            numbers[b, node, list(saved)] = torch.tensor(list(saved.values()), dtype=torch.int64)
