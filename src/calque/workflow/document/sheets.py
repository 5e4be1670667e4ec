"""Workbooks of Excel: their texts, and those among them that head the columns of a table."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace

from calque.workflow.document.paragraphs import Dialect, Runs

SHEET = Dialect(
    namespace=r"http://schemas\.openxmlformats\.org/spreadsheetml/2006/main|http://purl\.oclc\.org/ooxml/spreadsheetml/main",
    paragraphs=frozenset(["si", "text"]),
    around=frozenset(),
    divides=frozenset(),
    dropped=frozenset(["rPh", "phoneticPr"]),  # how Japanese is read
    runs=Runs("r", "rPr", "t", 'xml:space="preserve"', r"(?!)", bare=True),
    breaks=r"(?:\t|\r?\n|_x[0-9A-Fa-f]{4}_|&#(?:9|10|13|x0*[9ADad]);)+",
)
"""Strings that cells share, and comments."""
INLINE = replace(SHEET, paragraphs=frozenset(["is"]), sign=b"inlineStr")
"""Strings inside the cells of a sheet."""
THREADS = Dialect(
    r"http://schemas\.microsoft\.com/office/spreadsheetml/2018/threadedcomments",
    frozenset(["text"]),
    frozenset(),
    frozenset(),
)

SHEETS = r"(?i:xl/worksheets/[^/]+\.xml)"
STRINGS = r"(?i:xl/sharedStrings\d*\.xml)"
WORKBOOK = r"(?i:xl/workbook\d*\.xml)"
Cell = tuple[str, str]
"""Its column and its row."""
_RELATIONSHIP = re.compile(r"<(?:\w+:)?Relationship\s[^<>]*>")
_SOURCE = re.compile(r"<(?:\w+:)?worksheetSource\s[^<>]*>")
_SHEET = re.compile(r"<(?:\w+:)?sheet\s[^<>]*>")
_TABLE = re.compile(r"<(?:\w+:)?table\s[^<>]*>")
_HEADER = re.compile(r"\sref\s*=\s*[\"']([A-Z]+)(\d+):([A-Z]+)\d+[\"']")
_CELL = re.compile(r"<(?:\w+:)?c\b([^<>]*)>\s*<(?:\w+:)?(v|is)\b[^<>]*>\s*(\d*)")
_PLACE = re.compile(r"\sr\s*=\s*[\"']([A-Z]+)(\d+)[\"']")
_SHARED = re.compile(r"\st\s*=\s*[\"']s[\"']")


def recalculated(parts: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The parts of a workbook that change so that a program computes its formulas again when it opens it."""
    has_formulas = any(re.search(rb"<(?:\w+:)?f\b", body) for name, body in parts.items() if re.fullmatch(SHEETS, name))
    if not has_formulas:
        return {}
    names = [name for name in parts if re.fullmatch(WORKBOOK, name)]
    plain = {name: re.sub(rb"\sfullCalcOnLoad=[\"'](?:0|false)[\"']", b"", parts[name]) for name in names}
    once = re.compile(rb"(<(?:\w+:)?calcPr\b)(?![^<>]*\sfullCalcOnLoad)")
    return {name: once.sub(rb'\1 fullCalcOnLoad="1"', body) for name, body in plain.items()}


def headers(parts: Mapping[str, bytes]) -> Mapping[str, frozenset[int]]:
    """Of each text the numbers of the strings that are headers of tables and of what pivot tables read: these name columns by them,
    and so do formulas.
    """
    shared: set[int] = set()
    stay: dict[str, frozenset[int]] = {}
    read = _read_by_pivots(parts)
    for name in [name for name in parts if re.fullmatch(SHEETS, name)]:
        tables = [
            _header_of(parts[table].decode(errors="replace")) for table in _related(name, "table", parts).values()
        ]
        wanted = frozenset().union(*tables, *read.get(name, ()))
        if not wanted:
            continue
        inside: set[int] = set()
        count = 0
        for attributes, kind, number in _CELL.findall(parts[name].decode(errors="replace")):
            place = _PLACE.search(attributes)
            if place and (place[1], place[2]) in wanted:
                if kind == "is":
                    inside.add(count)
                elif number and _SHARED.search(attributes):
                    shared.add(int(number))
            count += kind == "is"
        stay[name] = frozenset(inside)
    return stay | {name: frozenset(shared) for name in parts if re.fullmatch(STRINGS, name)}


def _related(name: str, kind: str, parts: Mapping[str, bytes]) -> Mapping[str, str]:
    """The parts of a kind that a part is related to, by the numbers of their relationships."""
    folder, last = posixpath.split(name)
    found = {}
    for tag in _RELATIONSHIP.findall(parts.get(f"{folder}/_rels/{last}.rels", b"").decode(errors="replace")):
        target = posixpath.normpath(posixpath.join("/", folder, _attribute(tag, "Target"))).removeprefix("/")
        if _attribute(tag, "Type").endswith(f"/{kind}") and target in parts:
            found[_attribute(tag, "Id")] = target
    return found


def _read_by_pivots(parts: Mapping[str, bytes]) -> Mapping[str, list[frozenset[Cell]]]:
    """Of each sheet the first rows of what pivot tables read there."""
    sheets: dict[str, str] = {}
    caches: list[str] = []
    for book in [name for name in parts if re.fullmatch(WORKBOOK, name)]:
        caches += _related(book, "pivotCacheDefinition", parts).values()
        related = _related(book, "worksheet", parts)
        for tag in _SHEET.findall(parts[book].decode(errors="replace")):
            number = re.search(r"\s\w+:id\s*=\s*[\"']([^\"']*)", tag)
            if number and number[1] in related:
                sheets[_attribute(tag, "name")] = related[number[1]]
    found: dict[str, list[frozenset[Cell]]] = {}
    for name in caches:
        source = _SOURCE.search(parts[name][:10_000].decode(errors="replace"))
        if source and (sheet := sheets.get(_attribute(source[0], "sheet"))):
            found.setdefault(sheet, []).append(_first_row(source[0]))
    return found


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf"\s{name}\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", tag)
    return "" if found is None else found[1] or found[2] or ""


def _header_of(table: str) -> frozenset[Cell]:
    """The cells of the first row of a table, where it has headers."""
    found = _TABLE.search(table)
    return _first_row(found[0]) if found and _attribute(found[0], "headerRowCount") != "0" else frozenset()


def _first_row(tag: str) -> frozenset[Cell]:
    """The cells of the first row of the area that a tag names."""
    place = _HEADER.search(tag)
    if place is None:
        return frozenset()
    return frozenset((_letters(column), place[2]) for column in range(_number(place[1]), _number(place[3]) + 1))


def _number(letters: str) -> int:
    """The number of a column, from 1: of A, Z and AA these are 1, 26 and 27."""
    number = 0
    for letter in letters[:3]:  # no sheet has more columns
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _letters(number: int) -> str:
    letters = ""
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("A") + last) + letters
    return letters
