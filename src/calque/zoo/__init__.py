"""Architectures of the papers and of today, as texts. `names()` lists them, `distinct()` those that differ, `read(name)` gives one.

A paper is a file `PAPER.toml` with the rows of its tables, a folder `PAPER` with architectures, or both. An architecture of the
folder is called `PAPER/NAME`. The row of a table is called `PAPER/TABLE/ROW` at the sizes of the table's first language pair, and
`PAPER/TABLE/ROW@PAIR` at those of another pair. The printed figures are in `calque.papers`.
"""

import functools
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from calque.ground.diagnostics import Text, error, nearest, read_text
from calque.zoo.row_texts import Keys, RowText, TableTexts

__all__ = ["distinct", "find", "names", "own_texts", "papers", "read", "shelves", "source"]


def names() -> list[str]:
    """Every architecture, sorted."""
    return sorted({*_files(), *_rows()})


def distinct() -> list[str]:
    """Every architecture once, sorted. Of architectures whose texts differ only in notes and in the sizes of language pairs, only
    the first by name is listed; files come before rows.
    """
    first: dict[str, str] = {}
    files, rows = _files(), _rows()
    for name in sorted(names(), key=lambda n: (n not in files, n)):
        body = rows[name].written if name in rows else read(name).body
        lines = (line for line in body.splitlines() if line and not line.startswith("#"))
        first.setdefault("\n".join(lines), name)
    return sorted(first.values())


def papers() -> list[str]:
    """Every paper with tables, sorted."""
    return sorted(f.name.removesuffix(".toml") for f in _folder().iterdir() if f.name.endswith(".toml"))


def shelves() -> set[str]:
    """The first parts of names: the papers, and the folders of architectures such as `modern`."""
    return {*papers(), *(key.partition("/")[0] for key in _files())}


def source(name: str) -> Keys:
    """The TOML file of a paper. Raises X220 where no paper has that name."""
    if name not in papers():
        raise error("X220", None, name=name, near=nearest(name, papers()), names=papers())
    return tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def own_texts(name: str) -> dict[str, str]:
    """The architectures in a paper's folder, by their names in it."""
    own = {key.partition("/")[2]: file for key, file in _files().items() if key.startswith(f"{name}/")}
    return {key: file.read_text(encoding="utf-8") for key, file in own.items()}


def read(name: str) -> Text:
    """The text of an architecture; for a row that decodes the model of another row, the text of that model.

    Raises X220 where no architecture has that name or where the row is an ensemble; X850 where `@PAIR` is no language pair of the
    table.
    """
    files = _files()
    if name in files:
        return Text(f"zoo/{name}.adl", files[name].read_text(encoding="utf-8"))
    rows = _rows(otherwise=True)
    row, _, pair = name.partition("@")
    if row not in rows:
        raise error("X220", None, name=name, near=nearest_name(row), names=sorted(files))
    if pair and pair not in rows[row].texts:
        pairs = list(rows[row].texts)
        raise error("X850", None, table=row.rpartition("/")[0], name=pair, near=nearest(pair, pairs), names=pairs)
    return Text(f"zoo/{name}.adl", rows[row].texts[pair] if pair else rows[row].text)


def find(name: str) -> Text:
    """The text of a file, or of an architecture where there is no such file.

    Raises X220 for an unknown name that cannot be a path or begins with the name of a paper, X402 or X403 for a file that cannot
    be read.
    """
    first, slash, _ = name.partition("/")
    bare = not slash and not Path(name).suffix
    if not Path(name).exists() and (bare or first in {known.partition("/")[0] for known in names()}):
        return read(name)
    return read_text(name, "X402", "X403")


def nearest_name(name: str) -> str | None:
    """The first of a table, or the one with the most similar name; the paper may be left out, as in `transformer`."""
    known = [*sorted(_files()), *sorted(_rows(otherwise=True))]
    if inside := [full for full in known if full.startswith(f"{name}/")]:
        return inside[0]
    last = name.rpartition("/")[2].lower()
    by_last: dict[str, str] = {}
    for full in known:
        by_last.setdefault(full.rpartition("/")[2], full)
    if last in by_last:
        return by_last[last]
    near = nearest(name, known) if "/" in name else None
    if near is None and (end := nearest(last, by_last, 0.7)) is not None:
        return by_last[end]
    return near


def _folder() -> Traversable:
    return resources.files("calque.zoo")


def _rows(otherwise: bool = False) -> dict[str, RowText]:
    """Rows that are trained; with `otherwise`, also rows that decode the model of another row in another way."""
    return {row.name: row for row in _all_rows() if row.models == 0 or (otherwise and row.models == 1)}


@functools.cache
def _all_rows() -> tuple[RowText, ...]:
    rows: list[RowText] = []
    for name in papers():
        data = source(name)
        texts = TableTexts(name, data, own_texts(name))
        for table, entry in data["tables"].items():
            rows += [texts.row(table, key, row, entry["pairs"]) for key, row in entry["rows"].items()]
    return tuple(rows)


@functools.cache
def _files() -> dict[str, Traversable]:
    folders = [folder for folder in _folder().iterdir() if folder.is_dir()]
    return {
        f"{folder.name}/{file.name.removesuffix('.adl')}": file
        for folder in folders
        for file in folder.iterdir()
        if file.name.endswith(".adl")
    }
