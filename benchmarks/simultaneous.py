"""How much quality does a simultaneous translation keep, and how far does it lag behind?

    python benchmarks/simultaneous.py RUN SOURCE REFERENCE [--policies wait-1 ...] [--lines 1000] [--threads 1] [--record ID]

Each line is translated as if it were read word by word, under each policy, and once when all of it has been read. One JSON object
comes out: BLEU, how far the words lag behind (LAAL, AL, DAL in words, AP), and milliseconds from a word that is read alone to
what is then written, mean and 95th percentile over the first 50 lines.
"""

import time
from statistics import fmean, quantiles

import sacrebleu
from scored_run import arguments, finish, lines_of, read

import calque
from calque.data.scripts import split_words
from calque.decode.simultaneous import Interpreter, Policy, interpret_lines
from calque.decode.translate import Translator, translate_lines
from calque.evaluate.lagging import Delays, lagging

POLICIES = (
    "wait-1",
    "wait-2",
    "wait-3",
    "wait-5",
    "wait-7",
    "agree-2",
    "agree-3",
    "hold-0",
    "hold-1",
    "hold-2",
    "hold-4",
)
ALONE = 50
"""Lines whose words are read one by one, alone."""


def measured(loaded: Translator, lines: list[str], references: list[str], policy: Policy) -> dict[str, float]:
    """The figures of one policy."""
    found = interpret_lines(loaded, lines, policy)
    delays = [Delays(tuple(one.delays), len(split_words(line))) for one, line in zip(found, lines, strict=True)]
    figures = {"BLEU": sacrebleu.corpus_bleu([one.text for one in found], [references]).score}
    figures |= {score.name: score.value for score in lagging(delays, references)}
    interpreter, taken = Interpreter(loaded, policy), []
    for line in lines[:ALONE]:
        for word in split_words(line):
            began = time.perf_counter()
            interpreter.read(word)
            taken.append(1000 * (time.perf_counter() - began))
        interpreter.end()
    figures |= {"ms a word": fmean(taken), "ms a word, 95th percentile": quantiles(taken, n=20)[-1]}
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> None:
    """Measure, print or record."""
    parser = arguments(__doc__, "Sentences translated while they are read")
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--lines", type=int, default=1000)
    given = read(parser)
    lines, references = (lines_of(path)[: given.lines] for path in (given.source, given.reference))
    loaded = calque.load(given.run, **({"beam": given.beam} if given.beam else {})).loaded
    whole = [best[0].text for best in translate_lines(loaded, lines)]
    figures = {"whole lines: BLEU": round(sacrebleu.corpus_bleu(whole, [references]).score, 2)}
    for policy in given.policies:
        each = measured(loaded, lines, references, Policy.of(policy))
        figures |= {f"{policy}: {name}": value for name, value in each.items()}
    command = f"python benchmarks/simultaneous.py RUN {given.source.name} {given.reference.name}"
    command += f" --policies {' '.join(given.policies)}" + f" --beam {given.beam}" * bool(given.beam)
    finish(given, command, figures, loaded, len(lines))


if __name__ == "__main__":
    main()
