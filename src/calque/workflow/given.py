"""What callers in Python give: sentences, pairs, prefixes and phrases, read and checked."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from calque.data.repair import Repairs
from calque.decode.terms import Phrases
from calque.decode.translate import Prefix
from calque.ground.diagnostics import Diagnostic, Place, render


def given_sentences(texts: Iterable[str], name: str) -> list[str]:
    """Sentences as the command line would read them. Raises TypeError where one is not a string."""
    listed = list(texts)
    for number, text in enumerate(listed, 1):
        if not isinstance(text, str):
            raise TypeError(f"expected a string, found {type(text).__name__} as number {number} of {name}")
    repairs = Repairs(warn_caller)
    read = repairs.sentences(listed, name)
    repairs.end()
    return read


def is_pair(given: object) -> bool:
    """Whether this is one pair of strings."""
    return isinstance(given, tuple) and len(given) == 2 and all(isinstance(side, str) for side in given)


def given_pairs(pairs: Iterable[object]) -> tuple[list[str], list[str]]:
    """The sentences of both sides. Raises TypeError where an element is no pair of strings."""
    sources, targets = [], []
    for number, pair in enumerate(pairs, 1):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            # A string of two characters has the length of a pair.
            raise TypeError(f"expected pairs of source and target, found {pair!r} as number {number}")
        sources.append(pair[0])
        targets.append(pair[1])
    return given_sentences(sources, "sources"), given_sentences(targets, "targets")


def for_each(given: object, one: bool, name: str, sentences: Sequence[str], nothing: Any) -> list[Any]:
    """What is given for each sentence, or nothing for all. Raises ValueError where it is not for as many as there are."""
    if given is None:
        return [nothing for _ in sentences]
    every = [given] if one else list(cast("Iterable[object]", given))
    if len(every) != len(sentences):
        raise ValueError(f"expected as many {name} as sentences: {len(every)} and {len(sentences)}")
    return every


def given_phrases(phrases: object) -> Phrases:
    """Phrases, each with its forms. Raises TypeError for what is no list of texts or of their forms, ValueError for no text."""
    if isinstance(phrases, str) or not isinstance(phrases, Iterable):
        raise TypeError(f"expected a list of phrases, found {phrases!r}")
    each = [[forms] if isinstance(forms, str) else forms for forms in phrases]
    for forms in each:
        if not isinstance(forms, Iterable):
            raise TypeError(f"expected a phrase or a list of its forms, found {forms!r}")
    read = [[text.strip() for text in given_sentences(forms, "forms")] for forms in each]
    if not all(forms and all(forms) for forms in read):
        raise ValueError(f"expected phrases with a word each, found {phrases!r}")
    return read


def given_prefix(prefix: Prefix, words: int) -> Prefix:
    """A prefix as text or as ids below `words`. Raises TypeError for anything else, ValueError for other ids."""
    if isinstance(prefix, str):
        return given_sentences([prefix], "prefixes")[0]
    prefix = list(prefix) if isinstance(prefix, Iterable) else prefix
    if not isinstance(prefix, list) or not all(map(_is_id, prefix)):
        raise TypeError(f"expected a prefix as text or as ids, found {prefix!r}")
    if not all(0 <= int(word) < words for word in prefix):
        raise ValueError(f"expected ids from 0 to {words - 1}, found {prefix!r}")
    return prefix


def _is_id(word: object) -> bool:
    return isinstance(word, int | np.integer) and not isinstance(word, bool)


def warn_caller(warning: Diagnostic) -> None:
    """A warning of Python; its place is one of the lines that were given, where a command names standard input."""
    if isinstance(warning.where, Place) and warning.where.file == "stdin":
        warning = replace(warning, where=Place("lines", warning.where.line))
    warnings.warn(render(warning), stacklevel=4)


def given_memory(memory: object) -> tuple[Path, Path] | None:
    """The files of a translation memory. Raises TypeError for anything but two paths."""
    if memory is None:
        return None
    files = list(memory) if isinstance(memory, list | tuple) else []
    if len(files) != 2 or not all(isinstance(file, str | Path) for file in files):
        raise TypeError(f"expected two files as a translation memory, sources and their translations, found {memory!r}")
    return Path(files[0]), Path(files[1])
