"""Commands that list and compare definitions."""

import json
import sys
from dataclasses import asdict

import click

from calque.cli.base import from_options, root
from calque.cli.definition import AROUND, LENGTHS, PLUGINS, SETTINGS, around, checked_definition


@root.command()
@click.argument("name", required=False)
def zoo(name: str | None) -> None:
    """List the architectures that come with the package, list those below NAME, or print the architecture NAME or NAME@PAIR."""
    from calque import zoo as architectures

    names = architectures.names()
    below = [n for n in names if name is None or n.startswith(name.rstrip("/") + "/")]
    if below:
        click.echo("\n".join(below))
    else:
        click.echo(architectures.read(str(name)).body, nl=False)


@root.command()
@click.argument("a")
@click.argument("b")
@SETTINGS
@PLUGINS
@LENGTHS
@AROUND
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def diff(
    a: str,
    b: str,
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    length: int,
    source_length: int,
    precision: str,
    as_json: bool,
    **sizes: object,
) -> None:
    """Print the edits that turn definition A into definition B, the parameters that each edit adds, and the costs of both.

    A and B are files or architectures of `calque zoo`.
    """
    one, two = (checked_definition(name, settings, plugins=plugins) for name in (a, b))
    from calque.adl.diff import diff as edits_between
    from calque.explain import differences, differences_json, differences_text, whole

    edits, shape = edits_between(one, two), from_options(around, sizes)
    costs = [whole(checked, shape, length, source_length) for checked in (one, two)]
    compared = differences(costs[0], costs[1], precision)
    if as_json:
        given = {"length": length, "source_length": source_length, "precision": precision}
        report = {"equal": not edits, **given, **differences_json(compared)}
        click.echo(json.dumps({**report, "edits": [asdict(edit) for edit in edits]}, indent=1))
    elif not edits:
        click.echo("equal")
    else:
        for edit in edits:
            click.echo(f"{edit}" + (f"  [{edit.parameters:+,} parameters]" if edit.parameters else ""))
        click.echo(f"\n{differences_text(compared)}")


@root.command()
@click.argument("a")
@click.argument("b")
@SETTINGS
@PLUGINS
def equal(a: str, b: str, settings: tuple[str, ...], plugins: tuple[str, ...]) -> None:
    """Print whether definitions A and B compute the same; exit status 1 where they do not.

    Definitions with different texts can be equal: it does not matter how they write chains, `id`, `repeat`, definitions and
    labels.
    """
    one, two = (checked_definition(name, settings, plugins=plugins) for name in (a, b))
    from calque.adl.normal import equal as are_equal

    same = are_equal(one, two)
    click.echo("equal" if same else "different")
    sys.exit(0 if same else 1)
