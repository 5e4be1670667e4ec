"""Commands about a definition: before any weight exists."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from calque.cli.base import FILE, root, tell
from calque.diagnostics import CalqueError, Place, codes, error, nearest, render_all

DEFINITION = click.argument("file", metavar="FILE|NAME")
DIALECT = click.option(
    "--dialect",
    type=click.Choice(["calque", "acl18"]),
    default="calque",
    help="The notation; acl18: the strings of Domhan's 2018 research code.",
)
SETTINGS = click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Give a setting another value.")


def checked_definition(name: str, settings: tuple[str, ...] = (), dialect: str = "calque") -> Any:
    """The checked definition of a file, or of an architecture that comes with the package; warnings are told."""
    text, reader = _read(name, settings, dialect)
    from calque.adl.check import check
    from calque.layers.registry import builtin

    checked = check(text, builtin(), reader)
    if checked.warnings:
        tell(render_all(checked.warnings))
    return checked


def _read(name: str, settings: tuple[str, ...], dialect: str) -> tuple[Any, Any]:
    """A text and its reader. A typing error is told here, before torch is loaded."""
    from calque import zoo
    from calque.adl.dialect import reader
    from calque.adl.settings import parse_settings

    text, given = zoo.find(name), reader(dialect, parse_settings(settings))
    read = given(text)
    if read.faults:
        raise CalqueError(read.faults)
    return text, given


@root.command()
@DEFINITION
@SETTINGS
@DIALECT
@click.option("--to-text", is_flag=True, help="Print the canonical text; of another dialect, the translation.")
def check(file: str, settings: tuple[str, ...], dialect: str, to_text: bool) -> None:
    """Check a definition: prints nothing where it is right, and every error where it is not.

    NAME is an architecture of `calque zoo`.
    """
    checked = checked_definition(file, settings, dialect)
    if to_text and dialect == "calque":
        click.echo(checked.text, nl=False)
    elif to_text:
        from calque.adl.dialect import text_of

        text, reader = _read(file, settings, dialect)
        click.echo(text_of(reader(text).statements), nl=False)


@root.command()
@DEFINITION
@SETTINGS
@DIALECT
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def explain(file: str, settings: tuple[str, ...], dialect: str, as_json: bool) -> None:
    """Print what is known of a definition before a weight exists: paths, widths, parameters."""
    from calque.explain import explanation, table

    checked = checked_definition(file, settings, dialect)
    click.echo(json.dumps(explanation(checked), indent=1) if as_json else table(checked))


@root.command()
@click.argument("name", required=False)
def layers(name: str | None) -> None:
    """List the layers and the prelude, or explain the one that is NAMEd."""
    from calque.adl.program import prelude
    from calque.adl.signature import REPEAT
    from calque.explain import layer_page, signature_text
    from calque.layers.registry import builtin

    signatures = {n: layer.signature() for n, layer in builtin().layers.items()} | {"repeat": REPEAT}
    written = {s.name: s.span.text.body[s.span.start : s.span.end] for s in prelude()}
    if name is None:
        for signature in sorted(signatures.values(), key=lambda s: s.name):
            click.echo(signature_text(signature))
        click.echo("\n# definitions of the prelude")
        click.echo("\n".join(written.values()))
    elif name in signatures:
        click.echo(layer_page(signatures[name]))
    elif name in written:
        click.echo(written[name])
    else:
        known = [*signatures, *written]
        raise error("C101", None, name=name, near=nearest(name, known))


@root.command("explain-error")
@click.argument("code")
def explain_error(code: str) -> None:
    """Print the page of an error code, such as C104."""
    entry = codes().get(code.upper())
    if entry is None:
        raise error("X407", None, name=code, near=nearest(code.upper(), codes()))
    click.echo(f"{entry.code}: {entry.message}\n\n{entry.page}")


@root.command()
@click.argument("file", type=FILE)
def prove(file: Path) -> None:
    """Prove the contract for the layers of a Python FILE: every law, on every example, in a minute."""
    from calque.prove import prove_module
    from calque.workflow import load_plugin

    reports = prove_module(load_plugin(str(file)))
    if not reports:
        raise error("X409", Place(str(file)))
    for report in reports:
        click.echo(str(report))
    if not all(report.passed for report in reports):
        sys.exit(1)
