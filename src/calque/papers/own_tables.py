"""Tables of the user's: a TOML file with architectures of their own as rows, read as the tables of a paper are.

A row is a definition of a file or of the zoo, the text of both sides, or another row with other settings. Its claims are those of
the file; a table about which it says nothing has one for each row but the first: that it is above the first.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from calque import zoo
from calque.experiment import Experiment, ModelSettings
from calque.experiment.toml import document
from calque.explain.totals import Surroundings
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text, error, read_text
from calque.ground.files import portable, write_whole
from calque.layers.contract import Registry
from calque.layers.registry import builtin
from calque.papers.paper import Paper, Row
from calque.papers.plan import STEP, WIDTH, Texts, checked_row
from calque.papers.read_paper import load_paper
from calque.papers.recipes import FILE_NAME
from calque.papers.request import RUNS, Request
from calque.papers.tables_file import Keys, TablesFile
from calque.run.own_layers import layers_digest
from calque.workflow.plugins import registry_of

COPY = "tables.json"
"""In an output folder: the tables of the user's that its cells belong to, definitions included."""


def read_tables(path: Path) -> Paper:
    """The tables of a file.

    Raises X860 to X864, X866 and X868, X103 for what is no TOML, X101 and X102 for a file that cannot be read, X402, X403 and X220
    for a definition that cannot, and X401, X411, X420 and X426 for plugins.
    """
    if not FILE_NAME.fullmatch(path.name) or path.stem in zoo.shelves():
        raise error("X860", Place(str(path)), names=sorted(zoo.shelves()))
    text = read_text(str(path), "X101", "X102")
    text = Text(text.name, text.body.replace("\r\n", "\n"))
    content = TablesFile(text, document(text))
    content.check()
    here = path.parent.absolute()
    plugins = [str(here / name) if name.endswith(".py") else name for name in content.keys.get("plugins", ())]
    given = content.joined()
    try:
        made = _paper(path.stem, given, str(path), plugins)
    except ValueError as fault:
        raise content.not_read(str(fault)) from None
    _check_matches(content, made)
    return made


def _check_matches(content: TablesFile, made: Paper) -> None:
    """Raises X866 for a setting of `match` that a row does not have, and what is wrong with plugins."""
    layers = library(made)
    for match, row in ((t.match, row) for t in made.tables if t.match is not None for row in t.rows):
        try:
            read = checked_row(Text(row.place, row.text), {match.setting: f"{match.setting}={STEP}"}, layers)[1]
        except CalqueError:  # of the definition, or of this value alone
            continue
        if not read and row.key != match.row:
            content.lacks(("tables", row.name.split("/")[1], "match", "setting"), match.setting, row.key)
    content.raise_faults()


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
    """The tables as a paper, from what `TablesFile.joined` returns. Raises ValueError where a row or a claim cannot be made."""
    made = load_paper(name, given["data"], given["texts"], commented=False)
    named = given["places"]

    def placed(row: Row) -> Row:
        return replace(row, place=named.get(row.name) or f"{file}, {row.name}")

    tables = tuple(replace(table, rows=tuple(map(placed, table.rows))) for table in made.tables)
    return replace(made, tables=tables, file=file, plugins=tuple(plugins), given=given)


def read_copy(out: Path) -> Paper | None:
    """The tables that an output folder holds; None where its table is that of a paper."""
    held = _held(out)
    return _paper(held["name"], held["given"], held["file"], held["plugins"]) if held else None


def _held(out: Path) -> Keys:
    try:
        return cast("Keys", json.loads((out / COPY).read_bytes()))
    except FileNotFoundError:
        return {}


def keep_copy(out: Path, request: Request) -> None:
    """Writes the user's tables into an output folder, so that the processes of cells need no other file.

    Raises X865 for a row that is trained there as another model.
    """
    assert request.own is not None
    tables = request.own
    rows = dict(_held(out).get("rows", {}))  # also those that the file no longer has
    for row in request.printed.rows:
        now = _identity(request, row)
        before = rows.get(row.key, now) if (out / RUNS / row.key).is_dir() else now
        if changed := [what for what in now if now[what] != before[what]]:
            raise error("X865", Place(str(out)), row=row.key, what=changed[0])
        rows[row.key] = now
    content = {
        "name": tables.name,
        "file": portable(tables.file),
        "plugins": tables.plugins,
        "rows": rows,
        "given": tables.given,
    }
    write_whole(out / COPY, (json.dumps(content, indent=1) + "\n").encode())


def _identity(request: Request, row: Row) -> dict[str, str]:
    """What the models of a row follow from, beside the request: its definition, by what it is matched in size, and layers of the
    user's, where it has some."""
    tables, table = cast("Paper", request.own), request.printed
    layers = library(tables)
    own: set[str] = set()
    try:
        checked = checked_row(Text(row.place, row.text), {}, layers)[0]
        definition = checked.hash
        own = {node.name for side in (checked.encoder, checked.decoder) for node in side.nodes()} - builtin().keys()
    except CalqueError:  # a row that nothing trains now
        definition = hashlib.sha256(row.text.encode()).hexdigest()[:12]
    matched = "" if request.match is None else WIDTH if table.match is None else table.match.setting
    written = layers_digest(Experiment(model=ModelSettings(plugins=tables.plugins))) if own else None
    return {"definition": definition, "setting of `match`": matched, "version of its layers": written or ""}
