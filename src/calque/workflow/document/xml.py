"""XML as it is written: its tags, comments and texts, and which tags belong together."""

import html
import itertools
import re
from collections.abc import Iterator, Sequence
from xml.parsers import expat

from calque.workflow.document.encoded import Damaged, decoded

_TOKEN = re.compile(
    r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|</?([^\s/>\"'=<]+)(?:[^<>\"']+|\"[^\"]*\"|'[^']*')*+>|[^<]+", re.DOTALL
)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)


class Xml:
    """A text of XML in tokens, which together are the text.

    names  of each token: the name of its element, with a slash in front of that of an end tag; empty for text and the rest
    ends   of each token: the number of the end tag of its element; for all that begins none, its own number
    """

    def __init__(self, body: bytes):
        """Raises Damaged."""
        self.source = decoded(body)
        text = self.source.text
        _check(text)
        self.tokens: list[str] = []
        self.names: list[str] = []
        for found in _TOKEN.finditer(text):
            self.tokens.append(found[0])
            name = found[1] if found[1] and not found[1].startswith("!") else ""
            self.names.append(("/" if found[0].startswith("</") else "") + name)
        if sum(map(len, self.tokens)) != len(text):
            raise Damaged("where its tags begin and end is not clear")
        self.ends = [*range(len(self.tokens))]
        opened: list[int] = []
        for k, name in enumerate(self.names):
            if name.startswith("/"):
                self.ends[opened.pop()] = k
            elif name and not self.tokens[k].endswith("/>"):
                opened.append(k)

    def text(self, first: int, end: int) -> str:
        """The tokens [first, end) as they are written."""
        return "".join(self.tokens[first:end])

    def children(self, first: int, end: int) -> Iterator[int]:
        """The first tokens of the elements and texts that lie in the tokens [first, end), not those inside them."""
        at = first
        while at < end:
            yield at
            at = self.ends[at] + 1

    def prefix(self, namespace: str) -> str | None:
        """What stands in front of names of this namespace, a regular expression, such as `w:`; None where it is not declared."""
        declared = re.compile(rf"\sxmlns(?::([^\s=]+))?\s*=\s*[\"'](?:{namespace})[\"']")
        tags = itertools.islice((t for t, name in zip(self.tokens, self.names, strict=True) if name), 20)
        found = next(filter(None, map(declared.search, tags)), None)
        return None if found is None else f"{found[1]}:" if found[1] else ""


def text_of(tokens: Sequence[str]) -> str:
    """The escaped text of tokens, without comments."""
    parts = (_CDATA.sub(lambda found: html.escape(found[1], quote=False), token) for token in tokens)
    return "".join(part for part in parts if not part.startswith("<"))


def _check(text: str) -> None:
    """Raises Damaged."""
    parser = expat.ParserCreate("utf-8")  # whatever the text declares

    def declared(name: str, system: str | None, public: str | None, inside: bool) -> None:
        if inside:
            raise Damaged("it has a document type of its own")

    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as fault:
        raise Damaged(str(fault)) from fault
