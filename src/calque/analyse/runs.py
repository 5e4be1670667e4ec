"""Runs under analysis: their names, the text they are tested on, and what is computed once for all figures."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calque.adl.check import CheckedDefinition
from calque.analyse.cache import AnalysisCache, contents, fingerprint
from calque.analyse.forced_attention import attention_weights
from calque.analyse.layer_names import layers_in_words
from calque.data.codecs import Codec, split
from calque.data.corpus import open_corpus
from calque.data.lines import Lines, check_corpus
from calque.data.vocabulary import EOS
from calque.decode.translate import Translation
from calque.explain.totals import ModelCosts, Surroundings, whole
from calque.ground.diagnostics import CalqueError, Place, error
from calque.layers.contract import ENCODER as OF_ENCODER
from calque.layers.contract import Layer, SourceArg
from calque.run.folder import ARCHITECTURE, CORPUS, EXPERIMENT, MODEL
from calque.run.tensors import read_about
from calque.workflow import api
from calque.workflow.validation import tokenisation

ENCODER, DECODER, SOURCE = "encoder self-attention", "decoder self-attention", "source attention"
KINDS = (ENCODER, DECODER, SOURCE)


@dataclass(frozen=True)
class ReferenceText:
    """A text to translate, its reference, and where it is from; `lengths`, in words, are those of all pairs, uncut."""

    title: str
    sources: tuple[str, ...]
    references: tuple[str, ...]
    lengths: tuple[tuple[int, int], ...]


class AnalysedRun:
    """A run by its short name. What it translates is computed when first asked for, and kept."""

    def __init__(self, name: str, folder: Path, text: ReferenceText, cache: AnalysisCache | None = None):
        self.name, self.folder, self.text, self.cache = name, folder, text, cache or AnalysisCache()
        self.run = api.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        """Names its weights and its settings."""
        return fingerprint([read_about(self.folder / MODEL)["sha256"], contents(self.folder / EXPERIMENT)])

    @property
    def checked(self) -> CheckedDefinition:
        """The definition."""
        return self.run.model.checked

    @cached_property
    def corpus(self) -> str:
        """What it was trained on: the names of the files, and the number of pairs and the digest where its data is there."""
        data = self.run.experiment.data
        names = " and ".join(Path(name).name for name in data.train)
        try:
            prepared = open_corpus(self.folder / CORPUS)
        except CalqueError:
            return names
        return f"{names}, {len(prepared.split('train')):,} pairs, data {prepared.digest[:12]}"

    @property
    def tokenize(self) -> str:
        """How BLEU cuts the words of its text."""
        return tokenisation(self.run.experiment.data)

    @cached_property
    def parameters(self) -> int:
        """Numbers that were trained, shared ones once."""
        return sum(p.numel() for p in self.run.model.parameters())

    def figures(self, length: int, source: int) -> ModelCosts:
        """What `calque explain` knows of it for sentences of these lengths."""
        shape = self.run.model.shape
        around = Surroundings(shape.source_size, shape.target_size, shape.tying, shape.output_bias)
        return whole(self.checked, around, length, source)

    @cached_property
    def _decoded(self) -> tuple[list[Translation], float]:
        def make() -> Any:
            began = time.perf_counter()
            found = [best[0] for best in self.run.candidates(self.text.sources)]
            return [found, time.perf_counter() - began]

        source = [self.fingerprint, self.text.sources, torch.get_num_threads()]
        (found, seconds), _ = self.cache.part(stem("translations", self.name), source, make)
        return [Translation(text, tuple(ids), score, logp) for text, ids, score, logp in found], seconds

    @property
    def translated(self) -> list[Translation]:
        """The best translation of each line of the text, its tokens and scores."""
        return self._decoded[0]

    @property
    def translations(self) -> list[str]:
        """The best translation of each line of the text."""
        return [found.text for found in self.translated]

    @property
    def decoding_seconds(self) -> float:
        """How long all translations took, batches and threads as the run has them."""
        return self._decoded[1]

    def source_ids(self, line: str) -> list[int]:
        """What the encoder reads."""
        here = self.run.loaded
        return [*here.source.encode([line])[0], *([EOS] if here.source_end else [])]

    def target_ids(self, line: str) -> list[int]:
        """What is forced, without begin and end symbols."""
        return list(self.run.loaded.target.encode([line])[0])

    def weights(self, number: int) -> dict[str, Tensor]:
        """The attention weights of a line of the text while its reference is forced, by path; nothing for an empty side."""
        source = self.source_ids(self.text.sources[number])
        target = self.target_ids(self.text.references[number])
        return attention_weights(self.run.model, source, target) if source and target else {}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Which of `KINDS` each attention layer is; one in the chain of a source is the encoder's."""
        nodes = {node.path: node for chain in (self.checked.encoder, self.checked.decoder) for node in chain.nodes()}
        found = {}
        for path in self.attentions:
            node = nodes[path]
            reads = any(isinstance(value, SourceArg) for value in vars(node.args).values())
            found[path] = ENCODER if node.side == OF_ENCODER else SOURCE if reads else DECODER
        return found

    @cached_property
    def layers(self) -> dict[str, str]:
        """Its layers in words, by path."""
        return layers_in_words(self.checked)

    def kind(self, path: str) -> str:
        """Which of `KINDS` an attention layer is."""
        return self.kinds[path]

    @property
    def sources_read(self) -> list[str]:
        """The paths of the layers whose attention to the source can be recorded."""
        return [path for path, kind in self.kinds.items() if kind == SOURCE]

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The paths of the layers whose weights follow from positions alone."""
        layers = [layer for layer in self.run.model.modules() if isinstance(layer, Layer)]
        return frozenset(layer.path for layer in layers if layer.fixed)

    @cached_property
    def attentions(self) -> dict[str, int]:
        """The paths of all layers whose attention weights can be recorded, encoder first, and their numbers of heads."""
        return {path: len(weights) for path, weights in attention_weights(self.run.model, [EOS], [EOS]).items()}


def names_of(folders: Sequence[Path]) -> list[str]:
    """Short names: the last parts of each path, as many as tell all apart and say more than a number. Raises X820.

    A number that all paths end in is left out where the rest tells them apart.
    """
    parts = [folder.resolve().parts for folder in folders]
    shorter = [one[:-1] for one in parts]
    if len({one[-1] for one in parts}) == 1 and parts[0][-1].isdigit() and len(set(shorter)) == len(parts):
        parts = shorter
    for k, one in enumerate(parts):
        if one in parts[:k]:
            raise error("X820", Place(str(folders[k])))
    return [_short_name(one, [other for other in parts if other != one]) for one in parts]


def _short_name(parts: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    """As few of the last parts of a path as no other path ends in, of which the first is no number."""
    for depth in range(1, len(parts)):
        tail = parts[-depth:]
        if not tail[0].isdigit() and all(other[-depth:] != tail for other in others):
            return "/".join(tail)
    return "/".join(parts)


def common_text(folders: Sequence[Path], given: tuple[Path, Path] | None, lines: int) -> ReferenceText:
    """The first `lines` lines of the given files, else of the runs' own test text (validation text where there is none).

    Raises X821 where a run's folder holds none, X822 where runs have different ones, and what `check_corpus` raises.
    """
    if given is not None:
        check_corpus(*given)
        pair = (list(Lines(given[0])), list(Lines(given[1])))
        return _tested(f"{given[0].name}, {given[1].name}", pair, lines)
    texts = {folder: _own_text(folder) for folder in folders}
    first = folders[0]
    for folder in folders[1:]:
        if texts[folder] != texts[first]:
            raise error("X822", Place(str(folder)), other=first)
    split, pair = texts[first]
    return _tested(f"{split} text of the runs", pair, lines)


def _tested(title: str, pair: tuple[list[str], list[str]], lines: int) -> ReferenceText:
    lengths = tuple((len(split(source)), len(split(target))) for source, target in zip(*pair, strict=True))
    return ReferenceText(title, tuple(pair[0][:lines]), tuple(pair[1][:lines]), lengths)


def _own_text(folder: Path) -> tuple[str, tuple[list[str], list[str]]]:
    if not (folder / ARCHITECTURE).is_file():
        raise error("K101", Place(str(folder)), name=ARCHITECTURE)
    try:
        prepared = open_corpus(folder / CORPUS)
    except CalqueError:
        raise error("X821", Place(str(folder))) from None
    split = "test" if "test" in prepared.pairs else "valid"
    return {"test": "test", "valid": "validation"}[split], prepared.lines(split)


def open_subjects(
    folders: Sequence[Path], given: tuple[Path, Path] | None, lines: int, cache: AnalysisCache | None = None
) -> list[AnalysedRun]:
    """The runs of these folders on one text. Raises what `names_of`, `common_text` and `calque.load` raise."""
    names = names_of(folders)
    text = common_text(folders, given, lines)
    found = [AnalysedRun(name, folder, text, cache) for name, folder in zip(names, folders, strict=True)]
    codecs: dict[str, tuple[Codec, Codec]] = {}
    for subject in found:
        # Runs of one corpus cut words alike: what one has cut, the others need not cut again.
        here = subject.run.loaded
        known = fingerprint(read_about(subject.folder / MODEL)["codecs"])
        source, target = codecs.setdefault(known, (here.source, here.target))
        subject.run.loaded = replace(here, source=source, target=target)
    return found


def stem(*parts: str) -> str:
    """The name of a file, of names of any letters."""
    return re.sub(r"[^\w.+-]+", "-", "-".join(parts)).strip("-")


def spread_over(count: int, most: int) -> Iterator[int]:
    """At most `most` of `count` numbers, evenly spaced."""
    return (k * count // min(most, count) for k in range(min(most, count)))
