"""A paper's tables: rows as texts, the figures it prints, and its claims as inequalities between rows."""

import dataclasses
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calque.adl.signature import SETTINGS
from calque.zoo.computed import ComputedTable, load_computed

KINDS = ("above", "below", "not-above", "about", "gain", "grows")
METRICS = {
    "bleu": "BLEU as the paper takes it",
    "uncased-bleu": "the same on text in lower case",
    "unk-bleu": "BLEU with unknown words replaced by those that attention finds",
    "nist-bleu": "BLEU of mteval-v13a, on text that is not tokenised",
    "meteor": "METEOR",
    "perplexity": "exp of the mean negative log-probability of target words, end included",
    "accuracy": "percent of contrastive pairs of which the right one scores higher",
    "aer": "alignment error rate",
    "seconds/sentence": "seconds to translate a sentence",
    "sentences/s": "sentences translated in a second",
    "source-words/s": "source words translated in a second",
    "target-words/s": "target words trained on in a second",
    "updates/s": "updates of training in a second",
    "batch-tokens": "target tokens of the largest batch that the memory named by the pair holds",
}
"""What columns measure."""
LOWER_IS_BETTER = ("perplexity", "aer", "seconds/sentence")
TRAINING = ("target-words/s", "updates/s", "batch-tokens")
"""Those in which no beam takes part."""
_COLUMN = re.compile(r"(?P<pair>\S+) (?P<metric>\S+)(?: beam=(?P<beam>[1-9]\d*))?")
_FIGURE = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?: ± (?P<deviation>\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Pair:
    """A language pair and its data; `settings` are the sizes that the paper takes for it."""

    name: str
    title: str
    settings: Mapping[str, int | float]


@dataclass(frozen=True)
class Column:
    """What a column of figures measures: one of `METRICS` on a language pair, with a beam where the paper names one for it.

    Written `wmt17-ende bleu`, `wmt14-ende seconds/sentence beam=4`.
    """

    pair: str
    metric: str
    beam: int | None = None

    @property
    def what(self) -> str:
        """What is measured, of whatever pair: `seconds/sentence beam=4`."""
        return self.metric + (f" beam={self.beam}" if self.beam is not None else "")

    def __str__(self) -> str:
        return f"{self.pair} {self.what}"


@dataclass(frozen=True)
class Figure:
    """A figure as printed: the mean, and its deviation over seeds where the paper gives one."""

    value: float
    deviation: float | None
    pair: str
    metric: str
    beam: int | None = None


@dataclass(frozen=True)
class Decoding:
    """How the model of a row is decoded.

    unknown    unknown words are replaced by the translation of the source word that has the highest weight, or by that word
    ensemble   so many models together, at most
    combine    the mean of what, see `calque.decode.scorer.Models`
    align_row  whose weights align a word: those of the step that predicts it, 0, or of the one that reads it, 1
    selected   only words can be chosen that a lexical table of the training text offers for those of the sentence
    uncached   where speed is measured, nothing is kept: encoder and decoder run at every step, over all words written so far
    """

    unknown: bool = False
    ensemble: int = 1
    combine: str = "probs"
    align_row: int = 0
    selected: bool = False
    uncached: bool = False

    @property
    def otherwise(self) -> bool:
        """Whether it is that of an earlier row's model, so that the row is no architecture of its own."""
        return self.unknown or self.selected or self.ensemble > 1

    def __str__(self) -> str:
        told = {
            f"up to {self.ensemble} models together": self.ensemble > 1,
            "unknown words replaced": self.unknown,
            "words selected": self.selected,
            "nothing kept": self.uncached,
        }
        return ", ".join(each for each, said in told.items() if said)


@dataclass(frozen=True)
class Row:
    """A row: `name` is its address `PAPER/TABLE/ROW`, `text` its definition, settings included.

    `reading_of` names the row of the same table that this one reads otherwise; it then has no figures of its own. `model_of` names
    the earlier row of the table whose model, and text, this one decodes otherwise, as `decoding` says; it is then not trained.
    """

    name: str
    label: str
    text: str
    figures: tuple[Figure, ...]
    note: str = ""
    reading_of: str | None = None
    decoding: Decoding = Decoding()
    model_of: str | None = None

    @property
    def key(self) -> str:
        """Its name within the table."""
        return self.name.rpartition("/")[2]

    def figure(self, column: Column) -> Figure | None:
        """The figure of a column, if the paper prints one."""
        return next((f for f in self.figures if Column(f.pair, f.metric, f.beam) == column), None)


@dataclass(frozen=True)
class Table:
    """A table: its rows and columns in the paper's order."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def row(self, key: str) -> Row:
        """The row of that name within the table."""
        return next(row for row in self.rows if row.key == key)


@dataclass(frozen=True)
class Contrast:
    """A sum of scores, `factor * score(row)`, that is claimed to be `above` zero, `not-above` it or `about` it.

    Of a metric in which the lower one is better, scores count with the other sign.
    """

    terms: tuple[tuple[int, str], ...]
    relation: str

    def value(self, scores: Mapping[str, float]) -> float:
        """The sum, from the score of each row."""
        return sum(factor * scores[row] for factor, row in self.terms)


@dataclass(frozen=True)
class Claim:
    """What the paper says of rows of a table in some columns; all of `contrasts` have to hold.

    `kind` is `above`, `below`, `not-above` or `about`, of the first of `rows` against each other one, or `gain`: the first of
    `steps`, each from a row to a row, gains more than each other one, or `grows`: by so many times the first of `rows` is better
    than each other one in the last of `columns` than in the first. They speak of quality: the row above is the better one,
    also in a metric in which that is the lower figure.
    """

    text: str
    section: str
    table: str
    kind: str
    rows: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The claim as sums of scores; of `grows`, of one column."""
        if self.kind == "gain":
            (start, end), *others = self.steps
            return tuple(Contrast(((1, end), (-1, start), (-1, b), (1, a)), "above") for a, b in others)
        first, *rest = self.rows
        sign = -1 if self.kind == "below" else 1
        relation = "above" if self.kind in ("below", "grows") else self.kind
        return tuple(Contrast(((sign, first), (-sign, other)), relation) for other in rest)


@dataclass(frozen=True)
class Paper:
    """A paper with all its tables."""

    name: str
    title: str
    cite: str
    address: str
    pairs: tuple[Pair, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    computed: tuple[ComputedTable, ...] = ()
    """Its tables that no training fills."""

    def table(self, name: str) -> Table:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)


def load_paper(name: str, data: Mapping[str, Any], texts: Mapping[str, str]) -> Paper:
    """A paper from its TOML; `texts` are the architectures of its folder, which rows name with `same`.

    Raises ValueError, with the place, for a key too many or too few, and for what is named and is not there.
    """
    keys = _keys(data, name, "title cite address settings pairs tables claims", "definitions computed")
    pairs = tuple(
        Pair(pair, *_keys(entry, f"pairs.{pair}", "title settings").values()) for pair, entry in keys["pairs"].items()
    )
    statements = keys["settings"] | (keys["definitions"] or {})
    reader = _Rows(name, keys["cite"], statements, {p.name for p in pairs}, texts)
    tables = tuple(reader.table(key, entry) for key, entry in keys["tables"].items())
    claims = tuple(_claim(entry, f"claims[{k}]", tables) for k, entry in enumerate(keys["claims"]))
    computed = tuple(load_computed(key, entry) for key, entry in (keys["computed"] or {}).items())
    return Paper(name, keys["title"], keys["cite"], keys["address"], pairs, tables, claims, computed)


def _keys(entry: Mapping[str, Any], where: str, needed: str, optional: str = "") -> dict[str, Any]:
    """The values of the keys, needed ones first, None for optional ones that are missing."""
    known = [*needed.split(), *optional.split()]
    wrong = [k for k in entry if k not in known] + [k for k in needed.split() if k not in entry]
    if wrong:
        raise ValueError(f"{where}: {', '.join(wrong)} not known or missing")
    return {k: entry.get(k) for k in known}


class _Rows:
    """Reads tables; a row can take the text of an earlier one, with other values of its settings."""

    def __init__(self, paper: str, cite: str, statements: dict[str, object], pairs: set[str], texts: Mapping[str, str]):
        self.paper, self.cite, self.statements, self.pairs = paper, cite, statements, pairs
        self.texts, self.rows = dict(texts), set[str]()

    def table(self, name: str, entry: Mapping[str, Any]) -> Table:
        keys = _keys(entry, name, "title columns rows")
        columns = tuple(_column(text, f"{name}.columns", self.pairs) for text in keys["columns"])
        rows = tuple(self.row(name, key, row, columns) for key, row in keys["rows"].items())
        for row in rows:
            of = row.reading_of
            if of is not None and of not in {r.key for r in rows if r.figures}:
                raise ValueError(f"{row.name}: there is no row {of} with figures")
        return Table(name, keys["title"], columns, rows)

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
        if keys["same"] is not None:
            if keys["same"] not in self.texts:
                raise ValueError(f"{where}: there is no text {keys['same']} before it")
            body = self.texts[keys["same"]]
        else:
            body = self.written(f"encoder = {sides[0]}\ndecoder = {sides[1]}\n")
        for name, value in (keys["settings"] or {}).items():
            body, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", body, count=1, flags=re.MULTILINE)
            if not found:
                raise ValueError(f"{where}: its text does not set {name}")
        self.texts[where] = body
        self.rows.add(where)
        note = " ".join((keys["note"] or "").split())
        head = [f"{self.cite}, {place(table)}: {keys['label']}.", *textwrap.wrap(note, 118)]
        text = "".join(f"# {line}\n" for line in head) + "\n" + body
        printed = keys["figures"] or []
        if keys["figures"] is not None and len(printed) != len(columns):
            raise ValueError(f"{where}: {len(columns)} columns, {len(printed)} figures")
        figures = tuple(
            figure
            for column, p in zip(columns, printed, strict=False)
            if (figure := _figure(p, column, where)) is not None
        )
        model_of = model if decoding.otherwise else None
        return Row(f"{self.paper}/{where}", keys["label"], text, figures, note, keys["reading_of"], decoding, model_of)

    def written(self, sides: str) -> str:
        """The text of two sides: before them the settings and definitions that they read."""
        for head, value in reversed(self.statements.items()):
            name = head.partition("(")[0]
            if name in SETTINGS or re.search(rf"\b{name}\b", sides):
                sides = f"{head} = {value}\n{sides}"
        return "adl = 0\n" + sides


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


def place(table: str) -> str:
    """Where a table stands in its paper, as one says it: `table 3` of `table3`, `section 5.3` of `section5.3`."""
    return re.sub(r"^([a-z]+)(?=\d)", r"\1 ", table)


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


def _claim(entry: Mapping[str, Any], where: str, tables: tuple[Table, ...]) -> Claim:
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
