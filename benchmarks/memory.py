"""What does a translation memory do to translations, and what does it cost?

    python benchmarks/memory.py RUN SOURCE REFERENCE MEMORY_SOURCE MEMORY_TARGET [--sizes 1000 5000] [--threads 1] [--record ID]

The text is translated without a memory, with the whole memory, and with its first pairs alone. With a memory it is translated
twice: the first time what models know of its pairs is computed, the second time it is held. One JSON object comes out: BLEU, the
way that was found (temperature, reach, share: see `calque.decode.nearest`), and seconds.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import sacrebleu
from scored_run import arguments, finish, lines_of, read

import calque
from calque.decode.memory import Memory
from calque.decode.recall import Recall
from calque.decode.translate import Translator, translate_lines


def timed(loaded: Translator, sources: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
    """BLEU and seconds."""
    began = time.perf_counter()
    texts = [best[0].text for best in translate_lines(loaded, sources)]
    taken = time.perf_counter() - began
    # `force`: no warning of text that is tokenised already
    return round(sacrebleu.corpus_bleu(texts, [list(references)], force=True).score, 2), round(taken, 2)


def main() -> None:
    """Measure, print or record."""
    parser = arguments(__doc__, "Translations with a translation memory", "memory_source", "memory_target")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    given = read(parser)
    sources, references = lines_of(given.source), lines_of(given.reference)
    sides = lines_of(given.memory_source), lines_of(given.memory_target)
    loaded = calque.load(given.run).loaded
    translate_lines(loaded, sources[:50])  # what is made once
    bleu, seconds = timed(loaded, sources, references)
    figures: dict[str, float] = {"no memory: BLEU": bleu, "no memory: seconds": seconds}
    for size in (*given.sizes, len(sides[0])):
        began = time.perf_counter()
        memory = Memory(*(side[:size] for side in sides))
        recall = Recall(loaded, memory)
        leaning = replace(loaded, recall=recall)
        opened = time.perf_counter() - began
        bleu, first = timed(leaning, sources, references)
        _, again = timed(leaning, sources, references)
        found = {"BLEU": bleu, "seconds to open": round(opened, 2), "seconds": first, "seconds, again": again}
        found |= dict(zip(("temperature", "reach", "share"), recall.ways[0], strict=True))
        figures |= {f"{size:,} pairs: {name}": value for name, value in found.items()}
    files = (given.source, given.reference, given.memory_source, given.memory_target)
    sizes = "".join(f" {size}" for size in given.sizes)
    command = (
        f"python benchmarks/memory.py RUN {' '.join(file.name for file in files)}{' --sizes' + sizes if sizes else ''}"
    )
    finish(given, command, figures, loaded, len(sources))


if __name__ == "__main__":
    main()
