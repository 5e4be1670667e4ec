"""Workbooks of Excel: strings of cells, comments, boxes and charts, and the headers of tables, which stay."""

import pytest
from packed_files import DRAWING, in_package, package, shouted

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
THREADED = "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"
BOLD, RED = "<rPr><b/><sz val='11'/></rPr>", "<rPr><color rgb='FFFF0000'/></rPr>"
T = '<t xml:space="preserve">'


def run(text: str, format_: str = "") -> str:
    return f"<r>{format_}{T}{text}</t></r>"


def book(strings: str = "", sheet: str = "", others: dict[str, str] | None = None) -> bytes:
    files = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}"><calcPr calcId="1"/></workbook>',
        "xl/sharedStrings.xml": f'<?xml version="1.0"?><sst xmlns="{MAIN}" uniqueCount="2">{strings}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}"><sheetData>{sheet}</sheetData></worksheet>',
    }
    return package({**files, **(others or {})})


def in_book(body: bytes, name: str = "xl/sharedStrings.xml") -> str:
    filled = in_package(shouted("a.xlsx", body), name)
    outer = {"xl/sharedStrings.xml": "sst", "xl/worksheets/sheet1.xml": "sheetData"}.get(name)
    return filled.partition(f"<{outer}")[2].partition(">")[2].partition(f"</{outer}>")[0] if outer else filled


@pytest.mark.parametrize(
    ("strings", "filled"),
    [
        ("<si><t>a b</t></si><si><t>12</t></si>", "<si><t>A B</t></si><si><t>12</t></si>"),
        ("<si/><si></si><si><t/></si><si><t></t></si>", "<si/><si></si><si><t/></si><si><t></t></si>"),
        (f"<si>{T} a &amp; b </t></si>", f"<si>{T} A &amp; B </t></si>"),
        # A cell without formats stays one, with its lines.
        ("<si><t>a b.\nc</t></si>", "<si><t>A B.\nC</t></si>"),
        ("<si><t>a_x000D_\nb\tc</t></si>", "<si><t>A_x000D_\nB\tC</t></si>"),
        ("<si><t>a. B\n\n c</t></si>", "<si><t>A. B\n\n C</t></si>"),
        (
            f"<si>{run('a long text ')}{run('b c', BOLD)}{run(', d.')}</si>",
            f"<si>{run('A LONG TEXT ')}{run('B C', BOLD)}{run(', D.')}</si>",
        ),
        (
            f"<si>{run('a', RED)}{run('&#10;b', RED)}</si>",
            f"<si>{run('A', RED)}{run('&#10;', RED)}{run('B', RED)}</si>",
        ),
        ("<si><t>a</t><r><t>b</t></r></si>", f"<si>{run('AB')}</si>"),
        (f"<si>{run('a ').replace(chr(34), chr(39))}{run('b')}</si>", f"<si>{run('A B')}</si>"),
        ("<si><t>a_x0007_b</t></si>", "<si><t>A_x0007_B</t></si>"),
        # How Japanese is read goes.
        ("<si><t>a</t><rPh sb='0' eb='1'><t>x</t></rPh><phoneticPr fontId='1'/></si>", "<si><t>A</t></si>"),
        (f"<si>{run('a b', BOLD)}<rPh sb='0' eb='1'><t>x</t></rPh></si>", f"<si>{run('A B', BOLD)}</si>"),
    ],
)
def test_strings(strings: str, filled: str) -> None:
    assert in_book(book(strings)) == filled


def test_strings_inside_cells_and_what_is_no_text() -> None:
    cells = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>a b</t></is></c><c r="B1" t="str"><f>A1&amp;"x"</f><v>a bx</v></c>'
        '<c r="C1" t="s"><v>0</v></c><c r="D1"><v>3</v></c></row>'
    )
    assert in_book(book("<si><t>c</t></si>", cells), "xl/worksheets/sheet1.xml") == cells.replace("<t>a b", "<t>A B")


def test_a_sheet_without_texts_is_not_read_and_stays() -> None:
    cells = '<c r="A1"><f>1 &lt; 2</f><v>TRUE</v></c>'
    assert in_book(book(sheet=cells), "xl/worksheets/sheet1.xml") == cells


@pytest.mark.parametrize(
    ("calculation", "cells", "asked"),
    [
        ('<calcPr calcId="1"/>', "<c><f>A1</f></c>", '<calcPr fullCalcOnLoad="1" calcId="1"/>'),
        ('<calcPr calcId="1" fullCalcOnLoad="1"/>', "<c><f>A1</f></c>", '<calcPr calcId="1" fullCalcOnLoad="1"/>'),
        ('<calcPr fullCalcOnLoad="0" calcId="1"/>', "<c><f>A1</f></c>", '<calcPr fullCalcOnLoad="1" calcId="1"/>'),
        ('<calcPr calcId="1"/>', "<c><v>1</v></c>", '<calcPr calcId="1"/>'),
    ],
)
def test_formulas_are_computed_again(calculation: str, cells: str, asked: str) -> None:
    text = f'<workbook xmlns="{MAIN}">{calculation}</workbook>'
    given = book("<si><t>a</t></si>", cells, {"xl/workbook.xml": text})
    assert in_book(given, "xl/workbook.xml") == text.replace(calculation, asked)


def related(kind: str, target: str) -> str:
    return f'<Relationships><Relationship Type="http://x/{kind}" Id="rId7" Target="{target}"/></Relationships>'


def table(ref: str, more: str = "") -> dict[str, str]:
    return {
        "xl/worksheets/_rels/sheet1.xml.rels": related("table", "../Tables/one.xml"),
        "xl/Tables/one.xml": f'<table xmlns="{MAIN}" id="1" ref="{ref}"{more}><tableColumns/></table>',
    }


CELLS = (
    '<row r="2"><c r="Z2" t="s"><v>0</v></c><c r="AA2" s="1" t="s"><v>1</v></c><c r="AB2" t="inlineStr"><is><t>d</t></is></c>'
    '<c r="AC2" t="inlineStr"><is><t>e</t></is></c></row><row r="3"><c r="AA3" t="s"><v>2</v></c><c r="AB3"><v>1</v></c></row>'
)


@pytest.mark.parametrize(
    ("ref", "more", "strings", "inside"),
    [
        ("AA2:AB3", "", "AbC", "dE"),
        ("Z2:Z9", "", "aBC", "DE"),
        ("AA2:AB3", ' headerRowCount="0"', "ABC", "DE"),
        ("AA2:AB3", ' headerRowCount="1"', "AbC", "dE"),
        ("?", "", "ABC", "DE"),
    ],
)
def test_headers_of_tables_stay(ref: str, more: str, strings: str, inside: str) -> None:
    given = book("".join(f"<si><t>{letter}</t></si>" for letter in "abc"), CELLS, table(ref, more))
    assert in_book(given) == "".join(f"<si><t>{letter}</t></si>" for letter in strings)
    filled = in_book(given, "xl/worksheets/sheet1.xml")
    assert [filled[filled.index(f'"{cell}" t="inline') :].partition("<t>")[2][0] for cell in ("AB2", "AC2")] == [
        *inside
    ]


@pytest.mark.parametrize(
    ("source", "strings"),
    [('ref="Z2:AA9" sheet="One"', "abC"), ('ref="Z2:AA9" sheet="Two"', "ABC"), ('name="Table1"', "ABC")],
)
def test_what_heads_the_columns_of_a_pivot_table_stays(source: str, strings: str) -> None:
    others = {
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="r"><sheet name="One" sheetId="1" r:id="rId7"/></workbook>',
        "xl/_rels/workbook.xml.rels": related("worksheet", "worksheets/sheet1.xml")
        + related("pivotCacheDefinition", "/pivots/one.xml").replace("rId7", "rId8"),
        "pivots/one.xml": f'<d xmlns="{MAIN}"><cacheSource><worksheetSource {source}/></cacheSource></d>',
    }
    given = book("".join(f"<si><t>{letter}</t></si>" for letter in "abc"), CELLS, others)
    assert in_book(given) == "".join(f"<si><t>{letter}</t></si>" for letter in strings)


def test_names_of_parts_may_be_in_capitals() -> None:
    strings = f'<sst xmlns="{MAIN}"><si><t>a</t></si></sst>'
    given = package({"xl/Workbook.xml": f'<workbook xmlns="{MAIN}"/>', "xl/SharedStrings.xml": strings})
    assert in_package(shouted("a.xlsx", given), "xl/SharedStrings.xml") == strings.replace("<t>a", "<t>A")


def test_comments_boxes_and_titles() -> None:
    box = f'<x:wsDr xmlns:x="x" xmlns:a="{DRAWING}"><a:p><a:r><a:t>c d</a:t></a:r></a:p></x:wsDr>'
    comment = f"<authors><author>x</author></authors><text>{run('a', BOLD)}</text>"
    others = {
        "xl/comments1.xml": f'<comments xmlns="{MAIN}">{comment}</comments>',
        "xl/threadedComments/threadedComment1.xml": f'<ThreadedComments xmlns="{THREADED}"><threadedComment><text>b</text>'
        "</threadedComment></ThreadedComments>",
        "xl/drawings/drawing1.xml": box,
        "xl/charts/chart1.xml": box,
        "xl/charts/chartEx1.xml": box,
    }
    given = book(others=others)
    assert f"<author>x</author></authors><text>{run('A', BOLD)}</text>" in in_book(given, "xl/comments1.xml")
    assert "<text>B</text>" in in_book(given, "xl/threadedComments/threadedComment1.xml")
    for name in ("xl/drawings/drawing1.xml", "xl/charts/chart1.xml", "xl/charts/chartEx1.xml"):
        assert in_book(given, name) == box.replace("c d", "C D")
