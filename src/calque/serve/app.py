"""The application: LibreTranslate's routes over the batches."""

import asyncio
import bisect
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from calque.ground.languages import LanguagePair, languages
from calque.ground.version import VERSION
from calque.serve.asked import Asked, Refused, asked_of, file_of, pair_of, values_of
from calque.serve.batches import Batcher, LineTooLong, Order, QueueFull
from calque.serve.files import AT_ONCE, PATIENCE, RETRY, Files, SentDocument
from calque.serve.guard import Guard, refusal
from calque.serve.limits import Keys, Rates
from calque.serve.metrics import FORMAT, Metrics
from calque.serve.pages import add_pages
from calque.serve.runs import RunUnavailable
from calque.serve.schema import FAULTS, TRANSLATE, TRANSLATE_FILE, Fault, Health, Language, Translated, TranslatedFile
from calque.serve.settings import ServeSettings, read_keys
from calque.workflow.document.formats import FORMATS
from calque.workflow.document.layout import Layout, Lines
from calque.workflow.document.markup import html_layout

BEGINNING = 40
"""Characters that a refusal quotes of a line."""


class Service:
    """What the routes share: the batches, the keys, the rates, the figures."""

    def __init__(self, batcher: Batcher, settings: ServeSettings, metrics: Metrics):
        self.batcher, self.settings, self.metrics = batcher, settings, metrics
        self.keys = None if settings.keys is None else Keys(read_keys(settings.keys))
        self.rates, self.files = Rates(), Files(settings.file_bytes)
        self.languages = languages(batcher.runs.folders)

    def admit(self, request: Request, key: object) -> None:
        """Checks the key and the rate of a client. Raises Refused."""
        rate, client = self.settings.rate, request.client.host if request.client else ""
        if self.keys is not None:
            if not isinstance(key, str) or not key:
                raise Refused(403, "this server needs an API key, in the field `api_key`")
            if key not in self.keys:
                raise Refused(403, "the API key is not known")
            rate, client = self.keys.rate(key, rate), key
        if wait := self.rates.wait(client, rate):
            raise Refused(429, f"at most {rate} requests per minute", wait)

    def frontend(self) -> dict[str, object]:
        """The answer of `/frontend/settings`."""
        names = {str(one["code"]): one["name"] for one in self.languages}
        source, target = ({"code": code, "name": names[code]} for code in next(iter(self.batcher.runs.folders)))
        return {
            "apiKeys": self.keys is not None,
            "keyRequired": self.keys is not None,
            "charLimit": self.settings.characters,
            "frontendTimeout": 500,
            "suggestions": False,
            "filesTranslation": bool(self.settings.files),
            "supportedFilesFormat": [f".{ending}" for ending in FORMATS] if self.settings.files else [],
            "language": {"source": source, "target": target},
        }

    async def translate(self, request: Request) -> Response:
        """The answer of `/translate`. Raises Refused."""
        values = await values_of(request, self.settings.body)
        self.admit(request, values.get("api_key"))
        asked = asked_of(values, self.batcher.runs.folders, self.settings)
        lines, inline = Lines(self.settings.sentences), self.batcher.runs.can_share(asked.pair)
        layout = partial(html_layout, lines=lines, inline=inline) if asked.html else lines.plain
        layouts, ends = await asyncio.to_thread(_laid_out, asked.texts, layout, lines)
        characters = sum(map(len, asked.texts))
        request.state.noted = {
            "pair": str(asked.pair),
            "texts": len(asked.texts),
            "lines": len(lines.lines),
            "characters": characters,
        }
        most = self.batcher.most
        if len(lines.lines) > most:
            raise Refused(400, f"expected at most {most} lines, found {len(lines.lines)}")

        def where(line: int) -> str:
            return f"in text {bisect.bisect(ends, line) + 1}, the line" if asked.many else "the line"

        wanted = (lines.lines, 1 + asked.alternatives, lines.aligned)
        order = await self._answered(request, asked.pair, wanted, where)
        self._count(asked.pair, len(lines.lines), characters)
        return JSONResponse(await asyncio.to_thread(_answer, asked, layouts, order))

    async def translate_file(self, request: Request) -> Response:
        """The answer of `/translate_file`. Raises Refused."""
        if not self.settings.files:
            raise Refused(404, "this server translates no files")
        sent = await file_of(request, self.settings.file_bytes)
        self.admit(request, sent.values.get("api_key"))
        pair = pair_of(sent.values, self.batcher.runs.folders)
        with self.files.place():
            inline = self.batcher.runs.can_share(pair)
            document = await asyncio.to_thread(SentDocument, sent.name, sent.body, inline, self.settings.file_bytes)
            counted = {"lines": len(document.sentences), "characters": document.characters}
            request.state.noted = {"pair": str(pair), "files": 1, **counted}
            for lines, aligned in document.parts(max(1, self.batcher.most // (2 * AT_ONCE))):
                document.put(await self._in_turn(request, pair, (lines, 1, aligned)))
            body = await asyncio.to_thread(document.written)
        self._count(pair, **counted)
        number = self.files.keep(sent.name, pair.target, body)
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", number=number))})

    async def _in_turn(
        self, request: Request, pair: LanguagePair, wanted: tuple[Sequence[str], int, Collection[int]]
    ) -> Order:
        """The translations of a part of a file, which waits for room in the queue."""
        for _ in range(round(PATIENCE / RETRY)):
            try:
                return await self._answered(request, pair, wanted, lambda line: "the sentence")
            except Refused as fault:
                if fault.status != 429:
                    raise
                await asyncio.sleep(RETRY)
        raise Refused(429, "the queue is full: try again", 5)

    def download(self, number: str) -> Response:
        """The answer of `/download_file`. Raises Refused."""
        if (kept := self.files.fetch(number)) is None:
            raise Refused(404, "this file is not there, or not any more")
        return Response(kept.body, headers=kept.headers, media_type="application/octet-stream")

    def _count(self, pair: LanguagePair, lines: int, characters: int) -> None:
        self.metrics.lines.labels(str(pair)).inc(lines)
        self.metrics.characters.labels(str(pair)).inc(characters)

    async def _answered(
        self,
        request: Request,
        pair: LanguagePair,
        wanted: tuple[Sequence[str], int, Collection[int]],
        where: Callable[[int], str],
    ) -> Order:
        """The translations of lines, so many of each, some of them aligned. `where`: how a refusal names a line."""
        lines, n_best, aligned = wanted
        try:
            order = self.batcher.submit(pair, lines, n_best, aligned)
        except QueueFull:
            raise Refused(429, "the queue is full: try again", 1) from None
        try:
            await self._awaited(request, order)
            return order
        except LineTooLong as fault:
            begins = json.dumps(lines[fault.line][:BEGINNING], ensure_ascii=False)
            size = f"has {fault.found} subwords, and at most {fault.most} are translated"
            raise Refused(400, f"{where(fault.line)} that begins with {begins} {size}") from None
        except RunUnavailable:
            raise Refused(503, f"the run for {pair} cannot be opened now", 5) from None

    async def _awaited(self, request: Request, order: Order) -> None:
        """Waits for the translations of an order. Raises Refused where its client leaves before, and what the order ends with."""
        answer = asyncio.wrap_future(order.answer)
        left = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
                return
            self.metrics.left.inc()
            raise Refused(499, "the client has left")
        finally:
            left.cancel()
            if not answer.done():
                self.batcher.leave(order)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _laid_out(texts: Sequence[str], layout: Callable[[str], Layout], lines: Lines) -> tuple[list[Layout], list[int]]:
    """Each text without its lines, which are added to `lines`, and how many these are behind it."""
    layouts, ends = [], []
    for text in texts:
        layouts.append(layout(text))
        ends.append(len(lines.lines))
    return layouts, ends


def _texts(layouts: Sequence[Layout], order: Order, rank: int) -> list[str]:
    """The texts with the translations of this rank of each line, or with the best."""
    ranks = [rank if rank < len(each) else 0 for each in order.results]
    best = [each[k].text for k, each in zip(ranks, order.results, strict=True)]
    shares = {number: each[ranks[number]] for number, each in order.shares.items()}
    return [layout.fill(best, shares) for layout in layouts]


def _answer(asked: Asked, layouts: Sequence[Layout], order: Order) -> dict[str, object]:
    """The texts with their translations. A line that has fewer translations than others repeats its best."""

    first = _texts(layouts, order, 0)
    answer: dict[str, object] = {"translatedText": first if asked.many else first[0]}
    if asked.alternatives:
        others: list[list[str]] = [[] for _ in layouts]
        for rank in range(1, 1 + asked.alternatives):
            for k, text in enumerate(_texts(layouts, order, rank)):
                if text != first[k] and text not in others[k]:
                    others[k].append(text)
        answer["alternatives"] = others if asked.many else others[0]
    return answer


def application(
    batcher: Batcher, settings: ServeSettings, metrics: Metrics, log: Callable[..., None]
) -> tuple[FastAPI, ASGIApp]:
    """The application, and the same with its guard, which is what a server runs."""
    service = Service(batcher, settings, metrics)

    @contextlib.asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(title="Calque", version=VERSION, docs_url=None, redoc_url=None, lifespan=alive)
    app.add_middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"], max_age=600
    )
    _errors(app)
    _routes(app, service)
    _file_routes(app, service)
    _state(app, service)
    add_pages(app, settings.page)
    routes = frozenset(path for route in app.routes if (path := getattr(route, "path", None)))
    return app, Guard(app, settings.open_requests, settings.body, metrics, log, routes)


def _errors(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(request: Request, fault: Refused) -> Response:
        return refusal(fault.status, fault.message, fault.again)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, fault: HTTPException) -> Response:
        known = {404: "there is nothing at this address", 405: "this address has another method"}
        answer = refusal(fault.status_code, known.get(fault.status_code, "the request cannot be read"))
        answer.headers.update(fault.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def failed(request: Request, fault: Exception) -> Response:
        return refusal(500, "internal error")  # and the fault goes on to the guard, which logs it


def _routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/translate",
        response_model=Translated,
        responses=FAULTS,
        openapi_extra=TRANSLATE,
        summary="Translate one text or a list of texts",
        response_description="the translations",
    )
    async def translate(request: Request) -> Response:
        return await service.translate(request)

    @app.post(
        "/detect",
        status_code=404,
        response_model=Fault,
        summary="Not offered: this server detects no languages",
        response_description="an error that says so",
    )
    async def detect() -> Response:
        return refusal(404, "this server does not detect languages")

    @app.get(
        "/languages",
        response_model=list[Language],
        summary="The languages, each with those it is translated into",
        response_description="codes, names and targets",
    )
    async def all_languages() -> Response:
        return JSONResponse(service.languages)

    @app.get("/frontend/settings", summary="What a page needs to know", response_description="limits and languages")
    async def frontend() -> dict[str, object]:
        return service.frontend()


def _file_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/translate_file",
        response_model=TranslatedFile,
        responses=FAULTS,
        openapi_extra=TRANSLATE_FILE,
        summary="Translate a document, a book or subtitles",
        response_description="where the translation is for ten minutes",
    )
    async def translate_file(request: Request) -> Response:
        return await service.translate_file(request)

    @app.get(
        "/download_file/{number}",
        response_class=Response,
        responses={404: {"model": Fault, "description": "it is not there, or not any more"}},
        summary="Fetch a file that was translated",
        response_description="the file",
    )
    async def download_file(number: str) -> Response:
        return service.download(number)


def _state(app: FastAPI, service: Service) -> None:
    """Whether the server works, and its figures."""

    @app.get(
        "/health",
        response_model=Health,
        responses={503: {"model": Health, "description": "it does not"}},
        summary="Whether the server works",
        response_description="it works",
    )
    async def health() -> Response:
        alive = service.batcher.alive
        return JSONResponse({"status": "ok" if alive else "failed"}, 200 if alive else 503)

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        summary="Figures for Prometheus",
        response_description="the figures",
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), headers={"content-type": FORMAT})
