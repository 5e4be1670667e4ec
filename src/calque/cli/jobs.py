"""The commands that executors start: one cell of a table, one trial of a tuning."""

import sys
from pathlib import Path

import click

from calque.cli.base import FILE, tell
from calque.cli.reproduce import reproduce
from calque.cli.reproduce_options import DATA


@reproduce.command()
@click.argument("out", type=FILE)
@click.argument("row")
@DATA
@click.option("--seed", type=click.IntRange(1), required=True, help="The seed of the training.")
def cell(out: Path, row: str, data_folder: Path | None, seed: int) -> None:
    """Train one cell of an output folder, or resume it: what `calque reproduce train --executor` starts for each.

    OUT was made by `calque reproduce train`. What comes of it is left in the folder; the next call of `train` takes it into the
    table. Exit status 1: it failed; 75: another process trains it; 128 and the number of a signal: stopped, to be resumed.
    """
    from calque.data.public import data_root
    from calque.papers.output import OutputFolder
    from calque.papers.side_by_side import cell_job
    from calque.workflow.jobs.command import end_with_starter

    end_with_starter()
    sys.exit(cell_job(OutputFolder.opened(out, data_root(data_folder), tell), row, seed))


@reproduce.command()
@click.argument("out", type=FILE)
@click.argument("row")
@DATA
@click.option("--rung", type=click.IntRange(1), required=True, help="The rung, from 1.")
@click.option("--eta", type=click.IntRange(2), required=True, help="How budgets grow from rung to rung.")
@click.option("--lr", type=float, required=True, help="The peak of the rate.")
@click.option("--warmup-share", type=float, required=True, help="The share of the budget over which it rises.")
@click.option("--dropout", type=float, help="The dropout of the row.")
def trial(
    out: Path,
    row: str,
    data_folder: Path | None,
    rung: int,
    eta: int,
    lr: float,
    warmup_share: float,
    dropout: float | None,
) -> None:
    """Train one trial of a tuning, or resume it: what `calque reproduce tune --executor` starts for each.

    Exit status as of `calque reproduce cell`.
    """
    from calque.data.public import data_root
    from calque.papers.output import OutputFolder
    from calque.papers.side_by_side import trial_job
    from calque.papers.trials import TrialSetting
    from calque.workflow.jobs.command import end_with_starter

    end_with_starter()
    folder = OutputFolder.opened(out, data_root(data_folder), tell)
    sys.exit(trial_job(folder, row, TrialSetting(lr, warmup_share, dropout), rung, eta))
