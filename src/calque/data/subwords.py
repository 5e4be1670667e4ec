"""The codecs of a corpus: learned from training text, written into a folder, read from it."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from calque.data.codecs import Codec, MergeCodec, PieceCodec, WordCodec, cut, split, without_tabs
from calque.data.imported_codec import ImportedCodec
from calque.data.lines import check_rereadable
from calque.data.merges import Merges
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, reason_of
from calque.ground.files import write_whole

__all__ = ["Codec", "learn", "load_codecs", "save_codecs"]

LOADERS: dict[str, Callable[[Path, str, str], Codec]] = {
    "bpe": PieceCodec.load,
    "unigram": PieceCodec.load,
    "codes": MergeCodec.load,
    "words": WordCodec.load,
    "imported": ImportedCodec.load,
}
COVERAGE = 0.9995
"""The share of a text that has pieces for each of its characters, where a script is large: sentencepiece's default."""
_SAME: dict[str, Any] = {
    "normalization_rule_name": "identity",
    "max_sentence_length": 1 << 24,  # longer lines, in bytes, would be ignored: sentencepiece's default is 4,192
    "num_threads": 4,  # constant, because the sums of unigram depend on it
    "pad_id": PAD,
    "bos_id": BOS,
    "eos_id": EOS,
    "unk_id": UNK,
    "unk_surface": SPECIALS[UNK],
    "minloglevel": 3,
}
"""What sentencepiece is always told."""
_FILE = "codec.json"
_FORMAT = 1
_TOO_LARGE = re.compile(r"too high \(\d+\)\. Please set it to a value <= (\d+)")
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def learn(
    settings: DataSettings, source_lines: Iterable[str], target_lines: Iterable[str], base: Path = Path()
) -> tuple[Codec, Codec]:
    """The codecs of source and target, one object where `settings.joint`.

    `bpe` and `unigram` are trained on the lines; `codes` and `words` count their words. The lines are iterated more than once;
    `settings.codes` is relative to `base`. Raises D201 (vocabulary too large for the text), D205 (too small for its
    characters), D206, D207, D208 (no token is in the vocabulary), X516, and what `read_merges` raises.
    """
    if settings.subwords == "imported":
        raise error("X516")
    merges = read_merges(settings, base)
    if settings.joint:
        codec = _learn(settings, (source_lines, target_lines), "both sides", merges)
        return codec, codec
    source = _learn(settings, (source_lines,), "the source side", merges)
    return source, _learn(settings, (target_lines,), "the target side", merges)


def read_merges(settings: DataSettings, base: Path) -> Merges | None:
    """The merges of `subwords = "codes"`, None for the other kinds.

    Raises D203 where no file is named, D108 where it is a pipe, and what `Merges.read` raises.
    """
    if settings.subwords != "codes":
        return None
    if not settings.codes:
        raise error("D203")
    check_rereadable(base / settings.codes)
    return Merges.read(base / settings.codes)


def _learn(settings: DataSettings, sides: tuple[Iterable[str], ...], name: str, merges: Merges | None) -> Codec:
    pieces = settings.subwords in ("bpe", "unigram")
    codec = _train_pieces(settings, sides, name) if pieces else _count_words(settings, sides, name, merges)
    codec.symbols = settings.every_symbol
    return codec


def _count_words(
    settings: DataSettings, sides: tuple[Iterable[str], ...], name: str, merges: Merges | None
) -> WordCodec:
    counts = Counter(word for line in chain(*sides) for word in split(line))
    if not counts:
        raise error("D206", side=name)
    if merges is not None:
        words, counts = counts, Counter()
        for word, n in words.items():
            for piece in cut(merges, word):  # of symbols, too, which count for nothing
                counts[piece] += n * (word not in settings.every_symbol)
    symbols = settings.every_symbol
    vocabulary = Vocabulary.count(counts, settings.vocabulary_size, settings.minimum_count, symbols)
    if len(vocabulary) == len(SPECIALS) + len(symbols):
        few = settings.vocabulary_size and settings.vocabulary_size <= len(vocabulary)
        key = "vocabulary_size" if few else "minimum_count"
        raise error("D208", side=name, reason=f"`{key}` is {getattr(settings, key)}")
    return WordCodec(vocabulary) if merges is None else MergeCodec(merges, vocabulary)


def has_room(size: int, characters: int) -> bool:
    """Whether a vocabulary gets a piece for every character of its text, not only for those that make up `COVERAGE` of it."""
    return characters <= size / 4


def _train_pieces(settings: DataSettings, sides: tuple[Iterable[str], ...], name: str) -> PieceCodec:
    from sentencepiece import SentencePieceTrainer

    size = settings.vocabulary_size
    if not size:
        raise error("D207", kind=settings.subwords)
    if not any(line.strip() for line in chain(*sides)):
        raise error("D206", side=name)
    characters: set[str] = set()
    for line in chain(*sides):
        characters.update(line)
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=map(without_tabs, chain(*sides)),  # a line with a tab would be ignored
            model_writer=model,
            model_type=settings.subwords,
            vocab_size=size,
            character_coverage=1.0 if has_room(size, len(characters)) else COVERAGE,
            split_digits=settings.split_digits,
            byte_fallback=settings.byte_fallback,
            user_defined_symbols=list(settings.every_symbol),
            **_SAME,
        )
    except RuntimeError as fault:
        if match := _TOO_LARGE.search(str(fault)):
            raise error("D201", size=size, side=name, largest=int(match[1])) from None
        if match := _TOO_SMALL.search(str(fault)):
            raise error("D205", size=size, side=name, smallest=int(match[1])) from None
        if size <= len(SPECIALS):
            raise error("D205", size=size, side=name, smallest=len(SPECIALS) + len(characters)) from None
        raise error("D206", side=name) from None
    return PieceCodec(model.getvalue(), settings.subwords)


def save_codecs(folder: Path, source: Codec, target: Codec) -> None:
    """Writes both codecs, once where they are one object, and `codec.json` with their kinds and symbols."""
    joint = source is target
    for side, codec in (("joint", source),) if joint else (("source", source), ("target", target)):
        codec.save(folder, side)
    about: dict[str, object] = {"format": _FORMAT, "joint": joint, "source": source.kind, "target": target.kind}
    if source.symbols:
        about["symbols"] = source.symbols
    write_whole(folder / _FILE, (json.dumps(about, indent=1) + "\n").encode())


def load_codecs(folder: Path) -> tuple[Codec, Codec]:
    """Reads the files of `save_codecs`. Raises all faults together: D101, D103, D202 or D204."""
    joint, kinds, symbols = _read_kinds(folder / _FILE)
    codecs: list[Codec] = []
    faults: list[Diagnostic] = []
    for side, kind in zip(("joint",) if joint else ("source", "target"), kinds, strict=False):
        try:
            codecs.append(LOADERS[kind](folder, side, kind))
            codecs[-1].symbols = symbols or codecs[-1].symbols
        except CalqueError as fault:
            faults += fault.diagnostics
    if faults:
        raise CalqueError(faults)
    return codecs[0], codecs[-1]


def _read_kinds(path: Path) -> tuple[bool, list[str], tuple[str, ...]]:
    """Whether both sides share a codec, the kinds of source and target, and their symbols."""
    try:
        about = json.loads(path.read_bytes())
    except OSError as fault:
        raise error("D101", Place(str(path)), reason=reason_of(fault)) from None
    except ValueError:
        raise error("D204", Place(str(path)), reason="it is not JSON") from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise error("D204", Place(str(path)), reason=f"expected `format` {_FORMAT}")
    joint, kinds = about.get("joint"), [str(about.get(side)) for side in ("source", "target")]
    if not isinstance(joint, bool) or any(kind not in LOADERS for kind in kinds) or (joint and kinds[0] != kinds[1]):
        raise error("D204", Place(str(path)), reason="it names no known pair of codecs")
    return joint, kinds, _symbols(about.get("symbols", []), path)


def _symbols(listed: object, path: Path) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise error("D204", Place(str(path)), reason="its symbols are no words")
    return tuple(listed)
