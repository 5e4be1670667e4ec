"""What the tests of the language share: the corpus, and checking a text with the package's layers."""

from pathlib import Path

from calque.adl.check import CheckedDefinition, check
from calque.ground.diagnostics import CalqueError, Diagnostic, Span, Text
from calque.layers.registry import builtin

HERE = Path(__file__).parent
VALID = sorted(HERE.glob("conformance/valid/*.adl"))
INVALID = sorted(HERE.glob("conformance/invalid/*.adl"))


def read(path: Path) -> str:
    return path.read_bytes().decode()  # line ends as they are


def checked(body: str, name: str = "model.adl") -> CheckedDefinition:
    return check(Text(name, body), builtin())


def faults(body: str) -> list[Diagnostic]:
    """What is wrong with a text; nothing where it is valid."""
    try:
        checked(body)
    except CalqueError as error:
        return list(error.diagnostics)
    return []


def where(fault: Diagnostic) -> tuple[int, int]:
    assert isinstance(fault.where, Span)
    return fault.where.text.line_column(fault.where.start)
