"""Whether a translation depends on the other lines of its batch. If it does not, batches may have any number of lines."""

from dataclasses import dataclass, replace

import numpy as np

from calque.decode.encode import BUCKET
from calque.decode.prepare import rows_are_apart
from calque.decode.sentences import Sentence, Translator
from calque.decode.translate import translate_batch

FIXED = 8
"""Rows of every batch of a run whose rows do not keep apart."""
STEPS, EACH, SPECIAL = 2, 8, 3
"""The trial decodes so many words; batches have every size up to `EACH` and some larger ones.
Ids from `SPECIAL` on can stand in a source."""


@dataclass(frozen=True)
class ServedRun(Translator):
    """A run ready to serve. `rows`: how many every batch has; 0: those of `sizes`."""

    rows: int = FIXED
    shares: bool = False
    """whether a layer tells from which words of a line the words of its translation come"""


def rows_keep_apart(loaded: Translator, most: int) -> bool:
    """Whether a translation is the same, to the bit, in batches of all `sizes`.

    It can be so only where Calque's own kernels compute the products. What else the layers do is tried, with random lines of two
    lengths.
    """
    if not rows_are_apart(loaded.model):
        return False
    short = replace(loaded.decode, max_length_factor=0.0, max_length_offset=STEPS, sample=False)
    tried = replace(loaded, decode=short, scores=True)
    draw, begins = np.random.default_rng(1), tuple(loaded.target.encode([""])[0])
    for words in (BUCKET // 2, BUCKET + BUCKET // 2):
        words = min(words, short.max_source_tokens or words)
        first, *others = [Sentence((draw.integers(SPECIAL, loaded.source.size, words),), begins) for _ in range(most)]
        alone = translate_batch(tried, [first], short.beam, 1)[0]
        for rows in sizes(most)[1:]:
            each = translate_batch(tried, [first, *others[: rows - 2], first], short.beam, rows)
            if not each[0] == each[-1] == alone:
                return False
    return True


def sizes(most: int) -> list[int]:
    """The numbers of rows of batches of up to `most` lines: every one up to EACH, then each half as large again, and `most`."""
    rows = list(range(1, min(most, EACH) + 1))
    while rows[-1] < most:
        rows.append(min(most, rows[-1] * 3 // 2))
    return rows
