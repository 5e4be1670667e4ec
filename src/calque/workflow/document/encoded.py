"""Texts in the encoding that they declare, and written in it again."""

import codecs
import re
from typing import NamedTuple

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DECLARED = re.compile(
    rb"<\?xml[^>]*?\bencoding\s*=\s*[\"']([^\"'>]+)|<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE
)
_FIRST = 4096
"""Bytes in which a text declares its encoding."""
_AS_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
"""Encodings that browsers read as others, which have more characters."""


class Undecodable(ValueError):
    """Bytes that are no text; the message says why."""


class Encoded(NamedTuple):
    """A text, and how it was encoded."""

    text: str
    mark: bytes
    encoding: str

    def again(self, text: str) -> bytes:
        """Another text in the same encoding; characters that it lacks become references such as `&#8364;`."""
        return self.mark + text.encode(self.encoding, "xmlcharrefreplace")


def decoded(body: bytes, declares: bool = True) -> Encoded:
    """The text of these bytes: UTF-8 unless they begin otherwise. `declares`: it is HTML or XML. Raises Undecodable."""
    mark = next((mark for mark in _BOMS if body.startswith(mark)), b"")
    encoding = _BOMS.get(mark, "utf-8")
    if not mark and declares and (found := _DECLARED.search(body[:_FIRST])):
        encoding = _known((found[1] or found[2]).decode("latin-1"))
    try:
        return Encoded(body[len(mark) :].decode(encoding), mark, encoding)
    except UnicodeDecodeError as fault:
        at = f"byte 0x{body[fault.start + len(mark)]:02x} at {fault.start + len(mark)}"
        raise Undecodable(f"it is not {encoding.upper()}: {at}") from fault


def _known(name: str) -> str:
    """The encoding of this name. Raises Undecodable."""
    try:
        found = codecs.lookup(name).name
        b"".decode(found)  # some names are of what encodes no text
    except (LookupError, ValueError) as fault:
        raise Undecodable(f"its encoding `{name}` is not known") from fault
    # A text whose declaration can be read has bytes for its letters, whatever it says.
    return "utf-8" if found.startswith(("utf-16", "utf-32")) else _AS_BROWSERS.get(found, found)
