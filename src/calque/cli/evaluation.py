"""The command that scores translations, and the settings of scores."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import FILE, reading, root, tell
from calque.evaluate.scores import METRICS, TOKENISERS
from calque.ground.diagnostics import render

if TYPE_CHECKING:
    from calque.evaluate.meteor_metric import MeteorSettings


def SETTINGS(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say how a score is computed."""
    for option in (
        click.option(
            "--meteor-version",
            type=click.Choice(["1.5", "1.4"]),
            default="1.5",
            help="Release of METEOR; MultEval uses 1.4.",
        ),
        click.option("--language", help="Language of the text, for METEOR: two letters, or other."),
        click.option("--lowercase", is_flag=True, help="Fold case."),
        click.option(
            "--tokenize",
            type=click.Choice(TOKENISERS),
            default="13a",
            show_default=True,
            help="Tokenisation of BLEU. With none, METEOR also splits at spaces; else it normalises by its own rules. With zh, "
            "char and ja-mecab, Chinese characters are words of TER.",
        ),
    ):
        command = option(command)
    return command


def SCORING(command: Callable[..., None]) -> Callable[..., None]:
    """The options of scores."""
    metrics = click.option(
        "--metric", "metrics", multiple=True, type=click.Choice(METRICS), default=["bleu"], help="A score; repeat."
    )
    return metrics(SETTINGS(command))


def meteor_settings(language: str | None, version: str) -> "MeteorSettings | None":
    """The settings of METEOR; None without a language."""
    if language is None:
        return None
    from calque.evaluate.meteor_metric import MeteorSettings

    return MeteorSettings(language, version)


@root.command()
@click.argument("hypotheses", type=FILE)
@click.argument("references", type=FILE, nargs=-1, required=True)
@SCORING
@click.option(
    "--delays", type=FILE, help="What `calque interpret --delays` wrote: how far the translations lag behind, in words."
)
@click.option("--json", "as_json", is_flag=True, help="A list of scores with their parts, as JSON.")
def evaluate(
    hypotheses: Path,
    references: tuple[Path, ...],
    metrics: tuple[str, ...],
    tokenize: str,
    lowercase: bool,
    language: str | None,
    meteor_version: str,
    delays: Path | None,
    as_json: bool,
) -> None:
    """Score HYPOTHESES against REFERENCES, each score with its signature; `-` is standard input.

    Further REFERENCES are other translations of the same sentences.

    Bytes that are not UTF-8 are read as U+FFFD: the number of the line is reported, and the exit status is 1.
    """
    from calque.evaluate import evaluate_files

    meteor = meteor_settings(language, meteor_version)
    with reading() as repairs:
        scores = evaluate_files(
            hypotheses,
            references[0],
            metrics,
            more=references[1:],
            delays=delays,
            read=repairs.lines,
            warn=lambda diagnostic: tell(render(diagnostic)),
            tokenize=tokenize,
            lowercase=lowercase,
            meteor_settings=meteor,
        )
        if as_json:
            click.echo(json.dumps([asdict(score) for score in scores], indent=1))
        else:
            click.echo("\n".join(map(str, scores)))
