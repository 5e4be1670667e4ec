"""Rules between the keys of an experiment: a table of combinations that contradict one another."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from calque.experiment.keys import Experiment
from calque.experiment.symbols import SPECIALS, can_be_symbol
from calque.ground.diagnostics import CalqueError, Diagnostic, Place

Fields = Mapping[str, object]

LIMITS = ("max_updates", "max_epochs", "max_seconds", "patience", "min_lr")
"""The keys of [train] that end a training."""
_BUDGET = ("max_updates", "max_epochs", "max_seconds")
_VALIDATE = ("validate_every_updates", "validate_every_epochs", "validate_every_seconds")


class KeyRule(NamedTuple):
    """A combination of keys that an experiment must not have."""

    code: str
    keys: tuple[str, ...]
    """The keys as `section.key`; the report shows the first of them that is in the file."""
    faults: Callable[[Experiment], Sequence[Fields]]
    """The fields of each report; empty where the experiment follows the rule."""


def contradictions(experiment: Experiment, rules: Sequence[KeyRule]) -> Iterator[tuple[str, tuple[str, ...], Fields]]:
    """Code, keys and fields of each broken rule."""
    for code, keys, faults in rules:
        for fields in faults(experiment):
            yield code, keys, fields


def check(experiment: Experiment, place: Place) -> None:
    """Raises X2 for each contradiction in an experiment, for example one that was combined from two."""
    faults = [Diagnostic(code, place, fields) for code, _, fields in contradictions(experiment, RULES)]
    if faults:
        raise CalqueError(faults)


def _if(broken: object, **fields: object) -> list[Fields]:
    return [fields] if broken else []


def _train(*keys: str) -> tuple[str, ...]:
    return tuple(f"train.{key}" for key in keys)


def _none(x: Experiment, keys: Sequence[str]) -> bool:
    return not any(getattr(x.train, key) for key in keys)


def _given(files: Sequence[object]) -> int:
    return sum(file != "" for file in files)


def _no_pair(files: Sequence[object], key: str) -> list[Fields]:
    return _if(len(files) != 2 or "" in files, key=key, found=_given(files))


def _no_pairs(files: Sequence[str]) -> bool:
    return len(files) % 2 == 1 or "" in files


def _tables(x: Experiment) -> bool:
    return any(not isinstance(text, str) for text in x.data.train)


def _passes(x: Experiment) -> list[Fields]:
    """The keys that count passes over a text, with a stream, which has none."""
    used = {
        "train.max_epochs": x.train.max_epochs,
        "train.validate_every_epochs": x.train.validate_every_epochs,
        "train.schedule": x.train.schedule == "epoch",
    }
    return [{"key": key} for key, value in used.items() if value and x.data.stream]


def _repeated_names(x: Experiment) -> list[Fields]:
    """Names that several further validation texts share; empty where the files are not pairs."""
    names = [] if _no_pairs(x.data.valid_more) else [name for name, _ in x.data.further]
    return [{"name": name} for name in dict.fromkeys(names) if names.count(name) > 1]


def _low_rate(x: Experiment) -> bool:
    return x.train.min_lr >= x.train.lr > 0


def _uncounted(x: Experiment, used: bool | int, key: str) -> list[Fields]:
    return _if(used and not x.train.batch_sentences, key=key)


def _unvalidated(x: Experiment, used: bool | int, key: str) -> list[Fields]:
    return _if(used and _none(x, _VALIDATE), key=key, keys=_VALIDATE)


def _imported(x: Experiment) -> bool:
    """Whether the weights came from another tool: such a run names no text and no training."""
    return x.data.subwords == "imported" and not x.data.train and not x.data.valid


def taken_over(x: Experiment) -> bool:
    """Whether the vocabularies come from another run, and are not learned."""
    return x.data.subwords == "imported" or bool(x.model.parent and x.data.vocabulary == "parent")


def _no_pieces(x: Experiment) -> bool:
    """Whether the vocabularies are made here, of words or of given merges, not of pieces that sentencepiece learns."""
    return x.data.subwords in ("codes", "words") and not taken_over(x)


def _no_room(x: Experiment) -> bool:
    """Whether no token has room behind the special symbols. Of pieces, the text decides how many are needed."""
    return _no_pieces(x) and 0 < x.data.vocabulary_size <= _entries(x)


def _entries(x: Experiment) -> int:
    """Of a vocabulary, that are no words."""
    return len(SPECIALS) + len(x.data.every_symbol)


def _no_symbols(words: Sequence[str]) -> list[Fields]:
    return [{"found": word} for word in words if not can_be_symbol(word)]


def has_architecture(x: Experiment) -> bool:
    """Whether the experiment itself names its architecture; otherwise it is that of its parent."""
    return bool(x.model.file or x.model.text.strip())


RULES = (
    KeyRule(
        *("X201", ("data.train",)),
        lambda x: [] if _imported(x) or _tables(x) else _no_pair(x.data.train, "data.train"),
    ),
    KeyRule("X201", ("data.valid",), lambda x: [] if _imported(x) else _no_pair(x.data.valid, "data.valid")),
    KeyRule("X201", ("data.test",), lambda x: _no_pair(x.data.test, "data.test") if x.data.test else []),
    KeyRule("X216", ("data.valid_more",), lambda x: _if(_no_pairs(x.data.valid_more), found=_given(x.data.valid_more))),
    KeyRule("X217", ("data.valid_more", "data.train"), _repeated_names),
    KeyRule("X223", ("data.stream", *_train("max_epochs", "validate_every_epochs", "schedule")), _passes),
    KeyRule("X202", ("model.file", "model.text"), lambda x: _if(not has_architecture(x) and not x.model.parent)),
    KeyRule("X203", ("model.file", "model.text"), lambda x: _if(x.model.file and x.model.text)),
    KeyRule("X204", ("data.subwords", "data.codes"), lambda x: _if(x.data.subwords == "codes" and not x.data.codes)),
    KeyRule(
        *("X205", ("data.codes", "data.subwords")),
        lambda x: _if(x.data.subwords != "codes" and x.data.codes, found=x.data.subwords),
    ),
    KeyRule(
        *("X226", ("data.vocabulary_size", "data.subwords")),
        lambda x: _if(_no_room(x), most=_entries(x), found=x.data.vocabulary_size),
    ),
    KeyRule("X235", ("data.train", "data.stream"), lambda x: _if(x.data.stream and any(t.tag for t in x.data.texts))),
    KeyRule("X233", ("data.symbols",), lambda x: _no_symbols(x.data.symbols)),
    KeyRule("X233", ("decode.tag",), lambda x: _no_symbols([x.decode.tag] if x.decode.tag else [])),
    KeyRule(
        *("X228", ("data.byte_fallback", "data.subwords")),
        lambda x: _if(_no_pieces(x) and x.data.byte_fallback, found=x.data.subwords),
    ),
    KeyRule(
        *("X229", ("train.subword_sampling", "data.subwords")),
        lambda x: _if(_no_pieces(x) and x.train.subword_sampling, found=x.data.subwords),
    ),
    KeyRule(
        *("X801", ("decode.replace_unknown", "data.subwords")),
        lambda x: _if(x.decode.replace_unknown and x.data.subwords != "words", found=x.data.subwords),
    ),
    KeyRule(
        *("X206", _train(*LIMITS)),
        lambda x: _if(not x.data.stream and not _imported(x) and _none(x, LIMITS), keys=LIMITS),
    ),
    KeyRule(
        *("X207", _train("batch_tokens", "batch_sentences")),
        lambda x: _if(not x.train.batch_tokens and not x.train.batch_sentences),
    ),
    KeyRule(
        *("X208", _train("schedule", *_BUDGET)),
        lambda x: _if(x.train.schedule == "linear" and _none(x, _BUDGET), keys=_BUDGET),
    ),
    KeyRule(
        *("X430", _train("warmup_share", *_BUDGET)),
        lambda x: _if(x.train.warmup_share and _none(x, _BUDGET), keys=_BUDGET),
    ),
    KeyRule(
        *("X431", _train("beta2_half_life_tokens", "batch_tokens")),
        lambda x: _if(x.train.beta2_half_life_tokens and not x.train.batch_tokens),
    ),
    KeyRule(
        *("X432", _train("beta2_half_life_tokens", "bptt_words")),
        lambda x: _if(x.train.beta2_half_life_tokens and x.train.bptt_words, found=x.train.bptt_words),
    ),
    KeyRule(
        *("X209", _train("normalise", "batch_sentences")),
        lambda x: _uncounted(x, x.train.normalise == "batch", "train.normalise"),
    ),
    KeyRule(
        *("X209", _train("sort_batches", "batch_sentences")),
        lambda x: _uncounted(x, x.train.sort_batches, "train.sort_batches"),
    ),
    KeyRule(
        *("X212", _train("bptt_words", "accumulate")),
        lambda x: _if(x.train.bptt_words and x.train.accumulate > 1, found=x.train.accumulate),
    ),
    KeyRule("X213", _train("min_lr", "lr"), lambda x: _if(_low_rate(x), lr=x.train.lr, found=x.train.min_lr)),
    KeyRule(
        *("X215", _train("min_lr", "schedule")),
        lambda x: _if(x.train.min_lr and not _low_rate(x) and x.train.schedule == "constant"),
    ),
    KeyRule(
        *("X227", _train("weight_decay", "optimiser")),
        lambda x: _if(x.train.weight_decay and x.train.optimiser == "sgd"),
    ),
    KeyRule("X214", _train("patience", *_VALIDATE), lambda x: _unvalidated(x, x.train.patience, "train.patience")),
    KeyRule(
        *("X214", _train("schedule", *_VALIDATE)),
        lambda x: _unvalidated(x, x.train.schedule in ("plateau", "anneal"), "train.schedule"),
    ),
)
"""Rules in the order of their reports."""


def _learned_apart(x: Experiment) -> bool:
    """Whether each side learns a vocabulary of its own; of the same files both learn the same."""
    files = x.data.train_files
    return not taken_over(x) and not x.data.joint and files[::2] != files[1::2]


ONE_VOCABULARY = KeyRule(
    *("X225", ("data.joint", "model.tying", "data.train")),
    lambda x: _if(x.model.tying == "three-way" and _learned_apart(x)),
)
"""Of a training that has not begun. The vocabularies of a run show themselves whether they are one: those of equal sides are."""


def _foreign_tag(x: Experiment) -> list[Fields]:
    known = x.data.every_symbol
    fields = {"tag": x.decode.tag, "known": known or ("none",)}
    return _if(x.decode.tag and not taken_over(x) and x.decode.tag not in known, **fields)


SIZED_VOCABULARY = KeyRule(
    *("D207", ("data.vocabulary_size", "data.subwords")),
    lambda x: _if(not (x.data.vocabulary_size or _no_pieces(x) or taken_over(x)), kind=x.data.subwords),
)
"""Of a training that has not begun; learning the vocabulary would find it, too."""

OWN_TAG = KeyRule("X234", ("decode.tag",), _foreign_tag)
"""Of a training that has not begun: a run is compared by its vocabulary."""
