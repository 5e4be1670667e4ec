"""What a search knows of its next steps: the decoder's output for one, or the best words of several that one call has made."""

from collections.abc import Collection
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.data.vocabulary import EOS, UNK
from calque.decode.rule import Looked, SearchRule, SearchSettings, Step, Until, in_parts
from calque.decode.scorer import ALL, MANY_BYTES, Hidden, Scorer
from calque.layers.state import State
from calque.native.kernels import Best

LOGITS_BYTES = 8 << 20
"""Bytes of float32 logits that a processor computes together: few enough for its caches."""
SEVERAL = 16
"""Steps that one call makes at most, so that Python runs less often. An interrupt waits for the end of a call."""
DROP = 8
"""Finished sentences leave the batch when they are at least one in DROP: each removal costs a copy of the state."""


class Ahead:
    """The next steps of a search; between `look` and `look` either words are read, or some have been made."""

    def __init__(
        self, scorer: Scorer, rule: SearchRule, settings: SearchSettings, hidden: Hidden, closes: Collection[int]
    ):
        """`hidden`: z before the first word to choose; `closes`: the steps in which sentences reach their limits."""
        self._scorer, self._rule, self._settings = scorer, rule, settings
        self._hidden, self.closes = hidden, closes
        self.made: list[Best] = []
        """the best words of steps behind which the state stands already"""

    def divide(self) -> None:
        """From here on each hypothesis is a sentence of its own."""
        self._settings = replace(self._settings, beam=1, n_best=1)

    def look(self, state: State, t: Step, closing: Bool[Tensor, " b"] | None) -> Looked:
        """The part of the logits that the rule needs at step t, for every hypothesis: computed for some sentences at a time, or
        without the rest of the logits. At the first step the hypotheses of a sentence have one row.
        """
        scorer, rule, beam = self._scorer, self._rule, self._settings.beam
        if self.made:
            return rule.choose(self.made.pop(0), closing)
        first, sentences = self._first(t), len(rule.done)
        rows = len(self._hidden[0]) // sentences
        room = LOGITS_BYTES if scorer.like.device.type == "cpu" else MANY_BYTES
        some = max(1, room // (4 * beam * scorer.size))
        if rule.wanted is not None and (best := scorer.best(self._hidden, state, first, rule.wanted)) is not None:
            seen = rule.choose(best, closing)
        elif some >= sentences:
            seen = rule.look(scorer.logits(self._hidden, state, rows), t, first, closing, ALL)
        else:
            parts = []
            for of in in_parts(sentences, some):
                logits = scorer.logits(self._hidden, state, rows, of)
                parts.append(rule.look(logits, t, first, None if closing is None else closing[of], of))
            seen = tuple(torch.cat(each) for each in zip(*parts, strict=True))
        return seen if len(seen[0]) == sentences * beam else tuple(x.repeat_interleave(beam, 0) for x in seen)

    def read(self, chosen: Int[Tensor, "b K"], state: State, t: Step, visible: int) -> State:
        """The state behind the words of step t, or behind those of further steps, too: then they are in `made`.

        `visible`: see `Model.step`.
        """
        if (after := self._several(chosen, state, t)) is not None:
            return after
        z, state = self._scorer.read(chosen.view(-1, 1), state, visible, self._settings.beam, None)
        self._hidden = next_of(z)
        return state

    def _several(self, chosen: Int[Tensor, "b K"], state: State, t: Step) -> State | None:
        """The state behind the steps that are made now; None where each is made alone."""
        rule, exact = self._rule, self._settings.exact_length
        if rule.wanted is None or not self._scorer.makes_several or isinstance(t, Tensor):
            return None
        most = min(SEVERAL, *(n - t for n in self.closes if n > t))
        if t + 1 < exact:  # the first word that may be chosen is the same in all of them
            most = min(most, exact - 1 - t)
        onward = rule.onward() if most > 1 else None
        until = Until(most, self.leave(len(chosen)))
        if onward is None or int((onward.needed <= 0).sum()) >= until.done:
            return None
        made = self._scorer.several(chosen, state, self._first(t + 1), rule.wanted, onward, until)
        if made is None:
            return None
        self.made, state = made
        return state

    def leave(self, sentences: int) -> int:
        """How many of so many sentences must be done before they leave the batch."""
        return sentences if self._settings.capacity else -(-sentences // DROP)

    def _first(self, t: Step) -> int:
        """The first word that may be chosen at step t; where only the device knows t, sentences at their limits close anyway."""
        exact = self._settings.exact_length
        return UNK if exact and (isinstance(t, Tensor) or t < exact) else EOS


def next_of(hidden: Hidden) -> Hidden:
    """z of the only position that was read."""
    return tuple(z[:, 0] for z in hidden)
