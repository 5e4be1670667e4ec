"""The command that chooses settings of the search."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calque.cli.base import FILE, PRECISION, RUN, SET, THREADS, Number, loading, root, set_threads

if TYPE_CHECKING:
    from calque.experiment import DecodeSettings
    from calque.workflow.tune import Trial


@root.command()
@RUN
@click.option("--valid", type=FILE, nargs=2, metavar="SOURCE REFERENCE", help="Default: the run's validation text.")
@click.option(
    "--beam",
    type=click.IntRange(1, 1000),
    multiple=True,
    default=(5, 10),
    show_default=True,
    help="Beams to try; repeat.",
)
@click.option(
    "--word-penalty",
    type=Number(-20, 20),
    multiple=True,
    default=(0.0, -0.5, -1.0, -1.5),
    show_default=True,
    help="Word penalties to try; repeat.",
)
@click.option(
    "--align-offset",
    type=click.IntRange(-100, 100),
    multiple=True,
    default=(-1, 0, 1),
    show_default=True,
    help="Offsets to try where unknown words are replaced; repeat.",
)
@click.option(
    "--align-row",
    type=click.IntRange(0, 1),
    multiple=True,
    default=(0, 1),
    show_default=True,
    help="Rows of attention to try where unknown words are replaced: of the step that predicts a word (0), or that reads it (1).",
)
@click.option("--dictionary", type=FILE, help="A lexical table by which unknown words are replaced, else copied.")
@SET
@PRECISION
@THREADS
@click.option(
    "--write", "keep", is_flag=True, help="Write the best, and the keys of --set, into the run's experiment.toml."
)
def tune(
    run: Path,
    valid: tuple[Path, Path] | None,
    beam: tuple[int, ...],
    word_penalty: tuple[float, ...],
    align_offset: tuple[int, ...],
    align_row: tuple[int, ...],
    dictionary: Path | None,
    overrides: tuple[str, ...],
    precision: str | None,
    threads: int | None,
    keep: bool,
) -> None:
    """Translate a validation set with every setting of a grid; print the BLEU of each, and the best as [decode].

    The keys of --set hold for all of them and stand beside the best. Of settings with the same BLEU the run's own are the best.
    RUN/tune.jsonl keeps the results: another call translates only with new settings.
    """
    with loading():
        from calque.workflow import tune as tuning
        from calque.workflow.api import load
        from calque.workflow.show import LineProgress

    set_threads(threads)
    given = [*overrides, *([f'decode.precision="{precision}"'] if precision else [])]
    loaded = load(run, overrides=given, dictionary=dictionary)
    sources, references = _text(run, valid)
    trials = []
    click.echo("beam  word_penalty  align_offset  align_row    BLEU")
    grid = tuning.Grid(beam, word_penalty, align_offset, align_row)
    with LineProgress("tuning", len(sources) * tuning.searches(grid), aside=True) as progress:
        for one in tuning.tune(run, loaded, sources, references, grid, progress):
            with progress.aside():
                aligned = f"{one.align_offset:>12}  {one.align_row:>9}"
                click.echo(f"{one.beam:>4}  {one.word_penalty:>12g}  {aligned}  {one.bleu:>6.2f}")
            trials.append(one)
    keys = _best(tuning.best_of(trials, loaded.loaded.decode), loaded.loaded.decode, given)
    if keep:
        tuning.keep(run, keys)


def _best(trial: "Trial", decode: "DecodeSettings", overrides: Sequence[str]) -> dict[str, Any]:
    """Prints the keys of the best trial as [decode], with those of --set and --precision, and returns all of them."""
    from calque.experiment import override
    from calque.experiment.toml import literal

    names = [str(override(written).key) for written in overrides]
    keys = trial.keys | {name: getattr(decode, name) for name in names if name not in trial.keys}
    click.echo("\n".join(["\n[decode]", *(f"{key} = {literal(value)}" for key, value in keys.items())]))
    return keys


def _text(run: Path, valid: tuple[Path, Path] | None) -> tuple[list[str], list[str]]:
    """Sources and references: of two files, else the validation text of a run."""
    from calque.data.corpus import open_corpus
    from calque.evaluate.files import read_aligned
    from calque.run.folder import CORPUS

    if valid is None:
        return open_corpus(run / CORPUS).lines("valid")
    (sources,), references = read_aligned([valid[0]], valid[1])
    return sources, references
