"""The command that leaves pairs out of a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.alignment import TEXTS
from calque.cli.base import FILE, Number, loading, root, tell, writing
from calque.ground.diagnostics import Place, error
from calque.ground.files import unwritable

if TYPE_CHECKING:
    from calque.workflow.filtering import Filtered


@root.command("filter")
@TEXTS[0]
@TEXTS[1]
@click.option("--out", nargs=2, type=FILE, metavar="SOURCE TARGET", help="Where to write the pairs that are kept.")
@click.option(
    "--accept",
    type=Number(0, 1),
    help="Keep what scores higher than all but this share of pairs put together at random.  [default: 0.01]",
)
@click.option("--keep", type=Number(0, 1), help="Keep this share of all pairs instead, the best ones.")
@click.option("--scores", type=FILE, help="Where to write the score of each pair, line by line.")
@click.option(
    "--learn",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Pairs whose words are learned, evenly spread.",
)
def filter_(
    source: Path,
    target: Path,
    out: tuple[Path, Path] | None,
    accept: float | None,
    keep: float | None,
    scores: Path | None,
    learn: int,
) -> None:
    """Leave out of a corpus the pairs that are no translations of each other.

    The score of a pair says how much each of its sides tells about the other, in nats per word, by what the other pairs say of
    its words; no run is needed. Pairs that are kept are written as they are, in their order.
    """
    if out is None and scores is None:
        raise click.UsageError("nothing is to be written: --out, --scores, or both")
    if accept is not None and keep is not None:
        raise click.UsageError("--accept and --keep decide the same: one of them")
    written = [*(out or ()), *([scores] if scores else [])]
    _check([source, target], written)
    with loading():
        from calque.workflow.filtering import filter_corpus
        from calque.workflow.show import LineProgress
    with LineProgress("scoring", None) as progress, writing(Path(", ".join(map(str, written)))):
        found = filter_corpus(
            (source, target), out, 0.01 if accept is None else accept, keep, scores, learn, progress.of
        )
    tell(_summary(found))


def _check(read: list[Path], written: list[Path]) -> None:
    """Raises X408 where a file cannot be written, or another one would be overwritten."""
    for k, path in enumerate(written):
        is_device = path.exists() and not path.is_file()
        taken = not is_device and any(path.resolve() == other.resolve() for other in (*read, *written[:k]))
        if reason := "another file of this command is there" if taken else unwritable(path):
            raise error("X408", Place(str(path)), reason=reason)


def _summary(found: "Filtered") -> str:
    share = f"{found.kept:,} of {found.pairs:,} pairs ({found.kept / found.pairs:.1%})"
    chance = "" if found.chance is None else f", as have {found.chance:.1%} of pairs put together at random"
    return f"{share} have a score of at least {found.least:.2f}{chance}" if found.kept else f"{share} are kept"
