"""The keys of [decode]."""

from dataclasses import dataclass

from calque.experiment.key import key


@dataclass(frozen=True)
class DecodeSettings:
    """[decode]: how a trained model translates."""

    beam: int = key(5, "hypotheses kept per sentence; 1: greedy", low=1, high=1000)
    normalise: str = key(
        "length",
        "how a finished hypothesis of T words, end included, is scored, with s = logp + word_penalty * (T - 1): s, as Luong "
        "2015 (none); s/T^alpha, as Domhan 2018 and Gehring 2017 with alpha 1 (length); s/((5+T)/6)^alpha, as Zhang 2018 and "
        "You 2020 with alpha 0.6 (gnmt)",
        choices=("none", "length", "gnmt"),
    )
    alpha: float = key(1.0, "exponent of the normalisation", low=0, high=10)
    stop: str = key(
        "best",
        "when the search of a sentence ends, where scores are normalised: when as many hypotheses are finished as the beam is wide "
        "(full), as Gehring 2017; best: not before the best of them is as good as the best unfinished one, were the end its next "
        "word for certain",
        choices=("best", "full"),
    )
    tag: str = key(
        "", "a symbol in front of every translated line, such as the name of a language: see `symbols` in [data]"
    )
    recase: bool = key(
        True, "lines in capitals, and titles, are read in the letters that the vocabulary knows, see letter-case.md"
    )
    word_penalty: float = key(
        0.0, "added to the log-probability of every word but the end symbol; above 0 for longer text", low=-20, high=20
    )
    sample: bool = key(False, "draw words by chance instead of searching; scores stay the model's")
    seed: int = key(1, "of samples: with the line's number it decides what is drawn", low=0)
    temperature: float = key(1.0, "of samples: logits are divided by it", low=0.01, high=100)
    top_k: int = key(0, "of samples: only so many of the most probable words can be drawn; 0: all", low=0)
    epsilon: float = key(
        0.0,
        "of samples: of these, only words whose probability among all words is at least this, and the best one",
        low=0,
        high=1,
    )
    top_p: float = key(
        1.0, "of samples: of these, only the most probable words that together reach this share", low=0.001, high=1
    )
    selection: str = key(
        "sentence",
        "with a lexical table (--select): each sentence has its own words, or those of its batch",
        choices=("sentence", "batch"),
    )
    select_per_word: int = key(100, "words that the table offers for each source token, at most", low=0)
    select_frequent: int = key(
        500, "first words of the vocabulary, the most frequent ones, that are always offered", low=0
    )
    replace_unknown: bool = key(
        False,
        "<unk> becomes what the table (--dictionary) says of the source word that it is aligned with, or that word itself; for "
        'subwords = "words"',
    )
    align_layer: str = key(
        "", "path of the layer whose attention aligns, the mean of its heads; none: the last one that reads the source"
    )
    align_row: int = key(
        0,
        "whose attention aligns a word: that of the step that predicts it (0), as in Gehring 2017, or that of the step that reads "
        "it (1), as in Luong 2015 where scores see the target",
        low=0,
        high=1,
    )
    align_offset: int = key(0, "source words to go on to the right from the one attended to most", low=-100, high=100)
    max_source_tokens: int = key(500, "`translate` cuts a longer line and warns, `score` does not; 0: no bound", low=0)
    max_length_factor: float = key(1.5, "a translation ends at factor * source length + offset words", low=0, high=100)
    max_length_offset: int = key(10, "see max_length_factor", low=1, high=10_000)
    batch_tokens: int = key(4096, "source tokens decoded together, padding and beams included", low=1)
    precision: str = key(
        "float32",
        "of weights and products while decoding; int8: on a processor, see `calque.decode.products`",
        choices=("float32", "bfloat16", "int8"),
    )
