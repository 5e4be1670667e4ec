"""Reading a paper's tables from its TOML."""

import dataclasses
import re
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from calque.adl.signature import SETTINGS
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
    place,
)

_COLUMN = re.compile(r"(?P<pair>\S+) (?P<metric>\S+)(?: beam=(?P<beam>[1-9]\d*))?")
_FIGURE = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?: ± (?P<deviation>\d+(?:\.\d+)?))?")


def load_paper(name: str, data: Mapping[str, Any], texts: Mapping[str, str]) -> Paper:
    """A paper from its TOML; `texts` are the architectures of its folder, which rows name with `same`.

    Raises ValueError, with the place, for a key too many or too few, and for what is named and is not there.
    """
    keys = _keys(data, name, "title cite address settings pairs tables claims", "definitions computed keys floors")
    pairs = tuple(
        LanguagePair(pair, *_keys(entry, f"pairs.{pair}", "title settings").values())
        for pair, entry in keys["pairs"].items()
    )
    statements = keys["settings"] | (keys["definitions"] or {})
    reader = _TableReader(name, keys["cite"], statements, {p.name: p for p in pairs}, texts)
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
    """Reads tables; a row can take the text of an earlier one, with other values of its settings."""

    def __init__(
        self,
        paper: str,
        cite: str,
        statements: dict[str, object],
        pairs: Mapping[str, LanguagePair],
        texts: Mapping[str, str],
    ):
        self.paper, self.cite, self.statements, self.pairs = paper, cite, statements, pairs
        self.texts, self.rows = dict(texts), set[str]()
        self.own: dict[str, set[str]] = {}

    def table(self, name: str, entry: Mapping[str, Any]) -> PrintedTable:
        keys = _keys(entry, name, "title columns rows")
        columns = tuple(_column(text, f"{name}.columns", set(self.pairs)) for text in keys["columns"])
        rows = tuple(self.row(name, key, row, columns) for key, row in keys["rows"].items())
        for row in rows:
            of = row.reading_of
            if of is not None and of not in {r.key for r in rows if r.figures}:
                raise ValueError(f"{row.name}: there is no row {of} with figures")
        return PrintedTable(name, keys["title"], columns, rows)

    def row(self, table: str, key: str, entry: Mapping[str, Any], columns: tuple[Column, ...]) -> Row:
        where = f"{table}/{key}"
        keys = _keys(entry, where, "label", "note encoder decoder same settings figures reading_of decoding")
        sides = [keys["encoder"], keys["decoder"]]
        if (keys["same"] is None) == (None in sides) or (keys["same"] is not None and sides != [None, None]):
            raise ValueError(f"{where}: either `same`, or `encoder` and `decoder`")
        decoding = _decoding(keys["decoding"] or {}, where)
        of, _, model = (keys["same"] or "").partition("/")
        if decoding.otherwise and (of != table or keys["same"] not in self.rows):
            raise ValueError(f"{where}: `decoding` is of an earlier row of its table, which `same` names")
        if (keys["figures"] is None) != (keys["reading_of"] is not None):
            raise ValueError(f"{where}: either `figures` or `reading_of`")
        body = self.body(where, keys)
        note = " ".join((keys["note"] or "").split())
        head = [f"{self.cite}, {place(table)}: {keys['label']}.", *textwrap.wrap(note, 118)]
        comment = "".join(f"# {line}\n" for line in head) + "\n"
        texts = {c.pair: comment + self.sized(body, c.pair, self.own[where]) for c in columns}
        printed = keys["figures"] or []
        if keys["figures"] is not None and len(printed) != len(columns):
            raise ValueError(f"{where}: {len(columns)} columns, {len(printed)} figures")
        figures = tuple(
            figure
            for column, p in zip(columns, printed, strict=False)
            if (figure := _figure(p, column, where)) is not None
        )
        model_of = model if decoding.otherwise else None
        text, written = texts[columns[0].pair], comment + body
        name, label, reading_of = f"{self.paper}/{where}", keys["label"], keys["reading_of"]
        return Row(name, label, text, figures, note, reading_of, decoding, model_of, texts, written)

    def body(self, where: str, keys: Mapping[str, Any]) -> str:
        """The text of a row with the settings of its own, at the sizes of no pair; notes both for rows that take it over."""
        same, own = keys["same"], keys["settings"] or {}
        if same is None:
            body = self.written(f"encoder = {keys['encoder']}\ndecoder = {keys['decoder']}\n")
        elif same in self.texts:
            body = self.texts[same]
        else:
            raise ValueError(f"{where}: there is no text {same} before it")
        for name, value in own.items():
            changed = _with(body, name, value)
            if changed is None:
                raise ValueError(f"{where}: its text does not set {name}")
            body = changed
        self.texts[where] = body
        self.own[where] = {*own, *self.own.get(same, ())}
        self.rows.add(where)
        return body

    def sized(self, body: str, pair: str, own: Collection[str]) -> str:
        """A text at the sizes of a pair, save settings that its row, or one whose text it takes over, has of its own."""
        for name, value in self.pairs[pair].settings.items():
            body = body if name in own else _with(body, name, value) or body
        return body

    def written(self, sides: str) -> str:
        """The text of two sides: before them the settings and definitions that they read."""
        for head, value in reversed(self.statements.items()):
            name = head.partition("(")[0]
            if name in SETTINGS or re.search(rf"\b{name}\b", sides):
                sides = f"{head} = {value}\n{sides}"
        return "adl = 0\n" + sides


def _with(body: str, name: str, value: object) -> str | None:
    """A text with another value of a setting; None where it does not set it."""
    body, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", body, count=1, flags=re.MULTILINE)
    return body if found else None


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
