"""METEOR's word alignment: which word of the hypothesis matches which of the reference."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

BEAM = 40
EXACT, STEM = 0, 1


class Match(NamedTuple):
    """A word of the hypothesis, one of the reference, and the module that found them alike."""

    hypothesis: int
    reference: int
    module: int


class _Path(NamedTuple):
    """A partial alignment; the first three are what paths are ordered by, least first."""

    exact: int
    """Less the number of exact matches."""
    chunks: int
    distance: int
    end: int
    """The hypothesis position that would go on the open chunk, or -1."""
    used: int
    """Bits: words of the hypothesis that are taken."""
    matches: tuple[object, ...]
    """The last match and those before it, as a linked list."""


_ORDER = itemgetter(0, 1, 2)


def align(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] | None = None
) -> tuple[list[Match], int]:
    """The matches of two sentences, in the order of the reference, and the number of chunks they form.

    A word matches an equal word and, where `stem` is given, a different word of the same stem. Each word is in one match at
    most. Denkowski and Lavie (2011, section 2.1) ask for the most words covered, then the fewest chunks (runs that are
    adjacent and in order on both sides), then the least sum of |i - j|; a beam search from left to right over the
    reference, 40 wide, looks for it.

    The releases 1.4 and 1.5 do this with three peculiarities, all of which move scores and all of which are kept: matches
    that share no word with another are fixed before the search; the first criterion counts exact matches alone, so a stem
    match that competes with others is made only where it joins chunks; and the distance of a chosen match is charged to
    the path that did not choose it.
    """
    if list(hypothesis) == list(reference):
        stem = None  # equal sentences: the search is spared all doubt
    options = _options(hypothesis, reference, stem)
    degree = [0] * len(hypothesis)
    for found in options:
        for match in found:
            degree[match.hypothesis] += 1
    fixed = [found[0] if len(found) == 1 and degree[found[0].hypothesis] == 1 else None for found in options]
    used = sum(1 << match.hypothesis for match in fixed if match)
    paths = [_Path(0, 0, 0, -1, used, ())]
    for here, found in enumerate(options):
        paths.sort(key=_ORDER)
        following: list[_Path] = []
        for path in paths[:BEAM]:
            if (sure := fixed[here]) is not None:
                following.append(_take(path, sure, path.distance + abs(here - sure.hypothesis)))
                continue
            distance = path.distance
            for match in found:
                if not path.used >> match.hypothesis & 1:
                    following.append(_take(path, match, distance))
                    distance += abs(here - match.hypothesis)
            following.append(path._replace(chunks=path.chunks + (path.end >= 0), end=-1, distance=distance))
        paths = following
    paths.sort(key=_ORDER)
    closed = [path._replace(chunks=path.chunks + (path.end >= 0)) for path in paths[:BEAM]]
    best = min(closed, key=_ORDER)
    matches: list[Match] = []
    link: tuple[object, ...] = best.matches
    while link:
        matches.append(link[0])  # type: ignore[arg-type]  # a match, then the links before it
        link = link[1]  # type: ignore[assignment]  # as above
    return matches[::-1], best.chunks


def _options(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] | None
) -> list[list[Match]]:
    """For each word of the reference its matches: the exact ones first, each kind from left to right."""
    found = [[Match(i, j, EXACT) for i, w in enumerate(hypothesis) if w == v] for j, v in enumerate(reference)]
    if stem is not None:
        ours, theirs = [stem(w) for w in hypothesis], [stem(v) for v in reference]
        for j, v in enumerate(reference):
            found[j] += [Match(i, j, STEM) for i, w in enumerate(hypothesis) if w != v and ours[i] == theirs[j]]
    return found


def _take(path: _Path, match: Match, distance: int) -> _Path:
    broken = path.end >= 0 and path.end != match.hypothesis
    return _Path(
        path.exact - (match.module == EXACT),
        path.chunks + broken,
        distance,
        match.hypothesis + 1,
        path.used | 1 << match.hypothesis,
        (match, path.matches),
    )
