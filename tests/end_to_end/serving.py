"""A server in this process, and requests to it as its clients send them."""

import contextlib
import http.client
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from calque.serve.apart import ServedRun
from calque.serve.logs import Log
from calque.serve.runs import open_run as opened
from calque.serve.server import serve
from calque.serve.settings import ServeSettings


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends requests to an address."""

    def __init__(self, address: str, log: io.StringIO, end: Callable[[], None]):
        self.address, self.log, self.end = address, log, end
        where = urlsplit(address)
        self.host, self.port = where.hostname or "", where.port or 0

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return Answer(reply.status, reply.read(), {k.lower(): v for k, v in reply.getheaders()})

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def translate(self, q: object, **fields: object) -> Answer:
        body = json.dumps({"q": q, "source": "en", "target": "de", **fields}).encode()
        return self.send("POST", "/translate", body, {"Content-Type": "application/json"})


@contextlib.contextmanager
def served(
    folders: Sequence[Path],
    open_run: Callable[[Path], ServedRun] = opened,
    named: Sequence[str] = (),
    terms: Sequence[str] = (),
    memories: Sequence[tuple[str, Path, Path]] = (),
    **settings: Any,
) -> Iterator[Client]:
    """A server of runs while the block is open; its end is waited for."""
    began, found, log = threading.Event(), [], io.StringIO()

    def ready(address: str, end: Callable[[], None]) -> None:
        found.append(Client(address, log, end))
        began.set()

    def run() -> None:
        try:
            serve(folders, named, open_run, ServeSettings(port=0, **settings), 1, Log(log), ready, terms, memories)
        finally:
            began.set()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait(60)
    try:
        yield found[0]
    finally:
        if found:
            found[0].end()
        thread.join(120)
        assert not thread.is_alive()
