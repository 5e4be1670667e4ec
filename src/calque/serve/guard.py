"""What stands around every request: bounds on requests in progress, one clean answer whatever happens, the log and the figures."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from calque.serve.metrics import Metrics

SAFE = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"access-control-allow-origin": b"*",
    b"content-security-policy": b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
}
"""Headers of every answer: no page of the server loads anything from another host; those of others may read refusals, too."""
UNREAD = 64
"""Requests that may be without their bodies at once, however few may be in progress: a short queue refuses nobody for that."""
SHARE = 4
"""Of the requests without their bodies, 1 / SHARE may be of one address: no slow sender holds the places of all."""
DRAINED = 2.0
"""Seconds in which the rest of a refused body may come, so that its sender reads the answer."""


def refusal(status: int, message: str, again: float | None = None) -> JSONResponse:
    """An error as LibreTranslate's clients expect it."""
    headers = {} if again is None else {"Retry-After": str(max(1, round(again + 0.5)))}
    return JSONResponse({"error": message}, status, headers)


class Guard:
    """The outermost application."""

    def __init__(
        self, app: ASGIApp, most: int, body: int, metrics: Metrics, log: Callable[..., None], routes: frozenset[str]
    ):
        self.app, self._most, self._body = app, most, body
        self._metrics, self._log, self._routes = metrics, log, routes
        self._read = 0
        """Requests in progress whose bodies have come."""
        self._unread: Counter[str] = Counter()
        """The others, by address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = _Request(self, scope, receive, send)
        self._unread[request.address] += 1
        try:
            if scope["method"] == "POST" and self._full(request.address):
                await refusal(429, "too many requests at once: try again", 1)(scope, receive, request.send)
            else:
                # The server leaves out the body of an answer to HEAD.
                asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self.app(asked, request.receive, request.send)
        except Exception as fault:  # a fault of the server; what it says may hold texts
            self._log("fault", level="error", kind=type(fault).__name__, at=_place(fault))
            if not request.status:
                await refusal(500, "internal error")(scope, receive, request.send)
        finally:
            self.forget(request)
            self._note(request)

    def _full(self, address: str) -> bool:
        unread = max(UNREAD, self._most)
        slow = self._unread[address] > unread // SHARE
        return slow or self._read >= self._most or self._unread.total() > unread

    def came(self, address: str) -> None:
        """Counts a request whose body has come."""
        self._unread[address] -= 1
        self._read += 1

    def forget(self, request: "_Request") -> None:
        """Counts a request no longer."""
        if request.read:
            self._read -= 1
        else:
            self._unread[request.address] -= 1
        self._unread += Counter()  # without addresses that have none

    async def drain(self, request: "_Request") -> None:
        """Reads what is left of a body, up to its bound, and forgets it."""
        left = self._body
        try:
            async with asyncio.timeout(DRAINED):
                while left > 0 and not request.read:
                    left -= len((await request.receive()).get("body", b""))
        except TimeoutError:
            return

    def _note(self, request: "_Request") -> None:
        seconds = time.monotonic() - request.began
        path = request.scope["path"]
        route = path if path in self._routes else f"{path.rpartition('/')[0]}/{{number}}"  # of a file
        route = route if route in self._routes else "other"
        method = request.scope["method"] if request.scope["method"] in ("GET", "POST", "OPTIONS", "HEAD") else "other"
        self._metrics.answer(route, request.status or 499, seconds)
        noted = request.scope.get("state", {}).get("noted", {})
        self._log(
            "request", method=method, route=route, status=request.status or 499, ms=round(seconds * 1000, 1), **noted
        )


class _Request:
    """A request on its way: what has been read and sent."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send):
        self.guard, self.scope, self._receive, self._send = guard, scope, receive, send
        self.began, self.status, self.read = time.monotonic(), 0, False
        self.address = (scope.get("client") or ("",))[0]

    async def receive(self) -> Message:
        message = await self._receive()
        if not self.read and (message["type"] == "http.disconnect" or not message.get("more_body", False)):
            self.read = True
            self.guard.came(self.address)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= 400 and not self.read:
                await self.guard.drain(self)
            self.status = message["status"]
            present = {name for name, _ in message.get("headers", [])}
            message["headers"] = [*message.get("headers", []), *((k, v) for k, v in SAFE.items() if k not in present)]
        await self._send(message)


def _place(fault: BaseException) -> str:
    """The module and line where a fault arose; no path."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
