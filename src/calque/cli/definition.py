"""Commands about a definition: before any weight exists."""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calque.cli.base import FILE, ending_in, from_options, root, tell, terminal_width, write_out
from calque.ground.diagnostics import Place, codes, error, nearest, render_all

if TYPE_CHECKING:
    from calque.adl.check import CheckedDefinition
    from calque.explain import Surroundings
    from calque.workflow.checking import CheckedSubject

DEFINITION = click.argument("file", metavar="FILE|RUN|NAME")
DIALECT = click.option(
    "--dialect",
    type=click.Choice(["calque", "acl18"]),
    default="calque",
    help="The notation; acl18: the strings of Domhan's 2018 research code.",
)
SETTINGS = click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Give a setting another value.")


PLUGINS = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE",
    help="A module or .py file with layers of your own; experiments and runs name theirs themselves.",
)


def AROUND(command: Callable[..., None]) -> Callable[..., None]:
    """The options for vocabularies and shared matrices: they become keywords, which `from_options` gives to `around`."""
    size = click.IntRange(1, 10_000_000)
    options = (
        click.option(
            "--source-vocabulary",
            type=size,
            metavar="N",
            help="Its entries, for which embeddings and output layer are counted; default: as the other.",
        ),
        click.option("--target-vocabulary", type=size, metavar="N", help="Its entries; default: as the other."),
        click.option("--tying", type=click.Choice(["three-way", "target", "none"]), help="Which matrices are shared."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def LENGTHS(command: Callable[..., None]) -> Callable[..., None]:
    """The options of sentence lengths and number type, on which costs depend."""
    count = click.IntRange(1, 10_000)
    kind = click.Choice(["float32", "bfloat16"])
    options = (
        click.option("--length", type=count, default=25, show_default=True, help="Target tokens."),
        click.option("--source-length", type=count, default=25, show_default=True, help="Source tokens."),
        click.option("--precision", type=kind, default="float32", help="Type of the decoding state."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def around(source_vocabulary: int | None, target_vocabulary: int | None, tying: str | None) -> "Surroundings":
    """The matrices around an architecture. One size alone is that of both vocabularies.

    The default tying is three-way for vocabularies of one size, else `target`. Raises UsageError where matrices of two sizes
    would be one.
    """
    from calque.explain import Surroundings

    source, target = source_vocabulary or target_vocabulary, target_vocabulary or source_vocabulary
    if tying == "three-way" and source != target:
        raise click.UsageError(f"--tying three-way needs vocabularies of one size, found {source:,} and {target:,}")
    return Surroundings(source, target, tying or ("three-way" if source == target else "target"))


def checked_definition(
    name: str, settings: tuple[str, ...] = (), dialect: str = "calque", plugins: tuple[str, ...] = ()
) -> "CheckedDefinition":
    """The checked definition of a file or of an architecture of the zoo; prints its warnings."""
    return _check(name, settings, dialect, plugins=plugins).definition


def _check(
    name: str, settings: tuple[str, ...], dialect: str, corpus: bool = False, plugins: tuple[str, ...] = ()
) -> "CheckedSubject":
    """The checked definition of this name; prints its warnings."""
    from calque.workflow.checking import check_subject

    checked = check_subject(name, settings, dialect, corpus, plugins)
    if checked.definition.warnings:
        tell(render_all(checked.definition.warnings))
    return checked


def _check_tables(file: str, settings: tuple[str, ...], to_text: bool) -> bool:
    """Checks a file of tables; whether it is one."""
    from calque.papers.tables_file import holds_tables

    if not holds_tables(Path(file)):
        return False
    from calque.papers.own_tables import check_tables

    if to_text:
        raise click.UsageError("--to-text needs one definition, and this file has tables of them")
    check_tables(Path(file), settings)
    return True


@root.command()
@DEFINITION
@SETTINGS
@PLUGINS
@DIALECT
@click.option("--to-text", is_flag=True, help="Print the canonical text; of another dialect, the translation.")
def check(file: str, settings: tuple[str, ...], plugins: tuple[str, ...], dialect: str, to_text: bool) -> None:
    """Check a definition or an experiment: prints nothing where it is correct, and all errors where it is not.

    FILE is a definition, or an experiment in TOML: its keys, its definition and the files of its corpus are checked; or a file of
    tables of your own for `calque reproduce`, whose rows are checked. RUN is a run folder, whose definition is checked. NAME is an
    architecture of `calque zoo`. For an experiment, `--set` also takes its keys, as in `--set train.lr=0.001`.
    """
    if file.endswith(".toml") and _check_tables(file, settings, to_text):
        return
    checked = _check(file, settings, dialect, True, plugins)
    if to_text and (checked.named.dialect or dialect) == "calque":
        click.echo(checked.definition.text, nl=False)
    elif to_text:
        from calque.adl.dialect import text_of

        click.echo(text_of(checked.reader(checked.named.text).statements), nl=False)


@root.command()
@DEFINITION
@SETTINGS
@PLUGINS
@DIALECT
@LENGTHS
@AROUND
@click.option("--all", "every", is_flag=True, help="Show every copy of a repetition.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option(
    "--diagram", type=FILE, callback=ending_in(".svg"), help="Draw the network into this file instead, as SVG."
)
def explain(
    file: str,
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    dialect: str,
    length: int,
    source_length: int,
    precision: str,
    every: bool,
    as_json: bool,
    diagram: Path | None,
    **sizes: object,
) -> None:
    """Print what a definition costs, before any weights exist.

    For every layer: parameters, multiply-adds per token (products with matrices), bytes of decoding state, the positions
    that an output sees, operations that must run in sequence, and the longest path between two positions, as n grows.
    """
    from calque.explain import explanation, table, whole

    checked = checked_definition(file, settings, dialect, plugins)
    if diagram is not None:
        from calque.diagram import diagram as drawn

        path = Path(file)
        write_out(diagram, drawn(checked, path.name if path.exists() else file))
        click.echo(diagram)
        return
    model = whole(checked, from_options(around, sizes), length, source_length)
    click.echo(
        json.dumps(explanation(checked, model), indent=1) if as_json else table(checked, model, precision, every)
    )


@root.command()
@click.argument("name", required=False)
def layers(name: str | None) -> None:
    """List the layers with their equations and the prelude, or explain the layer NAME."""
    from calque.adl.program import prelude
    from calque.adl.signature import REPEAT
    from calque.explain.pages import layer_list, layer_page, wrapped
    from calque.layers.declared import declared

    signatures = {n: layer.signature() for n, layer in declared().items()} | {"repeat": REPEAT}
    written = {s.name: s.span.text.body[s.span.start : s.span.end] for s in prelude()}
    if name is None:
        width = terminal_width()
        click.echo(layer_list(signatures.values(), width))
        click.echo("\n# definitions of the prelude")
        click.echo("\n".join(line for text in written.values() for line in wrapped(text, width)))
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
    click.echo(f"{entry.code}: {entry.title}\n\n{entry.page}")


def _provable(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """The callback of an argument that names a Python file, a module or a definition: raises X419 for anything else."""
    words = str(value).split(".")
    if value.suffix == ".adl" and value.is_file():
        return value
    if value.suffix != ".py" and (value.exists() or not all(map(str.isidentifier, words)) or not _module(words[0])):
        found = "a folder" if value.is_dir() else "another file" if value.exists() else "no file of this name"
        raise error("X419", Place(str(value)), found=found)
    return value


def _module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # `__main__`, which is this program
        return False


@root.command()
@click.argument("file", type=FILE, callback=_provable)
@SETTINGS
@PLUGINS
def prove(file: Path, settings: tuple[str, ...], plugins: tuple[str, ...]) -> None:
    """Prove every law for the layers of a Python FILE, on every example, or for the definition in FILE.adl.

    A definition is built and tested at its own size: `--set d=64` is as much of a proof and takes seconds.
    """
    from calque.experiment import ModelSettings
    from calque.prove import prove_module, prove_text
    from calque.workflow.plugins import load_plugin, registry_of

    if file.suffix == ".adl":
        text = checked_definition(str(file), settings, plugins=plugins).text
        reports = [prove_text(text, registry_of(ModelSettings(plugins=plugins)), name=str(file))]
    elif settings or plugins:
        raise click.UsageError("--set and --plugin are for a definition, and this is a file of layers")
    else:
        reports = prove_module(load_plugin(str(file)), str(file))
    if not reports:
        raise error("X409", Place(str(file)))
    for report in reports:
        click.echo(str(report))
    if not all(report.passed for report in reports):
        sys.exit(1)
