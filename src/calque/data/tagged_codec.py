"""Sources all of which begin with the same symbol."""

from calque.data.codecs import SPACES, Codec
from calque.data.rewriting_codec import RewritingCodec
from calque.ground.diagnostics import Place


def tagged(codec: Codec, tag: str) -> Codec:
    """The codec, with this symbol in front of every line that has words; without a tag the codec itself. Raises D209."""
    return TaggedCodec(codec, tag) if tag else codec


class TaggedCodec(RewritingCodec):
    """A codec with a symbol in front of every line that has words; the symbol belongs to the first of them.

    `others`: lines that begin with a symbol already keep it alone.
    """

    def __init__(self, codec: Codec, tag: str, others: bool = False, place: Place | None = None):
        """Raises D209 at `place` where the codec has no such symbol."""
        codec.check_symbol(tag, place)
        super().__init__(codec)
        self.tag, self.others = tag, others

    def line(self, line: str) -> str:
        words = line.split(None, 1) if line.strip(SPACES) else []
        return f"{self.tag} {line}" if words and not (self.others and words[0] in self.symbols) else line

    def words(self, line: str) -> list[int]:
        written = self.line(line)
        before = 0 if written is line else 1
        return [max(0, number - before) for number in self.codec.words(written)]
