"""Settings from outside the text: `--set d=256` replaces `d = 512`."""

from collections.abc import Mapping, Sequence

from calque.adl.parser import ParseResult, parse_some
from calque.adl.program import Reader
from calque.adl.signature import SETTINGS
from calque.adl.syntax import Number, Operation, Statement, Term, Value
from calque.ground.diagnostics import Span, Text, error, nearest


def parse_settings(written: Sequence[str]) -> dict[str, Statement]:
    """The settings of `NAME=VALUE` texts; a later one replaces an earlier one. Raises X221."""
    settings: dict[str, Statement] = {}
    for one in written:
        text = Text("--set", one)
        read = parse_some(text)
        statement = read.statements[0] if len(read.statements) == 1 and not read.faults else None
        if statement is None or statement.parameters is not None or not isinstance(statement.value, Number | Operation):
            raise error("X221", Span(text, 0, len(one)), found=one)
        settings[statement.name] = statement
    return settings


def overriding(reader: Reader, settings: Mapping[str, Statement]) -> Reader:
    """A reader that replaces settings of the text by `settings`.

    `d`, `heads` and `p` can be given to any text, other names only where the text sets them; reading raises X222 otherwise.
    """

    def read(text: Text) -> ParseResult:
        result = reader(text)
        return result if result.faults else result._replace(statements=override(result.statements, settings))

    return read if settings else reader


def override(statements: list[Statement], settings: Mapping[str, Statement]) -> list[Statement]:
    """The statements with their settings replaced by `settings`. Raises X222 for a setting that they do not have."""
    numbers: set[str] = set()
    kept: list[Statement] = []
    for statement in statements:
        if statement.parameters is None and _is_number(statement.value, numbers):
            numbers.add(statement.name)
            statement = settings.get(statement.name, statement)
        kept.append(statement)
    numbers.discard("adl")
    for name, statement in settings.items():
        if name not in numbers | SETTINGS.keys():
            known = sorted(numbers | SETTINGS.keys())
            raise error("X222", statement.name_span, name=name, near=nearest(name, known), names=known)
    at = bool(kept) and kept[0].name == "adl"
    kept[at:at] = [statement for name, statement in settings.items() if name not in numbers]
    return kept


def _is_number(value: Value, numbers: set[str]) -> bool:
    if isinstance(value, Number | Operation):
        return True
    bare = isinstance(value, Term) and value.arguments is None and not value.labels
    return isinstance(value, Term) and bare and value.name in numbers | SETTINGS.keys()
