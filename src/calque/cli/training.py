"""Commands that make a model: from an experiment to a run."""

import sys
from pathlib import Path
from typing import Any

import click

from calque.cli.base import FILE, OUT, RUN, SET, program, root, tell
from calque.diagnostics import Place, error, render_all


@root.command()
@click.argument("folder", type=FILE)
@click.option("--train", type=FILE, nargs=2, required=True, help="Source and target training text.")
@click.option(
    "--valid", type=FILE, nargs=2, help="Source and target validation text; else a part of the training text."
)
def new(folder: Path, train: tuple[Path, Path], valid: tuple[Path, Path] | None) -> None:
    """Write a commented experiment into a new FOLDER, sized to the corpus."""
    from calque.new import new_experiment

    experiment, warnings = new_experiment(folder, train, valid or ())
    if warnings:
        tell(render_all(warnings))
    tell(f"vocabulary {experiment.data.vocabulary_size}, {experiment.train.max_updates} updates at most")
    click.echo(folder / "experiment.toml")


def _experiment(path: Path, overrides: tuple[str, ...], out: Path | None) -> tuple[Any, Path]:
    """An experiment and its run folder, from a TOML file or a run folder."""
    from calque.experiment import load
    from calque.run import EXPERIMENT

    if path.is_dir():
        if not (path / EXPERIMENT).is_file():
            raise error("X404", Place(str(path)), name=path.name)
        return load(path / EXPERIMENT, overrides), out or path
    return load(path, overrides), out or Path("runs") / path.stem


@root.command()
@RUN
@SET
@OUT
def prepare(run: Path, overrides: tuple[str, ...], out: Path | None) -> None:
    """Check the corpus of an experiment and compile it."""
    from calque.workflow import prepare_corpus

    experiment, folder = _experiment(run, overrides, out)
    prepared = prepare_corpus(experiment.data, folder, tell)
    click.echo(prepared.folder)


@root.command()
@RUN
@SET
@OUT
def train(run: Path, overrides: tuple[str, ...], out: Path | None) -> None:
    """Train an experiment file, or go on with a run folder."""
    from calque.show import Show
    from calque.train.loop import Stopped
    from calque.workflow import run_training

    experiment, folder = _experiment(run, overrides, out)
    with Show(folder.name) as show:
        result = run_training(experiment, folder, show, tell)
    if isinstance(result, Stopped):
        tell(f"stopped after update {result.update}; `calque train {folder}` goes on")
        sys.exit(128 + result.signal)
    tell(
        f"{result.update} updates in {result.seconds:.0f} s ({result.limit}); "
        f"mean of checkpoints {', '.join(map(str, result.averaged))}: validation perplexity {result.perplexity:.3f}"
    )
    click.echo(folder)


@root.command()
@RUN
@click.option("--best/--last", default=True, help="By validation perplexity, or the newest.")
@click.option("--count", type=click.IntRange(1), default=5, show_default=True, help="Checkpoints in the mean, at most.")
@click.option("--out", type=FILE, required=True, help="A new folder for the averaged model.")
def average(run: Path, best: bool, count: int, out: Path) -> None:
    """Average checkpoints of a RUN into a model of their own."""
    from calque.train.averaging import average_run
    from calque.workflow import registry_of_run

    updates = average_run(run, out, "best" if best else "last", count, registry_of_run(run))
    tell(f"mean of checkpoints {', '.join(map(str, updates))}")
    click.echo(out)


@root.command()
@click.argument("folder", type=FILE, default=Path("demo"))
@click.option("--seconds", type=click.FloatRange(min=1), default=360, show_default=True, help="Training time, at most.")
def demo(folder: Path, seconds: float) -> None:
    """Train, translate and score on a corpus made here: about five minutes on two processor cores."""
    from calque.demo import demo as run_demo

    status = run_demo(folder, seconds, click.echo, tell, program())
    if status:
        sys.exit(status)
