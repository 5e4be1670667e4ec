"""What models know of the pairs of a translation memory, and how far they are to lean on it."""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from calque.data.batches import decode_plan
from calque.data.vocabulary import BOS, EOS, PAD, UNK
from calque.decode.encode import encode
from calque.decode.memory import Memory
from calque.decode.nearest import FAR, NEAREST, Remembered, Way, WithMemory, nearest, shares_of
from calque.decode.scorer import Candidates, SourceBatch
from calque.decode.sentences import Sentence, Translator, as_batch, lengths_of, sentences_of
from calque.layers.state import size

PAIRS = 32
"""Pairs that a line is compared with, at most."""
TRIED = 100
"""Pairs of the memory by which the ways are found."""
LEAST = 0.05
"""Of the pairs of a memory, this share is less like any other one than a line must be like one of them."""
WORDS = 1024
"""Words of pairs that a sentence is compared with, at most."""
KEPT = 1 << 29
"""Bytes of what is known of pairs that are held for the next lines."""
FEW = Way(0.05, 0.4, 0.5)
"""Where no pair of the memory is like another."""
TEMPERATURES = (0.02, 0.05, 0.1, 0.2)
REACHES = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.2)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)


class Recall:
    """A translation memory as the models of a translator know it."""

    def __init__(self, loaded: Translator, memory: Memory):
        """Finds the ways of the models; this takes seconds."""
        self.memory = memory
        self._known: OrderedDict[tuple[int, bool], Remembered] = OrderedDict()
        self._bytes = 0
        self.ways, self._widths, self.least = self._tried(loaded)

    def like(self, line: str) -> tuple[int, ...]:
        """The numbers of the pairs that are like a line; none for one that is unlike what the memory has."""
        return self.memory.like(line, PAIRS, self.least)

    def scorer(
        self,
        loaded: Translator,
        sourced: Sequence[SourceBatch],
        candidates: Candidates | None,
        sentences: Sequence[Sentence],
        whole: bool,
    ) -> WithMemory:
        """The logits of sentences in one batch. `whole`: to the bit as each sentence has them alone."""
        known = self._of_pairs(loaded, itertools.chain.from_iterable(s.like for s in sentences), whole)
        none = Remembered(tuple(torch.zeros(0, width) for width in self._widths), torch.zeros(0, dtype=torch.long))
        pairs = ([known[number] for number in s.like] for s in sentences)
        remembered = [together(some, WORDS) if some else none for some in pairs]
        return WithMemory(sourced, loaded.combine, candidates, whole, remembered, self.ways)

    def words(self, loaded: Translator, sentence: Sentence) -> list[int]:
        """The words of the pairs of a sentence, in the target vocabulary."""
        targets = loaded.target.encode([self.memory.pairs[number][1] for number in sentence.like])
        return sorted(set(itertools.chain.from_iterable(targets)))

    def _of_pairs(self, loaded: Translator, numbers: Iterable[int], alone: bool) -> dict[int, Remembered]:
        """What is known of pairs by their numbers, from before or computed now."""
        wanted = list(dict.fromkeys(numbers))
        missing = [number for number in wanted if (number, alone) not in self._known]
        for number, one in zip(missing, outputs(loaded, [self.memory.pairs[n] for n in missing], alone), strict=True):
            written = one.words != UNK  # a word that the vocabulary lacks tells nothing
            known = Remembered(tuple(F.normalize(z[written], dim=1) for z in one.keys), one.words[written])
            self._known[number, alone] = known
            self._bytes += size(*known.keys)
        for number in wanted:
            self._known.move_to_end((number, alone))
        found = {number: self._known[number, alone] for number in wanted}
        while self._bytes > KEPT:
            self._bytes -= size(*self._known.popitem(last=False)[1].keys)
        return found

    def _tried(self, loaded: Translator) -> tuple[tuple[Way, ...], list[int], float]:
        """For each model the way by which pairs of the memory are most probable, each by those of the others that are like it, and
        the width of its outputs; and how alike such pairs are at least, but for the share `LEAST`.
        """
        tried = np.linspace(0, len(self.memory) - 1, min(TRIED, len(self.memory))).astype(int).tolist()
        own = outputs(loaded, [self.memory.pairs[number] for number in tried], alone=False)
        like = [self.memory.like_another(number, PAIRS) for number in tried]
        known = self._of_pairs(loaded, itertools.chain.from_iterable(like), alone=False)
        pairs = [(one, together([known[n] for n in others])) for one, others in zip(own, like, strict=True) if others]
        ways = [best_way(*_compared(member, number, pairs)) for number, member in enumerate(loaded.members) if pairs]
        alike = [
            self.memory.likeness(self.memory.pairs[n][0], others[0])
            for n, others in zip(tried, like, strict=True)
            if others
        ]
        least = float(np.quantile(alike, LEAST)) if alike else 0.0
        return tuple(ways) or (FEW,) * len(loaded.members), [z.shape[1] for z in own[0].keys], least


def together(pairs: Sequence[Remembered], most: int | None = None) -> Remembered:
    """What is known of several pairs: of the first one, and of those behind it while they have at most so many words together."""
    if most is not None:
        words = itertools.accumulate(len(one.words) for one in pairs)
        pairs = [one for k, (one, count) in enumerate(zip(pairs, words, strict=True)) if not k or count <= most]
    keys = zip(*(one.keys for one in pairs), strict=True)
    return Remembered(tuple(map(torch.cat, keys)), torch.cat([one.words for one in pairs]))


def outputs(loaded: Translator, pairs: Sequence[tuple[str, str]], alone: bool) -> list[Remembered]:
    """The outputs of every model that predict the words of each target, end symbol included, from its source.

    `alone`: each pair has a batch of its own, so that its result does not depend on the others, to the bit.
    """
    plain = replace(loaded, recall=None, terms=None)
    sentences = sentences_of(plain, pairs)
    lengths = np.array([sum(lengths_of(loaded, s)) for s in sentences], np.int64)
    plan = [np.array([i]) for i in range(len(pairs))] if alone else decode_plan(lengths, loaded.decode.batch_tokens)
    each: list[list[Tensor]] = [[] for _ in sentences]
    for rows in plan:
        some = [sentences[i] for i in rows]
        for number, member in enumerate(loaded.members):
            for i, z in zip(rows, _outputs_of(member, some, number, alone), strict=True):
                each[i].append(z)
    return [Remembered(tuple(z), torch.tensor([*s.prefix, EOS])) for z, s in zip(each, sentences, strict=True)]


def _outputs_of(member: Translator, sentences: Sequence[Sentence], number: int, whole: bool) -> list[Tensor]:
    longest = max(len(s.prefix) for s in sentences)
    device = member.model.device
    words = torch.tensor([[BOS, *s.prefix, *[PAD] * (longest - len(s.prefix))] for s in sentences], device=device)
    lengths = torch.tensor([len(s.prefix) + 1 for s in sentences], device=device)
    mask = torch.arange(longest + 1, device=device) < lengths[:, None]
    with torch.inference_mode():
        read = encode(*as_batch(member, [s.sources[number] for s in sentences]), whole)
        z = member.model.decode(words, read, None if bool(mask.all()) else mask)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        return [one[: len(s.prefix) + 1] for one, s in zip(z, sentences, strict=True)]


def _compared(
    member: Translator, number: int, pairs: Sequence[tuple[Remembered, Remembered]]
) -> tuple[Float[Tensor, " N"], Float[Tensor, "N n"], Bool[Tensor, "N n"]]:
    """For the words of all pairs, by one model: their log-probability without a memory; the distances of the nearest words of pairs
    like each, and whether these are the same word.
    """
    logps, distances, right = [], [], []
    with torch.inference_mode():
        for own, others in pairs:
            z, words = own.keys[number], own.words.to(own.keys[number].device)
            logits = member.model.logits(z.to(member.model.target_embedding.weight.dtype))
            logps.append(logits.to(z.dtype).log_softmax(1).gather(1, words[:, None])[:, 0])
            between = 1 - F.normalize(z, dim=1) @ others.keys[number].T
            between = F.pad(between, (0, max(0, NEAREST - between.shape[1])), value=FAR).nan_to_num(FAR)
            places = nearest(between[None])[0]
            distances.append(between.gather(1, places))
            known = F.pad(others.words.to(z.device), (0, max(0, NEAREST - len(others.words))), value=PAD)
            right.append(known[places] == words[:, None])
    return torch.cat(logps), torch.cat(distances), torch.cat(right)


def best_way(logp: Float[Tensor, " N"], distances: Float[Tensor, "N n"], right: Bool[Tensor, "N n"]) -> Way:
    """The way by which words are most probable, whose log-probabilities by the model alone are `logp`.

    `distances` are those of their neighbours, and `right` says which of these are the same word.
    """

    def loss(way: Way) -> float:
        own, shares = shares_of(distances, way)
        probability = (1 - shares) * logp.exp() + shares * (own * right).sum(1)
        return -float(probability.clamp(min=1e-12).log().mean())

    return min((Way(*one) for one in itertools.product(TEMPERATURES, REACHES, SHARES)), key=loss)
