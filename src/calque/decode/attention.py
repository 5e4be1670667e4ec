"""Alignment by attention: the source words that each target word attends to while a translation is forced."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from calque.align.links import Links
from calque.data.batches import decode_plan
from calque.data.codecs import split
from calque.data.vocabulary import BOS, PAD
from calque.decode.encode import encode
from calque.decode.sentences import Sentence, Translation, Translator, as_batch, lengths_of, sentences_of
from calque.ground.diagnostics import error


def attention_path(member: Translator) -> str | None:
    """The path of the layer that aligns: `decode.align_layer`, or the last source attention; None where there is none.

    Raises X803 where the named layer is no source attention.
    """
    paths = member.model.source_attentions()
    named = member.decode.align_layer
    if named and named not in paths:
        raise error("X803", name=named, layers=paths or None)
    return named or (paths[-1] if paths else None)


def aligned_at(loaded: Translator, row: int) -> Translator:
    """The models with every one aligning a word by the step that predicts it, 0, or by the one that reads it, 1."""
    members = [replace(one, decode=replace(one.decode, align_row=row)) for one in (loaded, *loaded.others)]
    return replace(members[0], others=tuple(members[1:]))


def check_attends(loaded: Translator) -> None:
    """Raises X802 where no model of an ensemble has source attention, and what `attention_path` raises."""
    if not [path for member in loaded.members if (path := attention_path(member)) is not None]:
        raise error("X802")


def attend(
    loaded: Translator, lines: Sequence[str], targets: Sequence[Sequence[int]], alone: bool = False
) -> list[Float[Tensor, "T W+1"]]:
    """The attention of each target token to the words of the source line; the last column is the end symbol.

    The weights are the mean over the heads of a layer, see `attention_path`, at the step `decode.align_row`, summed over the pieces
    of a source word and over the models of an ensemble that have such a layer (Luong 2015's code). `targets` are ids without begin
    and end symbols. `alone`: each pair has a batch of its own, so that its result does not depend on the others, to the bit.
    """
    sentences = sentences_of(replace(loaded, recall=None), list(zip(lines, targets, strict=True)))
    lengths = np.array([sum(lengths_of(loaded, s)) for s in sentences], np.int64)
    plan = [np.array([i]) for i in range(len(lines))] if alone else decode_plan(lengths, loaded.decode.batch_tokens)
    attention = [torch.zeros(len(ids), len(split(line)) + 1) for line, ids in zip(lines, targets, strict=True)]
    for number, member in enumerate(loaded.members):
        if (path := attention_path(member)) is None:
            continue
        row = member.decode.align_row
        for rows in plan:
            weights = _weights(member, path, [sentences[i] for i in rows], number, alone)
            for i, some in zip(rows, weights, strict=True):
                read = len(sentences[i].sources[number])
                columns = [*member.source.words(lines[i])[:read], *[attention[i].shape[1] - 1] * member.source_end]
                own = some[row : row + len(targets[i]), : len(columns)]
                attention[i].index_add_(1, torch.tensor(columns, dtype=torch.int64), own)
    return attention


def _weights(
    member: Translator, path: str, sentences: Sequence[Sentence], number: int, whole: bool
) -> Float[Tensor, "B T+1 S"]:
    """The mean over the heads of a layer; row t belongs to the step that chooses word t + 1."""
    kept: list[Tensor] = []

    def record(where: str, weights: Tensor) -> None:
        if where == path:
            kept.append(weights.mean(1, dtype=torch.float32).cpu())

    longest = max(len(s.prefix) for s in sentences)
    padded = [[BOS, *s.prefix, *[PAD] * (longest - len(s.prefix))] for s in sentences]
    real = [[k <= len(s.prefix) for k in range(longest + 1)] for s in sentences]
    device = member.model.device
    with torch.inference_mode():
        read = encode(*as_batch(member, [s.sources[number] for s in sentences]), whole)
        mask = None if all(map(all, real)) else torch.tensor(real, device=device)
        member.model.decode(torch.tensor(padded, device=device), read, mask, record)
    return torch.cat(kept, 1)  # inside `feed` layers report position by position


def word_shares(
    loaded: Translator, line: str, translations: Sequence[Translation]
) -> list[Sequence[Sequence[float]] | None]:
    """For each translation of a line, a row for each of its words: how much of it comes from each word of the line, 1 in all.

    It is the attention of the pieces of a word, see `attend`, without the end symbol. None where no layer attends to the source.
    """
    if not any(attention_path(member) is not None for member in loaded.members):
        return [None for _ in translations]
    weights = attend(loaded, [line] * len(translations), [one.ids for one in translations], alone=True)
    return [_by_word(loaded, one, w[:, :-1]) for one, w in zip(translations, weights, strict=True)]


def _by_word(loaded: Translator, translation: Translation, weights: Float[Tensor, "T W"]) -> list[list[float]]:
    words = split(translation.text)
    owners = [k for k, word in enumerate(words) for _ in word]
    if not owners:
        return []
    shares = torch.full((len(words), weights.shape[1]), 1e-9)
    for t, row in enumerate(weights):
        letters = sum(map(len, split(loaded.target.decode(translation.ids[:t]))))
        shares[owners[min(letters, len(owners) - 1)]] += row
    found: list[list[float]] = (shares / shares.sum(1, keepdim=True)).tolist()
    return found


def align_lines(loaded: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[Links]:
    """One source word for each target word: the one with the most attention, shifted by `decode.align_offset`.

    Weights are summed over the pieces of both words; the end symbol is left out, as in Luong 2015, table 6. A target word has no
    link where the offset leads outside the line. Raises X802 and X803.
    """
    check_attends(loaded)
    whole = replace(loaded, decode=replace(loaded.decode, max_source_tokens=0))
    targets = loaded.given(sources, targets)
    weights = attend(whole, sources, loaded.target.encode(targets))
    return [_links(loaded, source, target, w) for source, target, w in zip(sources, targets, weights, strict=True)]


def _links(loaded: Translator, source: str, target: str, weights: Float[Tensor, "T W+1"]) -> Links:
    count = len(split(source))
    if not count or not len(weights):
        return frozenset()
    by_word = torch.zeros(len(split(target)), count)
    by_word.index_add_(0, torch.tensor(loaded.target.words(target)), weights[:, :count])
    best = (by_word.argmax(1) + loaded.decode.align_offset).tolist()
    return frozenset((s, t) for t, s in enumerate(best) if 0 <= s < count)
