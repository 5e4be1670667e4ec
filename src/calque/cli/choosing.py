"""The command that chooses among several translations of each sentence."""

from pathlib import Path

import click

from calque.cli.base import FILE, Number, reading, root, tell
from calque.cli.evaluation import SETTINGS, meteor_settings
from calque.evaluate.scores import METRICS, SAMPLE, misread
from calque.ground.diagnostics import Diagnostic, Place, render


@root.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option(
    "--n-best",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Lines for each sentence, in every file.",
)
@click.option(
    "--metric", type=click.Choice(METRICS), default="bleu", show_default=True, help="What is expected to be best."
)
@click.option(
    "--scale",
    type=Number(0, 1000),
    help="Each line is a score, a tab and the text, as `calque translate --scores` writes them: a candidate counts "
    "e^(SCALE * score).",
)
@SETTINGS
@click.option("--scores", is_flag=True, help="Each line: expected score, tab, translation.")
def mbr(
    files: tuple[Path, ...],
    n_best: int,
    metric: str,
    scale: float | None,
    tokenize: str,
    lowercase: bool,
    language: str | None,
    meteor_version: str,
    scores: bool,
) -> None:
    """Choose, of the candidates for each sentence, the one that is most like all of them (minimum Bayes risk).

    FILES hold candidates of the same sentences, as `calque translate --n-best` and `--sample` write them; `-` is standard input.
    Without --n-best, each file is one system's translation, line by line.

    Bytes that are not UTF-8 are read as U+FFFD: the number of the line is reported, and the exit status is 1.
    """
    if len(files) == n_best == 1:
        raise click.UsageError("a single candidate leaves no choice: --n-best, or several files")
    from calque.evaluate.mbr import most_alike, read_candidates, scored
    from calque.evaluate.statistics import measure

    how = measure(metric, tokenize=tokenize, lowercase=lowercase, meteor=meteor_settings(language, meteor_version))
    seen: list[str] = []  # the first lines
    with reading() as repairs:
        for candidates in read_candidates(files, n_best, scale, repairs.lines):
            if scale is None and not seen and all(map(scored, candidates.texts)):
                tell(render(Diagnostic("D527", Place(str(files[0])), severity="warning")))
            seen += candidates.texts[: max(0, SAMPLE - len(seen))]
            chosen = most_alike(candidates, how)
            click.echo(f"{chosen.score:.4f}\t{chosen.text}" if scores else chosen.text)
        if found := misread(seen, Place(str(files[0])) if len(files) == 1 else None, [metric], tokenize):
            tell(render(found))
