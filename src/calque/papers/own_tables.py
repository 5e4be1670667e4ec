"""Tables of the user's: a TOML file with architectures of their own as rows, read as the tables of a paper are.

A row is a definition of a file or of the zoo, the text of both sides, or another row with other settings. Its claims are those of
the file; a table about which it says nothing has one for each row but the first: that it is above the first.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calque import zoo
from calque.experiment import Experiment, ModelSettings
from calque.experiment.toml import document
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text, error, read_text
from calque.ground.files import portable, write_whole
from calque.layers.contract import Registry
from calque.papers.paper import Paper, Row
from calque.papers.plan import Texts, checked_row
from calque.papers.read_paper import load_paper
from calque.papers.recipes import FILE_NAME
from calque.papers.request import RUNS, Request
from calque.papers.tables_file import Keys, TablesFile
from calque.run.own_layers import layers_digest
from calque.workflow.plugins import registry_of

COPY = "tables.json"
"""In an output folder: the tables of the user's that its cells belong to, definitions included."""


def read_tables(path: Path) -> Paper:
    """The tables of a file. Raises X860 to X864, X103 for what is no TOML, X101 and X102 for a file that cannot be read, X402 and
    X403 for a definition that cannot, X220 for one that the zoo lacks, and X401, X411 and X420 for plugins."""
    if not FILE_NAME.fullmatch(path.name) or path.stem in zoo.shelves():
        raise error("X860", Place(str(path)), names=sorted(zoo.shelves()))
    text = read_text(str(path), "X101", "X102")
    text = Text(text.name, text.body.replace("\r\n", "\n"))
    content = TablesFile(text, document(text))
    content.check()
    here = path.parent.absolute()
    plugins = [str(here / name) if name.endswith(".py") else name for name in content.keys.get("plugins", ())]
    made = _paper(path.stem, content.joined(), str(path), plugins)
    library(made)  # raises what is wrong with plugins
    return made


def check_tables(path: Path, settings: Sequence[str] = ()) -> None:
    """Raises what is wrong with a file of tables and with the definitions of its rows under `settings`, everything together."""
    tables, faults = read_tables(path), list[Diagnostic]()
    for table in tables.tables:
        request = Request(tables.name, table.name, "", "", settings=tuple(settings), own=tables)
        try:
            Texts(request).check((row.key for row in table.rows), Surroundings(1, 1))
        except CalqueError as fault:
            faults += [one for one in fault.diagnostics if one not in faults]
    if faults:
        raise CalqueError(faults)


def library(paper: Paper) -> Registry:
    """The layers that the rows of a paper may name."""
    return registry_of(ModelSettings(plugins=paper.plugins))


def _paper(name: str, given: Keys, file: str, plugins: Sequence[str]) -> Paper:
    """The tables as a paper, from what `TablesFile.joined` returns. Raises X864 where a row cannot be made."""
    try:
        made = load_paper(name, given["data"], given["texts"], commented=False)
    except ValueError as fault:
        raise error("X864", Place(file), reason=str(fault)) from None
    named = given["places"]

    def placed(row: Row) -> Row:
        return replace(row, place=named.get(row.name) or f"{file}, {row.name}")

    tables = tuple(replace(table, rows=tuple(map(placed, table.rows))) for table in made.tables)
    return replace(made, tables=tables, file=file, plugins=tuple(plugins), given=given)


def read_copy(out: Path) -> Paper | None:
    """The tables that an output folder holds; None where its table is that of a paper."""
    try:
        held = json.loads((out / COPY).read_bytes())
    except FileNotFoundError:
        return None
    return _paper(held["name"], held["given"], held["file"], held["plugins"])


def keep_copy(out: Path, tables: Paper, table: str) -> None:
    """Writes the tables into an output folder, so that later calls need no other file.

    Raises X865 for a row of `table` that is trained there with another definition, or with layers that have changed since.
    """
    layers = layers_digest(Experiment(model=ModelSettings(plugins=tables.plugins))) or ""
    if (held := read_copy(out)) is not None:
        before = json.loads((out / COPY).read_bytes())["layers"]
        for row in tables.table(table).rows:
            if (out / RUNS / row.key).is_dir() and (before != layers or _differs(held, tables, table, row)):
                what = "layers of its plugins" if before != layers else "definition"
                raise error("X865", Place(str(out)), row=row.key, what=what)
    file, plugins = portable(tables.file), tables.plugins
    content = {"name": tables.name, "file": file, "plugins": plugins, "layers": layers, "given": tables.given}
    write_whole(out / COPY, (json.dumps(content, indent=1) + "\n").encode())


def _differs(held: Paper, now: Paper, table: str, row: Row) -> bool:
    """Whether a row has another definition than in the tables that an output folder holds."""
    rows = (one for each in held.tables if each.name == table for one in each.rows)
    before = next((one for one in rows if one.key == row.key), None)
    if before is None or before.text == row.text:
        return False
    one, other = (checked_row(Text(each.place, each.text), {}, library(now))[0].hash for each in (before, row))
    return one != other
