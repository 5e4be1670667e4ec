"""The contents of a paragraph of XML: texts of one format each, and the elements around and between them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calque.workflow.document.coded import Coded

_RANGE = re.compile(
    r"<([\w:]+?)-?(Start|End|start|end)\b[^<>]*?\s(?:\w+:)?(?:id|name|change-id)\s*=\s*[\"']([^\"']*)[\"']"
)


@dataclass(frozen=True)
class Text:
    """Text of one format, escaped."""

    text: str
    format: str = ""


@dataclass(frozen=True)
class Point:
    """What stands between words, or where it `divides`, between texts."""

    markup: str | Coded
    divides: bool = False


@dataclass(frozen=True)
class Around:
    """What stands around some of the rest; or a format, which nothing but its own texts stands around."""

    before: str
    behind: str
    items: "tuple[Item, ...]"
    format: str | None = None
    counts: bool = False
    """whether its words are words of the paragraph like others"""

    @property
    def text(self) -> str:
        """The texts directly inside it."""
        return "".join(one.text for one in self.items if isinstance(one, Text))


Item = Text | Point | Around


def ranges(items: Sequence[Item]) -> list[Item]:
    """Items, in which the two marks of a range, such as a bookmark, stand around what is between them."""
    found: list[Item] = []
    begun: dict[tuple[str, str], int] = {}
    for item in items:
        kind, name = _range_of(item)
        first = begun.pop(name, None) if kind == "end" else None
        start = None if first is None else found[first]
        if first is not None and isinstance(start, Point) and isinstance(item, Point) and found[first + 1 :]:
            found[first:] = [Around(str(start.markup), str(item.markup), tuple(found[first + 1 :]), counts=True)]
            begun = {other: at for other, at in begun.items() if at < first}
            continue
        if kind == "start":
            begun[name] = len(found)
        found.append(item)
    return found


def _range_of(item: Item) -> tuple[str, tuple[str, str]]:
    """Whether an item begins a range or ends one, and which."""
    mark = _RANGE.match(item.markup) if isinstance(item, Point) and isinstance(item.markup, str) else None
    return (mark[2].lower(), (mark[1], mark[3])) if mark else ("", ("", ""))


def together(items: Sequence[Item], usual: str) -> Iterator[Item]:
    """Items, in which texts of one format other than the usual one are together, with the points between them."""
    k = 0
    while k < len(items):
        item, end = items[k], k + 1
        if not isinstance(item, Text) or item.format == usual:
            yield item
            k += 1
            continue
        for j in range(k + 1, len(items)):
            one = items[j]
            if isinstance(one, Around) or (isinstance(one, Point) and one.divides):
                break
            if isinstance(one, Text):
                if one.format != item.format:
                    break
                end = j + 1
        yield Around("", "", tuple(items[k:end]), item.format)
        k = end


def usual_format(items: Sequence[Item], default: str = "") -> str:
    """The format of most characters; never a link, which is a format in PowerPoint."""
    counts = _counted(items)
    return max(counts, key=counts.__getitem__, default=default)


def _counted(items: Sequence[Item]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Text) and item.text.strip() and "hlinkClick" not in item.format:
            counts[item.format] += len(item.text)
        elif isinstance(item, Around) and item.counts:
            counts += _counted(item.items)
    return counts


def joined(items: Sequence[Item]) -> tuple[Item, ...]:
    """Items, of which texts of one format that follow one another are one."""
    joined: list[Item] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, Text) and isinstance(last, Text) and item.format == last.format:
            joined[-1] = Text(last.text + item.text, last.format)
        else:
            joined.append(item)
    return tuple(joined)
