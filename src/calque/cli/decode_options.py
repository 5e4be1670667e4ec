"""Options of the commands that translate."""

from collections.abc import Callable

import click

from calque.cli.base import BEAM, FILE, PRECISION, SET, THREADS

TAG = click.option(
    "--tag", metavar="SYMBOL", help="In front of every line: a symbol of the run, such as the name of a language."
)


INVARIANT = click.option(
    "--invariant", is_flag=True, help="The same bits whatever other sentences the input has; slower."
)


def TABLES(command: Callable[..., None]) -> Callable[..., None]:
    """The options of ensembles, and of the files that say more of words than a run does: `calque.workflow.api.Tables`."""
    for option in (
        click.option(
            "--combine",
            type=click.Choice(["probs", "logits", "logprobs"]),
            default="probs",
            show_default=True,
            help="Several runs: what is averaged.",
        ),
        click.option(
            "--memory",
            type=FILE,
            nargs=2,
            metavar="SOURCE TARGET",
            help="A translation memory, two files of pairs: the model leans on those that are like a line.",
        ),
        click.option(
            "--terms",
            type=FILE,
            help="A list of terms, each a source, a tab and its target: a line with the source has a translation with the target.",
        ),
        click.option(
            "--dictionary",
            type=FILE,
            help="A lexical table that replaces unknown words; a word that it lacks is copied.",
        ),
        click.option("--select", type=FILE, help="A lexical table: search only among the words that it offers."),
    ):
        command = option(command)
    return command


def TRANSLATOR(command: Callable[..., None]) -> Callable[..., None]:
    """What `opened` takes: the options of commands that translate as `calque translate` does."""
    for option in (TABLES, INVARIANT, TAG, THREADS, PRECISION, BEAM, SET):
        command = option(command)
    return command
