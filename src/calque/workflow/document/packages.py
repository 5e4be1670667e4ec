"""Packages of Word, PowerPoint, Excel, OpenDocument and EPUB: their texts are read, and all else stays as it is."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from calque.workflow.document.coded import Coded
from calque.workflow.document.encoded import Damaged, Encoded, decoded
from calque.workflow.document.inline import Shares
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.markup import html_layout
from calque.workflow.document.paragraphs import Dialect, Paragraphs, Runs
from calque.workflow.document.sheets import INLINE, SHEET, SHEETS, STRINGS, THREADS, WORKBOOK, headers, recalculated
from calque.workflow.document.xml import Xml

LARGEST = 2**29
"""Bytes of a package, unpacked, unless a caller allows fewer."""
TEXTS = 2**25
"""Bytes of its texts, at most, and at most an eighth of the bytes that are allowed: XML in memory takes many times its size."""


_COMPOUND = bytes.fromhex("d0cf11e0a1b11ae1")
"""How the files of Office begin that are no packages, and packages that are encrypted."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LANG = r"<(?:\w+:)?lang\b[^<>]*/>"
_WORD = Dialect(
    namespace=r"http://schemas\.openxmlformats\.org/wordprocessingml/2006/main|http://purl\.oclc\.org/ooxml/wordprocessingml/main",
    paragraphs=_names("p"),
    around=_names("hyperlink ins smartTag moveTo sdt customXml bdo dir"),
    divides=_names("tab ptab br cr pPr"),
    reads=(("noBreakHyphen", "-"),),
    dropped=_names("proofErr softHyphen lastRenderedPageBreak"),
    within=(("sdt", "sdtContent"),),
    runs=Runs("r", "rPr", "t", 'xml:space="preserve"', _LANG),
)
_DRAWING = Dialect(
    namespace=r"http://schemas\.openxmlformats\.org/drawingml/2006/main|http://purl\.oclc\.org/ooxml/drawingml/main",
    paragraphs=_names("p"),
    around=frozenset(),
    divides=_names("br pPr endParaRPr"),
    runs=Runs("r", "rPr", "t", "", r"(?<=\s)(?:lang|altLang|dirty|err|smtClean)=\"[^\"]*\"\s*"),
)
_OPEN = Dialect(
    namespace=r"urn:oasis:names:tc:opendocument:xmlns:text:1\.0",
    paragraphs=_names("p h"),
    around=_names("span a meta text-input"),
    divides=_names("tab line-break"),
    reads=(("s", " "),),
    dropped=_names("soft-page-break"),
    kept=_names("tracked-changes"),
    kept_tag=r"<\w+:table-cell\b(?=[^>]*(?:formula=|value-type=[\"'](?!string)))",
)
_NCX = Dialect(r"http://www\.daisy\.org/z3986/2005/ncx/", _names("text"), frozenset(), frozenset())


Parts = Mapping[str, bytes]
"""What a package holds, by name."""


@dataclass(frozen=True)
class Package:
    """A kind of package.

    main   a file that each one has, and `sign`, a pattern of its name
    texts  patterns of the names of texts, with how each is read; None: as HTML
    stay   of the parts of a package, those texts in which paragraphs stay as they are, with their numbers
    anew   of these parts, those that are written anew
    """

    main: str
    sign: str
    texts: tuple[tuple[str, Dialect | None], ...]
    stay: Callable[[Parts], Mapping[str, frozenset[int]]] = lambda parts: {}
    anew: Callable[[Parts], Parts] = lambda parts: {}


WORD = Package(
    "word/document.xml",
    r"word/document\d*\.xml",
    (
        (r"word/(document|header|footer|footnotes|endnotes|comments)\d*\.xml", _WORD),
        (r"word/(charts|diagrams)/(chart|chartEx|data|drawing)\d+\.xml", _DRAWING),
    ),
)
SLIDES = Package(
    "ppt/presentation.xml",
    r"ppt/presentation\.xml",
    ((r"ppt/(slides|notesSlides|charts|diagrams)/(slide|notesSlide|chart|chartEx|data|drawing)\d+\.xml", _DRAWING),),
)
TABLES = Package(
    "xl/workbook.xml",
    WORKBOOK,
    (
        (rf"{STRINGS}|xl/(comments/comment|comments)\d*\.xml", SHEET),
        (SHEETS, INLINE),
        (r"xl/threadedComments/.+\.xml", THREADS),
        (r"xl/(charts|diagrams|drawings)/(chart|chartEx|data|drawing)\d+\.xml", _DRAWING),
    ),
    headers,
    recalculated,
)
OPEN = Package("content.xml", r"content\.xml", ((r"(content|styles)\.xml", _OPEN),))
BOOK = Package("META-INF/container.xml", r"META-INF/container\.xml", ((r".+\.x?html?", None), (r".+\.ncx", _NCX)))


@dataclass(frozen=True)
class PackedDocument:
    """A package without the lines of its texts."""

    entries: tuple[tuple[zipfile.ZipInfo, bytes], ...]
    texts: Mapping[str, tuple[Encoded, Coded | Layout]]

    def fill(self, lines: Sequence[str], shares: Mapping[int, Shares | None] | None = None) -> bytes:
        """The package with these lines."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as filled:
            for entry, body in self.entries:
                if _name(entry) in self.texts:
                    source, text = self.texts[_name(entry)]
                    body = source.again(text.fill(lines, shares))
                filled.writestr(entry, body)
        return out.getvalue()


def read_package(kind: Package, body: bytes, lines: Lines, inline: bool, largest: int = LARGEST) -> PackedDocument:
    """The texts of a package, whose lines are added to `lines`. Raises Damaged."""
    entries = _entries(body, largest)
    parts = {_name(entry): text for entry, text in entries}
    names = list(parts)
    if not any(re.fullmatch(kind.sign, name) for name in names):
        raise Damaged(f"it has no `{kind.main}`")
    ways = {name: way for name in names for way in _ways(name, kind) if way is None or way.sign in parts[name]}
    secret = parts.get("META-INF/encryption.xml", b"")
    if any(name.encode() in secret for name in ways):
        raise Damaged("it is protected against copies")
    most = min(TEXTS, largest // 8)
    if sum(len(parts[name]) for name in ways) > most:
        raise Damaged(f"its texts have more than {most / 2**20:.1f} MB, unpacked")
    stay, anew = kind.stay(parts), kind.anew(parts)
    texts = {name: _text(parts[name], name, way, lines, inline, stay.get(name, ())) for name, way in ways.items()}
    return PackedDocument(tuple((entry, anew.get(_name(entry), text)) for entry, text in entries), texts)


def _entries(body: bytes, largest: int) -> tuple[tuple[zipfile.ZipInfo, bytes], ...]:
    """What a package holds. Raises Damaged."""
    if body.startswith(_COMPOUND):
        raise Damaged("it is protected by a password, or a file of a program of before 2007")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as package:
            held = package.infolist()
            if any(entry.flag_bits & 1 for entry in held):
                raise Damaged("it is protected by a password")
            if len(set(map(_name, held))) < len(held):
                raise Damaged("two files in it have the same name")
            if sum(entry.file_size for entry in held) > largest:
                raise Damaged(f"unpacked it has more than {largest >> 20} MB")
            return tuple((entry, package.read(entry)) for entry in held)
    except Damaged:
        raise
    # What the library raises for files that are cut off, changed or made by unknown programs.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as fault:
        reason = str(fault) or "it ends too early"
        raise Damaged(reason[:1].lower() + reason[1:]) from fault


def _name(entry: zipfile.ZipInfo) -> str:
    """The name of a part; some programs write its folders as Windows does."""
    return entry.filename.replace("\\", "/")


def _ways(name: str, kind: Package) -> list[Dialect | None]:
    """How a file of a package is read: nothing, where it is not."""
    return [way for pattern, way in kind.texts if re.fullmatch(pattern, name)][:1]


def _text(
    body: bytes, name: str, way: Dialect | None, lines: Lines, inline: bool, stay: Collection[int]
) -> tuple[Encoded, Coded | Layout]:
    try:
        if way is None:
            source = decoded(body)
            return source, html_layout(source.text, lines, inline)
        xml = Xml(body)
    except Damaged as fault:
        raise Damaged(f"`{name}` in it is damaged: {fault}") from fault
    return xml.source, Paragraphs(xml, way, lines, inline, stay).coded()
