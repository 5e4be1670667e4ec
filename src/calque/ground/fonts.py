"""Fonts of pictures: beside that of the style, those installed here that have the other characters of a text."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from calque.ground.diagnostics import Diagnostic, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_reported: set[int] = set()
"""Characters that no font has, of which the user has been told."""


def set_fonts(figure: "Figure") -> None:
    """Gives the texts of a figure the fonts that their characters need."""
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    if needed := _beyond("".join(text.get_text() for text in texts)):
        for text in texts:
            text.set_fontfamily([*text.get_fontfamily(), *fallbacks(needed)])


def families(text: str) -> list[str] | None:
    """The families of a text, first that of the style; None where that has all characters."""
    import matplotlib as mpl

    needed = _beyond(text)
    return [*mpl.rcParams["font.family"], *fallbacks(needed)] if needed else None


@contextmanager
def boxes() -> Iterator[None]:
    """matplotlib draws a box for a character that no font has, and does not warn of each: X302 has told of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _beyond(text: str) -> frozenset[int]:
    """The characters that the font of the style lacks."""
    from matplotlib.font_manager import FontProperties, findfont

    return frozenset(map(ord, text)) - _characters(findfont(FontProperties())) - {ord("\n")}


@lru_cache
def fallbacks(needed: frozenset[int]) -> list[str]:
    """Names of installed fonts that together have these characters; X302 reports those that none has, each once."""
    names: list[str] = []
    for name, file in _installed():
        if has := needed & _characters(file):
            names.append(name)
            needed -= has
    if needed := needed - _reported:
        _reported.update(needed)
        more = f" and {len(needed) - 1:,} more" if len(needed) > 1 else ""
        given = {"characters": f"`{chr(min(needed))}`{more}"}
        print(render(Diagnostic("X302", None, given, severity="warning")), file=sys.stderr, flush=True)
    return names


@lru_cache(1)
def _installed() -> list[tuple[str, str]]:
    """Names and files of upright fonts of normal weight, those without serifs and those of most characters first."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    for file in {*findSystemFonts()} - {entry.fname for entry in fontManager.ttflist}:
        try:  # matplotlib keeps its list of fonts, and does not see those that were installed later
            fontManager.addfont(file)
        except (OSError, RuntimeError):
            continue
    plain = {
        (entry.name, entry.fname)
        for entry in fontManager.ttflist
        if entry.style == "normal"
        and str(entry.weight) in ("400", "normal", "regular")
        and not entry.name.startswith("Last Resort")  # which shows the script of a character, not the character
    }
    return sorted(plain, key=lambda font: ("Serif" in font[0], -len(_characters(font[1])), font))


@lru_cache(None)
def _characters(file: str) -> frozenset[int]:
    """The characters that a font can draw; none for one that cannot be read, or that has only pictures of fixed sizes."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(file)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (OSError, RuntimeError):
        return frozenset()
