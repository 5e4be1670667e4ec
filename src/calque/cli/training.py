"""Commands that train: from an experiment to a run."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import EXPERIMENT, FILE, OUT, RUN, SET, Number, program, root, tell
from calque.ground.diagnostics import CalqueError, Place, error, render_all

if TYPE_CHECKING:
    from calque.experiment import Experiment
    from calque.train.loop import FinishedTraining, StoppedTraining
    from calque.train.ranks import Ranks

LEAST = 30
"""Seconds of the smallest budget."""


class _Seconds(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click alone
    """A length of time, such as 90s, 20m or 1h30m."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?", str(value).strip().lower())
        seconds = sum(int(n or 0) * unit for n, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
        if not seconds:
            self.fail(f"expected hours, minutes or seconds such as 1h30m, 20m or 90s, found {value!r}", param, ctx)
        if seconds < LEAST:
            self.fail(f"expected at least {LEAST}s: starting alone takes seconds, found {value!r}", param, ctx)
        return float(seconds)


class _New(click.Command):
    """Raises X460 where --train gets one file, such as a table; the error says how to split it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for name in ("--train", "--valid"):
            if args.count(name) > 1:
                raise click.UsageError(
                    f"{name} is given twice; an experiment that mixes several texts names them in data.train"
                )
        for at, name in enumerate(args):
            given = args[at + 1 : at + 3]
            one = name == "--train" and given and (len(given) == 1 or given[1].startswith("-"))
            if one and Path(given[0]).is_file():
                raise error("X460", Place(given[0]), file=given[0])
        return super().parse_args(ctx, args)


@root.command(cls=_New)
@click.argument("folder", type=FILE)
@click.option("--train", type=FILE, nargs=2, required=True, help="Source and target training text.")
@click.option(
    "--valid", type=FILE, nargs=2, help="Source and target validation text; else a part of the training text."
)
@click.option(
    "--back-translated",
    "made",
    type=FILE,
    nargs=2,
    help="More pairs: text of the target language, and before it its translation by a run in the other direction.",
)
@click.option(
    "--time",
    "budget",
    type=_Seconds(),
    help="The training time, for which model and schedule are sized: 90s, 20m, 1h30m.",
)
@click.option("--no-measure", is_flag=True, help="Assume a speed instead of measuring it for some seconds.")
@click.option(
    "--attention",
    type=click.Choice(["plain", "relative", "hard-coded"]),
    help="Self-attention: plain, as other tools have it; relative, which learns more in little time, and fits into CTranslate2; "
    "hard-coded (You 2020), for Calque alone.  [default: plain or relative, by size]",
)
def new(
    folder: Path,
    train: tuple[Path, Path],
    valid: tuple[Path, Path] | None,
    budget: float | None,
    no_measure: bool,
    attention: str | None,
    made: tuple[Path, Path] | None,
) -> None:
    """Write a short experiment into a new FOLDER, sized to the corpus and to a budget of time; explain the choices.

    FOLDER/experiment.toml has the keys that people change, each with a comment; docs/experiment.md lists all keys.
    """
    from calque.workflow.new import new_experiment
    from calque.workflow.new.proposal import lines

    proposal = new_experiment(folder, train, valid or (), budget, not no_measure, attention, made or ())
    if proposal.warnings:
        tell(render_all(proposal.warnings) + "\n")
    for line in lines(proposal):
        tell(line)
    click.echo(proposal.file)


def _experiment(path: Path, overrides: tuple[str, ...], out: Path | None) -> "tuple[Experiment, Path]":
    """An experiment and its run folder, from a TOML file, a run folder, or a folder of `calque new`, whose run is `run` in it."""
    from calque.experiment import load
    from calque.run.folder import EXPERIMENT, is_run

    if path.is_dir():
        if not (path / EXPERIMENT).is_file():
            raise error("X404", Place(str(path)), name=path.name)
        return load(path / EXPERIMENT, overrides), out or (path if is_run(path) else path / "run")
    if path.suffix == ".adl":
        raise error("X404", Place(str(path)), name=path.name, definition=path)
    return load(path, overrides), out or Path("runs") / path.stem


def _limits(overrides: tuple[str, ...]) -> frozenset[str]:
    """The keys of --set that limit the length of a training."""
    from calque.experiment import LIMITS

    return frozenset(key for key in LIMITS if any(given.startswith(f"train.{key}=") for given in overrides))


def _repeats(path: Path, overrides: tuple[str, ...], folder: Path) -> bool:
    """Whether the command repeats a run in another folder. Raises X440 where its phases cannot be one experiment."""
    from calque.run.folder import is_run
    from calque.train.phases import phases_of

    if not is_run(path) or folder.resolve() == path.resolve():
        return False
    phases = phases_of(path)
    if overrides and len(phases) > 1:
        raise error("X440", Place(str(path)), count=len(phases), run=path, file=phases[-1].path.relative_to(path))
    return not overrides


@root.command()
@EXPERIMENT
@SET
@OUT
def prepare(run: Path, overrides: tuple[str, ...], out: Path | None) -> None:
    """Check the corpus of an experiment and compile it."""
    from calque.workflow.checking import shown_in
    from calque.workflow.steps import prepare_corpus

    experiment, folder = _experiment(run, overrides, out)
    with shown_in(run, overrides):
        prepared = prepare_corpus(experiment, folder, tell)
    click.echo(prepared.folder)


@root.command()
@EXPERIMENT
@SET
@OUT
@click.option(
    "--from",
    "parent",
    type=FILE,
    metavar="RUN",
    help="Start from the weights of a finished run, and from its architecture where the experiment names none.",
)
@click.option(
    "--restart", is_flag=True, help="Train from the start; the contents of the run folder move to replaced-NNNN in it."
)
def train(run: Path, overrides: tuple[str, ...], out: Path | None, parent: Path | None, restart: bool) -> None:
    """Train an experiment file or a folder of `calque new`, or resume a run folder.

    A run folder with --out NEW is trained once more in NEW, with the same phases. When a run is resumed, a limit of
    --set (train.max_updates, max_epochs, max_seconds, patience, min_lr) holds for this call alone; every other changed
    key begins a new phase of the run.
    """
    from calque.run.folder import is_run
    from calque.train.call import TrainingCall
    from calque.train.ranks import from_environment
    from calque.workflow.checking import shown_in
    from calque.workflow.repeat import repeat
    from calque.workflow.run_folders import check_run_folder
    from calque.workflow.show import Show
    from calque.workflow.steps import run_training

    if parent is not None:
        overrides = (*overrides, f"model.parent={json.dumps(str(parent), ensure_ascii=False)}")
    experiment, folder = _experiment(run, overrides, out)
    if parent is not None and (restart or not is_run(folder)):
        check_run_folder(parent)
    again = _repeats(run, overrides, folder)
    ranks = from_environment(experiment.train.device)
    if not ranks.alone and again:
        raise click.UsageError("a run is repeated by one process: call it without torchrun")
    if not ranks.leads:
        _follow(ranks)
        return
    with Show(folder.name) as show, shown_in(run, overrides) as shown:
        if again:
            result = repeat(run, folder, show, tell, restart)
        else:
            call, own = TrainingCall(_limits(overrides), ranks=ranks), folder.resolve() == run.resolve()
            with ranks.leading():
                result = run_training(experiment, folder, show, tell, call, own, restart, shown)
    _tell_end(result, folder)


def _tell_end(result: "FinishedTraining | StoppedTraining", folder: Path) -> None:
    """How a training ended. Raises K109 where it has diverged."""
    from calque.train.loop import StoppedTraining

    if isinstance(result, StoppedTraining):
        tell(f"stopped after update {result.update}; `calque train {shlex.quote(str(folder))}` continues")
        sys.exit(128 + result.signal)
    taken = "checkpoint" if len(result.averaged) == 1 else "mean of checkpoints"
    tell(
        f"{result.update} updates in {result.seconds:.0f} s ({result.limit}); "
        f"{taken} {', '.join(map(str, result.averaged))}: validation perplexity {result.perplexity:.3f}"
    )
    if result.diverged:
        raise error("K109", Place(str(folder)), skipped=result.skipped, updates=result.update)
    tell(f"next: calque translate {shlex.quote(str(folder))} < input.txt > output.txt")
    click.echo(folder)


def _follow(ranks: "Ranks") -> None:
    """The work of a process that does not lead."""
    from calque.train.ranks import silent
    from calque.workflow.steps import follow_training

    try:
        follow_training(ranks)
    except CalqueError as fault:
        if not silent(ranks, fault):
            raise
        sys.exit(fault.exit_code)
    finally:
        ranks.close()


@root.command()
@RUN
@click.option("--best/--last", default=True, help="By validation perplexity, or the newest.")
@click.option("--count", type=click.IntRange(1), default=5, show_default=True, help="Checkpoints in the mean, at most.")
@click.option("--out", type=FILE, required=True, help="A new folder for the averaged model.")
def average(run: Path, best: bool, count: int, out: Path) -> None:
    """Average checkpoints of a RUN into a new model."""
    from calque.train.averaging import average_run
    from calque.workflow.plugins import registry_of_run

    updates = average_run(run, out, "best" if best else "last", count, registry_of_run(run))
    tell(f"mean of checkpoints {', '.join(map(str, updates))}")
    click.echo(out)


@root.command()
@click.argument("folder", type=FILE, default=Path("demo"))
@click.option("--seconds", type=Number(min=1), default=360, show_default=True, help="Training time, at most.")
def demo(folder: Path, seconds: float) -> None:
    """Train, translate and score on a generated corpus: one to three minutes on two processor cores."""
    from calque.demo.run import demo as run_demo

    status = run_demo(folder, seconds, click.echo, tell, program())
    if status:
        sys.exit(status)
