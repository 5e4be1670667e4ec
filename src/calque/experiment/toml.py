"""The text of an experiment file: its keys with their places, and values as TOML. No key is named here."""

import json
import os
import re
import textwrap
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass

from calque.ground.diagnostics import CalqueError, Place, Span, Text, error

EXPERIMENT = "experiment.toml"
"""The file of an experiment in a run folder."""
LARGEST = 2**63 - 1
"""TOML's whole numbers have 64 bits; tomllib reads longer ones."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One `section.key = value` as written; `key` is None for a section that is empty or not a table."""

    section: str
    key: str | None
    value: object
    section_at: Span | Place
    key_at: Span | Place
    value_at: Span | Place
    folder: str
    """The folder that relative paths in the value start from."""


# Strings and comments, to be blanked before looking for headers and keys; only used on text that tomllib has accepted.
_OPAQUE = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'" r"|#[^\n]*", re.DOTALL
)
_NAME = r"[A-Za-z0-9_-]+"
_PART = re.compile(rf"{_NAME}|\"+")  # of a path; quoted ones are blanked
_PATH = rf"(?:{_NAME}|\"+)(?:[ \t]*\.[ \t]*(?:{_NAME}|\"+))*"
_HEADER = re.compile(rf"[ \t]*(?P<open>\[+)[ \t]*(?P<path>{_PATH})")
_KEY = re.compile(rf"[ \t]*(?P<path>{_PATH})[ \t]*=[ \t]*(?P<value>[^\n]*)")
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_OVERRIDE = re.compile(rf"({_NAME})\.({_NAME})=(.*)", re.DOTALL)


def parse(text: Text) -> list[KeyEntry]:
    """The entries of a TOML text in the order of its sections. Raises X103 where it is not TOML.

    `text` must have no carriage returns before newlines: TOML reads both as a newline, and the places would be wrong.
    """
    content_of = document(text)
    places = located(text)
    entries = []
    folder = os.path.dirname(os.path.abspath(text.name))
    anywhere = Place(text.name)
    for section, content in content_of.items():
        section_at, at = places.get((section,), (anywhere, anywhere))
        if not isinstance(content, dict):
            entries.append(KeyEntry(section, None, content, section_at, section_at, at, folder))
            continue
        for key, value in content.items():
            # Quoted and nested spellings of a key are not located; the line of the section is shown instead.
            line = text.line_column(section_at.start)[0] if isinstance(section_at, Span) else None
            key_at, value_at = places.get((section, key), (Place(text.name, line),) * 2)
            entries.append(KeyEntry(section, key, value, section_at, key_at, value_at, folder))
        if not content:
            entries.append(KeyEntry(section, None, content, section_at, section_at, at, folder))
    return entries


def parse_override(written: str, is_text: Callable[[str, str], bool], expected: Callable[[str, str], str]) -> KeyEntry:
    """The entry of one `--set section.key=value`. Raises X109 or X111. Its paths start from the current folder.

    The value is TOML. For a key that `is_text`, a value without quotes is the string itself, since a shell removes quotes.
    `expected` says in words what a key takes; of a key for which it says nothing, any value is accepted.
    """
    text = Text("--set", written)
    match = _OVERRIDE.fullmatch(written)
    if match is None:
        raise error("X109", Span(text, 0, len(written)), found=written)
    section, key, value = (Span(text, match.start(n), match.end(n)) for n in (1, 2, 3))
    if is_text(match[1], match[2]) and match[3][:1] not in ('"', "'"):
        return KeyEntry(match[1], match[2], match[3], section, key, value, os.getcwd())
    try:
        document = _loads("value = " + match[3], text)
    except CalqueError:
        document = {}
    if list(document) != ["value"]:
        if words := expected(match[1], match[2]):
            raise error("X111", value, found=match[3], key=f"{match[1]}.{match[2]}", expected=words)
        document = {"value": match[3]}
    return KeyEntry(match[1], match[2], document["value"], section, key, value, os.getcwd())


def document(text: Text) -> dict[str, object]:
    """A TOML text as tables. Raises X103 where it is not TOML; `text` as in `parse`."""
    return _loads(text.body, text)


def _loads(body: str, text: Text) -> dict[str, object]:
    try:
        return tomllib.loads(body)
    except RecursionError:
        raise error("X103", Place(text.name), reason="brackets are nested too deeply") from None
    except ValueError as e:
        reason = str(e)
        at = _WHERE.search(reason)
        if not isinstance(e, tomllib.TOMLDecodeError):
            # int() refuses more digits than the interpreter's limit.
            raise error("X103", Place(text.name), reason="a number has too many digits") from None
        reason = _WHERE.sub("", reason)
        offset = len(body)
        if at is not None and at[1] is not None:
            lines = body.split("\n")
            offset = sum(len(line) + 1 for line in lines[: int(at[1]) - 1]) + int(at[2]) - 1
        where = Span(text, min(offset, len(body)), min(offset + 1, len(body)))
        raise error("X103", where, reason=reason[:1].lower() + reason[1:]) from None


Places = dict[tuple[str, ...], tuple[Span, Span]]
"""Path of a table or key -> spans of its name and of the first line of its value; of a table, of its name twice."""


def located(text: Text) -> Places:
    """The places of all tables and keys.

    The tables of a list have their number behind its name: `claims`, `0`. Keys within braces have no place. `text` as in `parse`.
    """
    blanked = _OPAQUE.sub(lambda m: (" " if m[0][0] == "#" else '"') * len(m[0]), text.body)
    finder = _Finder(text)
    offset, depth = 0, 0
    for line in blanked.split("\n"):
        if depth == 0 and (match := _HEADER.match(line) or _KEY.match(line)):
            finder.see(line, match, offset)
        depth += sum(line.count(c) for c in "[{") - sum(line.count(c) for c in "]}")
        offset += len(line) + 1
    return finder.places


class _Finder:
    """Finds the places of tables and keys, line by line."""

    def __init__(self, text: Text):
        self.places: Places = {}
        self._text = text
        self._section: tuple[str, ...] = ()
        self._lists: dict[tuple[str, ...], int] = {}

    def see(self, line: str, match: re.Match[str], offset: int) -> None:
        """Reads the header of a table, or the line of a key."""
        spans = [
            Span(self._text, offset + one.start(), offset + one.end())
            for one in _PART.finditer(line, *match.span("path"))
        ]
        names = [self._text.body[one.start : one.end].strip("\"'") for one in spans]
        if match.re is _KEY:
            value = Span(self._text, offset + match.start("value"), offset + len(line.rstrip()))
            for k, span in enumerate(spans, 1):
                self.places.setdefault((*self._section, *names[:k]), (span, value))
            return
        if match["open"] == "[[":
            whole = (*self._numbered(names[:-1]), names[-1])
            self._lists[whole] = self._lists.get(whole, -1) + 1
            self.places.setdefault(whole, (spans[-1], spans[-1]))
        for k, span in enumerate(spans, 1):
            self.places.setdefault(self._numbered(names[:k]), (span, spans[-1]))
        self._section = self._numbered(names)

    def _numbered(self, names: Sequence[str]) -> tuple[str, ...]:
        """The path of a table; behind the name of a list the number of its last table so far."""
        path: tuple[str, ...] = ()
        for name in names:
            path = (*path, name)
            path = (*path, str(self._lists[path])) if path in self._lists else path
        return path


def literal(value: object) -> str:
    """A value as TOML: text, number, boolean or a list of texts or tables. Text of several lines is written on several lines."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return _list(value)
    body = str(value)
    if "\n" not in body:
        return _string(body)
    if "'''" not in body and not body.endswith("'") and all(c in "\t\n" or c.isprintable() for c in body):
        return f"'''\n{body}'''"
    return '"""\n' + "\n".join(_string(line)[1:-1] for line in body.split("\n")) + '"""'


def _list(values: tuple[object, ...]) -> str:
    """A list on one line; of tables, one on each."""
    parts = list(map(_part, values))
    return (
        "[\n" + "".join(f"    {part},\n" for part in parts) + "]"
        if any(map(is_dataclass, values))
        else f"[{', '.join(parts)}]"
    )


def _part(value: object) -> str:
    """An element of a list, on one line."""
    if isinstance(value, str):
        return _string(value)
    return _table(value) if is_dataclass(value) else literal(value)


def _table(value: object) -> str:
    """A dataclass as an inline table, without the keys that have their defaults."""
    own = [(f.name, getattr(value, f.name)) for f in fields(value) if getattr(value, f.name) != f.default]  # type: ignore[arg-type]  # a dataclass
    return "{ " + ", ".join(f"{name} = {literal(part)}" for name, part in own) + " }"


def _string(body: str) -> str:
    # JSON's escapes are TOML's, but TOML also requires an escape for the delete character.
    return json.dumps(body, ensure_ascii=False).replace("\x7f", "\\u007f")


def comment(doc: str) -> Sequence[str]:
    """`doc` as comment lines of at most 100 columns."""
    return textwrap.wrap(
        doc, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False, break_long_words=False
    )
