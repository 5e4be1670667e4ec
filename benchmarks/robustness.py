"""What does a model make of text that is written otherwise than what it has learned from?

    python benchmarks/robustness.py RUN SOURCE REFERENCE [--threads 1] [--record ID]

The sources are written in capitals, as titles, and with one typo in every `EACH` words, and translated with `recase` and without.
Of the titles, which have no full stop, neither have the references; of the sources in capitals the references are in capitals,
too. One JSON object comes out: BLEU of each, and the seconds of the text as it is. Beside them stands what a perfect reader of
letter case could reach: the translations of the text as it is, in capitals or without full stops.
"""

import random
import string
import time
from collections.abc import Callable, Sequence

import sacrebleu
from scored_run import arguments, finish, lines_of, read

import calque
from calque.decode.translate import translate_lines

EACH = 8
"""Words for each typo; a line has one at least."""


def without_stop(line: str) -> str:
    return line.rstrip(" .")


def as_title(line: str) -> str:
    """Every word with a capital, and no full stop."""
    return " ".join(word[:1].upper() + word[1:] for word in without_stop(line).split(" "))


def with_typos(line: str, chance: random.Random) -> str:
    """A letter is left out, changed with the next one, written before another or instead of it."""
    letters = list(line)
    for _ in range(max(1, len(line.split()) // EACH)):
        if len(letters) < 2:
            break
        at, letter = chance.randrange(len(letters) - 1), chance.choice(string.ascii_lowercase)
        one, other = letters[at : at + 2]
        letters[at : at + 2] = chance.choice([[other], [other, one], [letter, one, other], [letter, other]])
    return "".join(letters)


def same(line: str) -> str:
    return line


FORMS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "as it is": (same, same),
    "in capitals": (str.upper, str.upper),
    "titles": (as_title, without_stop),
}
"""How sources are written, and references."""


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    return round(sacrebleu.corpus_bleu(list(texts), [list(references)]).score, 2)


def main() -> None:
    """Measure, print or record."""
    given = read(arguments(__doc__, "Translations of text in capitals, of titles, and of text with typos"))
    sources, references = lines_of(given.source), lines_of(given.reference)
    chance = random.Random(1)
    forms = {**FORMS, "typos": (lambda line: with_typos(line, chance), same)}
    written = {name: (list(map(one, sources)), list(map(other, references))) for name, (one, other) in forms.items()}
    figures: dict[str, float] = {}
    for way, recase in (("", True), (", recase = false", False)):
        loaded = calque.load(given.run, recase=recase).loaded
        translate_lines(loaded, sources[:50])  # what is made once
        for name, (lines, expected) in written.items():
            began = time.perf_counter()
            texts = [best[0].text for best in translate_lines(loaded, lines)]
            taken = time.perf_counter() - began
            figures[f"BLEU, {name}{way}"] = bleu(texts, expected)
            if name == "as it is":
                figures[f"seconds, {name}{way}"] = round(taken, 2)
                if recase:
                    for other in ("in capitals", "titles"):
                        reached = map(forms[other][1], texts)
                        figures[f"BLEU, {other}, of the text as it is"] = bleu(list(reached), written[other][1])
    command = f"python benchmarks/robustness.py RUN {given.source.name} {given.reference.name}"
    finish(given, command, figures, loaded, len(sources))


if __name__ == "__main__":
    main()
