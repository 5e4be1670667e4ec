"""The settings of a server."""

from dataclasses import dataclass
from pathlib import Path

from calque.ground.diagnostics import Place, error


@dataclass(frozen=True)
class ServeSettings:
    """Limits and behaviour of a server. Times are in seconds.

    host, port   where it listens; port 0: a free one
    keys         a file of API keys; None: no key is needed
    rate         requests per minute of one key, or of one address without keys; 0: no bound
    characters   of all texts of a request together
    texts        in the list of one request
    alternatives that a request may ask for
    queue        lines that may wait; a request that would not fit is refused with 429
    batch        lines that are translated together, at most
    window       how long the first line of a batch waits for others
    in_memory    runs in memory at once
    sentences    whether a line is translated sentence by sentence
    page         whether there is a page to translate in
    files        the largest file that is translated, in megabytes; 0: none is
    proxy        whether the addresses of clients are those that a proxy on this machine names
    """

    host: str = "127.0.0.1"
    port: int = 5000
    keys: Path | None = None
    rate: int = 0
    characters: int = 10_000
    texts: int = 100
    alternatives: int = 10
    queue: int = 1000
    batch: int = 16
    window: float = 0.005
    in_memory: int = 4
    sentences: bool = False
    page: bool = False
    files: int = 0
    proxy: bool = False

    @property
    def body(self) -> int:
        """The most bytes of a request: every character may be escaped in twelve, and fields have names."""
        return 12 * self.characters + 100 * self.texts + 65_536

    @property
    def file_bytes(self) -> int:
        """The most bytes of a file."""
        return self.files * 10**6

    @property
    def open_requests(self) -> int:
        """Requests that may be in progress at once; each may hold one body, and most of them wait with at least one line."""
        return self.queue + 2 * self.batch


MOST_RATE = 10**6
"""Requests per minute, at most."""


def _is_rate(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= len(str(MOST_RATE)) and int(word) <= MOST_RATE


def read_keys(path: Path) -> dict[str, int | None]:
    """API keys with their own rate, None for that of the server: one per line, `KEY` or `KEY REQUESTS-PER-MINUTE`.

    Empty lines and lines that begin with # are left out. Raises K424 for another line, for a key that
    has another rate further up, and where there is no key.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else None
        raise error("K424", Place(str(path)), reason=reason.lower() if reason else "it is not UTF-8") from None
    keys: dict[str, int | None] = {}
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or (len(words) == 2 and not _is_rate(words[1])):
            reason = f"expected a key, or a key and its requests per minute, at most {MOST_RATE:,}"
            raise error("K424", Place(str(path), number), reason=reason, form="KEY 600")
        rate = int(words[1]) if len(words) == 2 else None
        earlier = first.setdefault(words[0], number)
        if keys.setdefault(words[0], rate) != rate:
            reason = f"this key has another rate in line {earlier}"
            raise error("K424", Place(str(path), number), reason=reason, earlier=earlier)
    if not keys:
        raise error("K424", Place(str(path)), reason="it holds no key", form="KEY 600")
    return keys
