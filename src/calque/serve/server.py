"""The server as a process: its socket, its signals, its end."""

import asyncio
import contextlib
import errno
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

from calque.ground.diagnostics import error
from calque.serve.app import application
from calque.serve.asked import PATIENCE
from calque.serve.batches import Batcher
from calque.serve.logs import Log, ServerMessages
from calque.serve.metrics import Metrics
from calque.serve.pairs import folders_by_pair, of_pairs
from calque.serve.runs import OpenRuns
from calque.serve.settings import ServeSettings

if TYPE_CHECKING:
    from calque.serve.apart import ServedRun

BACKLOG = 128
"""Connections that may wait to be accepted. Without descriptors left, asyncio tries to accept so many at each look."""
FILES = 128
"""Descriptors that are kept for files."""
LAST = 300
"""Seconds that a server that has been told to end gives to what it has begun."""
_UNREADABLE = b'{"error":"this is not an HTTP request"}'


def serve(
    folders: Sequence[Path],
    named: Sequence[str],
    open_run: "Callable[[Path], ServedRun]",
    settings: ServeSettings,
    threads: int | None = None,
    log: Log | None = None,
    ready: Callable[[str, Callable[[], None]], None] = lambda address, end: None,
    terms: Sequence[str] = (),
    memories: Sequence[tuple[str, Path, Path]] = (),
) -> None:
    """Serves runs until SIGINT or SIGTERM; then finishes what was begun.

    `ready` is called with the address and a function that ends the server.

    Raises K420 to K426, D209 for a tag that is no symbol of its run, what the opening of a run raises, and what reading its terms
    and its memory raises.
    """
    pairs = folders_by_pair(folders, named)
    log, metrics = log or Log(), Metrics()
    with listening(settings) as sock:
        runs = OpenRuns(pairs, open_run, settings.in_memory, log, of_pairs(pairs, named, terms, memories))
        batcher = Batcher(runs, settings.queue, settings.batch, settings.window, threads, metrics.batch, log)
        metrics.watch(batcher)
        _, guarded = application(batcher, settings, metrics, log)
        runs.start()
        batcher.start()
        try:
            server = _Server(_configuration(guarded, settings, log))
            ready(address_of(sock, settings.host), server.end)
            server.run([sock])
        finally:
            batcher.close()
            runs.close()
            log("ended")


@contextlib.contextmanager
def listening(settings: ServeSettings) -> Iterator[socket.socket]:
    """The socket of a server. Raises K421 where the system refuses it, with what is at fault: the address, or the port."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(where)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
    except (OSError, UnicodeError) as fault:
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        raise error("K421", None, host=settings.host, port=settings.port, reason=reason, **_instead(fault)) from None
    with sock:
        yield sock


def _instead(fault: Exception) -> dict[str, Any]:
    """An address or a port to listen on instead."""
    number = getattr(fault, "errno", None)
    if isinstance(fault, socket.gaierror | UnicodeError) or number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return {"local": ServeSettings.host}
    return {"free": 0} if number in (errno.EADDRINUSE, errno.EACCES) else {}


def address_of(sock: socket.socket, host: str) -> str:
    """The address to type into a browser."""
    host = host or str(sock.getsockname()[0])  # an empty name: every address
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"


class _Server(uvicorn.Server):
    """A server whose end by a signal is its normal end; a second Ctrl-C ends it at once."""

    def end(self) -> None:
        """Has the server finish what was begun, and end."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Protocol(H11Protocol):
    """HTTP whose answer to what is no HTTP is JSON too, and whose connections wait for no client for ever."""

    _late: asyncio.TimerHandle | None = None
    """closes the connection if the head of its next request has not come by then"""
    _unread: asyncio.TimerHandle | None = None
    """closes the connection if its client has taken nothing of what was written by then"""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > _most_connections():
            transport.abort()
            return
        transport.set_write_buffer_limits(0)  # what the system does not take at once pauses
        self._late = self.loop.call_later(PATIENCE, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._in_time()
        elif self._late is None:
            self._late = self.loop.call_later(PATIENCE, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def _wait(self) -> None:
        self._unread = self.loop.call_later(PATIENCE, self._look, self.transport.get_write_buffer_size())

    def _look(self, left: int) -> None:
        """Leaves a client that has taken nothing of what was left; a slow one may go on."""
        if self.transport.get_write_buffer_size() < left:
            self._wait()
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken()

    def shutdown(self) -> None:
        super().shutdown()
        if self.cycle is not None and not self.cycle.response_started:  # so that its client asks elsewhere
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE_HEADER]

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:  # a body that breaks off: its request has no answer any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        length = str(len(_UNREADABLE)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        with contextlib.suppress(h11.LocalProtocolError):  # HEAD has no body, and another answer may have begun
            events = (answer, h11.Data(data=_UNREADABLE), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _most_connections() -> int:
    """Connections at once, so that descriptors are left for files and for those that are accepted together."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else max(most // 4, most - BACKLOG - FILES)


def _configuration(app: object, settings: ServeSettings, log: Log) -> uvicorn.Config:
    for name in ("uvicorn.error", "asyncio", "python_multipart"):
        messages = logging.getLogger(name)
        messages.handlers, messages.propagate = [ServerMessages(log)], False
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # any ASGI application
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.proxy,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=LAST,
        h11_max_incomplete_event_size=65_536,
        backlog=BACKLOG,
    )
