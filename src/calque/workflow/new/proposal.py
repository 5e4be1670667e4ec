"""The proposal of `calque new`: as a short experiment file with a comment on each key, and as ten lines with reasons."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from calque.experiment import Experiment
from calque.experiment.keys import SECTIONS
from calque.experiment.toml import comment, literal
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import Diagnostic
from calque.workflow.new.choices import ATTENTION, Choice
from calque.workflow.new.made import TAG
from calque.workflow.new.pace import MeasuredPace

# The keys that people change, in the order of the file, with their comments. Other keys are written where they are not default.
SHOWN = {
    "data.train": "source and target, plain or compressed (gz, bz2, xz, zst), one sentence per line",
    "data.valid": "as `train`, but never trained on: it decides which checkpoint becomes the model",
    "data.vocabulary_size": "subwords; fewer for less text",
    "data.byte_fallback": "characters too rare to be subwords are written by their bytes, so that none is unknown",
    "model.file": "the architecture, a text of its own",
    "model.initialisation": "t2t: the vectors of words start with a length of about one, and are learned sooner",
    "train.batch_tokens": "target tokens in a batch; larger ones are a little faster, smaller ones learn more per token",
    "train.r_drop": "each batch is read twice, with other dropout, and both predictions of a word are drawn to each other",
    "train.optimiser": "muon learns more from each token than adam, which is faster where there are no kernels",
    "train.lr": "learning rate at its peak; smaller for larger models, and where the loss jumps",
    "train.schedule": "linear: from the peak in a straight line to zero at the end of the budget",
    "train.warmup_share": "the rate rises over this share of the budget first",
    "train.max_seconds": "the budget: seconds of training; the schedule is stretched to it",
    "train.max_epochs": "the budget: passes over the text; the schedule is stretched to it",
    "train.validate_every_seconds": "seconds of training between validations, each of which saves a checkpoint",
    "train.validate_every_updates": "updates between validations, each of which saves a checkpoint; 0: by seconds alone",
    "train.validate_bleu_sentences": "validation sentences translated for BLEU; 0: none",
    "train.beta2": "Adam's memory of squared gradients: shorter than usual, as the training is short, too",
    "train.clip_norm": "gradients are scaled down to this norm",
    "decode.beam": "hypotheses per sentence; 1: greedy, fast",
    "decode.tag": "in front of lines to translate, too: with few pairs beside much back-translated text they are better so",
}
ALWAYS = ("data.train", "data.valid", "data.vocabulary_size", "model.file", "decode.beam")
"""The keys that are written even with their defaults."""


class Proposal(NamedTuple):
    """An experiment and the figures from which it follows."""

    folder: Path
    experiment: Experiment
    choice: Choice
    counts: tuple[int, int]
    """Pairs for training and for validation."""
    words: tuple[float, float]
    """Mean lengths of source and target."""
    units: tuple[str, str]
    """Of these lengths: words, or characters."""
    subwords: tuple[float, float]
    """Mean number of subwords of source and target."""
    weights: int
    budget: float | None
    """Seconds, if given."""
    measured: MeasuredPace | None
    """None: the pace is assumed."""
    warnings: tuple[Diagnostic, ...] = ()
    made: int = 0
    """Back-translated pairs; those for training are then the pairs of a pass."""

    @property
    def file(self) -> Path:
        """The experiment file."""
        return self.folder / "experiment.toml"


def brief_toml(proposal: Proposal) -> str:
    """The experiment with the keys that people change, each below a comment; `load` gives an equal experiment.

    Other keys have their defaults. Files in the folder are named from there, so that it can be moved.
    """
    head = (
        f"Written by `calque new` for {proposal.counts[0]:,} pairs. Keys that are not here have their defaults: "
        "docs/experiment.md lists all of them, and so does the experiment.toml of a run folder."
    )
    blocks = ["\n".join(comment(head))]
    default = Experiment()
    for section, keys in SECTIONS.items():
        part, plain = getattr(proposal.experiment, section), getattr(default, section)
        names = [name.partition(".")[2] for name in SHOWN if name.startswith(f"{section}.")]
        written = [f"[{section}]"]
        for name in [*names, *(name for name in keys if name not in names)]:
            key = f"{section}.{name}"
            if getattr(part, name) != getattr(plain, name) or key in ALWAYS:
                written += [
                    *comment(SHOWN.get(key, keys[name].doc)),
                    f"{name} = {literal(_from(proposal.folder, getattr(part, name)))}",
                ]
        blocks.append("\n".join(written))
    return "\n\n".join(blocks) + "\n"


def _from(folder: Path, value: object) -> object:
    """A value, absolute paths into the folder as paths from there."""
    if isinstance(value, tuple):
        return tuple(_from(folder, part) for part in value)
    if isinstance(value, TrainingText):
        return replace(value, source=str(_from(folder, value.source)), target=str(_from(folder, value.target)))
    inside = isinstance(value, str) and Path(value).is_absolute() and Path(value).is_relative_to(folder.resolve())
    return str(Path(str(value)).relative_to(folder.resolve())) if inside else value


def lines(proposal: Proposal) -> Iterator[str]:
    """Ten lines: the proposal and its reasons."""
    width = max(len(name) for name, _ in _reasons(proposal))
    return (f"{name:<{width}}  {text}" for name, text in _reasons(proposal))


def _reasons(proposal: Proposal) -> Iterator[tuple[str, str]]:
    choice, train, (pairs, valid) = proposal.choice, proposal.experiment.train, proposal.counts
    (source, target), (one, other) = proposal.words, proposal.units
    words = f"{source:.1f} {one} a source, {target:.1f} {'' if one == other else f'{other} '}a target"
    yield "corpus", f"{pairs:,} pairs for training, {valid:,} for validation; {words}"
    if proposal.made:
        own = pairs - proposal.made
        yield "back-translated", f"{proposal.made:,} of these pairs, tagged {TAG}; in a pass the corpus has {own:,}"
    data, few = proposal.experiment.data, "few enough that this text shows each of them often"
    if data.byte_fallback:
        few = "at most half of them characters, rare ones by their bytes"
    yield (
        "vocabulary",
        f"{data.vocabulary_size:,} subwords for both sides, {few}; "
        f"{proposal.subwords[0]:.1f} a source, {proposal.subwords[1]:.1f} a target",
    )
    size = f"{choice.size.text}{ATTENTION[choice.size.attention]}, {proposal.weights / 1e6:.1f} million weights"
    yield "architecture", f"Transformer, {size}: {_why(proposal)}"
    why = (
        "with R-Drop (Wu et al. 2021), which reads each batch twice" if train.r_drop else "more passes want more of it"
    )
    yield "dropout", f"{choice.dropout}, for {_passes(choice)} passes over the text: {why}"
    updates = f"{_updates(proposal):,} updates"
    yield "batch", f"{choice.batch:,} target tokens, so that the budget has {updates}: many small ones"
    yield (
        "learning rate",
        f"{train.lr} by {train.optimiser.capitalize()}, reached after {train.warmup_share:.0%} of the budget, "
        "then in a straight line to zero at its end "
        "(arXiv 2502.15938)",
    )
    bleu = f"with BLEU of {train.validate_bleu_sentences} sentences"
    yield (
        "validation",
        f"{choice.validations} times, {bleu}; the mean of the best checkpoints is the model, or the best alone",
    )
    yield "speed", _speed(proposal)
    yield "time", _time(proposal)
    yield "next", f"calque train {quote(str(proposal.file))} --out {quote(str(proposal.folder / 'run'))}"


def _why(proposal: Proposal) -> str:
    larger = proposal.choice.larger
    if proposal.budget is not None and larger is not None:
        return f"what {duration(proposal.budget)} trains well; {larger.text} want more time"
    return f"what {proposal.counts[0]:,} pairs are enough for"


def _passes(choice: Choice) -> str:
    return f"{choice.passes:.0f}" if choice.passes >= 10 else f"{choice.passes:.1f}"


def _updates(proposal: Proposal) -> int:
    tokens = proposal.choice.passes * proposal.counts[0] * (proposal.subwords[1] + 1)
    return max(1, round(tokens / proposal.choice.batch))


def _speed(proposal: Proposal) -> str:
    pace, measured = f"{proposal.choice.pace:,.0f} target tokens a second", proposal.measured
    if measured is None:
        return f"{pace}, not measured: assumed from the number of weights"
    return f"{pace}, measured here in {measured.spent:.0f} s: {measured.updates} updates of this model in {measured.precision}"


def _time(proposal: Proposal) -> str:
    choice = proposal.choice
    if choice.timed:
        assert proposal.budget is not None
        return f"{duration(choice.seconds)} of training, {duration(proposal.budget)} with validations and the start"
    whole = f"about {duration(1.1 * choice.seconds)} with validations, {_passes(choice)} passes over the text"
    if proposal.budget is not None:
        return f"{whole}; the rest of {duration(proposal.budget)} would only teach it by heart"
    return f"{whole}; `--time 20m` sizes all of this to a budget"


def duration(seconds: float) -> str:
    """As `90 s`, `20 min` or `1 h 30 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes and hours < 24 else f"{hours:,} h"
