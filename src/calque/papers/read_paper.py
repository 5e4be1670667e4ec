"""Reads a paper: the texts of its rows from `calque.zoo`, and what it prints beside them from `printed/PAPER.toml`."""

import dataclasses
import functools
import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources

from calque import zoo
from calque.experiment.toml import literal
from calque.papers.metrics import DECODING, METRICS, TIMED, WITHOUT_BEAM
from calque.papers.paper import (
    COUNTS,
    KINDS,
    ORDERS,
    Claim,
    Column,
    ComputedRow,
    ComputedTable,
    Decoding,
    Figure,
    Floor,
    LanguagePair,
    Paper,
    PrintedTable,
    Row,
    TableMatch,
)
from calque.zoo.row_texts import Keys, TableTexts

_COLUMN = re.compile(r"(?P<pair>\S+) (?P<metric>\S+)(?: beam=(?P<beam>[1-9]\d*))?(?: length=(?P<length>[1-9]\d*))?")
_FIGURE = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?: ± (?P<deviation>\d+(?:\.\d+)?))?")


@functools.cache
def paper(name: str) -> Paper:
    """A paper's tables, figures and claims. Raises X220 where there is none of that name."""
    return load_paper(name, joined(zoo.source(name), printed(name)), zoo.own_texts(name))


def printed(name: str) -> Keys:
    """What a paper prints, as its TOML file has it."""
    file = resources.files("calque.papers").joinpath("printed", f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def joined(texts: Keys, figures: Keys) -> Keys:
    """The two files of a paper as one: the rows of each table have the keys of both.

    Raises ValueError for a table or row that one of the files does not have, and for language pairs that differ.
    """
    tables = {}
    for key, table in texts["tables"].items():
        beside = figures["tables"].get(key, {})
        rows, columns = beside.get("rows", {}), beside.get("columns", [])
        if unknown := rows.keys() - table["rows"].keys():
            raise ValueError(f"{key}: {', '.join(sorted(unknown))} is printed and has no text")
        if list(dict.fromkeys(column.partition(" ")[0] for column in columns)) != table["pairs"]:
            raise ValueError(f"{key}: its language pairs are not those of its columns")
        tables[key] = {
            "title": table["title"],
            "columns": columns,
            "match": beside.get("match"),
            "rows": {
                name: _joined_row(f"{key}/{name}", row, rows.get(name, {})) for name, row in table["rows"].items()
            },
        }
    if unknown := figures["tables"].keys() - tables.keys():
        raise ValueError(f"{', '.join(sorted(unknown))} is printed and has no texts")
    return {**texts, **figures, "tables": tables}


def _joined_row(where: str, text: Keys, figures: Keys) -> Keys:
    """A row from both files. `models`, by which the texts know what is not trained, follows from its decoding."""
    if text.get("models", 0) != (models := _decoding(figures.get("decoding", {}), where).models):
        raise ValueError(f"{where}: expected models = {models}, which its decoding needs")
    return {**{key: value for key, value in text.items() if key != "models"}, **figures}


def load_paper(name: str, data: Keys, texts: Mapping[str, str], commented: bool = True) -> Paper:
    """A paper from its TOML, as `joined` returns it; `texts` are the architectures of its folder, which rows name with `same`.
    `commented`: texts begin with comments that say which row they are.

    Raises ValueError, with the place, for a key that is missing or unknown, and for a name of something that does not exist.
    """
    keys = _keys(data, name, "title cite address settings pairs tables claims", "definitions computed keys floors")
    pairs = tuple(
        LanguagePair(pair, *_keys(entry, f"pairs.{pair}", "title settings").values())
        for pair, entry in keys["pairs"].items()
    )
    expanded = TableTexts(name, data, texts, commented)
    tables = tuple(_table(key, entry, expanded) for key, entry in keys["tables"].items())
    claims = tuple(_claim(entry, f"claims[{k}]", tables) for k, entry in enumerate(keys["claims"]))
    computed = tuple(load_computed(key, entry) for key, entry in (keys["computed"] or {}).items())
    floors = {
        corpus: Floor(*_keys(entry, f"floors.{corpus}", "bleu reason").values())
        for corpus, entry in (keys["floors"] or {}).items()
    }
    known = tuple(f"{key}={literal(value)}" for key, value in (keys["keys"] or {}).items())
    return Paper(name, keys["title"], keys["cite"], keys["address"], pairs, tables, claims, computed, known, floors)


def _keys(entry: Keys, where: str, needed: str, optional: str = "") -> Keys:
    """The values of the keys, needed ones first, None for optional ones that are missing."""
    known = [*needed.split(), *optional.split()]
    wrong = [k for k in entry if k not in known] + [k for k in needed.split() if k not in entry]
    if wrong:
        raise ValueError(f"{where}: {', '.join(wrong)} not known or missing")
    return {k: entry.get(k) for k in known}


def _table(name: str, entry: Keys, texts: TableTexts) -> PrintedTable:
    """A table: the texts of its rows, and beside them what the paper prints."""
    keys = _keys(entry, name, "title columns rows", "match")
    columns = tuple(_column(text, f"{name}.columns", set(texts.sizes)) for text in keys["columns"])
    rows = tuple(_row(name, key, row, columns, texts) for key, row in keys["rows"].items())
    for row in rows:
        if row.reading_of is not None and row.reading_of not in {r.key for r in rows if r.reading_of is None}:
            raise ValueError(f"{row.name}: there is no row {row.reading_of} that the paper has")
    return PrintedTable(name, keys["title"], columns, rows, _match(keys["match"], name, rows))


def _match(entry: Keys | None, where: str, rows: Sequence[Row]) -> TableMatch | None:
    """How the rows of a table are made equal in size, where it says so."""
    if entry is None:
        return None
    keys = _keys(entry, f"{where}.match", "setting row")
    if keys["row"] not in {row.key for row in rows}:
        raise ValueError(f"{where}: there is no row {keys['row']} to match")
    return TableMatch(keys["setting"], keys["row"])


def _row(table: str, key: str, entry: Keys, columns: Sequence[Column], texts: TableTexts) -> Row:
    where = f"{table}/{key}"
    keys = _keys(entry, where, "label", "note encoder decoder same settings figures reading_of decoding")
    decoding = _decoding(keys["decoding"] or {}, where)
    if (keys["figures"] is None) != (keys["reading_of"] is not None):
        raise ValueError(f"{where}: either `figures` or `reading_of`")
    text = texts.row(table, key, {**entry, "models": decoding.models}, [column.pair for column in columns])
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


def _decoding(entry: Keys, where: str) -> Decoding:
    """Of a row; what it names differs from the rule."""
    for key, value in entry.items():
        rule = getattr(Decoding(), key, None) if key in _DECODING else None
        if type(value) is not type(rule) or value == rule:
            raise ValueError(f"{where}: `decoding` cannot have {key} = {value}")
    decoding = Decoding(**entry)
    if decoding.selected and (decoding.unknown or decoding.ensemble > 1):
        raise ValueError(f"{where}: `decoding` selects words, or does something else with a trained model")
    return decoding


_DECODING = {field.name for field in dataclasses.fields(Decoding)}


def _column(text: str, where: str, pairs: set[str]) -> Column:
    match = _COLUMN.fullmatch(text)
    if match is None or match["pair"] not in pairs or match["metric"] not in METRICS:
        raise ValueError(f"{where}: {text} is no column")
    beam, length = (None if match[name] is None else int(match[name]) for name in ("beam", "length"))
    if beam is not None and match["metric"] in WITHOUT_BEAM:
        raise ValueError(f"{where}: {text}: a beam has no part in {match['metric']}")
    if length is not None and METRICS[match["metric"]].kind != DECODING:
        raise ValueError(f"{where}: {text}: a length is one of sources whose decoding is timed")
    return Column(match["pair"], match["metric"], beam, length)


def _figure(text: str, column: Column, where: str) -> Figure | None:
    if text == "-":
        return None
    match = _FIGURE.fullmatch(text)
    if match is None:
        raise ValueError(f"{where}: {text} is no figure")
    deviation = match["deviation"]
    spread = None if deviation is None else float(deviation)
    return Figure(float(match["value"]), spread, column.pair, column.metric, column.beam, column.length)


def _claim(entry: Keys, where: str, tables: Sequence[PrintedTable]) -> Claim:
    keys = _keys(entry, where, "text section table kind", "rows steps columns only ours times")
    table = next((t for t in tables if t.name == keys["table"]), None)
    if table is None or keys["kind"] not in KINDS:
        raise ValueError(f"{where}: no table {keys['table']}, or no kind {keys['kind']}")
    rows, steps = _compared(keys, where, table)
    columns = _claimed_columns(keys["columns"], where, table)
    marks = bool(keys["only"]), bool(keys["ours"])
    times = float(keys["times"] or 1)
    claim = Claim(keys["text"], keys["section"], table.name, keys["kind"], rows, steps, columns, *marks, times)
    if times != 1 and (times < 1 or claim.kind != "above" or any(column.metric not in TIMED for column in columns)):
        raise ValueError(f"{where}: `times` is of speeds that are above others, and above 1")
    if claim.across and len(columns) < 2:
        raise ValueError(f"{where}: what grows or shrinks does so over two columns or more")
    return claim


def _compared(keys: Keys, where: str, table: PrintedTable) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The rows of a claim, or its steps from row to row."""
    rows, steps = tuple(keys["rows"] or ()), tuple((a, b) for a, b in keys["steps"] or ())
    given, other = (steps, rows) if keys["kind"] == "gain" else (rows, steps)
    unknown = {*rows, *itertools.chain(*steps)} - {row.key for row in table.rows}
    if len(given) < 2 or other or len(set(given)) < len(given) or unknown:
        raise ValueError(f"{where}: {sorted(unknown)} are no rows, or too few or too many")
    return rows, steps


def _claimed_columns(written: Sequence[str] | None, where: str, table: PrintedTable) -> tuple[Column, ...]:
    """The columns that a claim is about; all of the table where it names none."""
    columns = table.columns
    if written is not None:
        columns = tuple(_column(text, where, set(table.pairs)) for text in written)
    if not columns or not set(columns) <= set(table.columns):
        raise ValueError(f"{where}: other columns than the table's")
    return columns


def load_computed(name: str, entry: Keys) -> ComputedTable:
    """A table from its TOML. Raises ValueError, with the place, where it is none."""
    columns = tuple(entry.get("columns", ()))
    if set(entry) != {"title", "columns", "rows"} or columns not in (ORDERS, COUNTS):
        raise ValueError(f"computed.{name}: expected title, rows, and columns that are {ORDERS} or {COUNTS}")
    return ComputedTable(
        name,
        entry["title"],
        columns,
        tuple(_computed_row(f"{name}/{k}", k, r, columns) for k, r in entry["rows"].items()),
    )


def _computed_row(where: str, key: str, entry: Keys, columns: Sequence[str]) -> ComputedRow:
    known = {"label", "figures", "reading_of"} | ({"decoder", "form"} if columns == ORDERS else set())
    if set(entry) - known or "label" not in entry or ("figures" in entry) == ("reading_of" in entry):
        raise ValueError(f"{where}: {sorted(set(entry) - known)} not known, or not one of figures and reading_of")
    figures = tuple(entry.get("figures", ()))
    if figures and len(figures) != len(columns):
        raise ValueError(f"{where}: {len(columns)} columns, {len(figures)} figures")
    if columns == ORDERS and "decoder" not in entry:
        raise ValueError(f"{where}: no decoder")
    return ComputedRow(
        key, entry["label"], figures, entry.get("decoder", ""), entry.get("form", ""), entry.get("reading_of")
    )
