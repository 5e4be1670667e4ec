"""The inputs of a measurement: a definition, and sentences."""

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.data.lines import Lines
from calque.data.vocabulary import EOS, PAD, SPECIALS, UNK
from calque.ground.diagnostics import Place, error
from calque.layers.registry import builtin

Sentences = list[NDArray[np.int64]]
MEDIAN, SPREAD, LONGEST = 13.0, 0.4, 60
"""Of synthetic lengths, end symbol left out: log-normal, rounded, between 1 and LONGEST. The mean is near 14 words."""


def definition(name: str) -> CheckedDefinition:
    """The checked tree of an .adl file, or of an architecture of the zoo. Raises what `zoo.find` and `check` raise."""
    return check(zoo.find(name), builtin())


def synthetic(count: int, vocabulary: int, seed: int = 1, length: int = 0) -> Sentences:
    """So many sentences of random words, with lengths from a log-normal distribution, or all of `length` words."""
    random = np.random.Generator(np.random.PCG64(seed))
    if length:
        return _random_words([length] * count, vocabulary, random)
    lengths = np.clip(np.rint(random.lognormal(np.log(MEDIAN), SPREAD, count)), 1, LONGEST).astype(int)
    return _random_words(lengths.tolist(), vocabulary, random)


def like_file(file: Path, count: int, vocabulary: int, seed: int = 1) -> Sentences:
    """Random words in sentences as long as the first `count` lines of a file, split at white space."""
    lengths = [max(1, len(line.split())) for line in first_lines(file, count)]
    return _random_words(lengths, vocabulary, np.random.Generator(np.random.PCG64(seed)))


def words_file(file: Path, count: int, vocabulary: int) -> Sentences:
    """The first `count` lines of a file, split at white space; words that are too rare for the vocabulary become <unk>."""
    lines = [line.split() for line in first_lines(file, count)]
    known = Counter(word for line in lines for word in line).most_common(vocabulary - len(SPECIALS))
    ids = {word: number for number, (word, _) in enumerate(known, len(SPECIALS))}
    return [np.array([*(ids.get(word, UNK) for word in line or [""]), EOS], np.int64) for line in lines]


def first_lines(file: Path, count: int) -> list[str]:
    """The first `count` lines of a text. Raises what `Lines` raises; D106 where there is none."""
    lines = list(itertools.islice(Lines(file), count))
    if not lines:
        raise error("D106", Place(str(file)))
    return lines


def _random_words(lengths: Sequence[int], vocabulary: int, random: np.random.Generator) -> Sentences:
    return [np.append(random.integers(len(SPECIALS), vocabulary, n), EOS).astype(np.int64) for n in lengths]


def cut(sentences: Sentences, size: int) -> list[Sentences]:
    """Batches of `size` sentences, the longest first."""
    order = sorted(sentences, key=len, reverse=True)
    return [order[i : i + size] for i in range(0, len(order), size)]


def batches_of(sentences: Sentences, size: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """`cut` as padded ids and masks."""
    return [_padded(part, device) for part in cut(sentences, size)]


def _padded(part: Sentences, device: torch.device) -> tuple[Tensor, Tensor]:
    lengths = np.array([len(s) for s in part])
    ids = np.full((len(part), lengths.max()), PAD)
    for row, sentence in zip(ids, part, strict=True):
        row[: len(sentence)] = sentence
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
