"""Entries of a vocabulary that are no words or pieces of the text."""

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""The first four of every vocabulary."""
LONGEST = 100
"""Characters of a symbol, at most."""
_JOINER = "@@"
"""Ends pieces of given merges that are not the last of their words."""


def can_be_symbol(word: str) -> bool:
    """Whether a word can be an entry that is never cut: without white space, and not to be confused with other entries."""
    blank = any(c.isspace() or c == "\u2581" for c in word)
    return 0 < len(word) <= LONGEST and not blank and not word.endswith(_JOINER) and word not in SPECIALS
