"""The text normalisation of METEOR's option `-norm`: a tokeniser of the Moses family that splits hyphenated words and
drops the full stops of acronyms, then lower case.

It reproduces releases 1.4 and 1.5, which do the same: where a rule consumes its neighbours, so that the next match starts after
them, this one does too, since scores depend on it.
"""

import re
from collections.abc import Callable, Mapping
from itertools import zip_longest

NORMALISED = ("en", "cs", "fr", "es", "de", "ru")
"""The languages that the original can normalise."""
ANY, NUMBER = "any", "number"
"""The words before which a prefix keeps its full stop."""

_LETTER = "A-Za-zŠŽšžŸÀ-ÖØ-öø-ž\u0400-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
_WORD = "0-9" + _LETTER
_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")
_BREAK = re.compile("[ \t\n\r\f]+")
_DOTS = "\ue000"
"""Replaces each full stop in a run of several, which is one token and is never split."""

_BEFORE: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"([^{_WORD} \t\n\x0b\f\r.'`,\-‘’])"), r" \1 "),
    (re.compile(r"\.{2,}"), lambda found: f" {_DOTS * len(found[0])} "),
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile(r"[`‘’]"), "'"),
    (re.compile(r"[“”]|''"), ' " '),
    (re.compile("–"), "-"),
    (re.compile("--"), "-"),
    (re.compile(rf"([{_WORD}.])-([{_WORD}])"), r"\1 \2"),
]
# English splits contractions before the apostrophe, French after it, all others on both sides.
_APOSTROPHES = {
    "en": [
        (re.compile(rf"([^{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([^{_WORD}])'([{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([{_LETTER}])'([{_LETTER}])"), r"\1 '\2"),
        (re.compile("([0-9])'(s)"), r"\1 '\2"),
    ],
    "fr": [
        (re.compile(rf"([^{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([^{_LETTER}])'([{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([{_LETTER}])'([^{_LETTER}])"), r"\1 ' \2"),
        (re.compile(rf"([{_LETTER}])'([{_LETTER}])"), r"\1' \2"),
    ],
}
_APOSTROPHE = [(re.compile("'"), " ' ")]


def words(line: str) -> list[str]:
    """The tokens of a line as METEOR takes them: what stands between ASCII white space."""
    return [word for word in _BREAK.split(line) if word]


def normalise(line: str, language: str, prefixes: Mapping[str, str]) -> str:
    """A line after METEOR's normalisation `-norm`, in lower case.

    `prefixes`: words that keep their full stop (`ANY`), or keep it before a number (`NUMBER`). Every word before one that begins
    with a small letter keeps it too; an acronym loses its stops ("U.S." becomes "US").
    """
    text = f" {line} "
    for pattern, with_what in [*_BEFORE, *_APOSTROPHES.get(language, _APOSTROPHE)]:
        text = pattern.sub(with_what, text)
    tokens = words(text)
    text = " ".join(_full_stop(*pair, prefixes) for pair in zip_longest(tokens, tokens[1:], fillvalue=""))
    text = text.replace(_DOTS, ".")
    return _SPACES.sub(" ", text).strip(" ").lower()


def _full_stop(token: str, after: str, prefixes: Mapping[str, str]) -> str:
    if len(token) == 1 or not token.endswith("."):
        return token
    stem = token[:-1]
    if "." in stem and re.search(f"[{_LETTER}]", stem):
        return token.replace(".", "")
    kind = prefixes.get(stem)
    if kind == ANY or re.match("[a-z]", after) or (kind == NUMBER and re.match("[0-9]", after)):
        return token
    return f"{stem} ."
