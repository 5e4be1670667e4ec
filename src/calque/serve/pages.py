"""The static pages of a server."""

from importlib import resources

from fastapi import FastAPI, Response
from fastapi.responses import RedirectResponse

_FILES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def add_pages(app: FastAPI, page: bool) -> None:
    """The static pages: that of the interface, and where `page` the one to translate in."""
    names = ["docs.html", "docs.js", "page.css", *(["index.html", "page.js", "engine.js"] if page else [])]
    held = {name: resources.files(__package__).joinpath("page", name).read_bytes() for name in names}

    def add(path: str, name: str) -> None:
        async def file() -> Response:
            kind = _FILES[name[name.rindex(".") :]]
            return Response(held[name], headers={"content-type": f"{kind}; charset=utf-8", "cache-control": "no-cache"})

        app.add_api_route(path, file, include_in_schema=False)

    for name in names:
        if not name.endswith(".html"):
            add(f"/page/{name}", name)
    add("/docs", "docs.html")
    if page:
        add("/", "index.html")
        return

    @app.get("/", include_in_schema=False)
    async def to_docs() -> Response:
        return RedirectResponse("docs")
