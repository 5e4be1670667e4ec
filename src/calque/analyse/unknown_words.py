"""Unknown words: how many each run writes, and what replaces them (Luong 2015, section 4; Gehring 2017, section 4.4)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calque.analyse.canvas import Panels, fills_of
from calque.analyse.drawn import DrawnFigure, Table
from calque.analyse.runs import spread_over
from calque.data.codecs import split
from calque.data.vocabulary import EOS, PAD
from calque.decode.sentences import Translation, Translator
from calque.decode.unknown import COPY, DICTIONARY, LEFT, replaced, replacements

HOW = (DICTIONARY, COPY, LEFT)
EXAMPLES = 8
"""Of each run, spread over the text."""


@dataclass(frozen=True)
class UnknownWord:
    """One unknown word that a run wrote: what it is aligned with, what it becomes, and whether the reference has that word."""

    line: int
    source: str | None
    how: str
    word: str | None
    right: bool
    translation: str


def unknown_words(
    loaded: Translator, sources: Sequence[str], references: Sequence[str], translations: Sequence[Translation]
) -> list[UnknownWord]:
    """The unknown words of a run's translations, in the order of the text, lines from 1."""
    each = [[one] for one in translations]
    changes = replacements(loaded, sources, each)
    texts = [one.text for (one,) in replaced(loaded, each, changes)]
    return [
        UnknownWord(
            r.line + 1,
            r.source,
            r.how(loaded),
            r.word,
            r.word is not None and r.word in split(references[r.line]),
            texts[r.line],
        )
        for r in changes
    ]


def table(runs: Mapping[str, tuple[Sequence[Translation], Sequence[UnknownWord]]]) -> Table:
    """A row for each run: words, unknown ones, how these are replaced, and how many replacements are in the reference."""
    rows = []
    for run, (translations, unknown) in runs.items():
        words = sum(i not in (PAD, EOS) for one in translations for i in one.ids)
        how = Counter(one.how for one in unknown)
        right = [sum(one.right for one in unknown if one.how == name) for name in HOW[:2]]
        share = 100 * len(unknown) / words if words else None
        rows.append((run, words, len(unknown), share, *(how[name] for name in HOW), *right))
    names = ("by the dictionary", "copied", "left", "by the dictionary, in the reference", "copied, in the reference")
    return Table.of(("run", "words", "unknown", "unknown %", *names), rows)


def examples(runs: Mapping[str, Sequence[UnknownWord]]) -> Table:
    """Some of each run's unknown words, evenly spaced."""
    rows = []
    for run, unknown in runs.items():
        for one in (unknown[k] for k in spread_over(len(unknown), EXAMPLES)):
            right = None if one.word is None else "yes" if one.right else "no"
            rows.append((run, one.line, one.source, one.how, one.word, right, one.translation))
    columns = ("run", "line", "aligned with", "how", "becomes", "in the reference", "translation")
    return Table.of(columns, rows)


def draw(counts: Table, lines: int, dictionary: str | None) -> DrawnFigure:
    """A bar for each run, in parts by what becomes of its unknown words."""
    runs = counts.each("run")
    canvas = Panels(1, 0.9 + 0.3 * len(runs))
    (axes,) = canvas.axes
    left = [0.0] * len(runs)
    for name, fill in fills_of(counts.columns[4:7]).items():
        values = counts.numbers(str(name))
        axes.barh(range(len(runs)), values, 0.6, left, label=str(name), **fill)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set_yticks(range(len(runs)), [str(run) for run in runs])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("unknown words")
    canvas.legend()
    caption = (
        f"Unknown words in the translations of {lines:,} lines. Each is aligned with the source word that is attended to most, and "
        f"becomes its translation in {dictionary or 'a dictionary (--dictionary; none is given)'}, or else that word itself; it is "
        "left where the end symbol is attended to most. The table also counts the replacements that the reference has."
    )
    reading = "The longer a bar, the more words the run could not write itself; its parts say what replaced them."
    return DrawnFigure(
        "unknown-words", "Unknown words and their replacements", caption, counts, *canvas.files(), reading
    )
