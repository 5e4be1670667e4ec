"""Translations at each validation of a training: for BLEU, and as samples for the reader."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from calque.data.corpus import PreparedCorpus
from calque.decode.translate import Translator, translate_lines
from calque.evaluate import bleu, tokeniser_for
from calque.experiment import DataSettings, Experiment
from calque.model import Model
from calque.train.log import SampleTranslation, Translated
from calque.train.ranks import ALONE, Ranks

SAMPLES = 2
"""Validation sentences whose translations are shown at each validation."""
SAMPLED = 100
"""Without BLEU, samples come from so many first sentences."""
GLANCE = (5, 20)
"""A sample has so many words, fewest and most, where the text has such sentences."""


def validation_translator(
    prepared: PreparedCorpus, experiment: Experiment, ranks: Ranks = ALONE
) -> Callable[[Model], Translated]:
    """Translates the first validation sentences greedily: for BLEU, where the experiment wants it, and for samples.

    The ranks share the sentences.
    """
    count = experiment.train.validate_bleu_sentences
    sources, references = (lines[: count or SAMPLED] for lines in prepared.lines("valid"))
    shown = samples_of(sources)
    if not count:
        sources, references = ([lines[n] for n in shown] for lines in (sources, references))
        shown = range(len(shown))
    decode = replace(experiment.decode, beam=1, sample=False, replace_unknown=False)

    def translate(model: Model) -> Translated:
        loaded = Translator.of(model, prepared.codecs, decode, experiment.data.source_end)
        translations = ranks.join(first_best(loaded, ranks.own(sources)))
        samples = tuple(SampleTranslation(sources[n], references[n], translations[n]) for n in shown)
        split = tokenisation(experiment.data, references)
        score = bleu(translations, references, tokenize=split, warn=False).value if count else None
        return Translated(score, samples)

    return translate


def samples_of(sources: Sequence[str]) -> Sequence[int]:
    """The numbers of the sentences to show: the first ones of a length in `GLANCE`, else the first ones with words."""
    words = [len(line.split()) for line in sources]
    fitting = [n for n, count in enumerate(words) if GLANCE[0] <= count <= GLANCE[1]]
    others = [n for n, count in enumerate(words) if count and n not in set(fitting)]
    return sorted([*fitting, *others][:SAMPLES])


def first_best(loaded: Translator, lines: Sequence[str]) -> list[str]:
    """The best translation of each line."""
    return [best[0].text for best in translate_lines(loaded, lines)]


def tokenisation(data: DataSettings, references: Sequence[str]) -> str:
    """The tokenisation with which BLEU is computed: none for text that is tokenised already, else what suits its script."""
    return "none" if data.subwords in ("codes", "words") else tokeniser_for(references)
