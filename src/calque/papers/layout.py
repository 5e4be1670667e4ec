"""Names of folders and files below an output folder of `calque reproduce`, and the type of a function that reports progress."""

from collections.abc import Callable

Tell = Callable[[str], None]
"""Reports one line of progress."""
CELLS, RUNS, HYPOTHESES, FAILURES, LOCKS, DATA = "cells", "runs", "hypotheses", "failures", "locks", "data"
REPLACED, DETOKENISED = "replaced", "detokenised"
"""Beside `hypotheses`: the same with unknown words replaced, and as plain text."""
REFERENCE, PLAIN_REFERENCE = "reference.txt", "reference-plain.txt"
DICTIONARY, LEXICON = "dictionary.txt", "lexicon.txt"
"""Lexical tables of the training text: of words, and of the entries of the vocabularies."""
SPEED = "speed"
"""Entries of timings."""
