"""Writes the pages of the reference from the program itself: commands, layers, error codes, Python API."""

from collections.abc import Iterable
from importlib import resources

import click
import mkdocs_gen_files

from calque import cli
from calque.explain.pages import layer_page
from calque.ground.diagnostics import codes
from calque.layers.registry import builtin

FAMILIES = {
    "S": "Syntax of definitions",
    "C": "Definitions: names, widths, sides, limits",
    "X": "Experiment files and commands",
    "D": "Data",
    "K": "Model files and run folders",
}


def page(name: str, lines: Iterable[str]) -> None:
    """Writes a generated page below `reference/`."""
    with mkdocs_gen_files.open(f"reference/{name}.md", "w") as file:
        file.write("\n".join(lines) + "\n")


def cell(text: object) -> str:
    """Text that stands in one cell of a table."""
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def commands() -> Iterable[str]:
    yield "# Commands\n"
    yield "Products go to stdout; logs, progress and errors go to stderr. Exit status: 0 done; 1 a fault in data, a model or a"
    yield "check; 2 usage, definition or configuration; 70 a bug of Calque.\n"
    for name, command in sorted(cli.root.commands.items()):
        inner = command.commands if isinstance(command, click.Group) else {}
        yield from one_command(f"calque {name}", command)
        for part, below in sorted(inner.items()):
            yield from one_command(f"calque {name} {part}", below)


def one_command(name: str, command: click.Command) -> Iterable[str]:
    yield f"## {name}\n"
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"    {name} {usage}\n"
    yield " ".join((command.help or "").replace("\n\n", "\0").split()).replace("\0", "\n\n").replace("<", "&lt;") + "\n"
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield "| option | meaning |\n|---|---|"
        for option in options:
            shown = option.get_help_record(context)
            if shown is not None:
                yield f"| `{cell(shown[0])}` | {cell(shown[1])} |"
        yield ""


def layers() -> Iterable[str]:
    yield "# Layers\n"
    yield "`calque layers NAME` prints the same at the terminal.\n"
    yield "| layer | |\n|---|---|"
    signatures = [layer.signature() for _, layer in sorted(builtin().items())]
    for signature in signatures:
        yield f"| [`{signature.name}`](#{signature.name}) | {cell(signature.doc.strip().splitlines()[0])} |"
    yield ""
    for signature in signatures:
        yield f"## {signature.name}\n"
        yield f"```text\n{layer_page(signature)}\n```\n"
    yield "## The prelude\n"
    yield "Definitions that every text can use, written in the language itself:\n"
    text = resources.files("calque.adl").joinpath("prelude.adl").read_text(encoding="utf-8")
    yield f"```text\n{text.rstrip()}\n```"


def errors() -> Iterable[str]:
    yield "# Error codes\n"
    yield "`calque explain-error CODE` prints the same page. A code is never used for another mistake.\n"
    family = ""
    for name, code in sorted(codes().items(), key=lambda item: ("SCXDK".index(item[0][0]), item[0])):
        if name[0] != family:
            family = name[0]
            yield f"## {FAMILIES[family]}\n"
        yield f"### {name}\n"
        yield f"> {code.message.replace('<', '&lt;')}\n"
        yield f"```text\n{code.page}\n```\n"


for _name, _lines in (
    ("commands", commands()),
    ("layers", layers()),
    ("errors", errors()),
):
    page(_name, _lines)
page(
    "api",
    [
        "# Python API\n",
        "Everything public is an attribute of `calque`; the modules below may change between versions, the names not.\n",
        "::: calque.workflow.api\n",
        "## Layers of your own\n",
        "::: calque.layers.contract\n",
    ],
)
