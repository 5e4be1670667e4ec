"""The sections of an experiment file: every key with its default, its bounds and its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from calque.experiment.decode_keys import DecodeSettings
from calque.experiment.key import Key, key
from calque.experiment.training_text import TrainingText, name_of

LEAVE_OUT = ("duplicates", "copies", "script")


@dataclass(frozen=True)
class DataSettings:
    """[data]: which text, and how it becomes ids."""

    train: tuple[str, ...] | tuple[TrainingText, ...] = key(
        (),
        "source and target training files, one sentence per line, plain or compressed (gz, bz2, xz, zst); or several texts that "
        "are mixed, each a table: { source, target, weight, valid = [source, target], name, tag }; the last four may be left out",
    )
    valid: tuple[str, ...] = key((), "source and target validation files")
    test: tuple[str, ...] = key((), "source and target test files, prepared beside the others")
    valid_more: tuple[str, ...] = key(
        (),
        "further validation texts, source and target files in turn, each called by its source file up to the first dot; they are "
        "logged beside the one of `valid`, which alone decides",
    )
    subwords: str = key(
        "bpe",
        "bpe, unigram: learned here with sentencepiece; codes: given merges on tokenised text; words: white space; imported: those "
        "of a model of another tool, which come with its run",
        choices=("bpe", "unigram", "codes", "words", "imported"),
    )
    codes: str = key("", 'file of subword-nmt merges, for subwords = "codes"')
    vocabulary: str = key(
        "parent",
        "with a parent in [model]: its codecs and their keys are taken over (parent), or learned from this text (own)",
        choices=("parent", "own"),
    )
    vocabulary_size: int = key(8000, "entries of each vocabulary with special symbols; 0: no bound", low=0, high=10**7)
    minimum_count: int = key(1, "tokens seen less often in training text become <unk>; for codes and words", low=1)
    split_digits: bool = key(True, "every digit is a piece of its own; for bpe and unigram")
    byte_fallback: bool = key(False, "characters without a piece become bytes, 256 more pieces; for bpe and unigram")
    joint: bool = key(True, "one vocabulary for both sides")
    symbols: tuple[str, ...] = key(
        (),
        "words that are one entry of the vocabulary each and are never cut, such as <2de> in front of sources that become German; "
        "the tags of training texts are symbols, too",
    )
    source_end: bool = key(True, "close the source sentence with the end symbol")
    max_tokens: int = key(200, "longer training sentences are left out; 0: no bound", low=0)
    max_ratio: float = key(
        0.0, "training pairs whose lengths differ by more than this factor are left out; 0: no bound", low=0
    )

    leave_out: tuple[str, ...] = key(
        (),
        "training pairs that are left out: duplicates (all but the first of equal pairs, whatever their tags), copies (source = "
        "target, with a letter), "
        "script (a side is in another language's script); all are counted by `calque prepare`; of a stream copies alone",
        choices=LEAVE_OUT,
    )
    learn_pairs: int = key(
        1_000_000,
        "vocabularies and subwords are learned from so many training pairs, evenly spread over the text; 0: from all",
        low=0,
    )
    stream: str = key(
        "",
        "training takes its pairs from here, in this order: lines of source, tab, target that another program writes, in a pipe or "
        "a file; -: standard input. `train` is then the text from which vocabularies are learned",
    )
    stream_window: int = key(
        100_000,
        "lines of the stream that are read, sorted and shuffled together; they are what an epoch is elsewhere",
        low=1,
    )

    @property
    def further(self) -> list[tuple[str, tuple[str, str]]]:
        """The names and the files of the further validation texts, those of the training texts last."""
        files = self.valid_more
        further = [(name_of(source), (source, target)) for source, target in zip(files[::2], files[1::2], strict=False)]
        own = [text for text in self.texts if len(text.valid) == 2]
        return further + [(text.own_name, (text.valid[0], text.valid[1])) for text in own]

    @property
    def texts(self) -> tuple[TrainingText, ...]:
        """The training texts, one where `train` is two files."""
        tables = tuple(text for text in self.train if isinstance(text, TrainingText))
        files = [file for file in self.train if isinstance(file, str)]
        return tables or (TrainingText(files[0], files[1]),) if tables or len(files) == 2 else ()

    @property
    def every_symbol(self) -> tuple[str, ...]:
        """The symbols, and the tags of the training texts."""
        return tuple(dict.fromkeys([*self.symbols, *(text.tag for text in self.texts if text.tag)]))

    @property
    def train_files(self) -> tuple[str, ...]:
        """The files of the training texts, source and target in turn."""
        if len(self.texts) == 0:
            return tuple(file for file in self.train if isinstance(file, str))
        return tuple(file for text in self.texts for file in (text.source, text.target))

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of several training texts; empty where there is one."""
        return tuple(text.weight for text in self.texts) if len(self.texts) > 1 else ()


@dataclass(frozen=True)
class ModelSettings:
    """[model]: the architecture and the matrices around it."""

    file: str = key("", "an .adl file, or an architecture of `calque zoo`; or give the text itself in `text`")
    text: str = key("", "the definition itself")
    dialect: str = key(
        "calque",
        "its notation; acl18: the strings of Domhan's 2018 research code",
        choices=("calque", "acl18"),
    )
    plugins: tuple[str, ...] = key((), "importable modules, or .py files, whose layers the definition may name")
    parent: str = key(
        "",
        "a finished run whose weights this one starts from where path and shape are the same; without `file` and `text`, the "
        "architecture, `plugins`, `tying` and `output_bias` are the parent's",
    )
    tying: str = key(
        "three-way",
        "matrices that are one: source embedding, target embedding and output layer (three-way); "
        "the latter two (target); none",
        choices=("three-way", "target", "none"),
    )
    output_bias: bool = key(True, "the output layer has a bias, as in Domhan 2018 equation 1")
    initialisation: str = key(
        "glorot",
        "glorot: uniform by fan-in and fan-out; uniform: U(-s, s) everywhere, s = initial_scale; "
        "t2t: glorot, embeddings normal with deviation 1/sqrt(d); "
        "fan-in: uniform, but matrices and filters of the two chains, cells and what is in a feed left out, by fan-in",
        choices=("glorot", "uniform", "t2t", "fan-in"),
    )
    initial_scale: float = key(0.1, "uniform, fan-in: half the width of the uniform distribution", low=0, high=100)
    joint_projections: bool = key(
        False, "glorot, t2t: W_q, W_k and W_v of an attention start as the parts of one matrix [3d, d] would"
    )


@dataclass(frozen=True)
class TrainSettings:
    """[train]: how the weights come about."""

    seed: int = key(1, "of weights, batches and dropout", low=0)
    threads: int = key(0, "processor threads; 0: all", low=0, high=1024)
    device: str = key("auto", "auto: an accelerator where there is one", choices=("auto", "cpu", "cuda"))
    precision: str = key(
        "auto",
        "of products and activations; master weights are float32. "
        "auto: measured once, the choice is written to the run",
        choices=("auto", "float32", "bfloat16"),
    )
    batch_tokens: int = key(4096, "tokens of either side in a batch, with padding; 0: count sentences", low=0)
    batch_sentences: int = key(0, "sentences in a batch, at most; 0: no bound", low=0)
    sort_batches: int = key(
        0,
        "pairs are shuffled, and sorted by length within each run of so many batches of batch_sentences; "
        "0: within the whole text",
        low=0,
    )
    accumulate: int = key(1, "batches whose gradients make one update", low=1)
    bptt_words: int = key(
        0,
        "truncated back-propagation: target words between two steps of the optimiser, which all count as one update; the decoder's "
        "state continues without its gradient, the encoder runs again; 0: whole sentences",
        low=0,
    )
    subword_sampling: float = key(
        0.0,
        "words are cut into subwords anew for every update, at random; 0: always in the same way. bpe: the probability that a "
        "merge is left out (BPE-dropout, Provilkov et al. 2020); unigram: the power of the probability with which a cut is drawn "
        "(Kudo 2018). batch_tokens counts the tokens of the usual cut",
        low=0,
        high=1,
    )
    prefix_pairs: float = key(
        0.0,
        "share of the pairs of an update of which only a beginning is learned, some words of the source and as large a part of the "
        "target, drawn anew each time: for simultaneous translation (Niehues et al. 2018); 0: all pairs are whole",
        low=0,
        high=1,
    )
    label_smoothing: float = key(0.1, "share of the probability spread over the other words", low=0, high=0.999)
    r_drop: float = key(
        0.0,
        "R-Drop (Wu et al. 2021), its weight alpha: each batch is read twice, with other dropout, and the two predictions of a "
        "word are drawn to each other; for few pairs; 0: each batch is read once",
        low=0,
        high=100,
    )
    normalise: str = key(
        "tokens",
        "what the summed loss is divided by: target tokens of the update; its sentences; batch_sentences * accumulate, also "
        "where the last batch is shorter (batch); nothing",
        choices=("tokens", "sentences", "batch", "none"),
    )
    optimiser: str = key(
        "adam",
        "the update rule; muon: Muon for matrices and filters of linear maps, Adam for everything else",
        choices=("adam", "sgd", "muon"),
    )
    lr: float = key(0.001, "learning rate, at its peak where the schedule has one", low=0)
    beta1: float = key(0.9, "Adam: decay of the mean of gradients", low=0, high=0.9999)
    beta2: float = key(0.98, "Adam: decay of the mean of squared gradients", low=0, high=0.99999)
    beta2_half_life_tokens: float = key(
        0.0,
        "Adam: target tokens after which a squared gradient counts half, so that the decay fits any size of batch: beta2 = 0.5 ** "
        "(batch_tokens * accumulate / beta2_half_life_tokens), whatever the batches really hold; 0: the key beta2",
        low=0,
        high=1e9,
    )
    epsilon: float = key(1e-9, "Adam: added to the root of the mean square, which can be 0", low=1e-30)
    weight_decay: float = key(0.0, "Adam, Muon: decoupled decay of all weights per update, times lr", low=0)
    clip_norm: float = key(0.0, "gradients are scaled down to this norm; 0: never", low=0)
    clip_counts_embeddings: bool = key(
        True, "the norm is that of all gradients; otherwise of all but the embeddings', which are scaled with the rest"
    )
    scale_filters: bool = key(
        False, "gradients of convolutions are divided by the root of their width in, before they are clipped"
    )
    schedule: str = key(
        "inverse-sqrt",
        "constant; inverse-sqrt: lr * min(t/warmup, sqrt(warmup/t)); linear: from lr to final_lr at the end of "
        "max_updates, max_epochs or max_seconds, whichever comes first at the pace so far; "
        "plateau: times decay after decay_patience validations without a better perplexity; "
        "anneal: as plateau, but after the first drop times decay at every validation; "
        "epoch: times decay at the end of each epoch from decay_from_epoch on",
        choices=("constant", "inverse-sqrt", "linear", "plateau", "anneal", "epoch"),
    )
    warmup_updates: int = key(4000, "the rate rises linearly over these updates, under every schedule", low=0)
    warmup_share: float = key(
        0.0,
        "the rate rises over this share of max_updates, max_epochs or max_seconds instead, whichever comes first at the pace so "
        "far; 0: over warmup_updates",
        low=0,
        high=0.99,
    )
    final_lr: float = key(0.0, "linear: the rate at the end", low=0)
    decay: float = key(0.5, "plateau, anneal, epoch: the factor", low=0, high=1)
    decay_patience: int = key(8, "plateau, anneal: validations without a better perplexity", low=1)
    decay_from_epoch: int = key(5, "epoch: the first epoch after which the rate falls", low=1)
    max_updates: int = key(0, "stop after so many updates; 0: no bound", low=0)
    max_epochs: int = key(0, "stop after so many passes over the text; 0: no bound", low=0)
    max_seconds: float = key(0.0, "stop after so much training time, validation left out; 0: no bound", low=0)
    patience: int = key(0, "stop after so many validations without a better perplexity; 0: never", low=0)
    min_lr: float = key(0.0, "stop once the rate, warmed up, is below this; 0: never", low=0)
    validate_every_updates: int = key(
        500, "updates between validations, each of which saves a checkpoint; 0: not by updates", low=0
    )
    validate_every_epochs: int = key(0, "validate also at the end of every so many epochs; 0: not by epochs", low=0)
    validate_every_seconds: float = key(
        0.0, "validate also after so much training time since the last validation; 0: not by time", low=0
    )
    validate_bleu_sentences: int = key(0, "validation sentences translated greedily for BLEU; 0: none", low=0)
    log_every_updates: int = key(50, "updates between two lines of the log", low=1)
    keep_checkpoints: int = key(10, "best checkpoints kept, besides the newest and those of the mean", low=1)
    average: str = key(
        "best",
        "which checkpoints the final model is the mean of: the best by validation perplexity, or the last; where the mean has a "
        "worse validation perplexity than the best checkpoint in it, the model is that one alone; none: the newest checkpoint "
        "without a mean",
        choices=("best", "last", "none"),
    )
    average_count: int = key(5, "how many of them, at most", low=1)
    tensorboard: bool = key(False, "write TensorBoard events too (needs the extra `tensorboard`)")


@dataclass(frozen=True)
class Experiment:
    """A whole run."""

    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    decode: DecodeSettings = field(default_factory=DecodeSettings)


SECTIONS: Mapping[str, Mapping[str, Key]] = {
    section.name: {k.name: Key(k.name, k.type, **k.metadata) for k in fields(section.type)}
    for section in fields(Experiment)
    if isinstance(section.type, type)
}
"""Every key by section and name."""
