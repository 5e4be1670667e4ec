"""Who may talk to the studio: pages that it served itself, on this machine, with bodies of a bounded size."""

import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from calque.ground.diagnostics import Diagnostic
from calque.studio.faults import fault_json

LARGEST_BODY = 1_000_000
"""Bytes of a request."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Sent with every answer. The editor writes its style sheet into the page, so styles may be inline; scripts may not."""


class Guard:
    """Refuses requests for another host, from the pages of another origin, and with large bodies.

    A page elsewhere can send requests to this machine; its origin betrays it. A name that leads to 127.0.0.1 betrays itself as the
    host. Raises nothing: it answers 403 (K441) or 413 (K442).
    """

    def __init__(self, app: ASGIApp, port: int):
        self.app = app
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if (stranger := self.stranger(scope["path"], headers)) is not None:
            await _refuse(send, 403, Diagnostic("K441", None, {"found": stranger}))
            return
        body = await _body(receive)
        if body is None:
            await _refuse(send, 413, Diagnostic("K442", None, {"limit": f"{LARGEST_BODY:,}"}))
            return
        await self.app(scope, _replay(body, receive), _with_headers(send))

    def stranger(self, path: str, headers: Mapping[str, str]) -> str | None:
        """The host or origin that may not talk to the studio; None where all is well."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return host or "no host"
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            return origin
        site = headers.get("sec-fetch-site", "same-origin")
        # A link in a mail may open the page; only the page itself may ask for more.
        return None if site in ("same-origin", "none") or path == "/" else site


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None where it is too large."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            return None
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """The messages of a request whose body is read already."""
    sent = False

    async def read() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_headers()]
        await send(message)

    return answer


def _headers() -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _refuse(send: Send, status: int, fault: Diagnostic) -> None:
    body = json.dumps({"error": fault_json(fault)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_headers()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
