"""The input of decoding: a model with its codecs and settings, lines as ids, ids as padded batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch

from calque.data.codecs import Codec
from calque.data.recased_codec import RecasedCodec, in_capitals
from calque.data.spaced_codec import SpacedCodec
from calque.data.tagged_codec import TaggedCodec
from calque.data.vocabulary import EOS, PAD
from calque.decode.encode import rounded
from calque.decode.required import Required
from calque.decode.scorer import COMBINE, Candidates, Models, SourceBatch
from calque.decode.select import Selection
from calque.decode.terms import Phrases, Terms, load_terms, required_of
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import Diagnostic, Place, error
from calque.model import Model


class Translation(NamedTuple):
    """One translation of a line."""

    text: str
    ids: tuple[int, ...]
    """without begin and end symbols"""
    score: float
    logp: float


EMPTY = Translation("", (), 0.0, 0.0)
"""The translation of a line without words; the model does not read it."""


class Recalls(Protocol):
    """A translation memory as the models of a translator know it: `calque.decode.recall.Recall`."""

    def like(self, line: str) -> tuple[int, ...]:
        """The numbers of the pairs that are like a line."""
        ...

    def words(self, loaded: "Translator", sentence: "Sentence") -> list[int]:
        """The words of the pairs of a sentence, in the target vocabulary."""
        ...

    def scorer(
        self,
        loaded: "Translator",
        sourced: Sequence[SourceBatch],
        candidates: Candidates | None,
        sentences: Sequence["Sentence"],
        whole: bool,
    ) -> Models:
        """The logits of sentences in one batch. `whole`: to the bit as each sentence has them alone."""
        ...


@dataclass(frozen=True)
class Translator:
    """A model ready to decode, with its codecs and settings. `source_end`: sources have an end symbol.

    others     the further models of an ensemble, each with its own source codec; the first has the target codec, the settings
               and the source words that bound lengths and select candidates
    combine    how their distributions are combined, see `calque.decode.scorer.Models`
    selection  the words that can be chosen; None: all
    dictionary translations of unknown words, for `decode.replace_unknown`; see `calque.decode.unknown`
    terms      what lines with some words must be translated with; None: nothing
    recall     pairs of a translation memory to lean on, see `calque.decode.recall`; None: none
    scores     whether translations have scores: without, greedy search is faster, and they are 0, or nan where the model
               computes no numbers
    """

    model: Model
    source: Codec
    target: Codec
    decode: DecodeSettings
    source_end: bool = True
    others: tuple["Translator", ...] = ()
    combine: str = COMBINE[0]
    selection: Selection | None = None
    scores: bool = True
    dictionary: Mapping[str, str] = field(default_factory=dict)
    terms: Terms | None = None
    recall: Recalls | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        codecs: tuple[Codec, Codec],
        decode: DecodeSettings,
        source_end: bool,
        run: Path | None = None,
    ) -> Self:
        """A model that reads sources as `decode.recase` and `decode.tag` say, and white space as its vocabulary knows it.

        Raises D209 where the run lacks the tag.
        """
        source, target = codecs
        spaced = SpacedCodec(source)
        read = RecasedCodec(spaced) if decode.recase else spaced
        return with_tag(cls(model, read, target, decode, source_end), decode.tag, run)

    def given(self, lines: Sequence[str], translations: Sequence[str]) -> list[str]:
        """Given translations of lines as they are read: in small letters where the line is in capitals, and read in small ones."""
        small = RecasedCodec(self.target)
        each = zip(lines, translations, strict=True)
        return [small.line(text) if self.source.lowers(line) and in_capitals(text) else text for line, text in each]

    @property
    def members(self) -> tuple["Translator", ...]:
        """All models."""
        return self, *self.others


Some = TypeVar("Some", bound=Translator)


def with_tag(loaded: Some, tag: str, run: Path | None = None) -> Some:
    """The translator, with this symbol in front of every line that does not begin with a symbol already; without a tag as it is.

    An earlier tag gives way. Raises D209 where the run lacks the symbol.
    """
    if not tag:
        return loaded
    source = loaded.source.codec if isinstance(loaded.source, TaggedCodec) else loaded.source
    return replace(loaded, source=TaggedCodec(source, tag, others=True, place=Place(str(run)) if run else None))


def with_terms(loaded: Some, path: Path) -> Some:
    """The translator, with a list of terms. Raises what `load_terms` raises, and X807 where words are drawn by chance."""
    if loaded.decode.sample:
        raise error("X807")
    return replace(loaded, terms=load_terms(path, loaded.target))


SLAB = 32
"""For invariant decoding: sentences in a batch."""

Source = np.ndarray[tuple[int], np.dtype[np.int64]]
Prefix = str | Sequence[int]
"""The required beginning of a translation: text, or ids."""
InputLine = str | tuple[str, Prefix] | tuple[str, Prefix, Phrases]
"""A line, a line with a prefix, or one with a prefix and the phrases that its translation must contain."""


class Sentence(NamedTuple):
    """A line as ids for each model of an ensemble, without end symbols."""

    sources: tuple[Source, ...]
    prefix: tuple[int, ...] = ()
    line: int = 0
    """its number in the input, by which samples are drawn"""
    required: Required = ()
    """what its translation must contain"""
    like: tuple[int, ...] = ()
    """pairs of the translation memory whose sources are like the line"""


def sentences_of(
    loaded: Translator, asked: Sequence[InputLine], first: int = 1, warn: Callable[[Diagnostic], None] | None = None
) -> list[Sentence]:
    """Lines and their prefixes as ids. A line is cut after `max_source_tokens` tokens, with the warning D606."""
    lines, prefixes, phrases = _parts(asked)
    most = loaded.decode.max_source_tokens or None
    encoded = [member.source.encode(lines) for member in loaded.members]
    written = iter(loaded.target.encode([p for p in prefixes if isinstance(p, str)]))
    sentences = []
    required = required_of(loaded.target, loaded.terms, lines, phrases)
    if loaded.decode.sample and any(required):
        raise error("X807")
    each = zip(zip(*encoded, strict=True), prefixes, required, _like(loaded, lines), strict=True)
    for number, (ids, prefix, needed, like) in enumerate(each, first):
        longest = max(map(len, ids))
        if warn is not None and most is not None and longest > most:
            warn(Diagnostic("D606", Place("stdin", number), {"found": longest, "most": most}, severity="warning"))
        begins = next(written) if isinstance(prefix, str) else prefix
        cut = (member.source.cut(one, most) for member, one in zip(loaded.members, ids, strict=True))
        sentences.append(Sentence(tuple(np.array(one, np.int64) for one in cut), tuple(begins), number, needed, like))
    return sentences


def _like(loaded: Translator, lines: Sequence[str]) -> list[tuple[int, ...]]:
    """The pairs that are like each line, whose symbols do not count."""
    if loaded.recall is None:
        return [()] * len(lines)
    symbols = loaded.source.symbols
    plain = (" ".join(word for word in line.split() if word not in symbols) if symbols else line for line in lines)
    return [loaded.recall.like(line) for line in plain]


def _parts(asked: Sequence[InputLine]) -> tuple[list[str], list[Prefix], list[Phrases]]:
    """The lines, their prefixes and the phrases of their translations."""
    lines = [one if isinstance(one, str) else one[0] for one in asked]
    prefixes = ["" if isinstance(one, str) else one[1] for one in asked]
    return lines, prefixes, [one[2] if isinstance(one, tuple) and len(one) == 3 else () for one in asked]


def lengths_of(loaded: Translator, sentence: Sentence) -> list[int]:
    """The lengths of the sources, with end symbols, and of the prefix."""
    closed = zip(loaded.members, sentence.sources, strict=True)
    return [*(len(ids) + member.source_end for member, ids in closed), len(sentence.prefix)]


def as_batch(member: Translator, sources: Sequence[Source], slab: int = 0) -> SourceBatch:
    """Sources padded behind, on the model's device, their width rounded up if `slab`."""
    lengths = np.array([max(1, len(ids) + member.source_end) for ids in sources])  # as in `calque.data.batches.collate`
    width = rounded(int(lengths.max())) if slab else int(lengths.max())
    source = np.full((len(sources), width), PAD)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids) + member.source_end] = [*ids, EOS] if member.source_end else ids
    mask = torch.from_numpy(np.arange(width) < lengths[:, None])
    device = member.model.device
    return SourceBatch(member.model, torch.from_numpy(source).to(device), mask.to(device))
