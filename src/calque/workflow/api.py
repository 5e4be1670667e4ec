"""The Python API: check and build a definition, load a run, translate, score."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, overload

import torch

from calque.adl.check import CheckedDefinition
from calque.adl.check import check as check_text
from calque.align.lexical_table import best_of, read_table
from calque.data.batches import collate, decode_plan
from calque.data.codecs import Codec
from calque.data.corpus import Pairs
from calque.data.lines import MARK
from calque.decode.attention import check_attends
from calque.decode.memory import read_memory
from calque.decode.prepare import prepare_for_decoding
from calque.decode.recall import Recall
from calque.decode.rule import SearchSettings, score_of
from calque.decode.score import Scores, score, score_versions
from calque.decode.scorer import COMBINE
from calque.decode.select import load_selection
from calque.decode.sentences import with_terms
from calque.decode.simultaneous import Interpreted, Interpreter, Policy, interpret_lines
from calque.decode.terms import Phrases
from calque.decode.translate import InputLine, Prefix, Translation, Translator, force, translate_lines
from calque.experiment import Experiment, override, setting_entry
from calque.experiment import load as load_experiment
from calque.experiment.toml import KeyEntry
from calque.ground.diagnostics import Place, Text, error
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run.folder import EXPERIMENT
from calque.run.model_file import load_model
from calque.workflow.document.translated import translate_file
from calque.workflow.given import (
    for_each,
    given_memory,
    given_pairs,
    given_phrases,
    given_prefix,
    given_sentences,
    is_pair,
    warn_caller,
)
from calque.workflow.plugins import registry_of_run
from calque.workflow.run_folders import missing_run


def check(text: str) -> CheckedDefinition:
    """The checked tree of a definition. Raises `CalqueError` with all errors together."""
    return check_text(Text("text", text.removeprefix(MARK)), builtin())


def build(
    text: str,
    source_size: int,
    target_size: int,
    tying: str = "three-way",
    output_bias: bool = True,
    gamma: float = 1.0,
) -> Model:
    """A model with fresh weights. Sizes are of the vocabularies, special symbols included. Raises `CalqueError`.

    `gamma` is the mean length of sources divided by that of targets; `hc_src_att` alone reads it.
    """
    return Model(check(text), Shape(source_size, target_size, tying, output_bias, gamma))


class Run:
    """A trained model of a run folder, or an ensemble of several."""

    def __init__(self, loaded: Translator, experiment: Experiment):
        self.loaded, self.experiment = loaded, experiment

    @property
    def model(self) -> Model:
        """The module, in evaluation mode; of an ensemble the first."""
        return self.loaded.model

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self, lines: str, prefixes: Prefix | None = None, required: Phrases | None = None
    ) -> str: ...
    @overload
    def translate(
        self,
        lines: Iterable[str],
        prefixes: Iterable[Prefix] | None = None,
        required: Iterable[Phrases] | None = None,
    ) -> list[str]: ...
    def translate(
        self,
        lines: str | Iterable[str],
        prefixes: Prefix | Iterable[Prefix] | None = None,
        required: Phrases | Iterable[Phrases] | None = None,
    ) -> str | list[str]:
        """The best translation of each sentence; of one string, which is one sentence, its best translation.

        `prefixes`, text or ids, are the beginnings of the translations: one for one sentence, else as many as sentences.

        Sentences are read as the command line reads lines: without a byte order mark before the first and without line ends;
        NUL and lone surrogates become U+FFFD, with a warning (D121). Raises TypeError where a sentence is not a string, ValueError
        where there are not as many prefixes as sentences.

        `required` are the phrases that each translation must contain, for one sentence a list of them, else as many lists as
        sentences: `["Haus"]`, or with forms of which one is enough, `[["Haus", "Hauses"]]`. See `calque.decode.constrained`.
        """
        best = [translations[0].text for translations in self._candidates(lines, 1, prefixes, required)]
        return best[0] if isinstance(lines, str) else best

    @overload
    def candidates(  # type: ignore[overload-overlap]
        self, lines: str, n_best: int = 1, prefixes: Prefix | None = None, required: Phrases | None = None
    ) -> list[Translation]: ...
    @overload
    def candidates(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        prefixes: Iterable[Prefix] | None = None,
        required: Iterable[Phrases] | None = None,
    ) -> list[list[Translation]]: ...
    def candidates(
        self,
        lines: str | Iterable[str],
        n_best: int = 1,
        prefixes: Prefix | Iterable[Prefix] | None = None,
        required: Phrases | Iterable[Phrases] | None = None,
    ) -> list[Translation] | list[list[Translation]]:
        """The `n_best` translations of each sentence with their scores, the best first; with `sample`, as many samples.

        Of one string, which is one sentence, the list of its translations. Sentences, prefixes and what is required are as in
        `translate`. The beam is at least `n_best`, from 1.
        """
        translations = self._candidates(lines, n_best, prefixes, required)
        return translations[0] if isinstance(lines, str) else translations

    def translate_file(self, file: str | Path, out: str | Path, invariant: bool = False) -> None:
        """Writes the translation of a document. Raises D101, D540, D541 and X408; see `calque.workflow.document.translated`."""
        translate_file(self.loaded, Path(file), Path(out), invariant, warn=warn_caller)

    def interpreter(self, policy: str = "wait-3", every: int = 1) -> Interpreter:
        """Translates sentences while they are being read. Raises X808 for an unknown policy, see `Policy`, and X809."""
        return Interpreter(self.loaded, Policy.of(policy, every))

    def interpret(self, lines: Iterable[str], policy: str = "wait-3", every: int = 1) -> list[Interpreted]:
        """The translation of each sentence as if it were read word by word, and when each of its words was written.

        Sentences are read as by `translate`. Raises X808 and X809, as `interpreter` does.
        """
        if isinstance(lines, str):
            raise TypeError("expected a list of sentences, found one string")
        return interpret_lines(self.loaded, given_sentences(lines, "lines"), Policy.of(policy, every), warn=warn_caller)

    @overload
    def score(self, pairs: tuple[str, str]) -> float: ...
    @overload
    def score(self, pairs: Iterable[tuple[str, str]]) -> list[float]: ...
    def score(self, pairs: tuple[str, str] | Iterable[tuple[str, str]]) -> float | list[float]:
        """The score of given translations, normalised as the search does it; of one pair (source, target), its score.

        The target text is cut into subwords. A translation that the search wrote with another cut may have another score there.
        Raises TypeError where an element is no pair of strings.
        """
        one = is_pair(pairs)
        scores = self.scores(*given_pairs([pairs] if one else pairs))
        return scores[0] if one else scores

    def scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """`score` of the lines of two texts that have been read already, as `calque.data.repair` reads them."""
        decode = self.loaded.decode
        settings = SearchSettings(normalise=decode.normalise, alpha=decode.alpha, word_penalty=decode.word_penalty)
        forced = self._forced(sources, targets)
        found: list[float] = score_of(settings, forced.logp, forced.tokens).tolist()
        return found

    def cross_entropies(self, versions: Mapping[str, str | Iterable[str]]) -> list[list[float]]:
        """The mean cross-entropy per token, end symbol included, in nats, of several translations of each source.

        One string is one translation. This is faster than `score`: common parts of the translations of a source are computed once.
        """
        here, sources = self.loaded, given_sentences(versions, "sources")
        texts = [given_sentences([some] if isinstance(some, str) else some, "targets") for some in versions.values()]
        flat = [text for some in texts for text in some]
        cut = dict(zip(dict.fromkeys(flat), here.target.encode(list(dict.fromkeys(flat))), strict=True))
        targets = [[cut[text] for text in some] for some in texts]
        if here.others:
            each = _forced_versions(here, sources, targets)
        else:
            read = here.source.encode(sources)
            plan = here.source_end, here.decode.batch_tokens, len(here.target.begins)
            each = score_versions(here.model, read, targets, *plan)
        return [(-one.logp / one.tokens).tolist() for one in each]

    def _candidates(
        self,
        lines: str | Iterable[str],
        n_best: int,
        prefixes: Prefix | Iterable[Prefix] | None,
        required: Phrases | Iterable[Phrases] | None,
    ) -> list[list[Translation]]:
        one, sentences = isinstance(lines, str), given_sentences([lines] if isinstance(lines, str) else lines, "lines")
        asked: Sequence[InputLine] = sentences
        if isinstance(prefixes, str) and not one:
            raise TypeError("expected a prefix for each of the sentences, found one string")
        if prefixes is not None or required is not None:
            words = self.loaded.target.size
            before = [given_prefix(each, words) for each in for_each(prefixes, one, "prefixes", sentences, "")]
            phrases = [given_phrases(each) for each in for_each(required, one, "lists of phrases", sentences, ())]
            asked = list(zip(sentences, before, phrases, strict=True))
        return translate_lines(self.loaded, asked, n_best, warn=warn_caller)

    def _forced(self, sources: Sequence[str], targets: Sequence[str]) -> Scores:
        here, written = self.loaded, self.loaded.target.encode(self.loaded.given(sources, targets))
        if here.others:
            return force(here, sources, written)
        held = Pairs.of(here.source.encode(sources), written)
        plan = decode_plan(held.source_lengths + held.target_lengths, here.decode.batch_tokens)
        batches = (collate(held, rows, here.source_end) for rows in plan)
        return score(here.model, batches, len(here.target.begins))


def _forced_versions(ensemble: Translator, sources: list[str], targets: list[list[list[int]]]) -> list[Scores]:
    repeated = [source for source, some in zip(sources, targets, strict=True) for _ in some]
    scores = force(ensemble, repeated, [ids for some in targets for ids in some])
    counts = list(map(len, targets))
    parts = zip(torch.split(scores.logp, counts), torch.split(scores.tokens, counts), strict=True)
    return [Scores(*one) for one in parts]


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    combine: str = COMBINE[0],
    select: str | Path | None = None,
    dictionary: str | Path | None = None,
    terms: str | Path | None = None,
    memory: tuple[str | Path, str | Path] | None = None,
    overrides: Sequence[str | KeyEntry] = (),
    **decode: object,
) -> Run:
    """A trained run, ready to decode, or an ensemble of several.

    Keywords replace settings of its [decode], as in `load(folder, beam=1)`, and so do `overrides` such as "decode.beam=1". An
    ensemble has the settings and the target codec of its first run; `combine` is one of probs, logits and logprobs, see
    `calque.decode.scorer.Models`. `select` names a lexical table of words that can be chosen, see `calque.decode.select`;
    `dictionary` names one that replaces unknown words, see `calque.decode.unknown`, and makes `replace_unknown` true. `terms` names
    a list of terms, with which lines that have them must be translated, see `calque.decode.terms`. `memory` names the two files of
    a translation memory, sources and their translations, on which the models lean, see `calque.decode.nearest`.

    Raises `CalqueError` for no such folder (X118; X115 for the name of an architecture), a damaged one, a wrong setting (X1),
    target vocabularies that differ (X415), an empty or unreadable file (D1) or a wrong line of one (D6), terms for samples (X807),
    a selection that offers no word (X806), or unknown words that are to be replaced where nothing aligns them (X8).
    """
    if combine not in COMBINE:
        raise ValueError(f"expected one of {', '.join(COMBINE)}, found {combine!r}")
    files = given_memory(memory)
    if dictionary is not None:
        decode["replace_unknown"] = True
    folders = _folders(folder)
    entries = _decode_entries(overrides, decode)
    first, *others = [_load(path, entries) for path in folders]
    for path, other in zip(folders[1:], others, strict=True):
        _check_vocabularies(folders[0], first.loaded.target, path, other.loaded.target)
    ensemble = replace(first.loaded, others=tuple(other.loaded for other in others), combine=combine)
    return Run(_with_tables(ensemble, Tables(select, dictionary, terms, files)), first.experiment)


def _folders(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Run folders. Raises ValueError where there are none, X118 where one is missing, X115 for the name of an architecture."""
    folders = [Path(one) for one in ([given] if isinstance(given, str | Path) else given)]
    if not folders:
        raise ValueError("expected a run folder, found none")
    for path in folders:
        if not path.exists():
            raise missing_run(path)
    return folders


def _decode_entries(overrides: Sequence[str | KeyEntry], decode: Mapping[str, object]) -> list[KeyEntry]:
    """Settings of [decode] as entries. Raises X414 where one is of another section."""
    entries = [setting_entry("decode", key, value) for key, value in decode.items()]
    entries += [override(one) if isinstance(one, str) else one for one in overrides]
    for entry in entries:
        if entry.section != "decode":
            raise error("X414", entry.section_at, key=f"{entry.section}.{entry.key}", section=entry.section)
    return entries


class Tables(NamedTuple):
    """Files that say more of words than a run does; see `load`."""

    select: str | Path | None = None
    dictionary: str | Path | None = None
    terms: str | Path | None = None
    memory: tuple[Path, Path] | None = None


def _with_tables(loaded: Translator, tables: Tables) -> Translator:
    """Adds the lexical tables, the list of terms and the translation memory.

    Raises D1 and D6 for one at fault, and X8 where a table offers no word, none aligns unknown words, or words are drawn.
    """
    if tables.select is not None:
        d = loaded.decode
        table = (d.select_per_word, d.select_frequent, d.selection == "sentence")
        loaded = replace(loaded, selection=load_selection(Path(tables.select), loaded.source, loaded.target, *table))
    if loaded.decode.replace_unknown:
        check_attends(loaded)
    if tables.dictionary is not None:
        loaded = replace(loaded, dictionary=best_of(read_table(Path(tables.dictionary))))
    if tables.terms is not None:
        loaded = with_terms(loaded, Path(tables.terms))
    if tables.memory is not None:
        loaded = replace(loaded, recall=Recall(loaded, read_memory(*tables.memory)))
    return loaded


def open_loaded(
    folders: Sequence[Path],
    combine: str,
    tables: Tables,
    overrides: Sequence[str | KeyEntry],
    scores: bool,
) -> Translator:
    """The model that `load` loads. For worker processes, which receive the name of this function and its arguments."""
    run = load(folders, combine=combine, overrides=overrides, **tables._asdict())
    return replace(run.loaded, scores=scores)


def _load(path: Path, overrides: Sequence[KeyEntry]) -> Run:
    trained = load_model(path, "cuda" if torch.cuda.is_available() else "cpu", registry=registry_of_run(path))
    settings = load_experiment(path / EXPERIMENT, overrides).decode
    model = prepare_for_decoding(trained.model, settings.precision)
    loaded = Translator.of(model, trained.codecs, settings, trained.experiment.data.source_end, path)
    return Run(loaded, trained.experiment)


def _check_vocabularies(first: Path, one: Codec, other: Path, its: Codec) -> None:
    """Raises X415 where an id stands for different tokens."""
    if one is not its:
        pairs = zip_longest(one.tokens(range(one.size)), its.tokens(range(its.size)), fillvalue="nothing")
        for number, (a, b) in enumerate(pairs):
            if a != b:
                raise error("X415", Place(str(other)), first=first, other=other, id=number, expected=a, found=b)
