"""A first experiment for a corpus: sizes that fit its pairs, a schedule that fits the time, and the reasons for both."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calque.data.corpus import Pairs
from calque.data.lines import check_corpus
from calque.data.split_writer import keep, none_left
from calque.data.subwords import COVERAGE, Codec, has_room, learn
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error, reason_of
from calque.ground.files import whole, write_whole
from calque.run.folder import refuse_full
from calque.workflow.new.choices import SIZES, Choice, CorpusFigures, Size, choose, vocabulary
from calque.workflow.new.holdout import hold_out
from calque.workflow.new.made import TAG, MadeText
from calque.workflow.new.pace import AssumedPace, MeasuredPace, text_of, weights
from calque.workflow.new.proposal import Proposal, brief_toml
from calque.workflow.new.survey import Survey, crossed, sample_of, survey

__all__ = ["Proposal", "new_experiment"]

BLEU_SENTENCES = 100
"""So many sentences are translated greedily at each validation."""
BYTES = 256
"""Pieces of a vocabulary with bytes for rare characters."""
LONG = 0.05
"""From this share of pairs on that are too long to be trained on, a proposal tells it (D135)."""


def new_experiment(
    folder: Path,
    train: Sequence[Path],
    valid: Sequence[Path],
    budget: float | None = None,
    measured: bool = True,
    attention: str | None = None,
    made: Sequence[Path] = (),
) -> Proposal:
    """Writes `experiment.toml` and `model.adl` into a new folder, for a budget in seconds if one is given.

    Without validation files one pair in twenty, at most 1,000, is held out, chosen by its content; both parts are written beside
    the experiment. The pace is measured for some seconds, unless `measured` is false. `attention`: of `ATTENTION`; None: by size.
    `made`: further pairs, whose sources a machine translated from their targets.
    Raises X405 (the folder is not empty), X408 (it cannot be written; nothing of it is left), X413 (all pairs are the same), D309
    (training would leave out all of them), and what the check of the corpora raises.
    """
    try:
        refuse_full(folder)
        surveyed, held_out = _surveyed(train, valid)
        beside = MadeText.of(made) if made else None
        refuse_full(folder)  # the survey may have taken minutes
        with whole(folder):
            if not valid:
                train, valid, held_out = hold_out(folder, train, surveyed.pairs)
                pairs = surveyed.pairs - held_out
                surveyed = replace(surveyed, pairs=pairs, sample=sample_of(train, pairs))
            texts = _Texts(_paths(train), _paths(valid), held_out)
            if beside is not None:
                # A model knows repeated pairs by heart, and translates better in the way of the other text.
                tag = TAG if beside.repeats(surveyed) else ""
                texts = texts._replace(train=beside.texts(train, surveyed), made=beside.pairs, tag=tag)
                told = beside.faults(surveyed, valid)
                surveyed = beside.beside(surveyed)
                surveyed = replace(surveyed, warnings=(*surveyed.warnings, *told))
            return _propose(folder, texts, surveyed, budget, measured, _sizes(attention))
    except OSError as e:
        raise error("X408", Place(str(folder)), reason=reason_of(e)) from None


def _surveyed(train: Sequence[Path], valid: Sequence[Path]) -> tuple[Survey, int]:
    """The survey of the training text, with the warnings of both texts, and the number of validation pairs."""
    surveyed = survey(train[0], train[1])
    if not valid:
        return surveyed, 0
    held, swapped = check_corpus(valid[0], valid[1]), crossed(surveyed.sample, valid)
    warnings = (*surveyed.warnings, *held.warnings, *([swapped] if swapped else []))
    return replace(surveyed, warnings=warnings), held.pairs


class _Texts(NamedTuple):
    """The texts of an experiment, the pairs of the one for validation, and how many pairs of training are back-translated."""

    train: tuple[str, ...] | tuple[TrainingText, ...]
    valid: tuple[str, ...]
    held_out: int
    made: int = 0
    tag: str = ""
    """In front of lines to translate."""


def _propose(
    folder: Path,
    texts: _Texts,
    surveyed: Survey,
    budget: float | None,
    measured: bool,
    sizes: Sequence[Size],
) -> Proposal:
    fitted = _fitted(texts.held_out, surveyed, budget, measured, vocabulary(surveyed.pairs), sizes)
    if fitted.choice.size.entries:
        again = _fitted(texts.held_out, surveyed, budget, measured, fitted.choice.size.entries, sizes)
        fitted = again if again.choice.size == fitted.choice.size else fitted
    choice = fitted.choice
    write_whole(folder / "model.adl", text_of(choice.size, choice.dropout).encode())
    experiment = Experiment(
        data=replace(fitted.vocabulary, train=texts.train, valid=texts.valid),
        model=ModelSettings(file=str((folder / "model.adl").resolve()), initialisation="t2t"),
        train=_schedule(fitted.corpus, choice),
        decode=DecodeSettings(tag=texts.tag),
    )
    proposal = Proposal(
        folder=folder,
        experiment=experiment,
        choice=choice,
        counts=(fitted.corpus.pairs if fitted.warnings else surveyed.pairs - surveyed.blank, texts.held_out),
        made=texts.made,
        words=surveyed.words,
        units=surveyed.units,
        subwords=fitted.subwords,
        weights=weights(choice.size, fitted.codec.size),
        budget=budget,
        measured=fitted.pace if isinstance(fitted.pace, MeasuredPace) else None,
        warnings=(*surveyed.warnings, *fitted.warnings),
    )
    write_whole(folder / "experiment.toml", brief_toml(proposal).encode())
    return proposal


class _Fitted(NamedTuple):
    """A choice for a vocabulary, and what it follows from."""

    vocabulary: DataSettings
    codec: Codec
    subwords: tuple[float, float]
    """Mean number of subwords of source and target."""
    corpus: CorpusFigures
    pace: AssumedPace | MeasuredPace
    choice: Choice
    warnings: tuple[Diagnostic, ...]


def _fitted(
    held_out: int, surveyed: Survey, budget: float | None, measured: bool, wanted: int, sizes: Sequence[Size]
) -> _Fitted:
    """The choice with the vocabulary nearest to `wanted` entries, for the pairs that training keeps. Raises what `_kept` raises."""
    settings, codec = _fitting(surveyed.sample, wanted)
    pairs, left_out = _kept(surveyed.sample, codec)
    count = surveyed.pairs * len(pairs) // len(surveyed.sample[0])
    length = float(pairs.target_lengths.mean()) + 1
    corpus = CorpusFigures(count, count * length, held_out * length, min(held_out, BLEU_SENTENCES) * length)
    pace = MeasuredPace(pairs, codec.size, TrainSettings(clip_norm=1.0)) if measured else AssumedPace(codec.size)
    subwords = float(pairs.source_lengths.mean()), float(pairs.target_lengths.mean())
    share = left_out["long"] / len(surveyed.sample[0])
    warnings = [
        Diagnostic("D135", None, {"share": f"{share:.0%}", "bound": DataSettings().max_tokens}, severity="warning")
    ]
    return _Fitted(
        settings,
        codec,
        subwords,
        corpus,
        pace,
        choose(corpus, budget, pace, sizes),
        tuple(warnings * (share >= LONG)),
    )


def _sizes(attention: str | None) -> Sequence[Size]:
    """The sizes, with the optimisers that are fast here, and with the self-attention that is asked for."""
    from calque.train.muon import has_kernel

    fast = SIZES if has_kernel() else [size.plain() for size in SIZES]
    return [replace(size, attention=attention or size.attention) for size in fast]


def _kept(sample: tuple[list[str], list[str]], codec: Codec) -> tuple[Pairs, dict[str, int]]:
    """The pairs of a sample that training keeps, and how many it leaves out for which reason. Raises D309 where it keeps none."""
    sides = [codec.encode(side) for side in sample]
    source, target = (np.fromiter(map(len, side), np.int64, len(side)) for side in sides)
    left_out: dict[str, int] = {}
    kept = keep(DataSettings(), source, target, left_out)
    if not kept.any():
        raise none_left(left_out)
    return Pairs.of(*(list(compress(side, kept)) for side in sides)), left_out


def _schedule(corpus: CorpusFigures, choice: Choice) -> TrainSettings:
    """A rate that falls linearly to zero at the end of the budget; the mean of the best checkpoints becomes the model."""
    updates = max(1, round(choice.passes * corpus.tokens / choice.batch))
    often = (
        {"validate_every_updates": 0, "validate_every_seconds": float(round(choice.seconds / choice.validations))}
        if choice.timed
        else {"validate_every_updates": max(1, _rounded(updates / choice.validations))}
    )
    ends = (
        {"max_seconds": float(round(choice.seconds))} if choice.timed else {"max_epochs": max(1, round(choice.passes))}
    )
    return TrainSettings(
        batch_tokens=choice.batch,
        r_drop=choice.size.r_drop,
        optimiser=choice.size.optimiser,
        lr=choice.size.lr,
        beta2=0.99,
        clip_norm=1.0,
        schedule="linear",
        warmup_share=0.1,
        validate_bleu_sentences=BLEU_SENTENCES,
        **often,
        **ends,
    )


def _rounded(value: float) -> int:
    """The value to two digits."""
    return int(float(f"{value:.2g}"))


def _fitting(sample: tuple[list[str], list[str]], wanted: int) -> tuple[DataSettings, Codec]:
    """The vocabulary nearest to `wanted` entries that can be learned from a sample of the text, and its codec.

    Where a script has so many characters that rare ones get no piece, these become bytes, and the characters with their bytes
    take half of the vocabulary at most.
    """
    counts = Counter(chain.from_iterable(chain(*sample)))
    large = not has_room(wanted, len(counts))
    shares = np.cumsum(sorted(counts.values(), reverse=True)) / counts.total()
    pieces = int(np.searchsorted(shares, COVERAGE)) + 1 + BYTES
    settings = DataSettings(vocabulary_size=max(wanted, 2 * pieces) if large else wanted, byte_fallback=large)
    try:
        return settings, learn(settings, *sample)[0]
    except CalqueError as fault:
        (diagnostic,) = fault.diagnostics
        bound = {"D201": "largest", "D205": "smallest"}.get(diagnostic.code)
        if bound is None:
            raise
        settings = replace(settings, vocabulary_size=int(str(diagnostic.fields[bound])))
        return settings, learn(settings, *sample)[0]


def _paths(files: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(file.resolve()) for file in files)
