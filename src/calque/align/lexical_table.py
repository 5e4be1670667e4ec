"""The lexical table: p(target word | source word), counted over links.

A table is a text with a line for each pair: source token, target token, probability in (0, 1], separated by spaces or tabs. It
gives `translate --select` the words to choose from, and `translate --dictionary` the translations of unknown words.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from calque.align.links import Links
from calque.data.codecs import split
from calque.data.lines import EXAMPLES, Lines
from calque.data.vocabulary import SPECIALS
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error

Table = dict[tuple[str, str], float]
"""Probability by source and target token."""
Check = Callable[[str, str, Place], None]
"""Raises the error of a pair that has one."""


def count_links(
    sources: Iterable[Sequence[str]], targets: Iterable[Sequence[str]], links: Iterable[Links], minimum: int = 1
) -> Table:
    """p(t | s) = links of s with t / links of s (Gehring 2017, section 4.4), of pairs linked at least `minimum` times.

    Luong's dictionary (2015, section 4) has the minimum 10 and only words of both vocabularies.
    """
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for source, target, some in zip(sources, targets, links, strict=True):
        for s, t in some:
            counts[source[s], target[t]] += 1
            totals[source[s]] += 1
    return {(s, t): n / totals[s] for (s, t), n in counts.items() if n >= minimum}


def rows(table: Table) -> Iterator[str]:
    """The lines of a table, by source token, the most probable target tokens first."""
    for (source, target), p in sorted(table.items(), key=lambda row: (row[0][0], -row[1], row[0][1])):
        yield f"{source}\t{target}\t{p:.6g}"


def read_table(path: Path, check: Check | None = None) -> Table:
    """Reads a table.

    Raises D101, D103 or D105 (unreadable), and for each wrong line D601 (not three fields), D602 (no probability), D604 (a repeated
    pair) or what `check` raises: the first few, and the number of the others.
    """
    table: Table = {}
    faults: list[Diagnostic] = []
    bad = 0
    for number, line in enumerate(Lines(path), 1):
        place = Place(str(path), number)
        try:
            source, target, probability = _row(line, place)
            if check is not None:
                check(source, target, place)
            if (source, target) in table:
                raise error("D604", place, source=source, target=target)
            table[source, target] = probability
        except CalqueError as fault:
            bad += 1
            if bad <= EXAMPLES:
                faults += fault.diagnostics
    if bad > EXAMPLES:
        faults.append(Diagnostic("D110", Place(str(path)), {"more": bad - EXAMPLES, "of": "D601 to D604"}))
    if faults:
        raise CalqueError(faults)
    return table


def best_of(table: Table) -> dict[str, str]:
    """The most probable target word of each source word; of equals the first by code points; never a special symbol."""
    ranked: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (source, target), probability in table.items():
        if target not in SPECIALS:
            ranked[source].append((-probability, target))
    return {source: min(targets)[1] for source, targets in ranked.items()}


def _row(line: str, place: Place) -> tuple[str, str, float]:
    fields = split(line)
    if len(fields) != 3:
        raise error("D601", place, found=len(fields))
    try:
        probability = float(fields[2])
    except ValueError:
        probability = 0.0
    if not 0 < probability <= 1:  # false for nan too
        raise error("D602", place, found=fields[2])
    return fields[0], fields[1], probability
