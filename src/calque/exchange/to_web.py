"""Runs as web pages that translate in the browser, without a server of their own: `calque export RUN --to web`.

    index.html, page/        the page of `calque serve`, with another engine
    translator/              what cuts text, searches and joins pieces, in JavaScript
    model/                   three graphs and their numbers (`calque.exchange.graphs`), and model.json
    runtime/                 onnxruntime for browsers
    keep.js                  keeps all of it in the browser

Any architecture goes, since what a decoder carries from word to word is a value.
"""

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from calque.exchange.graphs import ABOUT, Search, write_graphs
from calque.exchange.page_text import text_of
from calque.exchange.to_argos import languages_of
from calque.exchange.weights import Exported
from calque.ground.diagnostics import Place, error
from calque.ground.languages import LanguagePair, languages

NAME = "a web page"
PRECISIONS = ("float32", "int8")
TRIED = "1.30"
"""The version of onnxruntime-web with which pages were tried."""
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
TRANSLATOR = (
    "worker.js",
    "runtime.js",
    "translator.js",
    "graphs.js",
    "pieces.js",
    "sentencepiece.js",
    "rules.js",
    "reading.js",
    "search.js",
    "sentences.js",
    "white.js",
)
FAILS = """<script>
const why = location.protocol === "file:"
  ? "Browsers open such a page from a web server only, such as: python -m http.server"
  : "This page cannot start: a file of it is missing";
document.querySelector("script[type=module]").onerror = () => (document.getElementById("status").textContent = why);
</script>
</body>"""
"""What only the page itself can say: a browser runs no modules from a file, and none where one of them is missing."""
_DECODE = ("normalise", "alpha", "stop", "word_penalty", "max_length_factor", "max_length_offset", "recase")


def write_web(exported: Exported, folder: Path, precision: str) -> None:
    """Fills the folder of a page.

    Raises D209 (a tag that is no symbol), X503 (the precision), X519 (languages), X520 (codecs without a place), X523 (no runtime),
    and what `write_graphs` raises.
    """
    if precision not in PRECISIONS:
        raise error("X503", None, precision=precision, format=NAME, names=PRECISIONS)
    about = _about(exported)
    runtime = _runtime(exported.options.runtime)
    model = folder / "model"
    model.mkdir()
    settings = about["decode"]
    graphs = write_graphs(exported, model, Search(settings["beam"], settings["word_penalty"]), precision)
    (model / ABOUT).write_text(json.dumps({**about, **graphs}, ensure_ascii=False) + "\n", encoding="utf-8")
    for file in runtime:
        _copy(file.read_bytes(), folder / "runtime" / file.name.replace(".mjs", ".js"))
    page, own = resources.files("calque.serve") / "page", resources.files(__package__) / "web"
    for name in ("page.css", "page.js"):
        _copy((page / name).read_bytes(), folder / "page" / name)
    index = (page / "index.html").read_text(encoding="utf-8").replace("</body>", FAILS)
    _copy(index.encode(), folder / "index.html")
    _copy((own / "engine.js").read_bytes(), folder / "page" / "engine.js")
    for name in TRANSLATOR:
        _copy((own / name).read_bytes(), folder / "translator" / name)
    (folder / "keep.js").write_text(_kept(folder, (own / "keep.js").read_text(encoding="utf-8")), encoding="utf-8")


def _about(exported: Exported) -> dict[str, Any]:
    """What the page needs to know beside the graphs. Raises D209, X301, X519, X520."""
    decode, place = exported.trained.experiment.decode, Place(str(exported.folder))
    source, target = exported.trained.codecs
    tags = exported.options.tags or {LanguagePair(*languages_of(exported)): ""}
    for tag in filter(None, tags.values()):
        source.check_symbol(tag, place)
    texts = {"source": text_of(source, "source", NAME, place)}
    if target is not source:
        texts["target"] = text_of(target, "target", NAME, place)
    beam = exported.options.beam or decode.beam
    return {
        "languages": languages(tags),
        "pairs": [{**pair._asdict(), "tag": tag or decode.tag} for pair, tag in tags.items()],
        "decode": {"beam": beam, **{name: getattr(decode, name) for name in _DECODE}},
        **texts,
    }


def _runtime(folder: Path | None) -> list[Path]:
    """The files of onnxruntime-web in a folder or its `dist`. Raises X523."""
    tried = [] if folder is None else [folder, folder / "dist"]
    for place in tried:
        files = [place / name for name in RUNTIME]
        if all(file.is_file() for file in files):
            return files
    raise error("X523", None if folder is None else Place(str(folder)), name=RUNTIME[0], version=TRIED)


def _copy(content: bytes, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(content)


def _kept(folder: Path, text: str) -> str:
    """The program that keeps the files, with their names and a digest of them."""
    digest, names = hashlib.sha256(), []
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        names.append(file.relative_to(folder).as_posix())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    about = {"VERSION": digest.hexdigest()[:16], "FILES": ["./", *names]}
    return "".join(f"const {name} = {json.dumps(value)};\n" for name, value in about.items()) + text
