"""Messages of programs, in catalogues of gettext and in XLIFF: what gets a translation, and what stays."""

import io
import time
from xml.etree import ElementTree

import pytest
from babel.messages.pofile import read_po
from packed_files import read, shouted

from calque.ground.diagnostics import CalqueError

CATALOGUE = r"""# A catalogue
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: a.c:1
#, c-format
msgctxt "menu"
msgid "_Open %s"
msgstr ""

msgid "Kept"
msgstr "Behalten"

#, fuzzy
msgid "Vague"
msgstr "Vage"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid ""
"A <b>bold</b> \"word\"\n"
"and a line\n"
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""


def po(msgid: str) -> bytes:
    return f'msgid "{msgid}"\nmsgstr ""\n'.encode()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_catalogue_gets_the_translations_that_it_lacks(ends: str) -> None:
    body = CATALOGUE.replace("\n", ends).encode()
    filled = shouted("a.po", body).decode()
    want = CATALOGUE.replace('"_Open %s"\nmsgstr ""', '"_Open %s"\nmsgstr "_OPEN %s"')
    want = want.replace('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"')
    lines = 'line\\n"\nmsgstr ""\n'
    want = want.replace(lines, lines + '"A <b>BOLD</b> \\"WORD\\"\\n"\n"AND A LINE\\n"\n')
    assert filled == want.replace("\n", ends)
    found = read_po(io.BytesIO(filled.encode()))
    assert {m.id: m.string for m in found if m.id}["%d file", "%d files"] == ("%d FILE", "%d FILES")


def test_one_form_is_that_of_many() -> None:
    body = b'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    assert shouted("a.po", body).endswith(b'msgstr[0] "%d FILES"\n')


@pytest.mark.parametrize(
    ("text", "line", "filled"),
    [
        ("a %(name)s b", "a %(name)s b", "A %(name)s B"),
        ("a %1$s, %-5.2f b", "a %1$s, %-5.2f b", "A %1$s, %-5.2f B"),
        ("a 50 % discount", "a 50 % discount", "A 50 % DISCOUNT"),
        ("a {name} b {{ x.y }} c", "a {name} b {{ x.y }} c", "A {name} B {{ x.y }} C"),
        ("a ${x} b %{y}", "a ${x} b %{y}", "A ${x} B %{y}"),
        ("see https://a.b/c?dd. Ee", "see https://a.b/c?dd.", "SEE https://a.b/c?dd. EE"),
        ("(%s)", None, "(%s)"),
        ("{n, plural, one {a cat} other {# cats}}", None, ""),
        ("a {n, select, b {c} other {d}} e", "a {n, select, b {c} other {d}} e", "A {n, select, b {c} other {d}} E"),
        ("a %1 %name% %L2 %n b", "a %1 %name% %L2 %n b", "A %1 %name% %L2 %n B"),
        ("a @b :c !d { e }, x@y.z 3:4", "a @b :c !d { e }, x@y.z 3:4", "A @b :c !d { e }, X@Y.Z 3:4"),
        ("a <code>b c</code> d", "a b c d", "A <code>b c</code> D"),
        ("a <b translate='no'>b</b>", "a b", "A <b translate='no'>b</b>"),
        ("a <code></code> b", "a b", "A <code></code> B"),
        ("a<br>b\\tc", "a", "A<br>B\\tC"),
        ("a <i>b</i>", "a b", "A <i>B</i>"),
        ("a</b> <i>c", "a c", "A</b> <i>C"),
        ("R&D and _Save _As", "R&D and _Save _As", "R&D AND _SAVE _AS"),
        ("&File", "File", "&FILE"),
        ("E&xit", "Exit", "&EXIT"),
        ("the E_xit %s", "the Exit %s", "_THE EXIT %s"),
        ("Pa_ge _Up", "Pa_ge _Up", "PA_GE _UP"),
        ("file_name", "file_name", "FILE_NAME"),
        ("Drag&drop", "Drag&drop", "DRAG&DROP"),
        ("Prin&t", "Print", "&PRINT"),
        ("Q&A of R&D", "Q&A of R&D", "Q&A OF R&D"),
        ("%s _open", "%s open", "%s _OPEN"),
        ("<b>%d</b> &files", "%d files", "<b>%d</b> &FILES"),
        ("call _a_b", "call _a_b", "CALL _A_B"),
        ("Save _As...", "Save As...", "_SAVE AS..."),
        ("this replaces the dot in _name", "this replaces the dot in _name", "THIS REPLACES THE DOT IN _NAME"),
        ("a dot in _b.", "a dot in _b.", "A DOT IN _B."),
        ("&amp; a", "&amp; a", "&amp; A"),
        ("a \\x41\\101\\\\ b", "a AA\\ b", "A AA\\\\ B"),
    ],
)
def test_what_programs_put_in_and_what_they_show_stays(text: str, line: str | None, filled: str) -> None:
    body = po(text)
    assert read("a.po", body)[1].lines[:1] == ([] if line is None else [line])
    assert shouted("a.po", body) == body.replace(b'msgstr ""', b'msgstr "%s"' % filled.encode())


def test_a_translation_that_loses_a_placeholder_or_turns_two_is_none() -> None:
    body = po("a %s costs %d") + po("b %(n)s and %(m)s") + po("c <b>%s</b>")
    document, lines = read("a.po", body)
    assert lines.lines == ["a %s costs %d", "b %(n)s and %(m)s", "c %s"]
    turned = ["%d kostet ein %s", "%(m)s und %(n)s B", "c"]
    shares = {0: [[0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], 2: [[1, 0]]}
    shares |= {1: [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]}
    filled = document.fill(turned, shares).decode()
    assert filled == body.decode().replace('and %(m)s"\nmsgstr ""', 'and %(m)s"\nmsgstr "%(m)s und %(n)s B"').replace(
        'c <b>%s</b>"\nmsgstr ""', 'c <b>%s</b>"\nmsgstr "<b>c %s</b>"'
    )


@pytest.mark.parametrize(
    ("named", "encoding", "letter"),
    [("ISO-8859-1", "latin-1", "é"), (" koi8-r", "koi8-r", "ж"), ("CHARSET", "utf-8", "é"), ("utf-8", "utf-8", "é")],
)
def test_a_catalogue_is_written_in_utf_8(named: str, encoding: str, letter: str) -> None:
    head = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={named}\\n"\n'
    message = f'msgid "{letter}"\nmsgstr ""\n'
    filled = shouted("a.po", (head + message).encode(encoding)).decode()
    assert filled == head.replace(named, named if named == "utf-8" else "UTF-8") + message.replace(
        'msgstr ""', f'msgstr "{letter.upper()}"'
    )


def test_lines_of_white_space_take_no_time() -> None:
    begun = time.perf_counter()
    with pytest.raises(CalqueError, match="D541"):
        read("a.po", b" " * 1_000_000 + b"x")
    assert time.perf_counter() - begun < 5


def test_where_nothing_attends_placeholders_divide() -> None:
    body = po("a %s <b>b</b> c")
    assert read("a.po", body, False)[1].lines == ["a", "b", "c"]
    assert shouted("a.po", body, False).endswith(b'msgstr "A %s <b>B</b> C"\n')


@pytest.mark.parametrize("body", [b'msgid "a\nmsgstr ""\n', b"msgid a\n", b'"a"\n', b'msgid "a"\n\n"b"\n', b"<p>a</p>"])
def test_what_is_no_catalogue_is_damaged(body: bytes) -> None:
    with pytest.raises(CalqueError, match="D541"):
        read("a.po", body)


def old(units: str) -> bytes:
    head = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>'
    return f"<?xml version='1.0'?>\n{head}{units}</body></file></xliff>".encode()


def new(units: str) -> bytes:
    head = '<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f">'
    return f"{head}{units}</file></xliff>".encode()


DRAFT = '<target state="needs-review-translation" state-qualifier="mt-suggestion">'


@pytest.mark.parametrize(
    ("unit", "filled"),
    [
        ("\n  <source>a b</source>\n", f"\n  <source>a b</source>\n  {DRAFT}A B</target>\n"),
        ("<source>a</source><target/>", f"<source>a</source>{DRAFT}A</target>"),
        ("<source>a</source><target state='new'>a</target>", "<source>a</source><target state='new'>A</target>"),
        ("<source>a</source><target state='final'>a</target>", "<source>a</source><target state='final'>a</target>"),
        ("<source>{n, plural, one {<x/>}}</source>", "<source>{n, plural, one {<x/>}}</source>"),
        ("<source>a</source><target state='new'></target>", "<source>a</source><target state='new'>A</target>"),
        ("<source>a</source><target>x</target>", "<source>a</source><target>x</target>"),
        ("<source/>", "<source/>"),
        ("<source>1 &lt;b> &amp; a</source>", f"<source>1 &lt;b> &amp; a</source>{DRAFT}1 &lt;b&gt; &amp; A</target>"),
    ],
)
def test_a_unit_gets_a_translation_where_it_has_none(unit: str, filled: str) -> None:
    body = old(f"<trans-unit id='1'>{unit}</trans-unit>")
    made = shouted("a.xlf", body)
    assert made == old(f"<trans-unit id='1'>{filled}</trans-unit>")
    ElementTree.fromstring(made)


@pytest.mark.parametrize(
    ("source", "line", "filled"),
    [
        ("a <g id='1'>b <x id='2'/> c</g> d", "a b c d", "A <g id='1'>B <x id='2'/> C</g> D"),
        ("a <bpt id='1'>{</bpt>b<ept id='1'>}</ept> c", "a b c", "A <bpt id='1'>{</bpt>B<ept id='1'>}</ept> C"),
        ("a <ept id='1'>}</ept> c", "a c", "A <ept id='1'>}</ept> C"),
        ("a <ph id='1'>&lt;br/></ph> b", "a b", "A <ph id='1'>&lt;br/></ph> B"),
        ("a<x id='1' ctype='lb'/>b", "a", "A<x id='1' ctype='lb'/>B"),
        ("a <mrk mtype='protected'>b</mrk> c", "a b c", "A <mrk mtype='protected'>b</mrk> C"),
        (
            "a <sm id='1' translate='no'/>b<em startRef='1'/> c",
            "a b c",
            "A <sm id='1' translate='no'/>b<em startRef='1'/> C",
        ),
        (
            "a <sm id='1' translate='no'/>b <x id='2'/>d<em startRef='1'/> c",
            "a c",
            "A <sm id='1' translate='no'/>b <x id='2'/>d<em startRef='1'/> C",
        ),
        (
            "a <sm id='1' translate='no'/>b<em startRef='2'/> c",
            "a b c",
            "A <sm id='1' translate='no'/>B<em startRef='2'/> C",
        ),
        ("a <!-- x -->b", "a b", "A <!-- x -->B"),
        ("a (<x id='1' equiv-text='{{ n }}'/>)", "a ({{ n }})", "A (<x id='1' equiv-text='{{ n }}'/>)"),
        ("a <ph id='1'>%s</ph> b", "a %s b", "A <ph id='1'>%s</ph> B"),
        ("a <![CDATA[<b>]]> {0} b", "a {0} b", "A &lt;b&gt; {0} B"),
    ],
)
def test_inline_elements_of_the_first_version(source: str, line: str, filled: str) -> None:
    body = old(f"<trans-unit id='1'><source>{source}</source><target/></trans-unit>")
    assert read("a.xliff", body)[1].lines[0] == line
    assert shouted("a.xliff", body) == body.replace(b"<target/>", f"{DRAFT}{filled}</target>".encode())


def test_strings_on_one_line_and_the_name_of_a_domain() -> None:
    """As msgfmt reads them."""
    body = b'domain "x"\nmsgid "a " "b" "\\n"\n"c" " d"\nmsgstr "" ""\n'
    filled = shouted("a.po", body)
    assert filled == body.replace(b'msgstr "" ""\n', b'msgstr ""\n"A B\\n"\n"C D"\n')


def test_a_translation_has_no_characters_that_xml_lacks() -> None:
    body = b'<xliff version="1.2"><trans-unit id="1"><source>a b</source></trans-unit></xliff>'
    filled = shouted("a.xlf", body, as_said=lambda line: "A\x00 \x1bB\ufffe\t\u00a0C")
    assert "A B\t\u00a0C</target>" in filled.decode()
    ElementTree.fromstring(filled)


@pytest.mark.parametrize("element", ["g", "mrk mtype='seg'", "sub"])
def test_many_elements_inside_each_other(element: str) -> None:
    source = f"a <{element}>" * 600 + "b" + f"</{element.split()[0]}>" * 600
    filled = shouted("a.xlf", old(f"<trans-unit><source>{source}</source></trans-unit>"), as_said=str)
    assert filled.count(b"</target>") == 1
    assert filled.count(source.encode()) == 2


def test_segments_of_the_second_version() -> None:
    source = "a <pc id='1'>b</pc> <sc id='2'/>c<ec startRef='2'/> <ph id='3'/>"
    body = new(f"<unit id='1'><segment><source>{source}</source></segment></unit>")
    target = "<target>A <pc id='1'>B</pc> <sc id='2'/>C<ec startRef='2'/> <ph id='3'/></target>"
    assert shouted("a.xlf", body) == body.replace(b"</source>", f"</source>{target}".encode())


def test_units_that_are_not_translated_and_segments_of_other_tools() -> None:
    segments = "<seg-source><mrk mtype='seg' mid='1'>a.</mrk> <mrk mtype='seg' mid='2'>b.</mrk></seg-source>"
    body = old(
        "<trans-unit id='1' translate='no'><source>x</source></trans-unit>"
        "<group translate='no'><trans-unit id='2'><source>y</source></trans-unit></group>"
        f"<trans-unit id='3'><source>a. b.</source>{segments}<target><mrk mtype='seg' mid='1'/></target>"
        "<alt-trans><source>z</source><target/></alt-trans></trans-unit>"
    )
    assert read("a.xlf", body)[1].lines == ["a.", "b."]
    want = (
        segments.replace("<seg-source>", DRAFT)
        .replace("seg-source", "target")
        .replace("a.", "A.")
        .replace("b.", "B.")
        .encode()
    )
    assert shouted("a.xlf", body) == body.replace(b"<target><mrk mtype='seg' mid='1'/></target>", want)


@pytest.mark.parametrize("body", [b"<tmx/>", b"a", b"<xliff><file></xliff>", b"<!DOCTYPE x [<!ENTITY a 'b'>]><xliff/>"])
def test_what_is_no_xliff_is_damaged(body: bytes) -> None:
    with pytest.raises(CalqueError, match="D541"):
        read("a.xlf", body)


def test_a_large_file_is_refused() -> None:
    with pytest.raises(CalqueError, match=r"more than 0\.1 MB"):
        read("a.xlf", old("<trans-unit><source>a</source></trans-unit>" * 4000), largest=2**20)
