"""Links between the words of two sentences, their files, and how two directions become one alignment.

A link (s, t) joins source word s and target word t, both from 0. A Pharaoh file has a line for each pair of sentences, its links
as `s-t` between spaces.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from calque.data.lines import EXAMPLES, Lines
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

Links = frozenset[tuple[int, int]]
"""The links of one pair of sentences."""

_LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})", re.ASCII)


class Gold(NamedTuple):
    """What people linked: `sure` is a part of `possible`."""

    sure: Links
    possible: Links


def written(links: Iterable[tuple[int, int]]) -> str:
    """A line of a Pharaoh file, in the order of source words."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))


def read_links(path: Path) -> list[Links]:
    """A Pharaoh file. Raises D101, D103 or D105 (unreadable), and D701 for what is no link, the first few."""
    return [gold.sure for gold in _read(path, "-", 0)]


def read_gold(path: Path, first: int = 1) -> list[Gold]:
    """Links by hand, `s-t` sure and `spt` possible; words are numbered from `first`.

    Raises D101, D103 or D105 (unreadable), D701 for what is no link and D702 for a word below `first`, the first few.
    """
    return list(_read(path, "-p", first))


def _read(path: Path, kinds: str, first: int) -> Iterator[Gold]:
    faults: list[Diagnostic] = []
    for number, line in enumerate(Lines(path), 1):
        links: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
        for field in line.split():
            match = _LINK.fullmatch(field)
            if match is None or match[2] not in kinds:
                expected = "`s-t`" if kinds == "-" else "`s-t` or `spt`"
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
    """D704 where there are not as many lines as pairs of sentences, D703 where a link leaves its sentences."""
    if len(links) != len(lengths):
        where = Place(str(path), min(len(links), len(lengths)) + 1)
        raise error("D704", where, expected=len(lengths), found=len(links))
    for number, (some, (source, target)) in enumerate(zip(links, lengths, strict=True), 1):
        for s, t in sorted(some):
            if s >= source or t >= target:
                raise error("D703", Place(str(path), number), found=f"{s}-{t}", source=source, target=target)


def intersection(forward: Links, backward: Links) -> Links:
    """What both directions say."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """What either direction says."""
    return forward | backward


def grow_diag(forward: Links, backward: Links) -> Links:
    """The intersection, grown (Koehn, Och and Marcu 2003): while there is one, a link of the union joins that touches a link, at a
    side or a corner, and has a word that has no link yet. Links are visited by target word, then source word, those that joined on
    the way included.
    """
    every = forward | backward
    found = set(forward & backward)
    sources, targets = {s for s, _ in found}, {t for _, t in found}
    order = sorted(every, key=lambda link: link[::-1])
    grows = bool(every - found)
    while grows:
        grows = False
        for s, t in order:
            if (
                s,
                t,
            ) not in found:  # as it stands now: what joins during a pass is visited in it where it stands behind
                continue
            for ds, dt in _NEIGHBOURS:
                near = s + ds, t + dt
                if near in every and near not in found and (near[0] not in sources or near[1] not in targets):
                    found.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    grows = True
    return frozenset(found)


def grow_diag_final(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then the links of either direction, forward first, with a word that has no link yet."""
    return _final(forward, backward, lambda s, t: s or t)


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """`grow_diag`, then the links of either direction, forward first, both of whose words have no link yet."""
    return _final(forward, backward, lambda s, t: s and t)


def _final(forward: Links, backward: Links, wanted: Callable[[bool, bool], bool]) -> Links:
    found = set(grow_diag(forward, backward))
    sources, targets = {s for s, _ in found}, {t for _, t in found}
    for direction in (forward, backward):
        for s, t in sorted(direction, key=lambda link: link[::-1]):
            if wanted(s not in sources, t not in targets):
                found.add((s, t))
                sources.add(s)
                targets.add(t)
    return frozenset(found)


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
"""Ways to make one alignment of two: `forward` has one source word for each target word, `backward` one target word for each
source word.
"""
