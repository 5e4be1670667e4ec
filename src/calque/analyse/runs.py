"""Runs under analysis: their names, the text that they translate, and values that several figures share."""

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

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
    """A text to translate, its reference, and a title; `lengths`, in words, are of all pairs, also those beyond the lines taken."""

    title: str
    sources: tuple[str, ...]
    references: tuple[str, ...]
    lengths: tuple[tuple[int, int], ...]


class AnalysedRun:
    """A run by its short name. Its translations are computed when they are first needed, and cached."""

    def __init__(self, name: str, folder: Path, text: ReferenceText, cache: AnalysisCache | None = None):
        self.name, self.folder, self.text, self.cache = name, folder, text, cache or AnalysisCache()
        self.run = api.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of its weights and its settings."""
        return fingerprint([read_about(self.folder / MODEL)["sha256"], contents(self.folder / EXPERIMENT)])

    @property
    def checked(self) -> CheckedDefinition:
        """The definition."""
        return self.run.model.checked

    @cached_property
    def corpus(self) -> str:
        """Its training corpus: the names of the files; with its compiled data also the number of pairs and the digest."""
        data = self.run.experiment.data
        names = " and ".join(Path(name).name for name in data.train_files)
        try:
            prepared = open_corpus(self.folder / CORPUS)
        except CalqueError:
            return names
        return f"{names}, {len(prepared.split('train')):,} pairs, data {prepared.digest[:12]}"

    @property
    def tokenize(self) -> str:
        """The tokenisation with which BLEU is computed."""
        return tokenisation(self.run.experiment.data, self.text.references)

    @cached_property
    def parameters(self) -> int:
        """Trained numbers, shared ones counted once: by the text, since the weights of the model here are packed."""
        return self.figures(1, 1).parameters

    def figures(self, length: int, source: int) -> ModelCosts:
        """Its costs for sentences of these lengths, as `calque explain` computes them."""
        shape = self.run.model.shape
        around = Surroundings(shape.source_size, shape.target_size, shape.tying, shape.output_bias)
        return whole(self.checked, around, length, source)

    @cached_property
    def _decoded(self) -> tuple[list[Translation], float]:
        def decode() -> tuple[list[Translation], float]:
            began = time.perf_counter()
            translations = [best[0] for best in self.run.candidates(self.text.sources)]
            return translations, time.perf_counter() - began

        source = [self.fingerprint, self.text.sources, torch.get_num_threads()]
        (translations, seconds), _ = self.cache.part(stem("translations", self.name), source, decode)
        return [Translation(text, tuple(ids), score, logp) for text, ids, score, logp in translations], seconds

    @property
    def translated(self) -> list[Translation]:
        """The best translation of each line of the text, its tokens and scores."""
        return self._decoded[0]

    @property
    def translations(self) -> list[str]:
        """The best translation of each line of the text."""
        return [translation.text for translation in self.translated]

    @property
    def decoding_seconds(self) -> float:
        """The time of all translations, with the batches of the run and the threads of this process."""
        return self._decoded[1]

    def source_ids(self, line: str) -> list[int]:
        """The ids that the encoder reads."""
        here = self.run.loaded
        return [*here.source.encode([line])[0], *([EOS] if here.source_end else [])]

    def target_ids(self, line: str) -> list[int]:
        """The ids that are forced, without begin and end symbols."""
        return list(self.run.loaded.target.encode([line])[0])

    def weights(self, number: int) -> dict[str, Tensor]:
        """The attention weights of a line while its reference is forced, by path; none where a side is empty."""
        source = self.source_ids(self.text.sources[number])
        target = self.target_ids(self.text.references[number])
        return attention_weights(self.run.model, source, target) if source and target else {}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each attention layer, one of `KINDS`; a layer in the chain of a source argument belongs to the encoder."""
        nodes = {node.path: node for chain in (self.checked.encoder, self.checked.decoder) for node in chain.nodes()}
        kinds = {}
        for path in self.attentions:
            node = nodes[path]
            reads = any(isinstance(value, SourceArg) for value in vars(node.args).values())
            kinds[path] = ENCODER if node.side == OF_ENCODER else SOURCE if reads else DECODER
        return kinds

    @cached_property
    def layers(self) -> dict[str, str]:
        """Its layers in words, by path."""
        return layers_in_words(self.checked)

    def kind(self, path: str) -> str:
        """The kind of an attention layer, one of `KINDS`."""
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
    """Short names: the last parts of each path, as many as make them differ, and not a number alone. Raises X820.

    A number at the end of all paths is left out where the rest of them differs. Of names that would give files the same names, the
    later ones get a number.
    """
    parts = [folder.resolve().parts for folder in folders]
    shorter = [one[:-1] for one in parts]
    if len({one[-1] for one in parts}) == 1 and parts[0][-1].isdigit() and len(set(shorter)) == len(parts):
        parts = shorter
    for k, one in enumerate(parts):
        if one in parts[:k]:
            raise error("X820", Place(str(folders[k])))
    return _apart([_short_name(one, [other for other in parts if other != one]) for one in parts])


def _apart(names: Sequence[str]) -> list[str]:
    """Names whose file names differ, too: `a b` and `a-b` are written alike."""
    found: list[str] = []
    for name in names:
        taken = set(map(stem, found))
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        found.append(next(one for one in itertools.chain([name], numbered) if stem(one) not in taken))
    return found


def _short_name(parts: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    """As few of the last parts of a path as no other path ends in, of which the first is no number."""
    for depth in range(1, len(parts)):
        tail = parts[-depth:]
        if not tail[0].isdigit() and all(other[-depth:] != tail for other in others):
            return "/".join(tail)
    return "/".join(parts)


def common_text(folders: Sequence[Path], given: tuple[Path, Path] | None, lines: int) -> ReferenceText:
    """The first `lines` lines of the given files, else of the runs' own test text (validation text where there is none).

    Raises X821 where a run's folder holds no text, X822 where runs have different ones, and what `check_corpus` raises.
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
    subjects = [AnalysedRun(name, folder, text, cache) for name, folder in zip(names, folders, strict=True)]
    codecs: dict[str, tuple[Codec, Codec]] = {}
    for subject in subjects:
        # Runs of one corpus cut words alike. They share codecs, and so the codecs' caches.
        loaded = subject.run.loaded
        key = fingerprint(read_about(subject.folder / MODEL)["codecs"])
        source, target = codecs.setdefault(key, (loaded.source, loaded.target))
        subject.run.loaded = replace(loaded, source=source, target=target)
    return subjects


def stem(*parts: str) -> str:
    """A file name made from names with any letters."""
    return re.sub(r"[^\w.+-]+", "-", "-".join(parts)).strip("-")


def spread_over(count: int, most: int) -> Iterator[int]:
    """At most `most` of `count` numbers, evenly spaced."""
    return (k * count // min(most, count) for k in range(min(most, count)))
