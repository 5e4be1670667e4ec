"""Links between the words of two sentences, their files, and the symmetrisation of two directions.

A link (s, t) joins source word s and target word t, both counted from 0. A Pharaoh file has a line for each pair of sentences,
with its links as `s-t`, separated by spaces.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.data.lines import EXAMPLES, Lines
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

Links = frozenset[tuple[int, int]]
"""The links of one pair of sentences."""

DIGITS = 9
"""Of the number of a word, at most."""
_LINK = re.compile(rf"(\d{{1,{DIGITS}}})([-p])(\d{{1,{DIGITS}}})", re.ASCII)
_LONG = re.compile(r"\d+[-p]\d+", re.ASCII)


class Gold(NamedTuple):
    """Links by hand: `sure` is a subset of `possible`."""

    sure: Links
    possible: Links


def written(links: Iterable[tuple[int, int]]) -> str:
    """Links as a line of a Pharaoh file, in the order of source words."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))


Read = Callable[[Path], Iterable[str]]
"""Gives the lines of a file."""


def read_links(path: Path, read: Read = Lines) -> list[Links]:
    """Reads a Pharaoh file. Raises D101, D103 or D105 (unreadable), and D701 for fields that are no link, the first few."""
    return [gold.sure for gold in _read(path, "-", 0, read)]


def read_gold(path: Path, first: int = 1, read: Read = Lines) -> list[Gold]:
    """Reads links by hand, `s-t` sure and `spt` possible; words are numbered from `first`.

    Raises D101, D103 or D105 (unreadable), D701 for fields that are no link and D702 for a word below `first`, the first few.
    """
    return list(_read(path, "-p", first, read))


def _read(path: Path, kinds: str, first: int, read: Read) -> Iterator[Gold]:
    faults: list[Diagnostic] = []
    for number, line in enumerate(read(path), 1):
        links: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
        for field in line.split():
            match = _LINK.fullmatch(field)
            if match is None or match[2] not in kinds:
                expected = "`s-t`" if kinds == "-" else "`s-t` or `spt`"
                expected += f" with numbers of at most {DIGITS} digits" * (_LONG.fullmatch(field) is not None)
                faults.append(Diagnostic("D701", Place(str(path), number), {"expected": expected, "found": field}))
                continue
            s, t = int(match[1]) - first, int(match[3]) - first
            if min(s, t) < 0:
                faults.append(Diagnostic("D702", Place(str(path), number), {"first": first, "found": field}))
                continue
            links[match[2]].add((s, t))
        if len(faults) >= EXAMPLES:
            break
        yield Gold(frozenset(links["-"]), frozenset(links["-"] | links["p"]))
    if faults:
        raise CalqueError(faults[:EXAMPLES])


def check_inside(path: Path, links: Sequence[Links], lengths: Sequence[tuple[int, int]]) -> None:
    """Raises D704 where the numbers of lines and of pairs differ, D703 where a link points outside its sentences."""
    if len(links) != len(lengths):
        where = Place(str(path), min(len(links), len(lengths)) + 1)
        raise error("D704", where, others="pairs of sentences", expected=len(lengths), found=len(links))
    for number, (some, (source, target)) in enumerate(zip(links, lengths, strict=True), 1):
        for s, t in sorted(some):
            if s >= source or t >= target:
                raise error("D703", Place(str(path), number), found=f"{s}-{t}", source=source, target=target)


def intersection(forward: Links, backward: Links) -> Links:
    """The links of both directions."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """The links of either direction."""
    return forward | backward


class _Growing:
    """A set of links that grows, and the words that it links."""

    def __init__(self, links: Links):
        self.links = set(links)
        self.sources, self.targets = {s for s, _ in links}, {t for _, t in links}

    def add(self, s: int, t: int) -> None:
        """Adds a link."""
        self.links.add((s, t))
        self.sources.add(s)
        self.targets.add(t)


def grow_diag(forward: Links, backward: Links) -> Links:
    """The intersection, grown (Koehn, Och and Marcu 2003).

    A link of the union joins where it touches a link, at a side or a corner, and one of its words has no link yet; until none
    joins. Links are visited by target word, then source word, including those that joined earlier in the same pass.
    """
    union, grown = forward | backward, _Growing(forward & backward)
    # One visit of a link is enough: words never lose their links, so that whoever cannot join then cannot join later.
    later = [(t, s) for s, t in grown.links]
    while later:
        heapq.heapify(later)
        now, later = later, []
        while now:
            t, s = heapq.heappop(now)
            for near in ((s + ds, t + dt) for ds, dt in _NEIGHBOURS):
                joins = near in union and (near[0] not in grown.sources or near[1] not in grown.targets)
                if joins and near not in grown.links:
                    grown.add(*near)
                    heapq.heappush(now if near[::-1] > (t, s) else later, near[::-1])
    return frozenset(grown.links)


def grow_diag_final(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then the links of either direction, forward first, with a word that has no link yet."""
    return _final(forward, backward, lambda s, t: s or t)


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then the links of either direction, forward first, both of whose words have no link yet."""
    return _final(forward, backward, lambda s, t: s and t)


def _final(forward: Links, backward: Links, joins: Callable[[bool, bool], bool]) -> Links:
    """`joins`: whether a link joins, from whether its source word and its target word have no link yet."""
    grown = _Growing(grow_diag(forward, backward))
    for direction in (forward, backward):
        for s, t in sorted(direction, key=_by_target):
            if joins(s not in grown.sources, t not in grown.targets):
                grown.add(s, t)
    return frozenset(grown.links)


def _by_target(link: tuple[int, int]) -> tuple[int, int]:
    return link[::-1]


# As in the published description: sides first, then corners.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

SYMMETRISE: dict[str, Callable[[Links, Links], Links]] = {
    "forward": lambda forward, _: forward,
    "backward": lambda _, backward: backward,
    "intersection": intersection,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
}
"""Ways to make one alignment from two: `forward` has one source word for each target word, `backward` one target word for each
source word.
"""
