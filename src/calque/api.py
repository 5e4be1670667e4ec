"""The Python interface: check and build a text, load a run, translate, score."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from calque.adl.check import Checked
from calque.adl.check import check as check_text
from calque.align.table import best_of, read_table
from calque.data.batches import collate, decode_plan
from calque.data.codecs import Codec
from calque.data.corpus import Pairs
from calque.decode.attention import check_attends
from calque.decode.prepare import prepare_for_decoding
from calque.decode.rule import SearchSettings, score_of
from calque.decode.score import Scores, score, score_versions
from calque.decode.scorer import COMBINE
from calque.decode.select import load_selection
from calque.decode.translate import Loaded, Prefix, Translation, force, translate_lines
from calque.diagnostics import Diagnostic, Place, Text, error, render
from calque.experiment import Experiment, override
from calque.experiment import load as load_experiment
from calque.experiment_io import literal
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run import EXPERIMENT, load_model
from calque.workflow import registry_of_run


def check(text: str) -> Checked:
    """The checked tree of a definition. Raises `CalqueError` with every fault."""
    return check_text(Text("text", text), builtin())


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

    def __init__(self, loaded: Loaded, experiment: Experiment):
        self.loaded, self.experiment = loaded, experiment

    @property
    def model(self) -> Model:
        """The module, in evaluation mode; of an ensemble the first."""
        return self.loaded.model

    def translate(self, lines: Sequence[str], prefixes: Sequence[Prefix] | None = None) -> list[str]:
        """The best translation of each line; each begins with its prefix, if given, as text or ids."""
        return [found[0].text for found in self.candidates(lines, prefixes=prefixes)]

    def candidates(
        self, lines: Sequence[str], n_best: int = 1, prefixes: Sequence[Prefix] | None = None
    ) -> list[list[Translation]]:
        """The `n_best` translations of each line with their scores, the best first; with `sample`, as many samples."""
        asked = lines if prefixes is None else list(zip(lines, prefixes, strict=True))
        return translate_lines(self.loaded, asked, n_best, warn=_warn)

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The score of given translations, normalised as the search does it.

        The target is cut into subwords anew, so a translation whose text can be cut in several ways may score differently
        from the cut that the search found.
        """
        here = self.loaded
        settings = SearchSettings(
            normalise=here.decode.normalise, alpha=here.decode.alpha, word_penalty=here.decode.word_penalty
        )
        found = self._forced(pairs)
        return score_of(settings, found.logp, found.tokens).tolist()

    def cross_entropies(self, versions: Mapping[str, Iterable[str]]) -> list[list[float]]:
        """The mean cross-entropy per token, end symbol included, in nats, of several translations of each source.

        Faster than `score` of each: what translations of a source share is computed once.
        """
        import torch

        here, texts = self.loaded, [list(some) for some in versions.values()]
        flat = [text for some in texts for text in some]
        cut = dict(zip(dict.fromkeys(flat), here.target.encode(list(dict.fromkeys(flat))), strict=True))
        targets = [[cut[text] for text in some] for some in texts]
        if here.others:
            sources = [source for source, some in versions.items() for _ in some]
            found = force(here, sources, [ids for some in targets for ids in some])
            cuts = list(map(len, targets))
            each = [
                Scores(*both)
                for both in zip(torch.split(found.logp, cuts), torch.split(found.tokens, cuts), strict=True)
            ]
        else:
            read = here.source.encode(list(versions))
            each = score_versions(here.model, read, targets, here.source_end, here.decode.batch_tokens)
        return [(-one.logp / one.tokens).tolist() for one in each]

    def _forced(self, pairs: Sequence[tuple[str, str]]) -> Scores:
        here = self.loaded
        sources, targets = here.source.encode([s for s, _ in pairs]), here.target.encode([t for _, t in pairs])
        if here.others:
            return force(here, [s for s, _ in pairs], targets)
        held = Pairs.of(sources, targets)
        plan = decode_plan(held.source_lengths + held.target_lengths, here.decode.batch_tokens)
        return score(here.model, (collate(held, rows, here.source_end) for rows in plan))


def load(
    folder: str | Path | Sequence[str | Path],
    *,
    combine: str = COMBINE[0],
    select: str | Path | None = None,
    dictionary: str | Path | None = None,
    overrides: Sequence[str] = (),
    **decode: Any,
) -> Run:
    """A trained run, ready to decode, or an ensemble of several.

    Keywords replace settings of its [decode], as in `load(folder, beam=1)`, and so do `overrides` such as "decode.beam=1". An
    ensemble has the settings and the target codec of its first run; `combine` is one of probs, logits and logprobs, see
    `calque.decode.scorer.Models`. `select` names a lexical table, see `calque.decode.select`; `dictionary` another that
    unknown words are replaced by, see `calque.decode.unknown`: with one, `replace_unknown` is true.

    Raises `CalqueError` where a folder is not whole, a setting is none (X1), target vocabularies differ (X415), a line of a table
    is at fault (D6), or unknown words are to be replaced where nothing aligns them (X8).
    """
    if combine not in COMBINE:
        raise ValueError(f"expected one of {', '.join(COMBINE)}, found {combine!r}")
    if dictionary is not None:
        decode = {**decode, "replace_unknown": True}
    folders = [Path(f) for f in ([folder] if isinstance(folder, str | Path) else folder)]
    if not folders:
        raise ValueError("expected a run folder, found none")
    written = [*(f"decode.{key}={literal(value)}" for key, value in decode.items()), *overrides]
    for one in written:
        entry = override(one)
        if entry.section != "decode":
            raise error("X414", entry.section_at, key=f"{entry.section}.{entry.key}", section=entry.section)
    first, *others = [_load(path, written) for path in folders]
    for path, other in zip(folders[1:], others, strict=True):
        _check_vocabularies(folders[0], first.loaded.target, path, other.loaded.target)
    here = replace(first.loaded, others=tuple(other.loaded for other in others), combine=combine)
    if select is not None:
        d = here.decode
        table = (d.select_per_word, d.select_frequent, d.selection == "sentence")
        here = replace(here, selection=load_selection(Path(select), here.source, here.target, *table))
    if here.decode.replace_unknown:
        check_attends(here)
    if dictionary is not None:
        here = replace(here, dictionary=best_of(read_table(Path(dictionary))))
    return Run(here, first.experiment)


def open_loaded(
    folders: Sequence[Path],
    combine: str,
    select: Path | None,
    dictionary: Path | None,
    overrides: Sequence[str],
    scores: bool,
) -> Loaded:
    """What `load` makes ready; for worker processes, which get its name and these arguments."""
    here = load(folders, combine=combine, select=select, dictionary=dictionary, overrides=overrides)
    return replace(here.loaded, scores=scores)


def _load(path: Path, overrides: Sequence[str]) -> Run:
    import torch

    held = load_model(path, "cuda" if torch.cuda.is_available() else "cpu", registry=registry_of_run(path))
    settings = load_experiment(path / EXPERIMENT, overrides).decode
    model = prepare_for_decoding(held.model, settings.precision)
    return Run(Loaded(model, *held.codecs, settings, held.experiment.data.source_end), held.experiment)


def _check_vocabularies(first: Path, one: Codec, other: Path, its: Codec) -> None:
    """X415 where ids do not mean the same."""
    if one is not its:
        pairs = zip_longest(one.tokens(range(one.size)), its.tokens(range(its.size)), fillvalue="nothing")
        for number, (a, b) in enumerate(pairs):
            if a != b:
                raise error("X415", Place(str(other)), first=first, other=other, id=number, expected=a, found=b)


def _warn(found: Diagnostic) -> None:
    warnings.warn(render(found), stacklevel=4)
