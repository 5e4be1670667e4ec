"""The metrics of the papers' tables. Each line of `METRICS` holds all that the toolkit knows of a metric."""

from collections.abc import Mapping
from dataclasses import dataclass

HYPOTHESES, REPLACED, DETOKENISED = "hypotheses", "replaced", "detokenised"
"""Translations, below an output folder: as they are, with unknown words replaced, and as plain text."""
REFERENCE, PLAIN_REFERENCE = "reference.txt", "reference-plain.txt"
TEXT, MODEL, DECODING, UPDATING, MEMORY = "translations", "model", "decoding", "training", "memory"
"""How a metric is measured: from the stored translations of a cell, of its model, by timing one of the two, or not at all."""
LINGEVAL = "lingeval97-"
"""The prefix of kinds of error in the names of language pairs."""


STATE = "state bytes for 25 words"
"""Of a cell: what decoding keeps of one hypothesis of 25 words for a source of as many, in float32."""

AER_BY_STEP = ("AER, the step that predicts", "AER, the step that reads")
"""Of a cell, besides its AER: with the weights of the step that predicts a word, and of the one that reads it."""


@dataclass(frozen=True)
class Metric:
    """A metric of a table.

    name        as columns and `--metric` write it
    unit        of the figure; empty where it has none
    kind        how it is measured: `TEXT`, `MODEL`, `DECODING`, `UPDATING` or `MEMORY`
    figure      its name in the entries of cells; timings name figures by row and column
    heading     of its column in a report
    decimals    that a report shows
    lower       whether the lower figure is the better one
    percentage  whether figures are compared by differences; all others are compared by ratios
    folder      below the output folder: the translations that a `TEXT` metric scores
    reference   the file that they are compared with
    obstacle    why nothing here measures it; empty where something does
    """

    name: str
    unit: str
    kind: str
    figure: str = ""
    heading: str = ""
    decimals: int = 2
    lower: bool = False
    percentage: bool = False
    folder: str = HYPOTHESES
    reference: str = REFERENCE
    obstacle: str = ""

    def figure_of(self, pair: str) -> str:
        """Its name in the entries of cells; an accuracy has one for each kind of error, which the name of the pair ends in."""
        return f"{self.figure}, {error_kind(pair)}" if self.percentage else self.figure


_ONE_MEMORY = (
    "the largest batch is that of one accelerator's memory; a processor shares its memory with all else that runs"
)
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("bleu", "points", TEXT, "BLEU", "BLEU"),  # as the paper computes it
        Metric("uncased-bleu", "points", TEXT, "uncased BLEU", "uncased"),
        # Unknown words are replaced by the words that attention aligns.
        Metric("unk-bleu", "points", TEXT, "BLEU, unknown words replaced", "+ unk", folder=REPLACED),
        # That of mteval-v13a, on text that is not tokenised.
        Metric("nist-bleu", "points", TEXT, "NIST BLEU", "NIST", folder=DETOKENISED, reference=PLAIN_REFERENCE),
        Metric("meteor", "points", TEXT, "METEOR", "METEOR"),
        Metric("aer", "share", MODEL, "AER", "AER", 3, lower=True),
        # exp of the mean negative log-probability of a target word, end included
        Metric("perplexity", "", MODEL, "validation perplexity", "perplexity", lower=True),
        # Of contrastive pairs: those of which the correct sentence scores higher
        Metric("accuracy", "%", MODEL, "accuracy", decimals=1, percentage=True),
        Metric("seconds/sentence", "s", DECODING, lower=True),
        Metric("sentences/s", "1/s", DECODING),
        Metric("source-words/s", "1/s", DECODING),
        Metric("target-words/s", "1/s", UPDATING),
        Metric("updates/s", "1/s", UPDATING),
        # Target tokens of the largest batch that fits the memory that the pair names.
        Metric("batch-tokens", "tokens", MEMORY, obstacle=_ONE_MEMORY),
    )
}


def of_kind(*kinds: str) -> tuple[str, ...]:
    """The names of the metrics of these kinds."""
    return tuple(metric.name for metric in METRICS.values() if metric.kind in kinds)


TEXTS = of_kind(TEXT)
TRAINED = of_kind(TEXT, MODEL)
"""Measured of trained cells."""
TIMED = of_kind(DECODING, UPDATING)
WITHOUT_BEAM = of_kind(UPDATING, MEMORY)
"""No beam takes part in these."""
UNMEASURED = of_kind(MEMORY)
SHOWN = (
    *((METRICS[name].figure, METRICS[name].heading, METRICS[name].decimals) for name in (*TEXTS, "aer", "perplexity")),
    *((name, name, 2) for name in ("chrF", "BLEU, test2017", "chrF, test2017")),
    *((name, name, 3) for name in AER_BY_STEP),
    ("parameters", "parameters", 0),
    (STATE, "state bytes", 0),
    ("updates", "updates", 0),
    ("training seconds", "seconds", 0),
    ("target tokens/s", "tokens/s", 0),
)
"""What a report shows of every cell that has it: name in an entry, heading, decimals."""


def error_kind(pair: str) -> str:
    """A kind of error, from the name of the paper's language pair or of the files of contrastive pairs."""
    return pair.removeprefix(LINGEVAL).partition(".")[0].replace("_", "-")
