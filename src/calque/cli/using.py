"""Commands that use a model, and score what it says."""

import sys
from pathlib import Path
from typing import Any

import click

from calque.cli.base import BEAM, FILE, PRECISION, RUN, THREADS, load_run, root, set_threads
from calque.diagnostics import Place, error


@root.command()
@RUN
@BEAM
@PRECISION
@THREADS
@click.option("--n-best", type=click.IntRange(1, 1000), default=1, show_default=True, help="Translations per line.")
@click.option("--scores", is_flag=True, help="Each line: score, tab, translation.")
@click.option("--invariant", is_flag=True, help="Bit for bit the same whatever stands around a line; slower.")
def translate(
    run: Path,
    beam: int | None,
    precision: str | None,
    threads: int | None,
    n_best: int,
    scores: bool,
    invariant: bool,
) -> None:
    """Translate stdin to stdout, line by line (with --n-best N, N lines for each)."""
    from calque.decode.translate import translate_stream

    set_threads(threads)
    here = load_run(run, beam, precision)
    for found in translate_stream(here.loaded, _stdin(), n_best, invariant):
        padded = [*found, *[None] * (n_best - len(found))]  # always as many lines as promised
        for one in padded:
            text = "" if one is None else one.text
            click.echo(f"{one.score if one else float('-inf'):.6f}\t{text}" if scores else text)


def _stdin() -> Any:
    from calque.data.text import MARK

    if sys.stdin is None:
        raise error("X402", Place("stdin"), reason="it is closed")
    try:
        for number, line in enumerate(sys.stdin.buffer, 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as e:
                raise error("X403", Place("stdin", number), offset=e.start) from None
            yield (text.removeprefix(MARK) if number == 1 else text).removesuffix("\n").removesuffix("\r")
    except OSError as e:
        raise error("X402", Place("stdin"), reason=(e.strerror or str(e)).lower()) from None


@root.command()
@RUN
@click.argument("source", type=FILE)
@click.argument("target", type=FILE)
@PRECISION
@THREADS
def score(run: Path, source: Path, target: Path, precision: str | None, threads: int | None) -> None:
    """Print the score of each given translation, normalised as `translate --scores` does."""
    from calque.data.text import Lines, check_corpus

    check_corpus(source, target)
    set_threads(threads)
    here = load_run(run, None, precision)
    for value in here.score(list(zip(Lines(source), Lines(target), strict=True))):
        click.echo(f"{value:.6f}")


@root.command()
@click.argument("hypotheses", type=FILE)
@click.argument("references", type=FILE)
@click.option("--metric", "metrics", multiple=True, type=click.Choice(["bleu", "chrf", "ter"]), default=["bleu"])
@click.option("--tokenize", type=click.Choice(["13a", "intl", "none"]), default="13a", show_default=True)
@click.option("--lowercase", is_flag=True, help="Fold case.")
def evaluate(hypotheses: Path, references: Path, metrics: tuple[str, ...], tokenize: str, lowercase: bool) -> None:
    """Score HYPOTHESES against REFERENCES, each score with its signature."""
    from calque.evaluate import evaluate_files

    for one in evaluate_files(hypotheses, references, metrics, tokenize=tokenize, lowercase=lowercase):
        click.echo(f"{one.name} {one.value:.2f} {one.signature}")
