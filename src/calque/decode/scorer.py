"""The logits of a search: of one model or of an ensemble, over all words or over some."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from calque.data.vocabulary import EOS, PAD
from calque.decode.encode import encode, rounded
from calque.decode.products import Native, rows_of
from calque.decode.recorded import Recorded
from calque.decode.rule import Onward, Until, Wanted
from calque.layers.state import State, States, size
from calque.model import Model
from calque.native.accelerator import MOST, accelerator_kernels_for
from calque.native.kernels import Best

COMBINE = ("probs", "logits", "logprobs")
"""How the models of an ensemble are combined; see `Models`."""

Hidden = tuple[Float[Tensor, "..."], ...]
"""The decoder's output z of each model."""


ALL = slice(None)
MANY_BYTES = 1 << 30
"""Bytes of float32 logits that an accelerator computes together."""


class SourceBatch(NamedTuple):
    """A model and the sentences to translate, padded, on its device."""

    model: Model
    source: Int[Tensor, "B S"]
    mask: Bool[Tensor, "B S"]


class Candidates(NamedTuple):
    """The words that may be chosen: ids of the vocabulary, ascending, that begin with the special symbols.

    The search knows a word by its place in `ids` (None: all words, known by their ids).
    """

    ids: Int[Tensor, " V"] | None = None
    forbidden: Bool[Tensor, "B V"] | None = None
    """by sentence; None: no word is forbidden"""

    def places(self, ids: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The places of ids."""
        return ids if self.ids is None else torch.searchsorted(self.ids, ids)

    def words(self, places: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The ids at places."""
        return places if self.ids is None else self.ids[places]


class Shared(NamedTuple):
    """What the logits of many batches depend on."""

    models: tuple[Model, ...]
    weights: tuple[object, ...]
    """where weights of theirs are: others have to be read once a model has moved"""
    combine: str


class Scorer(Protocol):
    """A batch of sentences, and the logits of its hypotheses."""

    candidates: Candidates
    normalised: bool
    """logits are log-probabilities"""
    size: int
    """the number of logits of a row"""

    @property
    def like(self) -> Tensor:
        """An empty tensor of the logits' type, on their device."""
        ...

    @property
    def forms(self) -> tuple[object, ...]:
        """What the shapes of its tensors depend on, beside the number of sentences."""
        ...

    def with_room(self, sentences: int) -> Self:
        """The same with tensors of its own for so many sentences; see `fill`."""
        ...

    def fill(self, other: Self) -> None:
        """Takes the sentences of another scorer of the same forms, and a word each for those that it has beside them."""
        ...

    def start(self, capacity: int) -> State:
        """The state before the first word, for one hypothesis a sentence, with room for so many positions."""
        ...

    def read(
        self, words: Int[Tensor, "R n"], state: State, visible: int, beams: int, mask: Bool[Tensor, "R n"] | None
    ) -> tuple[Hidden, State]:
        """z [R, n, D] of the next n words of every row, as `Model.step` does; consumes `state`."""
        ...

    def logits(self, hidden: Hidden, state: State, beams: int, of: slice = ALL) -> Float[Tensor, "r V"]:
        """The logits of the sentences in `of`, from z [R, D]; at least float32; the caller may overwrite them."""
        ...

    def best(self, hidden: Hidden, state: State, first: int, wanted: Wanted) -> Best | None:
        """The best words of each row from place `first` on, from z [R, D]; None where that takes all logits."""
        ...

    @property
    def shared(self) -> "Shared | None":
        """What logits depend on beside the sentences; None where they depend on the selected words of these sentences."""
        ...

    @property
    def makes_several(self) -> bool:
        """Whether there is one call for several steps."""
        ...

    def several(
        self, words: Int[Tensor, "b K"], state: State, first: int, wanted: Wanted, onward: Onward, until: Until
    ) -> tuple[list[Best], State] | None:
        """Several steps, the first with these words, each other one with those that the step before it has chosen.

        Their best words from place `first` on, and the state behind the last. None where this state needs steps one by one; else
        consumes `state`.
        """
        ...


class Models:
    """The logits of M models, p_m their distributions over the candidates.

    probs     log (1/M sum_m p_m): the mean of the probabilities
    logits    the mean of the logits, whose softmax is the normalised geometric mean of p_m (Luong 2015, section 4.1)
    logprobs  1/M sum_m log p_m, not normalised: the score of a hypothesis is the mean of its scores by the models
    """

    def __init__(
        self,
        sourced: Sequence[SourceBatch],
        combine: str = COMBINE[0],
        candidates: Candidates | None = None,
        whole: bool = False,
    ) -> None:
        """`whole`: see `calque.decode.encode.encode`."""
        self.sourced, self.combine, self.whole = sourced, combine, whole
        self.candidates = candidates or Candidates()
        self.normalised = len(sourced) > 1 and combine != "logits"
        embedding = sourced[0].model.target_embedding.weight
        self.like = torch.empty(0, dtype=torch.promote_types(embedding.dtype, torch.float32), device=embedding.device)
        outputs = [one.model.output for one in sourced]
        self.size = outputs[0].out_features if self.candidates.ids is None else len(self.candidates.ids)
        self._outputs = outputs if self.candidates.ids is None else [rows_of(o, self.candidates.ids) for o in outputs]

    @property
    def shared(self) -> "Shared | None":
        if self.candidates.ids is not None:
            return None
        weights = [one.model.target_embedding.weight for one in self.sourced]
        return Shared(
            tuple(one.model for one in self.sourced),
            tuple((w.device, w.dtype, w.data_ptr()) for w in weights),
            self.combine,
        )

    @property
    def forms(self) -> tuple[object, ...]:
        widths = tuple(rounded(one.source.shape[1]) for one in self.sourced)
        return *widths, None if self.candidates.forbidden is None else self.size

    def with_room(self, sentences: int) -> "Models":
        sourced = []
        for model, source, mask in self.sourced:
            shape = sentences, rounded(source.shape[1])
            sourced.append(SourceBatch(model, source.new_zeros(shape), mask.new_zeros(shape)))
        forbidden = self.candidates.forbidden
        words = None if forbidden is None else forbidden.new_zeros(sentences, forbidden.shape[1])
        return Models(sourced, self.combine, Candidates(None, words), self.whole)

    def fill(self, other: "Models") -> None:
        for held, given in zip(self.sourced, other.sourced, strict=True):
            sentences, width = given.source.shape
            held.source.fill_(PAD)
            held.mask.zero_()
            held.source[:sentences, :width], held.mask[:sentences, :width] = given.source, given.mask
            held.mask[sentences:, 0] = True
        mine, theirs = self.candidates.forbidden, other.candidates.forbidden
        if mine is not None and theirs is not None:
            mine.zero_()
            mine[: len(theirs)] = theirs

    def start(self, capacity: int) -> State:
        points = [encode(*one, self.whole) for one in self.sourced]
        parts = [one.model.init_state(read, capacity) for one, read in zip(self.sourced, points, strict=True)]
        return States((*parts, ForbiddenWords(self.candidates.forbidden)))

    def read(self, words: Tensor, state: State, visible: int, beams: int, mask: Tensor | None) -> tuple[Hidden, State]:
        words = self.candidates.words(words)
        *parts, forbidden = cast("States", state).parts
        each = [
            one.model.step(words, part, visible, beams, mask) for one, part in zip(self.sourced, parts, strict=True)
        ]
        return tuple(z for z, _ in each), States((*(after for _, after in each), forbidden))

    def logits(self, hidden: Hidden, state: State, beams: int, of: slice = ALL) -> Tensor:
        if of != ALL:
            hidden = tuple(z[of.start * beams : of.stop * beams] for z in hidden)
        each = [output(z) for output, z in zip(self._outputs, hidden, strict=True)]
        forbidden = cast("ForbiddenWords", cast("States", state).parts[-1]).mask
        forbidden = None if forbidden is None else forbidden[of]
        each = [_without(logits.to(self.like.dtype), forbidden, beams) for logits in each]
        return each[0] if len(each) == 1 else _combined(each, self.combine)

    def best(self, hidden: Hidden, state: State, first: int, wanted: Wanted) -> Best | None:
        output = self._outputs[0]
        forbidden = cast("ForbiddenWords", cast("States", state).parts[-1]).mask
        if len(self._outputs) > 1:
            return None
        if isinstance(output, Native):
            return output.best(hidden[0], wanted.n, first, EOS, wanted.reward, wanted.total, forbidden)
        fast = accelerator_kernels_for(hidden[0])
        if fast is None or type(output) is not nn.Linear or not wanted.n <= MOST <= self.size - first:
            return None
        if 4 * len(hidden[0]) * self.size > MANY_BYTES:
            return None
        return fast.best(hidden[0], output.weight, output.bias, wanted.n, first, EOS, wanted.reward, forbidden)

    @property
    def makes_several(self) -> bool:
        model, output = self.sourced[0].model, self._outputs[0]
        return len(self.sourced) == 1 and isinstance(output, Native) and isinstance(model.programs, Recorded)

    def several(
        self, words: Tensor, state: State, first: int, wanted: Wanted, onward: Onward, until: Until
    ) -> tuple[list[Best], State] | None:
        programs, output = cast("Recorded", self.sourced[0].model.programs), cast("Native", self._outputs[0])
        part, forbidden = cast("States", state).parts
        choosing = output.choosing(first, EOS, wanted.n, wanted.reward, wanted.total)
        choosing = choosing._replace(
            forbidden=cast("ForbiddenWords", forbidden).mask,
            ids=self.candidates.ids,
            enough=until.done,
            **onward._asdict(),
        )
        made = programs.several(self.candidates.words(words), part, choosing, until.steps)
        return None if made is None else (made[0], States((made[1], forbidden)))


class ForbiddenWords(NamedTuple):
    """The words that a sentence may not have. Its hypotheses share them, as they share memories."""

    mask: Bool[Tensor, "S V"] | None

    def select(self, rows: Tensor) -> "ForbiddenWords":
        return self

    def keep(self, rows: Tensor, sentences: Tensor) -> "ForbiddenWords":
        return ForbiddenWords(None if self.mask is None else self.mask[sentences])

    def bytes(self) -> int:
        return 0 if self.mask is None else size(self.mask)


def _without(logits: Tensor, forbidden: Tensor | None, beams: int) -> Tensor:
    if forbidden is not None:
        # One row per sentence while a prefix is read; else each mask holds for all hypotheses of its sentence.
        logits.view(len(forbidden), beams, -1).masked_fill_(forbidden[:, None], -torch.inf)
    return logits


def _combined(each: Sequence[Tensor], combine: str) -> Tensor:
    if combine != "logits":
        each = [logits.log_softmax(1) for logits in each]
    total = each[0]
    for other in each[1:]:
        total = torch.logaddexp(total, other) if combine == "probs" else total.add_(other)
    return total.sub_(math.log(len(each))) if combine == "probs" else total.div_(len(each))
