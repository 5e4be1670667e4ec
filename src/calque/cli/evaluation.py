"""Commands that score translations and compare systems."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import FILE, root
from calque.diagnostics import Place, error
from calque.evaluate.scores import METRICS, TOKENISERS

if TYPE_CHECKING:
    from calque.evaluate.meteor_metric import MeteorSettings


def _settings(command: Callable[..., None]) -> Callable[..., None]:
    """What scores can be told."""
    for option in (
        click.option("--meteor-version", type=click.Choice(["1.5", "1.4"]), default="1.5", help="1.4 is MultEval's."),
        click.option("--language", help="Of the text, for METEOR: two letters, or other."),
        click.option("--lowercase", is_flag=True, help="Fold case."),
        click.option(
            "--tokenize",
            type=click.Choice(TOKENISERS),
            default="13a",
            show_default=True,
            help="For BLEU. With none, METEOR too takes words as they stand; else it normalises by its own rules.",
        ),
        click.option("--metric", "metrics", multiple=True, type=click.Choice(METRICS), default=["bleu"]),
    ):
        command = option(command)
    return command


def _meteor(language: str | None, version: str) -> "MeteorSettings | None":
    if language is None:
        return None
    from calque.evaluate.meteor_metric import MeteorSettings

    return MeteorSettings(language, version)


@root.command()
@click.argument("hypotheses", type=FILE)
@click.argument("references", type=FILE)
@_settings
def evaluate(
    hypotheses: Path,
    references: Path,
    metrics: tuple[str, ...],
    tokenize: str,
    lowercase: bool,
    language: str | None,
    meteor_version: str,
) -> None:
    """Score HYPOTHESES against REFERENCES, each score with its signature."""
    from calque.evaluate import evaluate_files

    meteor = _meteor(language, meteor_version)
    for one in evaluate_files(
        hypotheses, references, metrics, tokenize=tokenize, lowercase=lowercase, meteor_settings=meteor
    ):
        click.echo(f"{one.name} {one.value:.2f} {one.signature}")


@root.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("--references", type=FILE, required=True, help="What both translate.")
@_settings
@click.option("--trials", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, help="Of each test.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the trials.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def compare(
    a: Path,
    b: Path,
    references: Path,
    metrics: tuple[str, ...],
    tokenize: str,
    lowercase: bool,
    language: str | None,
    meteor_version: str,
    trials: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare the systems A and B: difference, its 95 % interval, and how likely chance makes one as large.

    A and B are files of translations, or folders that hold one such file for each run (seed) of a system.
    """
    from calque.evaluate.measure import measure
    from calque.evaluate.scores import read_aligned
    from calque.evaluate.significance import compare_rows

    files = [_runs(system) for system in (a, b)]
    lines, reference = read_aligned([file for runs in files for file in runs], references)
    runs_a, runs_b = lines[: len(files[0])], lines[len(files[0]) :]
    meteor = _meteor(language, meteor_version)
    found = []
    for name in metrics:
        metric = measure(name, tokenize=tokenize, lowercase=lowercase, meteor=meteor)
        found.append(compare_rows(runs_a, runs_b, reference, metric, trials, seed))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
        return
    for one in found:
        low, high = one.interval
        click.echo(f"{one.metric} {one.signature}")
        click.echo(f"  A {_system(one.a)}\n  B {_system(one.b)}")
        click.echo(f"  A - B {one.delta:+.2f}, {100 * (1 - one.level):g} % interval {low:+.2f} to {high:+.2f}")
        click.echo(f"  p {one.p:.4f} approximate randomisation, {one.p_bootstrap:.4f} paired bootstrap")


def _runs(system: Path) -> list[Path]:
    if not system.is_dir():
        return [system]
    files = sorted(file for file in system.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise error("D521", Place(str(system)))
    return files


def _system(scores: tuple[float, ...]) -> Any:
    import statistics

    if len(scores) == 1:
        return f"{scores[0]:.2f}"
    return f"{statistics.mean(scores):.2f} (deviation {statistics.stdev(scores):.2f}, {len(scores)} runs)"
