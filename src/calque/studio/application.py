"""The application: the page's files, and one address for each question that the page asks."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque import zoo
from calque.adl.declaration import Library
from calque.demo.run import TEXT
from calque.ground.diagnostics import CalqueError, Diagnostic, Text, error
from calque.ground.version import VERSION
from calque.studio.checked import checked_json, compared_json
from calque.studio.faults import faults_json
from calque.studio.guard import Guard
from calque.studio.jobs import Jobs
from calque.studio.offsets import Offsets
from calque.studio.reports import report_file
from calque.studio.requests import (
    PlayToResume,
    RunsToAnalyse,
    SentenceToTranslate,
    TextsToCompare,
    TextToCheck,
    TextToPlay,
    TextToProve,
)
from calque.studio.translating import TrainedRuns
from calque.studio.words import words_json, zoo_json

if TYPE_CHECKING:
    from fastapi import FastAPI, Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

PAGE = Path(__file__).parent / "page"


def application(library: Library, jobs: Jobs, runs: TrainedRuns, port: int) -> "ASGIApp":
    """The guarded application. `library` holds the layers that texts may name."""
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.responses import FileResponse
    from starlette.staticfiles import StaticFiles

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        checked_json(TextToCheck(text=TEXT), library)  # what it imports is there before the first key is pressed
        yield
        jobs.end()

    # No page that describes the addresses: it would load its scripts from another host.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_exception_handler(CalqueError, _fault)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    _add_language(app, library)
    _add_work(app, jobs)
    _add_runs(app, runs)
    _add_reports(app, jobs, runs)

    @app.get("/")
    def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/favicon.ico")
    def icon() -> FileResponse:  # asked for by browsers that show a report
        return FileResponse(PAGE / "icon.svg")

    app.mount("/page", StaticFiles(directory=PAGE))
    return Guard(app, port)


def _add_language(app: "FastAPI", library: Library) -> None:
    """What needs no weights."""

    @app.get("/api/words")
    def words() -> dict[str, object]:
        return {**words_json(library), "zoo": zoo_json(), "start": TEXT, "version": VERSION}

    @app.get("/api/zoo/{name:path}")
    def architecture(name: str) -> dict[str, object]:
        return {"name": name, "text": zoo.read(name).body}

    @app.post("/api/check")
    def check(asked: TextToCheck) -> dict[str, object]:
        return checked_json(asked, library)

    @app.post("/api/compare")
    def compare(asked: TextsToCompare) -> dict[str, object]:
        return compared_json(asked, library)


def _add_work(app: "FastAPI", jobs: Jobs) -> None:
    """What takes seconds or minutes."""

    @app.post("/api/prove")
    def prove(asked: TextToProve) -> dict[str, object]:
        return jobs.start("prove", asked.model_dump()).report(0)

    @app.post("/api/play")
    def play(asked: TextToPlay) -> dict[str, object]:
        return jobs.start("play", asked.model_dump()).report(0)

    @app.get("/api/jobs")
    def running() -> dict[str, object]:
        return {"jobs": jobs.running()}

    @app.get("/api/jobs/{key}")
    def job(key: str, after: int = 0) -> dict[str, object]:
        return jobs.find(key).report(after)

    @app.post("/api/jobs/{key}/stop")
    def stop(key: str) -> dict[str, object]:
        jobs.find(key).stop()
        return {"job": key}

    @app.post("/api/jobs/{key}/resume")
    def resume(key: str, asked: PlayToResume) -> dict[str, object]:
        text = jobs.find(key, "play").asked["text"]
        return jobs.again(key, {"text": text, "seconds": asked.seconds}).report(10**9)


def _add_runs(app: "FastAPI", runs: TrainedRuns) -> None:
    """What trained models do."""

    @app.get("/api/runs")
    def names() -> dict[str, object]:
        return {"runs": runs.names()}

    @app.post("/api/translate")
    def translate(run: str, asked: SentenceToTranslate) -> dict[str, object]:
        return runs.translate(run, asked)


def _add_reports(app: "FastAPI", jobs: Jobs, runs: TrainedRuns) -> None:
    """Analyses, and the files of their reports."""
    from starlette.responses import FileResponse

    @app.post("/api/analyse")
    def analyse(asked: RunsToAnalyse) -> dict[str, object]:
        folders = [str(runs.path(name).resolve()) for name in dict.fromkeys(asked.runs)]
        return jobs.start("analyse", {"runs": folders, "lines": asked.lines}).report(0)

    @app.get("/report/{key}/{name}")
    def report(key: str, name: str) -> FileResponse:
        job = jobs.find(key)
        path = report_file(jobs.folder, job.asked, name) if job.kind == "analyse" else None
        if path is None:
            raise error("K448", None, name=name)
        return FileResponse(path)


def _fault(request: "Request", fault: Exception) -> "Response":
    """A fault that a person caused, as data."""
    assert isinstance(fault, CalqueError)
    found = faults_json(fault.diagnostics, Offsets(Text("", "")))
    return _answer({"error": found[0], "faults": found}, 400)


def _invalid(request: "Request", fault: Exception) -> "Response":
    """A request of another form than the page's: where it differs, without what was sent."""
    errors: list[Mapping[str, Any]] = getattr(fault, "errors")()  # noqa: B009  of FastAPI's class, imported when it is needed
    first = errors[0] if errors else {"loc": (), "msg": "nothing"}
    return _unread(".".join(str(part) for part in first["loc"])[:100], str(first["msg"]), 422)


def _refused(request: "Request", fault: Exception) -> "Response":
    """A request that is no text, or to an address that is not there."""
    from starlette.exceptions import HTTPException

    assert isinstance(fault, HTTPException)
    return _unread(request.url.path[:100], str(fault.detail), fault.status_code, fault.headers)


def _unread(where: str, reason: str, status: int, headers: Mapping[str, str] | None = None) -> "Response":
    diagnostic = Diagnostic("K447", None, {"where": where, "reason": reason.lower()[:200]})
    return _answer({"error": faults_json([diagnostic], Offsets(Text("", "")))[0]}, status, headers)


def _answer(body: Mapping[str, object], status: int, headers: Mapping[str, str] | None = None) -> "Response":
    from starlette.responses import JSONResponse

    return JSONResponse(dict(body), status, headers)
