"""Entries of a vocabulary that are no words or pieces of the text."""

import re

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""The first four of every vocabulary."""
LONGEST = 100
"""Characters of a symbol, at most."""
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_JOINER = "@@"
"""Ends pieces of given merges that are not the last of their words."""


def can_be_symbol(word: str) -> bool:
    """Whether a word can be an entry that is never cut: without white space, and not to be confused with other entries."""
    blank = any(c.isspace() or c == "\u2581" for c in word)
    other = word.endswith(_JOINER) or word in SPECIALS or _BYTE.fullmatch(word)
    return 0 < len(word) <= LONGEST and not blank and not other
