"""From which words of a line the words of its translation come, by attention."""

from collections.abc import Sequence

import torch

from calque.data.codecs import split
from calque.decode.attention import attend, attention_path
from calque.decode.sentences import Translation, Translator
from calque.serve.inline import Shares


def can_share(loaded: Translator) -> bool:
    """Whether a layer of the run attends to the source."""
    return attention_path(loaded) is not None


def shares_of(loaded: Translator, line: str, translations: Sequence[Translation]) -> list[Shares | None]:
    """For each translation of a line. The attention of its pieces, see `attend`, without the end symbol, as a mean over its words."""
    if not can_share(loaded):
        return [None for _ in translations]
    weights = attend(loaded, [line] * len(translations), [one.ids for one in translations], alone=True)
    return [_by_word(loaded, one, w[:, :-1]) for one, w in zip(translations, weights, strict=True)]


def _by_word(loaded: Translator, translation: Translation, weights: torch.Tensor) -> Shares:
    words = split(translation.text)
    owners = [k for k, word in enumerate(words) for _ in word]
    if not owners:
        return []
    shares = torch.zeros(len(words), weights.shape[1])
    for t, row in enumerate(weights):
        letters = sum(map(len, split(loaded.target.decode(translation.ids[:t]))))
        shares[owners[min(letters, len(owners) - 1)]] += row
    shares += 1e-9
    found: list[list[float]] = (shares / shares.sum(1, keepdim=True)).tolist()
    return found
