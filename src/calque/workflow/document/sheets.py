"""Workbooks of Excel: their texts, and those among them that head the columns of a table."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from calque.workflow.document.paragraphs import Dialect, Runs

SHEET = Dialect(
    namespace=r"http://schemas\.openxmlformats\.org/spreadsheetml/2006/main|http://purl\.oclc\.org/ooxml/spreadsheetml/main",
    paragraphs=frozenset(["si", "text"]),
    around=frozenset(),
    divides=frozenset(),
    dropped=frozenset(["rPh", "phoneticPr"]),  # how Japanese is read
    runs=Runs("r", "rPr", "t", 'xml:space="preserve"', r"(?!)", bare=True),
    breaks=r"(?:\t|\r?\n|_x000[9ADad]_|&#(?:9|10|13|x0*[9ADad]);)+",
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

SHEETS = r"xl/worksheets/[^/]+\.xml"
STRINGS = r"xl/sharedStrings\d*\.xml"
_TARGET = re.compile(r"\sTarget\s*=\s*[\"']([^\"']*/tables/[^\"']*)[\"']")
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
    asked = rb'\1 fullCalcOnLoad="1"'
    names = [name for name in parts if re.fullmatch(r"xl/workbook\d*\.xml", name)]
    return {name: re.sub(rb"(<(?:\w+:)?calcPr\b)(?![^<>]*\sfullCalcOnLoad)", asked, parts[name]) for name in names}


def headers(parts: Mapping[str, bytes]) -> Mapping[str, frozenset[int]]:
    """Of each text the numbers of the strings that are headers of tables: formulas, and the table itself, name columns by them."""
    shared: set[int] = set()
    stay: dict[str, frozenset[int]] = {}
    for name in [name for name in parts if re.fullmatch(SHEETS, name)]:
        tables = [_header_of(parts[table].decode(errors="replace")) for table in _tables_of(name, parts)]
        wanted = frozenset().union(*tables)
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


def _tables_of(sheet: str, parts: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the tables of a sheet."""
    folder, name = posixpath.split(sheet)
    related = parts.get(f"{folder}/_rels/{name}.rels", b"").decode(errors="replace")
    for target in _TARGET.findall(related):
        table = posixpath.normpath(posixpath.join("/", folder, target)).removeprefix("/")
        if table in parts:
            yield table


def _header_of(table: str) -> frozenset[tuple[str, str]]:
    """The cells of the first row of a table."""
    found = _TABLE.search(table)
    place = _HEADER.search(found[0]) if found and not re.search(r"\sheaderRowCount\s*=\s*[\"']0", found[0]) else None
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
