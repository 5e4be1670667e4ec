"""The file of tables of the user's: what it may say, and its content in the form in which papers are read.

A row is a definition of a file or of the zoo, the text of both sides, or an earlier row with other settings. Claims are those of
the file; a table about which it says nothing has one for each row but the first: that it is above the first.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from calque import zoo
from calque.adl.signature import NAME, is_name
from calque.experiment.toml import located
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Span, Text, nearest
from calque.papers.metrics import METRICS
from calque.papers.paper import KINDS, OWN_PAIR
from calque.papers.recipes import FILE_NAME

MEASURED = tuple(name for name, one in METRICS.items() if not one.percentage and not one.obstacle)
"""The metrics that such a table can have."""
LONGEST = 60
"""Characters of the name of a table or row."""
METRICS_OF_ROWS = ("bleu", "perplexity", "source-words/s")
"""Those that it has where the file names none."""
Keys = Mapping[str, Any]
KeyPath = tuple[str, ...]
"""Where something stands in the file: the names of tables and of a key."""
Rule = tuple[str, Callable[[object], bool]]
"""What is expected, in words, and whether a value is so."""


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_A_TEXT: Rule = "a text", _text
_TEXTS: Rule = "a list of texts", _texts
_A_TABLE: Rule = "a table", lambda value: isinstance(value, dict)
_TABLES: Rule = (
    "tables",
    lambda value: isinstance(value, dict) and bool(value) and all(isinstance(one, dict) for one in value.values()),
)
_LIST_OF_TABLES: Rule = (
    "a list of tables",
    lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
)
_SETTINGS: Rule = (
    "numbers and texts by name",
    lambda value: (
        isinstance(value, dict) and all(is_name(name) and (_number(one) or _text(one)) for name, one in value.items())
    ),
)
_DEFINED = re.compile(rf"{NAME}(\([^()=\n]*\))?")
_DEFINITIONS: Rule = (
    'texts by name, such as "block(b)"',
    lambda value: (
        isinstance(value, dict) and all(_DEFINED.fullmatch(name) and _text(one) for name, one in value.items())
    ),
)
_METRICS: Rule = (
    f"a list of metrics, of {', '.join(MEASURED)}",
    lambda value: _texts(value) and bool(value) and all(one in MEASURED for one in cast("list[str]", value)),
)
_KIND: Rule = f"one of {', '.join(KINDS)}", lambda value: value in KINDS
_STEPS: Rule = (
    "a list of pairs of rows",
    lambda value: isinstance(value, list) and all(_texts(one) and len(one) == 2 for one in value),
)
_OF_FILE: Mapping[str, Rule] = {
    "title": _A_TEXT,
    "plugins": _TEXTS,
    "settings": _SETTINGS,
    "definitions": _DEFINITIONS,
    "tables": _TABLES,
    "claims": _LIST_OF_TABLES,
}
_OF_TABLE: Mapping[str, Rule] = {"title": _A_TEXT, "metrics": _METRICS, "match": _A_TABLE, "rows": _TABLES}
_OF_MATCH: Mapping[str, Rule] = {"setting": _A_TEXT, "row": _A_TEXT}
_OF_ROW: Mapping[str, Rule] = {
    **dict.fromkeys(("label", "note", "definition", "same", "encoder", "decoder"), _A_TEXT),
    "settings": _SETTINGS,
}
_OF_CLAIM: Mapping[str, Rule] = {
    **dict.fromkeys(("text", "table"), _A_TEXT),
    "kind": _KIND,
    "rows": _TEXTS,
    "steps": _STEPS,
    "metrics": _METRICS,
}


def holds_tables(path: Path) -> bool:
    """Whether a file in TOML holds tables of the user's; false where it cannot be read."""
    try:
        return "tables" in tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False


@dataclass(frozen=True)
class TablesFile:
    """What such a file says."""

    text: Text
    keys: Keys
    faults: list[Diagnostic] = field(default_factory=list)

    def check(self) -> None:
        """Raises what is wrong with keys and values, and names that name nothing, all together."""
        keys = self.keys
        if self._table((), "the file", _OF_FILE, ("tables",)):
            for name in keys["tables"]:
                self._check_table(name)
            for number in range(len(keys.get("claims", ()))):
                self._check_claim(number)
        self.raise_faults()

    def raise_faults(self) -> None:
        """Raises the faults so far."""
        if self.faults:
            raise CalqueError(self.faults)

    def lacks(self, path: KeyPath, setting: str, row: str) -> None:
        """Adds the fault that a row has no such setting."""
        self._fault("X866", path, value=True, what=f"setting of the row `{row}`", name=setting, near=None, names=None)

    def not_read(self, reason: str) -> CalqueError:
        """X864 at the row or claim that a reason of `load_paper` begins with."""
        where, _, why = reason.partition(": ")
        table, _, row = where.partition("/")
        self._fault("X864", ("tables", table, "rows", row), reason=why if row else reason)
        return CalqueError(self.faults)

    def joined(self) -> Keys:
        """The file in the form in which `load_paper` reads papers, the texts of definitions by their names, and for each row of
        one the file that it is in. Raises what reading definitions raises, for all of them, at their places."""
        keys, texts, places, path = self.keys, {}, {}, Path(self.text.name)
        tables: dict[str, Any] = {}
        for name, table in keys["tables"].items():
            metrics = list(table.get("metrics", METRICS_OF_ROWS))
            rows: dict[str, Any] = {}
            for key, row in table["rows"].items():
                made = {k: v for k, v in row.items() if k != "definition"}
                if (written := row.get("definition")) is not None:
                    found = self._definition(("tables", name, "rows", key, "definition"), written)
                    made["same"] = f"definition:{written}"  # no row is called so
                    texts[made["same"]], places[f"{path.stem}/{name}/{key}"] = found.body, found.name
                elif "same" in row and "/" not in row["same"]:
                    made["same"] = f"{name}/{row['same']}"
                rows[key] = {"label": key, **made, "figures": ["-"] * len(metrics)}
            tables[name] = {
                "title": table.get("title", name),
                "columns": [f"{OWN_PAIR} {metric}" for metric in metrics],
                "match": table.get("match"),
                "rows": rows,
            }
        self.raise_faults()
        title = keys.get("title", path.stem)
        data = {
            "title": title,
            "cite": title,
            "address": "",
            "settings": keys.get("settings", {}),
            "definitions": keys.get("definitions", {}),
            "pairs": {OWN_PAIR: {"title": "", "settings": {}}},
            "tables": tables,
            "claims": [*self._claims(), *_claims_of_none(tables, keys.get("claims", ()))],
        }
        return {"data": data, "texts": texts, "places": places}

    def _definition(self, path: KeyPath, written: str) -> Text:
        """The text of a file beside this one, or of the zoo; empty, with a fault, where there is none."""
        own = Path(self.text.name).parent / written
        try:
            return zoo.find(str(own) if own.is_file() else written)
        except CalqueError as fault:
            for one in fault.diagnostics:
                self._fault(one.code, path, value=True, **one.fields)
            return Text(written, "")

    def _claims(self) -> Iterator[Keys]:
        for claim in self.keys.get("claims", ()):
            made = {key: value for key, value in claim.items() if key != "metrics"}
            columns = {"columns": [f"{OWN_PAIR} {m}" for m in claim["metrics"]]} if "metrics" in claim else {}
            yield {**made, **columns, "section": ""}

    def _check_table(self, name: str) -> None:
        path = ("tables", name)
        self._named(path, name)
        if not self._table(path, f"the table `{name}`", _OF_TABLE, ("rows",)):
            return
        table = self._at(path)
        for key in table["rows"]:
            self._check_row((*path, "rows", key), key)
        if "match" in table and self._table((*path, "match"), "`match`", _OF_MATCH, ("setting", "row")):
            self._known((*path, "match", "row"), table["match"]["row"], list(table["rows"]), "row")

    def _check_row(self, path: KeyPath, key: str) -> None:
        self._named(path, key)
        if not self._table(path, f"the row `{key}`", _OF_ROW):
            return
        row = self._at(path)
        sides = [side for side in ("encoder", "decoder") if side in row]
        ways = [*(way for way in ("definition", "same") if way in row), *sides[:1]]
        if len(ways) > 1:
            self._fault("X868", (*path, ways[1]), row=key, ways=[*ways[:-1], *(sides or ways[-1:])])
        elif not ways or len(sides) == 1:
            lacking = next((side for side in ("encoder", "decoder") if sides and side not in row), "definition")
            self._fault("X861", path, what=f"the row `{key}`", key=lacking, example=_EXAMPLES[lacking])
        if "same" in row:
            self._check_same(path, row["same"])

    def _check_same(self, path: KeyPath, same: str) -> None:
        """A row names one before it, of its own table or as TABLE/ROW."""
        _, table, _, key = path
        before = [f"{one}/{each}" for one, of in self.keys["tables"].items() for each in _rows(of)]
        whole = same if "/" in same else f"{table}/{same}"
        self._known((*path, "same"), whole, before[: before.index(f"{table}/{key}")], "earlier row")

    def _check_claim(self, number: int) -> None:
        path = ("claims", str(number))
        if not self._table(path, "a claim", _OF_CLAIM, ("text", "table", "kind")):
            return
        claim = self._at(path)
        tables = self.keys["tables"]
        if not self._known((*path, "table"), claim["table"], list(tables), "table"):
            return
        needed = "steps" if claim["kind"] == "gain" else "rows"
        if len(claim.get(needed, ())) < 2 or {"rows", "steps"} <= claim.keys():
            example = 'steps = [["a", "b"], ["c", "d"]]' if needed == "steps" else 'rows = ["better", "worse"]'
            self._fault("X861", path, what=f"a claim of the kind `{claim['kind']}`", key=needed, example=example)
            return
        named = claim["rows"] if needed == "rows" else [row for step in claim["steps"] for row in step]
        table = tables[claim["table"]]
        for row in named:
            self._known((*path, needed), row, _rows(table), "row")
        if len({str(one) for one in claim[needed]}) < len(claim[needed]):
            expected = f"different {needed}"
            self._fault("X863", (*path, needed), value=True, key=needed, expected=expected, found=claim[needed])
        self._check_metrics(path, claim, table)

    def _check_metrics(self, path: KeyPath, claim: Keys, table: Keys) -> None:
        """The metrics of a claim: those of its table; what grows or shrinks does so over several that are measured alike."""
        metrics = table.get("metrics", METRICS_OF_ROWS) if isinstance(table, dict) else ()
        for metric in claim.get("metrics", ()):
            self._known((*path, "metrics"), metric, metrics, "metric of the table")
        kinds = [METRICS[metric].kind for metric in claim.get("metrics", metrics) if metric in METRICS]
        if claim["kind"] in ("grows", "shrinks") and (len(kinds) < 2 or len(set(kinds)) > 1):
            expected = (
                "two or more that are measured alike, such as `bleu` and `unk-bleu`, where something grows or shrinks"
            )
            found = str(claim.get("metrics", list(metrics)))
            self._fault("X863", (*path, "metrics"), value=True, key="metrics", expected=expected, found=found)

    def _table(self, path: KeyPath, what: str, rules: Mapping[str, Rule], needed: Sequence[str] = ()) -> bool:
        """Checks the keys of a table of the file, and the values of those that have a rule. Whether it was fine."""
        before, content = len(self.faults), self._at(path)
        for key, value in content.items():
            if key not in rules:
                self._fault("X862", (*path, key), key=key, what=what, near=nearest(key, rules), names=list(rules))
            elif not rules[key][1](value):
                expected, found = rules[key][0], str(value)
                self._fault("X863", (*path, key), value=True, key=key, expected=expected, found=found)
        for key in needed:
            if key not in content:
                self._fault("X861", path, what=what, key=key, example=_EXAMPLES[key])
        return len(self.faults) == before

    def _named(self, path: KeyPath, name: str) -> None:
        """Names of tables and rows become those of folders."""
        if not FILE_NAME.fullmatch(f"{name.replace('+', '-')}.toml") or "_" in name or len(name) > LONGEST:
            expected = f"at most {LONGEST} lower-case letters and digits, joined by `-`, `+` or `.`"
            self._fault("X863", path, key="/".join(path), expected=expected, found=name)

    def _known(self, path: KeyPath, name: object, names: Sequence[str], what: str) -> bool:
        """Whether a name is one of these; else there is a fault."""
        if name not in names:
            self._fault(
                "X866", path, value=True, what=what, name=name, near=nearest(str(name), names), names=[*names] or None
            )
        return name in names

    def _at(self, path: KeyPath) -> Keys:
        content: Any = self.keys
        for name in path:
            content = content[int(name)] if isinstance(content, list) else content[name]
        return cast("Keys", content)

    def _fault(self, code: str, path: KeyPath, value: bool = False, **fields: Any) -> None:
        """A fault at the place of a key, or of what it stands in."""
        places = located(self.text)
        found = next((places[path[:k]] for k in range(len(path), 0, -1) if path[:k] in places), None)
        where: Span | Place = Place(self.text.name) if found is None else found[value]
        self.faults.append(Diagnostic(code, where, fields))


_EXAMPLES = {
    "tables": "[tables.decoders.rows.ssru]",
    "rows": "[tables.decoders.rows.ssru]",
    "definition": 'definition = "ssru.adl"',
    "encoder": 'encoder = "pos -> repeat(2, tenc) -> norm"',
    "decoder": 'decoder = "pos -> repeat(2, tdec) -> norm"',
    "text": 'text = "Width helps"',
    "table": 'table = "decoders"',
    "kind": 'kind = "above"',
    "setting": 'setting = "d"',
    "row": 'row = "ssru"',
}


def _rows(table: object) -> list[str]:
    """The names of the rows of a table as far as they can be read."""
    rows = table.get("rows") if isinstance(table, dict) else None
    return list(rows) if isinstance(rows, dict) else []


def _claims_of_none(tables: Keys, claims: Sequence[Keys]) -> Iterator[Keys]:
    """For tables about which nothing is claimed: that each row is above the first."""
    claimed = {claim["table"] for claim in claims}
    for name in (name for name in tables if name not in claimed):
        first, *others = tables[name]["rows"]
        for row in others:
            better, other = (tables[name]["rows"][key]["label"] for key in (row, first))
            yield {
                "text": f"{better} is above {other}",
                "section": "",
                "table": name,
                "kind": "above",
                "rows": [row, first],
            }
