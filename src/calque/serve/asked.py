"""Requests as values: bodies of bounded size, JSON and forms, checked field by field."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from calque.ground.languages import LanguagePair
from calque.serve.settings import ServeSettings

PATIENCE = 30.0
"""Seconds in which the body of a request must have come."""
DROPPED = 64 * 1024 * 1024
"""Most bytes of a body that is too long that are read before it is refused."""
MOST_FIELDS = 1000
FIELDS = 65_536
"""Bytes of what a form has beside its file."""
_REPAIRED = str.maketrans(dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd"))
"""What cannot be sent back, or read as text."""


class Refused(Exception):
    """A request that is answered with an error; `again`: the seconds after which it may be repeated."""

    def __init__(self, status: int, message: str, again: float | None = None):
        super().__init__(message)
        self.status, self.message, self.again = status, message, again


class Asked(NamedTuple):
    """A request to translate."""

    texts: list[str]
    many: bool
    """whether it sent a list"""
    pair: LanguagePair
    html: bool
    alternatives: int


class SentFile(NamedTuple):
    """A file that a request brought, and its other fields."""

    name: str
    body: bytes
    values: Mapping[str, object]


async def file_of(request: Request, most: int) -> SentFile:
    """The file of a request, at most so many bytes. Raises Refused."""
    if _kind(request) != "multipart/form-data":
        raise Refused(415, "expected a body of type multipart/form-data")
    try:
        body = await _body(request, most + FIELDS)
    except Refused as fault:
        raise Refused(413, f"expected a file of at most {most} bytes") if fault.status == 413 else fault from None
    sent = await _multipart(request, body, most, 1)
    file = next((value for name, value in sent if name == "file" and not isinstance(value, str)), None)
    if file is None or not file[0]:
        raise Refused(400, "expected `file`, the file to translate, found none")
    if len(file[1]) > most:
        raise Refused(413, f"expected a file of at most {most} bytes")
    return SentFile(*file, _listed(_texts_of(sent)))


def _kind(request: Request) -> str:
    """The type of a body. Raises Refused for one that is encoded."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Refused(415, "bodies with a content encoding are not read")
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def values_of(request: Request, most: int) -> Mapping[str, object]:
    """The fields of a request, JSON or form. Raises Refused."""
    kind, body = _kind(request), await _body(request, most)
    if kind == "application/json" or kind.endswith("+json"):
        return _json(body)
    if kind == "application/x-www-form-urlencoded":
        return _form(body)
    if kind == "multipart/form-data":
        return _listed(_texts_of(await _multipart(request, body, most, 0)))
    raise Refused(
        415, "expected a body of type application/json, application/x-www-form-urlencoded or multipart/form-data"
    )


async def _drop(request: Request) -> None:
    """Reads a body that is too long, up to a bound: many clients see an answer only when they have sent everything."""
    left = DROPPED
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(PATIENCE / 4):
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    return


async def _body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length[:20]) > most:
        await _drop(request)
        raise Refused(413, f"expected a body of at most {most} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise Refused(413, f"expected a body of at most {most} bytes")
    except TimeoutError:
        raise Refused(408, f"the body did not come within {PATIENCE:.0f} s") from None
    except ClientDisconnect:
        raise Refused(499, "the client has left") from None
    return bytes(body)


def _json(body: bytes) -> Mapping[str, object]:
    try:
        values = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Refused(400, "the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(values, dict):
        raise Refused(400, "expected a JSON object")
    return values


def _form(body: bytes) -> Mapping[str, object]:
    try:
        fields = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:  # UnicodeDecodeError too
        raise Refused(400, "the form is not UTF-8, or has too many fields") from None
    return _listed(fields)


def _listed(fields: list[tuple[str, str]]) -> Mapping[str, object]:
    """A form as an object: several fields `q` are a list, of others the last counts."""
    values: dict[str, object] = dict(fields)
    texts = [value for name, value in fields if name == "q"]
    if len(texts) > 1:
        values["q"] = texts
    return values


Field = tuple[str, str | tuple[str, bytes]]
"""The name of a field, and its value: a text, or a file with its own name."""


def _texts_of(fields: Sequence[Field]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in fields if isinstance(value, str)]


async def _read(value: str | UploadFile) -> str | tuple[str, bytes]:
    return value if isinstance(value, str) else (value.filename or "", await value.read())


async def _multipart(request: Request, body: bytes, most: int, files: int) -> list[Field]:
    """The fields of a form in parts. Raises Refused."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        whole = Request(request.scope, receive)
        async with whole.form(max_files=files, max_fields=MOST_FIELDS, max_part_size=most) as form:
            return [(name, await _read(value)) for name, value in form.multi_items()]
    except (MultiPartException, ValueError, KeyError, LookupError, AssertionError):
        raise Refused(400, "the form cannot be read") from None
    except Exception as fault:  # Starlette turns its own error into an answer where the scope has an application
        if getattr(fault, "status_code", None) == 400:
            raise Refused(400, "the form cannot be read") from None
        raise


def asked_of(values: Mapping[str, object], pairs: Mapping[LanguagePair, object], settings: ServeSettings) -> Asked:
    """A checked request to translate. Raises Refused."""
    texts, many = _texts(values.get("q"), settings)
    pair = pair_of(values, pairs)
    kind = values.get("format")
    kind = "text" if kind in (None, "") else kind
    if kind not in ("text", "html"):
        raise Refused(400, "expected `format` text or html")
    return Asked(texts, many, pair, kind == "html", _alternatives(values.get("alternatives"), settings.alternatives))


def _texts(q: object, settings: ServeSettings) -> tuple[list[str], bool]:
    if q is None or q == []:
        raise Refused(400, "expected `q`, the text to translate, found none")
    texts = q if isinstance(q, list) else [q]
    if len(texts) > settings.texts:
        raise Refused(400, f"expected at most {settings.texts} texts, found {len(texts)}")
    checked = [text for text in texts if isinstance(text, str)]
    if len(checked) < len(texts):
        raise Refused(400, "expected `q` to be a string or a list of strings")
    if (characters := sum(map(len, checked))) > settings.characters:
        raise Refused(400, f"expected at most {settings.characters} characters, found {characters}")
    return [text.translate(_REPAIRED) for text in checked], isinstance(q, list)


def pair_of(values: Mapping[str, object], pairs: Mapping[LanguagePair, object]) -> LanguagePair:
    """The languages of a request. Raises Refused."""
    codes: list[str] = []
    for name in ("source", "target"):
        code = values.get(name)
        if not isinstance(code, str) or not code:
            raise Refused(400, f"expected `{name}`, the code of a language")
        if name == "source" and code == "auto":
            raise Refused(400, "this server does not detect languages: name the `source`")
        known = {pair[len(codes)] for pair in pairs}
        folded = {_folded(one): one for one in known}
        if code not in known and _folded(code) not in folded:
            raise Refused(400, f"expected `{name}` to be one of {', '.join(sorted(known))}")
        codes.append(code if code in known else folded[_folded(code)])
    pair = LanguagePair(*codes)
    if pair not in pairs:
        raise Refused(400, f"there is no translation from {pair.source} to {pair.target}")
    return pair


def _folded(code: str) -> str:
    return code.replace("_", "-").lower()


def _alternatives(given: object, most: int) -> int:
    if given is None or given == "":
        return 0
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
        raise Refused(400, f"expected `alternatives` from 0 to {most}")
    return given
