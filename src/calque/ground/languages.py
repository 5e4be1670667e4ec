"""Languages: their names, and pairs of them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from calque.ground.diagnostics import error

_CODE = r"[A-Za-z]{2,3}(?:[_-](?:[A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*"
_WRITTEN = re.compile(rf"({_CODE})(?::|-)({_CODE})(?:=(\S+))?")


class LanguagePair(NamedTuple):
    """The codes of the languages that a run translates from and into."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


def written_pair(text: str) -> LanguagePair:
    """The pair that an option names: `en-de`, or `pt-BR:en` where a code has a hyphen, `=` and a tag behind or not. Raises K423."""
    found = _WRITTEN.fullmatch(text)
    if found is None or found[1] == found[2]:
        raise error("K423", None, found=text)
    return LanguagePair(found[1], found[2])


def written_tag(text: str) -> str:
    """The symbol behind the pair that an option names; empty where there is none."""
    return text.partition("=")[2]


def languages(pairs: Mapping[LanguagePair, object]) -> list[dict[str, object]]:
    """Every language that is read or written, with the languages it is translated into: as LibreTranslate has them."""
    codes = sorted({code for pair in pairs for code in pair})
    return [
        {
            "code": code,
            "name": language_name(code),
            "targets": sorted(pair.target for pair in pairs if pair.source == code),
        }
        for code in codes
    ]


def language_name(code: str) -> str:
    """The English name of a language, where the package babel is installed and knows it; else its code."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        return code
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code
