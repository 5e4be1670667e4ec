"""What does minimum Bayes risk gain over the most probable translation, with candidates of one run or of several?

    python benchmarks/mbr.py RUN SOURCE REFERENCE [--beside RUN ...] [--counts 4 8 ...] [--scales 0 10] [--lines 1000]
                             [--threads 1] [--record ID]

Candidates are the best translations of a beam search, or samples: of all words, or of those with a probability of at least 0.02.
Runs that are named beside give as many candidates each. One JSON object comes out: BLEU, chrF and length (tokens for each token of
the references) of the most probable translation (beam 5), of the ensemble of all runs where they have one vocabulary, and of what
is most alike by chrF and by BLEU; milliseconds a line to make the candidates, and to choose.
"""

import contextlib
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import sacrebleu
from scored_run import arguments, finish, lines_of, read

import calque
from calque.decode.translate import Translation, Translator, translate_lines
from calque.evaluate.mbr import Candidates, most_alike, relative
from calque.evaluate.statistics import Measure, measure
from calque.ground.diagnostics import CalqueError

WAYS: dict[str, dict[str, Any]] = {
    "search": {},
    "samples": {"sample": True},
    "epsilon samples": {"sample": True, "epsilon": 0.02},
}
BEAM = 5
Part = list[Translation]


def candidates(models: Sequence[Translator], lines: list[str], count: int) -> list[tuple[Part, ...]]:
    """Of each line the translations of each model, `count` of each."""
    return list(zip(*(translate_lines(model, lines, count) for model in models), strict=True))


def chosen(parts: Sequence[Part], how: Measure, scale: float) -> str:
    """The translation of a line; those of one run count e^(scale score) to each other."""
    texts = [one.text for part in parts for one in part]
    weights = [weight for part in parts for weight in relative([one.score for one in part], scale)]
    return most_alike(Candidates(texts, weights), how).text


def scored(texts: list[str], references: list[str]) -> dict[str, float]:
    """BLEU, chrF, and the tokens of translations for each token of the references."""
    bleu, chrf = sacrebleu.corpus_bleu(texts, [references]), sacrebleu.corpus_chrf(texts, [references])
    return {"BLEU": round(bleu.score, 2), "chrF": round(chrf.score, 2), "length": round(bleu.sys_len / bleu.ref_len, 3)}


def searched(runs: Sequence[Path], lines: list[str]) -> list[str]:
    """The most probable translations, of an ensemble where there are several runs."""
    loaded = calque.load(list(runs), beam=BEAM).loaded
    return [best[0].text for best in translate_lines(loaded, lines)]


def main() -> None:
    """Measure, print or record."""
    parser = arguments(__doc__, "Minimum Bayes risk decoding")
    parser.add_argument("--beside", type=Path, nargs="*", default=[], metavar="RUN")
    parser.add_argument("--counts", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument("--scales", type=float, nargs="+", default=[0.0, 10.0])
    parser.add_argument("--lines", type=int, default=1000)
    given = read(parser)
    lines, references = (lines_of(path)[: given.lines] for path in (given.source, given.reference))
    runs = [given.run, *given.beside]
    figures: dict[str, float] = {}

    def add(name: str, texts: list[str]) -> None:
        figures.update({f"{name}: {metric}": value for metric, value in scored(texts, references).items()})

    for number, run in enumerate(runs, 1):
        add(f"run {number}, beam {BEAM}" if given.beside else f"beam {BEAM}", searched([run], lines))
    if given.beside:
        with contextlib.suppress(CalqueError):  # of other vocabularies
            add(f"ensemble, beam {BEAM}", searched(runs, lines))
    for way, settings in WAYS.items():
        for count in given.counts:
            name = f"{count} by {way}" if way == "search" else f"{count} {way}"
            models = [calque.load(run, **(settings or {"beam": max(BEAM, count)})).loaded for run in runs]
            began = time.perf_counter()
            all_lines = candidates(models, lines, count)
            figures[f"{name}: ms a line to make"] = round(1000 * (time.perf_counter() - began) / len(lines), 2)
            for metric, scale in product(("chrf", "bleu"), given.scales if way == "search" else [0.0]):
                how, began = measure(metric), time.perf_counter()
                by = f"{name}, by {metric}" + f", scale {scale:g}" * (scale > 0)
                add(by, [chosen(parts, how, scale) for parts in all_lines])
                figures[f"{by}: ms a line to choose"] = round(1000 * (time.perf_counter() - began) / len(lines), 2)
    loaded = calque.load(given.run, beam=BEAM).loaded
    command = f"python benchmarks/mbr.py RUN {given.source.name} {given.reference.name}"
    command += " --beside" * bool(given.beside) + " RUN" * len(given.beside)
    command += (
        f" --counts {' '.join(map(str, given.counts))} --scales {' '.join(f'{scale:g}' for scale in given.scales)}"
    )
    finish(given, command, figures, loaded, len(lines))


if __name__ == "__main__":
    main()
