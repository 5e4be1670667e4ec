"""Sentences of a few words, and the words of a command line of `calque reproduce`."""

import random
from collections.abc import Sequence

from calque.papers.request import COMMANDS

WORDS = {"a": "ein", "dog": "hund", "cat": "katze", "runs": "rennt", "sleeps": "schläft", "the": "der", "red": "rote"}


def sentences(count: int, seed: int) -> tuple[str, str]:
    rng = random.Random(seed)
    lines = [[rng.choice(list(WORDS)) for _ in range(rng.randint(2, 6))] for _ in range(count)]
    source = "".join(" ".join(line) + "\n" for line in lines)
    return source, "".join(" ".join(WORDS[w] for w in line) + "\n" for line in lines)


def words(spec: Sequence[str], arguments: Sequence[object], verb: str = "train") -> list[str]:
    """The words of `calque reproduce`; `arguments` begin with the command, else it is `verb`."""
    verb, *rest = arguments if arguments and arguments[0] in COMMANDS else (verb, *arguments)
    return ["reproduce", *(str(word) for word in (verb, *spec, *rest))]
