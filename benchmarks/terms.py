"""What do phrases that a translation must contain do to it, and what do they cost?

    python benchmarks/terms.py RUN SOURCE REFERENCE [--lines 1000] [--threads 1] [--record ID]

As in Post and Vilar 2018, section 4: of each reference some words are drawn, one to three of them or four in a row, and its
translation must contain them. Beside the free search stands the constrained one as it is, with one and three places for each
number of words that are needed instead of two, and with scores that are means over words. One JSON object comes out: BLEU, the
translations that have all phrases in whole words, their length, and seconds.
"""

import random
import re
import time
from collections.abc import Sequence

import sacrebleu
from scored_run import arguments, finish, lines_of, read

import calque
from calque.decode import required, translate
from calque.decode.terms import stands_in
from calque.decode.translate import InputLine, Translator, translate_lines

KINDS = {"1 word": (1, 1), "2 words": (2, 1), "3 words": (3, 1), "4 words in a row": (1, 4)}
"""Phrases of a line, and words of a phrase."""
WAYS = {
    "as it is": (required.SLOTS, translate.UNDILUTED),
    "1 place a bank": (1, translate.UNDILUTED),
    "3 places a bank": (3, translate.UNDILUTED),
    "means over words": (required.SLOTS, ("length", 1.0)),
}
"""Hypotheses for each number of words that are needed, and how they are scored."""


def drawn(references: Sequence[str], phrases: int, words: int) -> list[list[str]]:
    """Phrases of each reference, without punctuation at their ends."""
    chance, found = random.Random(1), []
    for reference in references:
        each = reference.split()
        runs = [" ".join(each[i : i + words]).strip('.,;:!?"()') for i in range(max(1, len(each) - words + 1))]
        runs = [run for run in dict.fromkeys(runs) if re.search(r"\w", run)]
        found.append(chance.sample(runs, min(phrases, len(runs))))
    return found


def has(text: str, phrase: str) -> bool:
    """Whether a translation has a phrase; one in small letters may stand at its beginning with a capital one."""
    return stands_in(phrase, text) or stands_in(phrase, text[:1].lower() + text[1:])


def measured(
    loaded: Translator, asked: Sequence[InputLine], references: Sequence[str], needed: list[list[str]]
) -> dict[str, float]:
    """The figures of one search."""
    began = time.perf_counter()
    texts = [best[0].text for best in translate_lines(loaded, asked)]
    taken = time.perf_counter() - began
    have = sum(all(has(text, one) for one in some) for text, some in zip(texts, needed, strict=True))
    return {
        "BLEU": round(sacrebleu.corpus_bleu(texts, [list(references)]).score, 2),
        "lines with all phrases": have,
        "words against the references": round(
            sum(map(len, map(str.split, texts))) / sum(map(len, map(str.split, references))), 3
        ),
        "seconds": round(taken, 2),
    }


def main() -> None:
    """Measure, print or record."""
    parser = arguments(__doc__, "Translations with phrases drawn from their references")
    parser.add_argument("--lines", type=int, default=1000)
    given = read(parser)
    sources, references = (lines_of(path)[: given.lines] for path in (given.source, given.reference))
    loaded = calque.load(given.run).loaded
    translate_lines(loaded, sources[:50])  # what is made once
    figures: dict[str, float] = {}
    for kind, (phrases, words) in KINDS.items():
        needed = drawn(references, phrases, words)
        asked: list[InputLine] = [(line, "", some) for line, some in zip(sources, needed, strict=True)]
        for name, value in measured(loaded, sources, references, needed).items():
            figures[f"{kind}, free: {name}"] = value
        for way, (required.SLOTS, translate.UNDILUTED) in WAYS.items():
            for name, value in measured(loaded, asked, references, needed).items():
                figures[f"{kind}, {way}: {name}"] = value
    command = f"python benchmarks/terms.py RUN {given.source.name} {given.reference.name}"
    finish(given, command, figures, loaded, len(sources))


if __name__ == "__main__":
    main()
