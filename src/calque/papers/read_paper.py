"""Reading a paper's tables from its TOML."""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from calque import zoo
from calque.experiment.toml import literal
from calque.papers.computed_paper import load_computed
from calque.papers.paper import (
    KINDS,
    METRICS,
    TRAINING,
    Claim,
    Column,
    Decoding,
    Figure,
    Floor,
    LanguagePair,
    Paper,
    PrintedTable,
    Row,
)
from calque.zoo.rows import TableTexts

_COLUMN = re.compile(r"(?P<pair>\S+) (?P<metric>\S+)(?: beam=(?P<beam>[1-9]\d*))?")
_FIGURE = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?: ± (?P<deviation>\d+(?:\.\d+)?))?")


@functools.cache
def paper(name: str) -> Paper:
    """A paper's tables, figures and claims. Raises X220 where there is none of that name."""
    return load_paper(name, zoo.source(name), zoo.own_texts(name))


def load_paper(name: str, data: Mapping[str, Any], texts: Mapping[str, str]) -> Paper:
    """A paper from its TOML; `texts` are the architectures of its folder, which rows name with `same`.

    Raises ValueError, with the place, for a key too many or too few, and for what is named and is not there.
    """
    keys = _keys(data, name, "title cite address settings pairs tables claims", "definitions computed keys floors")
    pairs = tuple(
        LanguagePair(pair, *_keys(entry, f"pairs.{pair}", "title settings").values())
        for pair, entry in keys["pairs"].items()
    )
    reader = _TableReader(TableTexts(name, data, texts))
    tables = tuple(reader.table(key, entry) for key, entry in keys["tables"].items())
    claims = tuple(_claim(entry, f"claims[{k}]", tables) for k, entry in enumerate(keys["claims"]))
    computed = tuple(load_computed(key, entry) for key, entry in (keys["computed"] or {}).items())
    floors = {
        corpus: Floor(*_keys(entry, f"floors.{corpus}", "bleu reason").values())
        for corpus, entry in (keys["floors"] or {}).items()
    }
    known = tuple(f"{key}={literal(value)}" for key, value in (keys["keys"] or {}).items())
    return Paper(name, keys["title"], keys["cite"], keys["address"], pairs, tables, claims, computed, known, floors)


def _keys(entry: Mapping[str, Any], where: str, needed: str, optional: str = "") -> dict[str, Any]:
    """The values of the keys, needed ones first, None for optional ones that are missing."""
    known = [*needed.split(), *optional.split()]
    wrong = [k for k in entry if k not in known] + [k for k in needed.split() if k not in entry]
    if wrong:
        raise ValueError(f"{where}: {', '.join(wrong)} not known or missing")
    return {k: entry.get(k) for k in known}


class _TableReader:
    """Reads tables: the texts of rows, and beside them what the paper prints."""

    def __init__(self, texts: TableTexts):
        self.texts = texts

    def table(self, name: str, entry: Mapping[str, Any]) -> PrintedTable:
        keys = _keys(entry, name, "title columns rows")
        columns = tuple(_column(text, f"{name}.columns", set(self.texts.sizes)) for text in keys["columns"])
        rows = tuple(self.row(name, key, row, columns) for key, row in keys["rows"].items())
        for row in rows:
            of = row.reading_of
            if of is not None and of not in {r.key for r in rows if r.figures}:
                raise ValueError(f"{row.name}: there is no row {of} with figures")
        return PrintedTable(name, keys["title"], columns, rows)

    def row(self, table: str, key: str, entry: Mapping[str, Any], columns: tuple[Column, ...]) -> Row:
        where = f"{table}/{key}"
        keys = _keys(entry, where, "label", "note encoder decoder same settings figures reading_of decoding")
        decoding = _decoding(keys["decoding"] or {}, where)
        if (keys["figures"] is None) != (keys["reading_of"] is not None):
            raise ValueError(f"{where}: either `figures` or `reading_of`")
        text = self.texts.row(table, key, entry, [column.pair for column in columns])
        printed = keys["figures"] or []
        if keys["figures"] is not None and len(printed) != len(columns):
            raise ValueError(f"{where}: {len(columns)} columns, {len(printed)} figures")
        figures = (_figure(p, column, where) for column, p in zip(columns, printed, strict=False))
        return Row(
            name=text.name,
            label=text.label,
            text=text.text,
            figures=tuple(figure for figure in figures if figure is not None),
            note=text.note,
            reading_of=keys["reading_of"],
            decoding=decoding,
            model_of=text.model_of,
            texts=text.texts,
            written=text.written,
        )


def _decoding(entry: Mapping[str, Any], where: str) -> Decoding:
    """Of a row; what it names differs from the rule."""
    for key, value in entry.items():
        rule = getattr(Decoding(), key, None) if key in _DECODING else None
        if type(value) is not type(rule) or value == rule:
            raise ValueError(f"{where}: `decoding` cannot have {key} = {value}")
    found = Decoding(**entry)
    if found.selected and (found.unknown or found.ensemble > 1):
        raise ValueError(f"{where}: `decoding` selects words, or does something else with a trained model")
    return found


_DECODING = {field.name for field in dataclasses.fields(Decoding)}


def _column(text: str, where: str, pairs: set[str]) -> Column:
    match = _COLUMN.fullmatch(text)
    if match is None or match["pair"] not in pairs or match["metric"] not in METRICS:
        raise ValueError(f"{where}: {text} is no column")
    beam = None if match["beam"] is None else int(match["beam"])
    if beam is not None and match["metric"] in TRAINING:
        raise ValueError(f"{where}: {text}: a beam has no part in {match['metric']}")
    return Column(match["pair"], match["metric"], beam)


def _figure(text: str, column: Column, where: str) -> Figure | None:
    if text == "-":
        return None
    match = _FIGURE.fullmatch(text)
    if match is None:
        raise ValueError(f"{where}: {text} is no figure")
    deviation = match["deviation"]
    spread = None if deviation is None else float(deviation)
    return Figure(float(match["value"]), spread, column.pair, column.metric, column.beam)


def _claim(entry: Mapping[str, Any], where: str, tables: tuple[PrintedTable, ...]) -> Claim:
    keys = _keys(entry, where, "text section table kind", "rows steps columns")
    table = next((t for t in tables if t.name == keys["table"]), None)
    if table is None or keys["kind"] not in KINDS:
        raise ValueError(f"{where}: no table {keys['table']}, or no kind {keys['kind']}")
    rows, steps = tuple(keys["rows"] or ()), tuple((a, b) for a, b in keys["steps"] or ())
    given, other = (steps, rows) if keys["kind"] == "gain" else (rows, steps)
    known = {row.key for row in table.rows}
    named = {*rows, *(row for step in steps for row in step)}
    if len(given) < 2 or other or len(set(given)) < len(given) or not named <= known:
        raise ValueError(f"{where}: {sorted(named - known)} are no rows, or too few or too many")
    columns = table.columns
    if keys["columns"] is not None:
        columns = tuple(_column(text, where, {c.pair for c in table.columns}) for text in keys["columns"])
    if not columns or not set(columns) <= set(table.columns):
        raise ValueError(f"{where}: other columns than the table's")
    if keys["kind"] == "grows" and len(columns) < 2:
        raise ValueError(f"{where}: what grows does so over two columns or more")
    return Claim(keys["text"], keys["section"], table.name, keys["kind"], rows, steps, columns)
