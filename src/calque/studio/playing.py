"""A short training of one text on the corpus of `calque demo`."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from calque.demo import generator
from calque.demo.run import experiment as demo_experiment
from calque.experiment import Experiment, ModelSettings
from calque.studio.jobs import Tell
from calque.train.averaging import unfinished_run
from calque.train.log import Progress, Validation
from calque.train.loop import StoppedTraining
from calque.workflow.plugins import registry_of_run
from calque.workflow.steps import run_training

SENTENCES = 50
"""Validation sentences that are translated for BLEU."""
LOOKS = 12
"""Validations in the time of a training."""


def play(asked: Mapping[str, Any], tell: Tell) -> None:
    """Trains for `seconds` in all, or resumes; tells progress, validations with sample translations, and the end."""
    folder = Path(asked["folder"])
    _write_corpus(folder.parent, tell)

    def watch(event: Progress | Validation) -> None:
        tell("progress" if isinstance(event, Progress) else "validation", asdict(event))

    result = run_training(
        experiment(folder, asked["text"], asked["seconds"], tuple(asked["plugins"])),
        folder,
        watch,
        lambda line: tell("note", {"text": line}),
    )
    if isinstance(result, StoppedTraining):
        tell("stopped", {"update": result.update, "run": _usable(folder, result.update)})
    else:
        tell(
            "end",
            {"update": result.update, "perplexity": result.perplexity, "seconds": result.seconds, "run": folder.name},
        )


def experiment(folder: Path, text: str, seconds: float, plugins: tuple[str, ...] = ()) -> Experiment:
    """The recipe of the demo for another text: it ends after so many seconds of training, whatever the number of updates."""
    recipe = demo_experiment(folder.parent, seconds)
    train = replace(
        recipe.train,
        max_updates=0,
        validate_every_updates=0,
        validate_every_seconds=max(2.0, seconds / LOOKS),
        validate_bleu_sentences=SENTENCES,
        keep_checkpoints=1,
        log_every_updates=10,
    )
    return replace(recipe, model=ModelSettings(text=text, plugins=plugins), train=train)


def _write_corpus(folder: Path, tell: Tell) -> None:
    """Generates the corpus into the studio's folder, once."""
    whole = folder / "corpus" / "whole"
    if not whole.exists():
        tell("note", {"text": "generating the corpus"})
        whole.parent.mkdir(parents=True, exist_ok=True)
        generator.write(whole.parent, generator.generate())
        whole.touch()


def _usable(folder: Path, update: int) -> str | None:
    """The name of a run with the newest checkpoint of a stopped training; None where it has none yet."""
    out = folder.with_name(f"{folder.name}-at-{update}")
    known = (out / "model.json").exists()
    return out.name if known or unfinished_run(folder, out, registry_of_run(folder)) is not None else None
