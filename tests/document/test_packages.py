"""Documents, slides, tables and books: what of them is translated, and where their formats, links and notes then stand."""

import html
import io
import re
import zipfile

import pytest
from packed_files import DRAWING, in_package, open_text, package, read, shouted, word

from calque.ground.diagnostics import CalqueError

T = '<w:t xml:space="preserve">'
BOLD, RED = "<w:rPr><w:b/></w:rPr>", '<w:rPr><w:color w:val="F00"/></w:rPr>'


def run(text: str, format_: str = "") -> str:
    return f"<w:r>{format_}{T}{text}</w:t></w:r>"


def of_word(body: str, inline: bool = True) -> str:
    filled = in_package(shouted("a.docx", word(body), inline), "word/document.xml")
    return filled.partition("<w:body>")[2].partition("</w:body>")[0]


@pytest.mark.parametrize(
    ("body", "filled"),
    [
        ("<w:p/>", "<w:p/>"),
        ("<w:p></w:p>", "<w:p></w:p>"),
        (f"<w:p>{run('a b')}</w:p>", f"<w:p>{run('A B')}</w:p>"),
        # Runs of one format are one text; what Word says of language and spelling goes.
        (
            '<w:p w:rsidR="1"><w:pPr><w:jc/></w:pPr><w:r w:rsidR="2"><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t>a</w:t></w:r>'
            f"<w:proofErr/>{run(' b.')}</w:p>",
            f'<w:p w:rsidR="1"><w:pPr><w:jc/></w:pPr>{run("A B.")}</w:p>',
        ),
        # Each format stays with its words, the usual one is around the rest.
        (
            f"<w:p>{run('a long text ')}{run('b c', BOLD)}{run(', d.')}</w:p>",
            f"<w:p>{run('A LONG TEXT ')}{run('B C', BOLD)}{run(', D.')}</w:p>",
        ),
        (f"<w:p>{run('a', RED)}{run(' b', BOLD)}</w:p>", f"<w:p>{run('A', RED)}{run(' B', BOLD)}</w:p>"),
        # White space at the ends counts only where an attribute says so.
        ("<w:p><w:r><w:t> a </w:t></w:r><w:r><w:t>b</w:t></w:r></w:p>", f"<w:p>{run('AB')}</w:p>"),
        (f"<w:p>{run('a &amp; b &lt; c')}</w:p>", f"<w:p>{run('A &amp; B &lt; C')}</w:p>"),
        # Tabs and line ends divide, as cells do; what has no letters stays.
        (
            f"<w:p><w:r>{T}a</w:t><w:tab/>{T}b</w:t><w:br/>{T}12.5 %</w:t></w:r></w:p>",
            f"<w:p>{run('A')}<w:r><w:tab/></w:r>{run('B')}<w:r><w:br/></w:r>{run('12.5 %')}</w:p>",
        ),
        (f"<w:p>{run('a')}<w:r><w:noBreakHyphen/></w:r>{run('b')}</w:p>", f"<w:p>{run('A-B')}</w:p>"),
        # A note stands behind the word that it stood behind.
        (
            f"<w:p>{run('a b')}<w:r>{RED}<w:footnoteReference w:id='1'/></w:r>{run(' c d.')}</w:p>",
            f"<w:p>{run('A B')}<w:r>{RED}<w:footnoteReference w:id='1'/></w:r>{run(' C D.')}</w:p>",
        ),
        # A link stands around its words, in their own format.
        (
            f'<w:p>{run("a ")}<w:hyperlink r:id="2">{run("b ", RED)}{run("c", BOLD)}</w:hyperlink>{run(" d")}</w:p>'.replace(
                "r:id", "w:id"
            ),
            f'<w:p>{run("A ")}<w:hyperlink w:id="2">{run("B ", RED)}{run("C", BOLD)}</w:hyperlink>{run(" D")}</w:p>',
        ),
        (
            f"<w:p>{run('a ')}<w:sdt><w:sdtPr><w:x/></w:sdtPr><w:sdtContent>{run('b')}</w:sdtContent></w:sdt></w:p>",
            f"<w:p>{run('A ')}<w:sdt><w:sdtPr><w:x/></w:sdtPr><w:sdtContent>{run('B')}</w:sdtContent></w:sdt></w:p>",
        ),
        # The two marks of a range stand around its words.
        (
            f"<w:p><w:bookmarkStart w:id='1' w:name='n'/>{run('a b')}<w:bookmarkEnd w:id='1'/>{run(' c.')}</w:p>",
            f"<w:p><w:bookmarkStart w:id='1' w:name='n'/>{run('A B')}<w:bookmarkEnd w:id='1'/>{run(' C.')}</w:p>",
        ),
        (
            f"<w:p>{run('a ')}<w:commentRangeStart w:id='1'/>{run('b. ')}{run('C', BOLD)}<w:commentRangeEnd w:id='1'/></w:p>",
            f"<w:p>{run('A ')}<w:commentRangeStart w:id='1'/>{run('B. ')}{run('C', BOLD)}<w:commentRangeEnd w:id='1'/></w:p>",
        ),
        # A space of another format does not divide, and a number above the line is no word.
        (f"<w:p>{run('a b')}{run(' ', BOLD)}{run('c')}</w:p>", f"<w:p>{run('A B C')}</w:p>"),
        (
            f"<w:p>{run('a b')}<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr>{T}2</w:t></w:r>{run(', c')}</w:p>",
            f"<w:p>{run('A B')}<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr>{T}2</w:t></w:r>{run(', C')}</w:p>",
        ),
        # A note at the beginning has its space behind it.
        (
            f"<w:p><w:r>{RED}<w:footnoteRef/></w:r>{run(' a b')}</w:p>",
            f"<w:p><w:r>{RED}<w:footnoteRef/></w:r>{run(' A B')}</w:p>",
        ),
        # White space of a format of its own is something to see.
        (
            f"<w:p>{run('a: ')}{run('     ', BOLD)}{run(' b c d')}</w:p>",
            f"<w:p>{run('A: ')}{run('     ', BOLD)}{run(' B C D')}</w:p>",
        ),
        (f"<w:p>{run('a' + chr(9) + 'b')}</w:p>", f"<w:p>{run('A')}{run(chr(9))}{run('B')}</w:p>"),
        ("<w:p><w:r><w:t><![CDATA[a & b]]><!-- c --></w:t></w:r></w:p>", f"<w:p>{run('A &amp; B')}</w:p>"),
        (
            f"<w:p>{run('a')}<w:r><w:rPr><w:rStyle w:val='x-lang'/></w:rPr>{T} b</w:t></w:r>{run(' c d')}</w:p>",
            f"<w:p>{run('A ')}<w:r><w:rPr><w:rStyle w:val='x-lang'/></w:rPr>{T}B</w:t></w:r>{run(' C D')}</w:p>",
        ),
        # A mark inside words of one format leaves them together.
        (
            f"<w:p>{run('a ', RED)}<w:bookmarkStart/>{run('b c d', RED)}{run(' e f g h i j')}</w:p>",
            f"<w:p>{run('A ', RED)}<w:bookmarkStart/>{run('B C D', RED)}{run(' E F G H I J')}</w:p>",
        ),
        # What was deleted, and formulas, stay as they are.
        (f"<w:p><w:del><w:r><w:delText>x y</w:delText></w:r></w:del>{run('a')}</w:p>", None),
    ],
)
def test_a_paragraph_of_word(body: str, filled: str | None) -> None:
    if filled is None:
        filled = body.replace(">a<", ">A<")
    assert of_word(body) == filled


BEGIN, SEPARATE, END = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))


@pytest.mark.parametrize(
    ("asked", "shown", "found"),
    [("PAGE", "x", "x"), (' HYPERLINK "http://a.b"', "x", "X"), ("REF a", BEGIN + END + "x", BEGIN + END + "x")],
)
def test_of_fields_the_words_of_links_are_translated(asked: str, shown: str, found: str) -> None:
    code = f"<w:r><w:instrText>{asked}</w:instrText></w:r>"
    before, behind = f"{BEGIN}{code}{SEPARATE}", END
    shown, found = (re.sub(r"[xX]$", lambda m: run(m[0]), text) for text in (shown, found))
    body = "<w:p>" + run("a ") + before + shown + behind + run(" b") + "</w:p>"
    assert of_word(body) == "<w:p>" + run("A ") + before + found + behind + run(" B") + "</w:p>"
    # A field that ends in another paragraph: its marks stay, and so does the order.
    assert of_word(f"<w:p>{before}{run('a b')}</w:p><w:p>{run('c')}{END}</w:p>") == (
        f"<w:p>{before}{run('A B')}</w:p><w:p>{run('C')}{END}</w:p>"
    )


@pytest.mark.parametrize("around", ["hyperlink", "ins", "smartTag"])
def test_words_beside_a_field_are_translated_wherever_they_stand(around: str) -> None:
    """As in each line of a table of contents."""
    code = "<w:r><w:instrText>PAGEREF x</w:instrText></w:r>"
    field = f"{BEGIN}{code}{SEPARATE}{run('7')}{END}"
    body = f"<w:p><w:{around}>{run('a b')}<w:r><w:tab/></w:r>{field}</w:{around}></w:p>"
    assert of_word(body) == body.replace("a b", "A B")


def test_a_field_in_one_run_stays() -> None:
    marks = [f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end")]
    field = f"<w:r>{marks[0]}<w:instrText>PAGE</w:instrText>{marks[1]}{T}7</w:t>{marks[2]}</w:r>"
    assert of_word(f"<w:p>{run('a ')}{field}{run(' b')}</w:p>") == f"<w:p>{run('A ')}{field}{run(' B')}</w:p>"


def test_links_of_slides_are_never_the_usual_format() -> None:
    link = '<a:rPr><a:hlinkClick r:id="1" xmlns:r="r"/></a:rPr>'
    runs = f"<a:r><a:t>a </a:t></a:r><a:r>{link}<a:t>b c d e f</a:t></a:r><a:r><a:t> g</a:t></a:r>"
    text = f'<p:sld xmlns:a="{DRAWING}" xmlns:p="p"><a:p>{runs}</a:p></p:sld>'
    body = package({"ppt/presentation.xml": "", "ppt/slides/slide1.xml": text})
    filled = in_package(shouted("a.pptx", body), "ppt/slides/slide1.xml")
    assert filled == re.sub("<a:t>(.*?)</a:t>", lambda m: m[0].replace(m[1], m[1].upper()), text)


def test_cells_that_are_no_texts_stay() -> None:
    cells = [
        "<table:table-cell office:value-type='string'><text:p>a</text:p></table:table-cell>",
        "<table:table-cell office:value-type='date'><text:p>3 may</text:p></table:table-cell>",
        "<table:table-cell table:formula='x' office:value-type='string'><text:p>b</text:p></table:table-cell>",
    ]
    names = 'xmlns:table="t" xmlns:office="o"'
    filled = in_package(shouted("a.ods", open_text(f"<table:t {names}>{''.join(cells)}</table:t>")), "content.xml")
    assert [text in filled for text in (">A<", ">3 may<", ">b<")] == [True] * 3


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.html", b'<meta charset="iso-8859-1"><p>caf\xe9 \x80</p>'),
        ("a.html", b'<?xml version="1.0" encoding="latin-1"?><p>caf\xe9</p>'),
        ("a.html", b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>caf\xe9</p>'),
        ("a.xhtml", '<?xml version="1.0" encoding="UTF-16"?><p>caf\u00e9</p>'.encode("utf-16")),
        ("a.html", "<meta charset=utf-8><p>caf\u00e9</p>".encode()),
        (
            "a.html",
            '<!-- <meta charset="latin-1"> --><script>"<meta charset=koi8-r>"</script><p>caf\u00e9</p>'.encode(),
        ),
        ("a.html", '<meta name="description" content="the charset=of a page"><p>caf\u00e9</p>'.encode()),
        ("a.html", "<meta charset=gb2312><p>\u9555</p>".encode("gbk")),
    ],
)
def test_a_text_keeps_its_encoding(name: str, body: bytes) -> None:
    document, lines = read(name, body)
    assert document.fill(lines.lines) == body
    found = document.fill(["\u20ac \u0142"] * len(lines.lines))
    assert found != body
    assert html.unescape(read(name, found)[1].lines[-1]) == "\u20ac \u0142"


def test_boxes_of_text_inside_a_paragraph_are_translated() -> None:
    box = f"<w:r><w:pict><v:x xmlns:v='v'><w:p>{run('c d.')}</w:p></v:x></w:pict></w:r>"
    body = f"<w:p>{run('a ')}{box}{run('b')}</w:p>"
    filled = of_word(body)
    assert filled.count(run("C D.")) == 1
    assert filled.replace(box.replace("c d.", "C D."), "") in (
        f"<w:p>{run('A ')}{run('B')}</w:p>",
        f"<w:p>{run('A')}{run(' B')}</w:p>",
    )
    deep = "<w:p><w:r>" * 60 + T + "a</w:t>" + "</w:r></w:p>" * 60
    assert "a</w:t>" in of_word(deep)  # and no error


def test_without_alignment_formats_divide_a_sentence() -> None:
    document, lines = read("a.docx", word(f"<w:p>{run('a ')}{run('b', BOLD)}</w:p>"), inline=False)
    assert lines.lines == ["a", "b"]
    assert run("B", BOLD) in in_package(document.fill(["A", "B"]), "word/document.xml")


def test_all_else_in_a_package_stays() -> None:
    body = word(f"<w:p>{run('a')}</w:p>")
    with zipfile.ZipFile(io.BytesIO(body)) as before, zipfile.ZipFile(io.BytesIO(shouted("a.docx", body))) as after:
        assert before.namelist() == after.namelist()
        changed = [name for name in before.namelist() if before.read(name) != after.read(name)]
    assert changed == ["word/document.xml"]


def test_other_prefixes_and_encodings() -> None:
    names = 'xmlns="http://purl.oclc.org/ooxml/wordprocessingml/main"'
    text = f"<document {names}><p><r><t>a é</t></r></p></document>"
    for encoded in (text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode()):
        filled = in_utf(shouted("a.docx", package({"word/document.xml": encoded})), encoded[:2] == b"\xff\xfe")
        assert '<r><t xml:space="preserve">A É</t></r>' in filled


def in_utf(body: bytes, wide: bool) -> str:
    with zipfile.ZipFile(io.BytesIO(body)) as made:
        return made.read("word/document.xml").decode("utf-16" if wide else "utf-8-sig")


def test_slides() -> None:
    paragraph = (
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" b="1" dirty="0"/><a:t>a</a:t></a:r><a:r><a:rPr lang="en-GB"/><a:t> b c</a:t>'
        '</a:r><a:br><a:rPr/></a:br><a:fld id="1"><a:t>7</a:t></a:fld><a:endParaRPr lang="en-US"/></a:p>'
    )
    text = f'<p:sld xmlns:a="{DRAWING}" xmlns:p="p">{paragraph}</p:sld>'
    filled = in_package(
        shouted("a.pptx", package({"ppt/presentation.xml": "", "ppt/slides/slide12.xml": text})),
        "ppt/slides/slide12.xml",
    )
    assert filled == text.replace(
        '<a:r><a:rPr lang="en-US" b="1" dirty="0"/><a:t>a</a:t></a:r><a:r><a:rPr lang="en-GB"/><a:t> b c</a:t></a:r>',
        '<a:r><a:rPr b="1"/><a:t>A</a:t></a:r><a:r><a:t> B C</a:t></a:r>',
    )


@pytest.mark.parametrize(
    ("body", "filled"),
    [
        ("<text:h>a <text:span text:style-name='T'>b</text:span>.</text:h>",) * 2,
        (
            "<text:p>a<text:s text:c='3'/>b<text:tab/>c<text:line-break/>d</text:p>",
            "<text:p>a b<text:tab/>c<text:line-break/>d</text:p>",
        ),
        ("<text:p>a<text:note><text:p>n n.</text:p></text:note> b <text:a x='y'>c</text:a></text:p>",) * 2,
        ("<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>a</text:p>",) * 2,
        ("<text:list><text:list-item><text:p>a. B</text:p></text:list-item></text:list>",) * 2,
        ("<text:p>a <!-- c --> b</text:p>",) * 2,
    ],
)  # fmt: skip
def test_a_paragraph_of_opendocument(body: str, filled: str) -> None:
    for name in ("a.odt", "a.odp", "a.ods"):
        found = in_package(shouted(name, open_text(body)), "content.xml")
        expected = re.sub(r">([^<>]+)<", lambda m: f">{m[1] if m[1] == 'gone' else m[1].upper()}<", filled)
        assert found.partition('text:1.0">')[2] == f"{expected}</o:text>"


def test_a_book() -> None:
    page = '<?xml version="1.0"?><!DOCTYPE html><html xmlns="x"><body><p>a <b>b</b> c&#160;d</p></body></html>'
    toc = '<!DOCTYPE ncx PUBLIC "-//x" "http://a.b/c.dtd"><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navLabel><text>a</text></navLabel></ncx>'
    body = package(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "",
            "OEBPS/a.xhtml": page,
            "OEBPS/toc.ncx": toc,
            "OEBPS/a.css": "p {}",
        }
    )
    filled = shouted("a.epub", body)
    assert "<p>A <b>B</b> C\u00a0D</p>" in in_package(filled, "OEBPS/a.xhtml")
    assert "<text>A</text>" in in_package(filled, "OEBPS/toc.ncx")
    assert filled.startswith(body[:58])  # the kind of file comes first, and is not compressed


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("a.docx", b"", "not a zip"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + b"0" * 600, "not a zip"),
        ("a.docx", open_text("<text:p>a</text:p>"), "no `word/document.xml`"),
        ("a.odt", word("<w:p/>"), "no `content.xml`"),
        ("a.docx", word("<w:p>"), "mismatched tag"),
        ("a.docx", package({"word/document.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}), "document type"),
        ("a.docx", package({"word/document.xml": b"<x>\xff</x>"}), "word/document.xml"),
        ("a.epub", package({"META-INF/container.xml": "", "a.html": b"\xff"}), "not UTF-8"),
        (
            "a.epub",
            package({"META-INF/container.xml": "", "META-INF/encryption.xml": "a.html", "a.html": ""}),
            "against copies",
        ),
        ("a.html", b"<p>\xe9</p>", "byte 0xe9 at 3"),
        ("a.html", b"<meta charset=foo>a", "`foo`"),
        ("a.html", b"<meta charset=idna>a", "`idna`"),
        ("a.html", b"<meta charset=rot13>a", "`rot13`"),
        ("a.txt", "a dog".encode("utf-16-le"), "NUL"),
        ("a.docx", package({"word/document.xml": b'<?xml version="1.0" encoding="foo"?><a/>'}), "`foo`"),
        ("a.srt", b"a b c", "none of its lines"),
    ],
)
def test_what_cannot_be_read_is_one_error(name: str, body: bytes, reason: str) -> None:
    with pytest.raises(CalqueError) as raised:
        read(name, body)
    (found,) = raised.value.diagnostics
    assert (found.code, reason in str(found.fields["reason"])) == ("D541", True), found.fields


def test_damaged_packages_are_one_error() -> None:
    """Bytes that are cut off or changed: read as they are, or refused."""
    body = word(f"<w:p>{run('a b c d e f g')}</w:p>" * 5)
    refused = read_whole = 0
    for k in range(0, len(body), 7):
        for damaged in (body[:k], body[:k] + bytes([body[k] ^ 0x55]) + body[k + 1 :]):
            try:
                document, lines = read("a.docx", damaged)
                document.fill(lines.lines)
            except CalqueError as fault:
                refused += fault.diagnostics[0].code == "D541"
            else:
                read_whole += 1
    assert (refused + read_whole, refused > read_whole) == (2 * len(range(0, len(body), 7)), True)


def test_a_package_that_unpacks_to_much_is_refused() -> None:
    body = word("<w:p/>" * 1000)
    with pytest.raises(CalqueError, match="D541"):
        read("a.docx", body, largest=1000)
    with pytest.raises(CalqueError, match="texts"):
        read("a.docx", body, largest=20_000)
    read("a.docx", body, largest=100_000)


@pytest.mark.parametrize("name", ["a.doc", "a.pdf", "a", "docx"])
def test_other_kinds_of_files_are_refused(name: str) -> None:
    with pytest.raises(CalqueError, match="D540"):
        read(name, b"")
