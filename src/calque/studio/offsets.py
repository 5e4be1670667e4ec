"""Places in a text as a page counts them: browsers count UTF-16 units, Python counts characters."""

import re
from itertools import accumulate

from calque.ground.diagnostics import Span, Text

_LONE = re.compile("[\ud800-\udfff]")
_LAST_OF_ONE_UNIT = "\uffff"


def without_lone_surrogates(text: str) -> str:
    """A text that UTF-8 can hold: halves of a character, each one UTF-16 unit, become U+FFFD, which is one too."""
    return _LONE.sub("\ufffd", text)


class Offsets:
    """Character offsets of a text as offsets in UTF-16 units."""

    def __init__(self, text: Text):
        self.text = text
        wide = any(c > _LAST_OF_ONE_UNIT for c in text.body)
        self._before = [0, *accumulate(1 + (c > _LAST_OF_ONE_UNIT) for c in text.body)] if wide else None

    def at(self, offset: int) -> int:
        """The UTF-16 offset of a character offset."""
        return offset if self._before is None else self._before[min(offset, len(self._before) - 1)]

    def place(self, span: object) -> dict[str, int] | None:
        """A span of this text as `from` and `to`; None for a place elsewhere."""
        if not isinstance(span, Span) or span.text.body != self.text.body or span.text.name != self.text.name:
            return None
        return {"from": self.at(span.start), "to": self.at(span.end)}
