"""The command that fetches public corpora."""

from pathlib import Path

import click

from calque.cli.base import FILE, root, tell
from calque.data.public import NAMES


@root.command()
@click.argument("name", type=click.Choice(NAMES))
@click.option("--from", "source", type=FILE, help="Read the published files from this folder; use no network.")
@click.option(
    "--root",
    "where",
    type=FILE,
    help="The folder of all corpora.  [default: $CALQUE_DATA, else data]",
    show_default=False,
)
def data(name: str, source: Path | None, where: Path | None) -> None:
    """Fetch a public corpus, check its sums and build its files below the data root, which is printed.

    multi30k: image captions (En, De, Fr, Cs). envi: IWSLT'15 TED talks (En, Vi). tatoeba: short sentences (En, De).
    meteor: the word lists that METEOR needs. The licence is shown first. The same command resumes an interrupted call.
    """
    from calque.data.public import corpus, data_root
    from calque.data.public_fetch import build

    below = data_root(where)
    build(corpus(name), below, source, tell)
    click.echo(below)
