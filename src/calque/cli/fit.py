"""The command that makes definitions equally large."""

import re
from decimal import Decimal
from pathlib import Path

import click

from calque.cli.base import from_options, root, tell
from calque.cli.definition import AROUND, DEFINITION, DIALECT, PLUGINS, SETTINGS, around, checked_definition

THOUSANDS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@root.command()
@DEFINITION
@click.option(
    "--params-of",
    required=True,
    metavar="FILE|RUN|NAME|COUNT",
    help="The definition, or the number of parameters, to match: 60000000 or 60M.",
)
@click.option("--setting", default="d", show_default=True, help="The setting of FILE that is solved for.")
@click.option("--multiple", type=click.IntRange(1), help="Only try multiples of N; default: as heads and halves need.")
@SETTINGS
@PLUGINS
@DIALECT
@AROUND
def fit(
    file: str,
    params_of: str,
    setting: str,
    multiple: int | None,
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    dialect: str,
    **sizes: object,
) -> None:
    """Solve for a setting, so that one definition has as many parameters as another.

    Prints `NAME=VALUE`, which `--set` of other commands takes, and both counts on stderr. `--set` applies to FILE, and of an
    experiment also to its keys. Without vocabulary sizes, embeddings and the output layer are not counted.
    """
    from calque.explain import fit as solved
    from calque.explain import parameters
    from calque.workflow.checking import shown_in
    from calque.workflow.definitions import named_subject, split_settings

    shape = from_options(around, sizes)
    written = re.fullmatch(r"([0-9]+(?:_[0-9]+)*(?=[kMG]?$)|[0-9]+\.[0-9]+(?=[kMG]))([kMG]?)", params_of)
    if written:
        target = round(Decimal(written[1]) * THOUSANDS[written[2]])
    else:
        target = parameters(checked_definition(params_of, plugins=plugins), shape)
    with shown_in(Path(file), split_settings(settings)[0]):
        named, own = named_subject(file, settings, plugins)
        value = solved(named.text, target, setting, multiple, shape, own, named.dialect or dialect, named.library)
    count = parameters(checked_definition(file, (*settings, f"{setting}={value}"), dialect, plugins), shape)
    click.echo(f"{setting}={value}")
    tell(f"{file}: {count:,} parameters; {params_of}: {target:,} ({(count - target) / target:+.2%})")
