"""Errors as data: a code, a place and values; the sentence is made only when it is shown.

Sentences, helps and pages of all codes are in `codes/*.toml`, one file per subject, and are read only when a diagnostic is rendered
or explained.

Families: S syntax, C1 names and arguments, C2 widths, C3 sides, C4 limits, X commands, experiments and files of other tools,
D data, K model files and services.
"""

import difflib
import functools
import re
import shlex
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Text:
    """A named text, so that a place in it can be shown."""

    name: str
    body: str

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both from 1."""
        before = self.body[:offset]
        line = before.count("\n")
        return line + 1, offset - (before.rfind("\n") + 1) + 1


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range of characters `[start, end)` of a text."""

    text: Text
    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """The smallest span that holds both."""
        return Span(self.text, min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and possibly a line of it (from 1)."""

    file: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """A replacement that removes the diagnostic."""

    span: Span
    replacement: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault. `fields` fill the message of `code`; `related` are other places with labels."""

    code: str
    where: Span | Place | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    fix: Fix | None = None
    related: tuple[tuple[Span, str], ...] = ()
    severity: str = "error"


class CalqueError(Exception):
    """One or more diagnostics. Faulty input raises no other exception."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(render(d) for d in self.diagnostics)

    @property
    def exit_code(self) -> int:
        """2 for usage, definitions and configuration; 1 for faults found in data and model files."""
        return 1 if all(d.code[0] in "DK" for d in self.diagnostics) else 2


def error(code: str, where: Span | Place | None = None, /, fix: Fix | None = None, **fields: object) -> CalqueError:
    """A `CalqueError` of one diagnostic."""
    return CalqueError(Diagnostic(code, where, fields, fix))


def reason_of(fault: OSError) -> str:
    """Why the system refused something, as it stands inside a message: it begins with a small letter."""
    reason = fault.strerror or str(fault)
    return reason[:1].lower() + reason[1:]


_FIELD = re.compile(r"\{[a-z_]+\}")


@dataclass(frozen=True, slots=True)
class Code:
    """One code: its message template, its helps (the first whose fields are all known is shown) and its page."""

    code: str
    message: str
    help: tuple[str, ...]
    page: str

    @property
    def title(self) -> str:
        """The message without the values of one case."""
        return _FIELD.sub("...", self.message)


@functools.cache
def codes() -> Mapping[str, Code]:
    """All codes by name."""
    known: dict[str, Code] = {}
    for file in sorted(resources.files("calque").joinpath("codes").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
                helps = entry.get("help", [])
                known[name] = Code(
                    name, entry["message"], (helps,) if isinstance(helps, str) else tuple(helps), entry["page"].strip()
                )
    return known


def message(diagnostic: Diagnostic) -> str:
    """The sentence of a diagnostic, without its place."""
    return codes()[diagnostic.code].message.format_map(_words(diagnostic))


def help_of(diagnostic: Diagnostic) -> str | None:
    """The help of a diagnostic: the first help of its code whose fields it has.

    A diagnostic with an edit uses only helps that name the edit (`{near}`, `{fix}`), or else the edit in words.
    """
    words = _words(diagnostic)
    if diagnostic.fix is not None:
        words["fix"] = sentence(diagnostic.fix)
    for template in codes()[diagnostic.code].help:
        try:
            if diagnostic.fix is None or any(f"{{{name}}}" in template for name in _NAMING):
                return _filled(template, words)
        except KeyError:
            continue
    return words.get("fix")


_COMMAND = re.compile(r"(`(?:calque|cut) [^`]*`)")
"""A command in a help, to be typed into a shell."""


def _filled(template: str, words: Mapping[str, str]) -> str:
    """A help with its values, which are quoted in commands where a shell needs it. Raises KeyError for one that is missing."""
    quoted = {name: shlex.quote(word) for name, word in words.items()}
    parts = enumerate(_COMMAND.split(template))
    return "".join(part.format_map(quoted if n % 2 else words) for n, part in parts)


_NAMING = ("near", "nearest", "add", "fix")
"""The fields with which a help names the edit."""


_SPACE = " \t\r\n\f"


def sentence(fix: Fix) -> str:
    """An edit in words."""
    written = fix.span.text.body[fix.span.start : fix.span.end]
    before, after = written.strip(_SPACE).split("\n"), fix.replacement.strip(_SPACE).split("\n")
    if len(before) > 1 and sorted(before) == sorted(after):
        # The smaller part is what moves.
        if len(before) > 2 and any(after == before[k:] + before[:k] for k in range(1, len(before) // 2 + 1)):
            return f"move `{printable(before[0])}` down, behind `{printable(before[-1])}`"
        return f"move `{printable(after[0])}` up, before `{printable(before[0])}`"
    old, new = map(_on_one_line, (written, fix.replacement))
    if old and not new and "\n" in fix.replacement:
        return f"begin a new line in the place of `{printable(old)}`"
    if not old:
        return _added(fix, new, [_on_one_line(line) for line in after if line.strip(_SPACE)])
    if not new:
        return f"leave out `{printable(old.strip(', ') or old)}`"
    return f"write `{printable(new)}` for `{printable(old)}`"


def _on_one_line(text: str) -> str:
    """A text whose spaces and line ends are single spaces; other white space, which the language does not know, stays."""
    return re.sub(f"[{_SPACE}]+", " ", text).strip(_SPACE)


def _added(fix: Fix, new: str, lines: list[str]) -> str:
    """An edit that leaves nothing out."""
    if not new:
        behind = fix.span.text.body[fix.span.end :].split()
        return f"begin a new line before `{printable(behind[0])}`" if behind else "begin a new line"
    if len(lines) > 1:
        return f"add the lines {', '.join(f'`{printable(line)}`' for line in lines)}"
    return f"add `{printable(new.strip(', ') or new)}`"


def _words(diagnostic: Diagnostic) -> dict[str, str]:
    return {k: _word(v) for k, v in diagnostic.fields.items() if v is not None}


def _word(value: object) -> str:
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(f"`{v}`" for v in value)
    return printable(str(value))


def printable(text: str, limit: int = 200) -> str:
    """`text` for a terminal: control characters are escaped, and it is cut after `limit` characters."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[:limit] + "…"


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: message, place with caret, help."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {message(diagnostic)}"]
    where = diagnostic.where
    if isinstance(where, Place):
        lines.append(f" --> {where.file}" + ("" if where.line is None else f":{where.line}"))
    width = 1
    if isinstance(where, Span):
        snippet, width = _snippet(where)
        lines += snippet
    for span, label in diagnostic.related:
        line, column = span.text.line_column(span.start)
        lines.append(f"{' ' * width} = note: {label} at {span.text.name}:{line}:{column}")
    hint = help_of(diagnostic)
    if hint is not None:
        lines.append(f"{' ' * width} = help: {hint}")
    return "\n".join(lines)


def _snippet(span: Span) -> tuple[list[str], int]:
    line, column = span.text.line_column(span.start)
    body = span.text.body.split("\n")[line - 1]
    gutter = len(str(line))
    # Only a part of a very long line is shown, so that the caret is visible.
    shift = max(0, column - 1 - 60) if len(body) > 140 else 0
    shown = "".join(c if c.isprintable() else " " for c in body[shift : shift + 140])
    before = column - 1 - shift
    marked = shown[before : before + span.end - span.start]
    begin, length = _columns(shown[:before]), _columns(marked)
    if marked and not length:  # a mark that stands over the character before it
        begin = max(0, begin - 1)
    carets = " " * begin + "^" * max(1, length)
    pad = " " * gutter
    return [
        f"{pad}--> {span.text.name}:{line}:{column}",
        f"{pad} |",
        f"{line} | {shown}".rstrip(),
        f"{pad} | {carets}",
    ], gutter


def _columns(text: str) -> int:
    """The columns of a terminal that a text takes: two for a wide character, none for one that combines with that before it."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text if not _combines(c))


def _combines(character: str) -> bool:
    """Whether it has no column of its own: an accent, or the vowel or the end of a Korean syllable that is written in parts."""
    return unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff"


def nearest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most similar to `word`, or None where none is as similar as `cutoff`, of 1."""
    return next(iter(difflib.get_close_matches(word[:64], list(names), n=1, cutoff=cutoff)), None)


def apply_fix(fix: Fix) -> str:
    """The text with the replacement."""
    body = fix.span.text.body
    return body[: fix.span.start] + fix.replacement + body[fix.span.end :]


MOST_BYTES = 16_000_000
"""Of a file that a person writes; a device may have no end."""


def read_text(path: Path | str, missing: str, undecodable: str) -> Text:
    """A UTF-8 file as `Text`, without its byte order mark.

    Raises the code `missing` for a file that cannot be read or is too large, and `undecodable` for one that is not UTF-8.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise error(missing, Place(str(path)), reason=f"more than {MOST_BYTES:,} bytes")
        return Text(str(path), content.decode("utf-8-sig"))
    except OSError as e:
        raise error(missing, Place(str(path)), reason=reason_of(e)) from None
    except UnicodeDecodeError as e:
        raise error(undecodable, Place(str(path)), offset=e.start) from None


def render_all(diagnostics: Sequence[Diagnostic]) -> str:
    """Several diagnostics, with an empty line between them."""
    return "\n\n".join(render(d) for d in diagnostics)
