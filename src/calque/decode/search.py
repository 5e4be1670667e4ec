"""Search over `Model.step`: a step consists of tensor operations, without Python loops over sentences or words.

The rule, for a sentence with limit M (words, end symbol left out) and a beam of K, at step t = 1, 2, ...:

1. Candidates are the K live hypotheses, each extended by every word except PAD and BOS; at t = M + 1 by EOS alone. At
   t = 1 there is one live hypothesis, the empty one. The best 2K by log-probability and word penalty (of every word
   except EOS) are considered; equals in the order of the live hypotheses, then of the words' ids.
2. Those among the best K that end in EOS are finished. The K best finished ones by score are stored; of equals the
   older ones.
3. The best K that do not end in EOS are live. A candidate that ends in EOS but is not among the best K is dropped.
4. The sentence is done when t = M + 1, or
   none          the n_best-th stored hypothesis is as good as the best live one can become within M words;
   length, gnmt  K hypotheses are stored and, unless `stop` is `full` (Gehring et al. 2017), the n_best-th of them is as good
                 as the best live one would be if it ended at the next step with probability 1. Without this condition unlikely
                 ends of short hypotheses fill the store before the likely one is reached.

The score of a finished hypothesis of T words, EOS included, is s = logp + word_penalty * (T - 1) (none), s / T^alpha
(length), s / ((5 + T)/6)^alpha (gnmt). With K = 1 this is greedy search, which is done at its first EOS. Every decision
concerns one sentence, so that its translation does not depend on its batch.

A sentence with a forced prefix of P words starts at t = P + 1, with the log-probability of the prefix; where P > M, at its limit.
In the program t counts from the end of the prefix, so that all sentences of a batch have the same t.

Sampling (`calque.decode.sample`) has K live hypotheses from t = 1 on, each extended by a drawn word, in the order of their numbers.

Rows of a sentence are adjacent: row = sentence * K + hypothesis.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from calque.decode.ahead import Ahead
from calque.decode.begin import Prefixes, padded_prefixes, read_prefixes, rule_of, spread_hypotheses
from calque.decode.captured import graphs_of
from calque.decode.captured_steps import ROOM, Progress
from calque.decode.chosen import ChosenWords, Hypotheses, rows_of
from calque.decode.rule import Sampling, SearchRule, SearchSettings, SearchStart
from calque.decode.scorer import Candidates, Models, Scorer, SourceBatch
from calque.model import Model

__all__ = [
    "Candidates",
    "Hypotheses",
    "Models",
    "Sampling",
    "Scorer",
    "SearchSettings",
    "SourceBatch",
    "search",
    "search_with",
]


def search(
    model: Model,
    source: Int[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
    max_length: Int[Tensor, " B"],
    settings: SearchSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Hypotheses:
    """The best hypotheses of a batch, under the rule above.

    Sources are on the model's device; `max_length` is M of each sentence and lies on the CPU.
    """
    with torch.inference_mode():
        return search_with(Models([SourceBatch(model, source, mask)]), max_length, settings, prefixes)


def search_with(
    scorer: Scorer,
    max_length: Int[Tensor, " B"],
    settings: SearchSettings,
    prefixes: Sequence[Sequence[int]] | None = None,
    lines: Int[Tensor, " B"] | None = None,
    width: int = 0,
) -> Hypotheses:
    """As `search`, with any scorer. `lines`, by default from 0, are the numbers from which samples are drawn; prefixes are padded
    to at least `width`.
    """
    with torch.inference_mode():
        prefix = padded_prefixes(prefixes, width, scorer) if prefixes is not None and any(map(len, prefixes)) else None
        lines = torch.arange(len(max_length)) if lines is None else lines
        chosen = _run(scorer, max_length, settings, prefix, lines)
        return chosen.read(settings.n_best, scorer.candidates, prefixes)


def _run(
    scorer: Scorer, max_length: Tensor, settings: SearchSettings, prefix: Prefixes | None, lines: Tensor
) -> ChosenWords:
    """The search: its steps, and the finished hypotheses of every sentence."""
    limit, before, lengths = _limits(max_length, settings.exact_length, prefix)
    last = int((limit if lengths is None else limit - lengths).max()) + 1
    room = settings.capacity or before + int(limit.max()) + 1
    if (graphs := graphs_of(scorer)) is not None:
        room = settings.capacity or -(-room // ROOM) * ROOM
        found = None if prefix is not None else graphs.search(scorer, settings, limit, lines, room, last)
        if found is not None:
            return found
    return _step_by_step(scorer, settings, prefix, lines, limit, room)


def _step_by_step(
    scorer: Scorer, settings: SearchSettings, prefix: Prefixes | None, lines: Tensor, limit: Tensor, room: int
) -> ChosenWords:
    """The search, of which graphs may make what is behind the first step. `limit` lies on the processor."""
    beam, device = settings.beam, scorer.like.device
    before, lengths = (0, None) if prefix is None else (prefix.longest, prefix.lengths)
    limit = limit.to(device)
    hidden, state, logp = read_prefixes(scorer, room, len(limit), settings, prefix)
    rule = rule_of(settings, SearchStart(scorer.like, limit, lines.to(device), lengths, logp, scorer.normalised))
    history = ChosenWords(beam, rule.stored())
    limit = limit if lengths is None else limit - lengths
    closes = {n + 1 for n in limit.tolist()}
    same, everyone = torch.arange(beam, device=device), torch.arange(len(limit), device=device)
    ahead = Ahead(scorer, rule, settings, hidden, closes)
    for t in range(1, max(closes) + 1):
        closing = limit < t if t in closes else None
        chosen, parents = rule.advance(ahead.look(state, t, closing), t, closing)
        history.steps.append((history.present, chosen, parents))
        done, parents = _progress(rule, parents, same)
        if done == len(everyone):
            break
        if ahead.made:  # the state holds these words already
            continue
        if t == 1:
            state, parents = spread_hypotheses(state, everyone, beam, before + 1), None
            if (graphs := graphs_of(scorer)) is not None:
                progress = Progress.behind(t, limit, chosen, state, rule)
                if graphs.finish(scorer, rule, settings, history, progress, before, max(closes)):
                    return history
        if done >= ahead.leave(len(everyone)):
            left = _leave(rule, history)
            state = state.keep(rows_of(left, (same.expand_as(chosen) if parents is None else parents)[left]), left)
            limit, chosen, everyone = limit[left], chosen[left], everyone[: len(left)]
        elif parents is not None:
            state = state.select(rows_of(everyone, parents))
        state = ahead.read(chosen, state, t, before + t + 1)
    history.finish(rule.stored())
    return history


def _leave(rule: SearchRule, history: ChosenWords) -> Int[Tensor, " c"]:
    """Removes sentences that are done; the others."""
    history.finish(rule.stored())
    left = (~rule.done).nonzero()[:, 0]
    rule.keep(left)
    history.present = history.present[left]
    return left


def _progress(
    rule: SearchRule, parents: Int[Tensor, "b K"] | None, same: Int[Tensor, " K"]
) -> tuple[int, Int[Tensor, "b K"] | None]:
    """How many sentences are done, and the parents, None where every hypothesis extends itself.

    The one wait for the device in a step.
    """
    counts = [rule.done.sum()] if rule.any_ended else []
    # On a processor a rule has looked already.
    moved = None if parents is None or parents.device.type == "cpu" else (parents != same).sum()
    found = [int(count) for count in counts] if moved is None else torch.stack([*counts, moved]).tolist()
    any_moved = moved is None or found.pop()
    return found[0] if found else 0, parents if any_moved else None


def _limits(
    limit: Int[Tensor, " B"], exact: int, prefix: Prefixes | None
) -> tuple[Int[Tensor, " B"], int, Int[Tensor, " B"] | None]:
    """M of each sentence, at least its prefix; the longest prefix; the lengths of the prefixes. All on the processor."""
    limit = torch.full_like(limit, exact - 1) if exact else limit
    if prefix is None:
        return limit, 0, None
    lengths = prefix.lengths.cpu()
    return torch.maximum(limit, lengths), prefix.longest, lengths
