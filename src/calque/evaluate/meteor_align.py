"""METEOR's word alignment: which word of the hypothesis matches which of the reference."""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

BEAM = 40
EXACT, STEM = 0, 1


class Match(NamedTuple):
    """A word of the hypothesis, a word of the reference, and the module that matched them."""

    hypothesis: int
    reference: int
    module: int


class _Path(NamedTuple):
    """A partial alignment. Paths are ordered by the first three fields, least first."""

    exact: int
    """The number of exact matches, negated."""
    chunks: int
    distance: int
    end: int
    """The hypothesis position that continues the open chunk, or -1."""
    used: int
    """Bits: words of the hypothesis that have a match."""
    matches: tuple[Match, ...]


_ORDER = itemgetter(0, 1, 2)


def align(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] | None = None
) -> tuple[list[Match], int]:
    """The matches of two sentences, in the order of the reference, and the number of chunks they form.

    A word matches an equal word and, where `stem` is given, a different word of the same stem. Each word is in one match at
    most. Denkowski and Lavie (2011, section 2.1) maximise the words covered, then minimise the chunks (runs that are
    adjacent and in order on both sides), then the sum of |i - j|. A beam search of width 40 goes through the
    reference from left to right.

    The releases 1.4 and 1.5 differ from the paper in three ways. All three change scores, so all are kept: matches
    that share no word with another are fixed before the search; the first criterion counts exact matches alone, so a stem
    match that competes with others is made only where it joins chunks; and the distance of a chosen match is charged to
    the path that did not choose it.
    """
    if list(hypothesis) == list(reference):
        stem = None  # equal sentences: exact matches suffice
    options = _options(hypothesis, reference, stem)
    degree = [0] * len(hypothesis)
    for here in options:
        for match in here:
            degree[match.hypothesis] += 1
    fixed = [here[0] if len(here) == 1 and degree[here[0].hypothesis] == 1 else None for here in options]
    paths = [_Path(0, 0, 0, -1, sum(1 << match.hypothesis for match in fixed if match), ())]
    for word, (here, sure) in enumerate(zip(options, fixed, strict=True)):
        paths.sort(key=_ORDER)
        paths = [longer for path in paths[:BEAM] for longer in _continued(path, word, here, sure)]
    paths.sort(key=_ORDER)
    best = min((_closed(path, path.distance) for path in paths[:BEAM]), key=_ORDER)
    return list(best.matches), best.chunks


def _continued(path: _Path, word: int, options: Sequence[Match], sure: Match | None) -> Iterator[_Path]:
    """The paths that a word of the reference makes of one: with each free match, and without any; `sure` is the only way."""
    if sure is not None:
        yield _take(path, sure, path.distance + abs(word - sure.hypothesis))
        return
    distance = path.distance
    for match in options:
        if not path.used >> match.hypothesis & 1:
            yield _take(path, match, distance)
            distance += abs(word - match.hypothesis)
    yield _closed(path, distance)


def _closed(path: _Path, distance: int) -> _Path:
    """The path with its open chunk, if it has one, at an end."""
    return path._replace(chunks=path.chunks + (path.end >= 0), end=-1, distance=distance)


def _options(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] | None
) -> list[list[Match]]:
    """For each word of the reference its matches: the exact ones first, each kind from left to right."""
    options = [[Match(i, j, EXACT) for i, w in enumerate(hypothesis) if w == v] for j, v in enumerate(reference)]
    if stem is not None:
        ours, theirs = [stem(w) for w in hypothesis], [stem(v) for v in reference]
        for j, v in enumerate(reference):
            options[j] += [Match(i, j, STEM) for i, w in enumerate(hypothesis) if w != v and ours[i] == theirs[j]]
    return options


def _take(path: _Path, match: Match, distance: int) -> _Path:
    broken = path.end >= 0 and path.end != match.hypothesis
    return _Path(
        path.exact - (match.module == EXACT),
        path.chunks + broken,
        distance,
        match.hypothesis + 1,
        path.used | 1 << match.hypothesis,
        (*path.matches, match),
    )
