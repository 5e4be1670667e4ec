"""The rows of a paper's tables as texts. The printed figures are in `calque.papers`."""

import re
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from calque.adl.signature import SETTINGS

Keys = Mapping[str, Any]
"""A table of a TOML file."""


@dataclass(frozen=True)
class RowText:
    """A row as a definition.

    texts     the text for each language pair of the table, at the sizes that the paper uses for it; the first pair comes first
    written   the text with the settings of the file alone
    model_of  the earlier row of the table whose model this row decodes in another way; None for a row that is trained
    models    how many of these models decode together
    """

    name: str
    label: str
    note: str
    texts: Mapping[str, str]
    written: str
    model_of: str | None
    models: int

    @property
    def text(self) -> str:
        """The definition at the sizes of the table's first language pair."""
        return next(iter(self.texts.values()))


class TableTexts:
    """Expands the rows of a paper's tables; a row can take the text of an earlier one, with other values of its settings."""

    def __init__(self, paper: str, data: Keys, texts: Mapping[str, str], commented: bool = True):
        """`texts` are the architectures of the paper's folder, which rows name with `same`. `commented`: what is expanded begins
        with comments that say which row it is."""
        self.paper, self.cite, self.commented = paper, data["cite"], commented
        self.statements: dict[str, object] = {**data["settings"], **data.get("definitions", {})}
        self.sizes: dict[str, Mapping[str, object]] = {p: entry["settings"] for p, entry in data["pairs"].items()}
        self.texts, self.rows = dict(texts), set[str]()
        self.own: dict[str, set[str]] = {}

    def row(self, table: str, key: str, entry: Keys, pairs: Collection[str]) -> RowText:
        """A row of a table with columns for these language pairs. Raises ValueError with the name of the row."""
        where = f"{table}/{key}"
        same, sides = entry.get("same"), [entry.get("encoder"), entry.get("decoder")]
        if (same is None) == (None in sides) or (same is not None and sides != [None, None]):
            raise ValueError(f"{where}: either `same`, or `encoder` and `decoder`")
        models = entry.get("models", 0)
        of, _, model = (same or "").partition("/")
        if models and (of != table or same not in self.rows):
            raise ValueError(f"{where}: `same` names no earlier row of its table, whose models it could decode")
        body = self._body(where, entry)
        note = " ".join(entry.get("note", "").split())
        head = [f"{self.cite}, {place(table)}: {entry['label']}.", *textwrap.wrap(note, 118)]
        comment = "".join(f"# {line}\n" for line in head) + "\n" if self.commented else ""
        texts = {pair: comment + self._sized(body, pair, self.own[where]) for pair in dict.fromkeys(pairs)}
        name = f"{self.paper}/{where}"
        return RowText(name, entry["label"], note, texts, comment + body, model if models else None, models)

    def _body(self, where: str, entry: Keys) -> str:
        """The text of a row with its own settings, before the sizes of a pair; later rows can take it over."""
        same, own = entry.get("same"), entry.get("settings", {})
        if same is None:
            body = self._with_statements(f"encoder = {entry['encoder']}\ndecoder = {entry['decoder']}\n")
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
        self.own[where] = {*own, *self.own.get(same or "", ())}
        self.rows.add(where)
        return body

    def _sized(self, body: str, pair: str, own: Collection[str]) -> str:
        """A text at the sizes of a pair; settings that the row or the row before it gives keep their values."""
        for name, value in self.sizes[pair].items():
            body = body if name in own else _with(body, name, value) or body
        return body

    def _with_statements(self, sides: str) -> str:
        """The text of both sides, after the settings and definitions that they use."""
        for head, value in reversed(self.statements.items()):
            name = head.partition("(")[0]
            if name in SETTINGS or re.search(rf"\b{name}\b", sides):
                sides = f"{head} = {value}\n{sides}"
        return "adl = 0\n" + sides


def place(table: str) -> str:
    """The name of a table in prose: `table 3` for `table3`, `section 5.3` for `section5.3`."""
    return re.sub(r"^([a-z]+)(?=\d)", r"\1 ", table)


def _with(body: str, name: str, value: object) -> str | None:
    """A text with another value of a setting; None where it does not set it."""
    body, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", body, count=1, flags=re.MULTILINE)
    return body if count else None
