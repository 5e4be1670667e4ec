"""Texts in the encoding that they declare, and written in it again."""

import codecs
import re
from typing import NamedTuple

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_XML = re.compile(rb"\s*<\?xml[^>]*?\bencoding\s*=\s*[\"']([^\"'>]+)")
_META = re.compile(rb"<meta\b((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"([\w-]+)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)")
_CHARSET = re.compile(rb"charset\s*=\s*([^\s;\"']+)", re.IGNORECASE)
_APART = re.compile(rb"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1|\Z)", re.IGNORECASE | re.DOTALL)
_FIRST = 16_384
"""Bytes in which a text declares its encoding."""
_AS_BROWSERS = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gbk",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""Encodings that browsers read as others, which have more characters."""
_ALIASES = {"x-sjis": "cp932", "windows-874": "cp874", "unicode": "utf-8", "x-gbk": "gbk"}
_KNOWN = re.compile(
    r"utf-8|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-[ru]|mac-(?:roman|cyrillic)|gbk|gb18030|big5hkscs|euc_jp|iso2022_jp"
)


class Damaged(ValueError):
    """A file, or a text in it, that cannot be read; the message says why."""


class Encoded(NamedTuple):
    """A text, and how it was encoded."""

    text: str
    mark: bytes
    encoding: str

    def again(self, text: str) -> bytes:
        """Another text in the same encoding; characters that it lacks become references such as `&#8364;`."""
        return self.mark + text.encode(self.encoding, "xmlcharrefreplace")


def decoded(body: bytes, declares: bool = True, encoding: str = "utf-8") -> Encoded:
    """The text of these bytes, in this encoding unless they begin otherwise. `declares`: it is HTML or XML. Raises Damaged."""
    mark = next((mark for mark in _BOMS if body.startswith(mark)), b"")
    encoding = _BOMS.get(mark, encoding)
    if not mark and declares and (name := _declared(body[:_FIRST])):
        encoding = known_encoding(name.decode("latin-1"))
    try:
        text = body[len(mark) :].decode(encoding)
    except UnicodeDecodeError as fault:
        at = f"byte 0x{body[fault.start + len(mark)]:02x} at {fault.start + len(mark)}"
        raise Damaged(f"it is not {encoding.upper()}: {at}") from fault
    if "\0" in text:
        raise Damaged("it has NUL characters, as UTF-16 without a byte order mark does")
    return Encoded(text, mark, encoding)


def _declared(first: bytes) -> bytes | None:
    """The name of the encoding in an XML declaration, or in the first `meta` element that has one."""
    if in_xml := _XML.match(first):
        return in_xml[1]
    for tag in _META.finditer(_APART.sub(b"", first)):
        attributes: dict[bytes, bytes] = {
            name.lower(): value.strip(b"\"' ") for name, value in _ATTRIBUTE.findall(tag[1])
        }
        if b"charset" in attributes:
            return attributes[b"charset"]
        named = attributes.get(b"http-equiv", b"").lower() == b"content-type"
        if named and (in_content := _CHARSET.search(attributes.get(b"content", b""))):
            return in_content[1]
    return None


def known_encoding(name: str) -> str:
    """The encoding of this name. Raises Damaged."""
    try:
        found = _ALIASES.get(name.lower()) or codecs.lookup(name).name
    except (LookupError, ValueError):
        found = ""
    # A text whose declaration can be read has bytes for its letters, whatever it says.
    found = "utf-8" if found.startswith(("utf-16", "utf-32")) else _AS_BROWSERS.get(found, found)
    if not _KNOWN.fullmatch(found):
        raise Damaged(f"its encoding `{name}` is not known")
    return found
