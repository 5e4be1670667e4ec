"""Public corpora: fetched by their addresses, checked by their sums, built into the files that experiments name.

What a corpus is made of stands in `corpora/NAME.toml`: its licence, the address and SHA-256 of each input, and the SHA-256 of
each file that is built (of its text: a name in .gz is packed here, and packers differ). Nothing is built from an input with
another sum, and nothing is written that has another sum than the file it is to be.

All of them stand below one folder, the data root: `--root`, else the environment variable CALQUE_DATA, else `data`.
"""

import gzip
import hashlib
import os
import shutil
import tomllib
import zlib
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from calque.data.public_corpus import Input, Output, PublicCorpus
from calque.ground.diagnostics import Place, error
from calque.ground.files import alone, write_whole

ROOT = "CALQUE_DATA"
"""The environment variable that names the data root."""
NAMES = ("multi30k", "envi", "tatoeba", "meteor")
SECONDS = 60
"""How long a server may keep silent."""


def corpus(name: str) -> PublicCorpus:
    """The corpus called `name` (of `NAMES`)."""
    text = resources.files("calque.data").joinpath("corpora", f"{name}.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    inputs = {n: Input(**x) for n, x in read["inputs"].items()}
    outputs = {f"{read['folder']}/{n}": Output(**x) for n, x in read["outputs"].items()}
    return PublicCorpus(
        name, read["title"], read["licence"].strip(), read["build"], inputs, outputs, read.get("split", {})
    )


def providing(path: Path) -> tuple[str, Path] | None:
    """The corpus that has a file at `path`, by the end of the path, and the data root it would be built below."""
    parts = Path(os.path.abspath(path)).parts
    for name in NAMES:
        for output in corpus(name).outputs:
            file = Path(output).parts
            if parts[-len(file) :] == file:
                return name, _shorter(Path(*parts[: -len(file)]))
    return None


def _shorter(folder: Path) -> Path:
    """A folder as seen from the current one, where it lies below it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def data_root(given: Path | None = None) -> Path:
    """The folder of all corpora: as given, else CALQUE_DATA, else `data` here."""
    return given or Path(os.environ.get(ROOT) or "data")


def build(what: PublicCorpus, root: Path, source: Path | None, tell: Callable[[str], None]) -> list[Path]:
    """Builds the files of a corpus below `root`, from the network or from the inputs in a folder `source`.

    Files that are there and right are left alone, so a second call builds nothing and one that was cut off goes on; so are
    inputs that were fetched whole. Each file is written whole or not at all; what was fetched is removed at the end.

    Raises D530 (cannot fetch), D531 (an input has another sum), D532 (an input is not in `source`), D533 (an output has
    another sum), K301 (cannot write, no space).
    """
    from calque.data.public_build import BUILDERS

    tell(f"{what.title}\n\n{what.licence}\n")
    paths = {name: root / name for name in what.outputs}
    missing = [name for name, out in what.outputs.items() if _text_sum(paths[name]) != out.sha256]
    if not missing:
        tell(f"all {len(paths)} files are there")
        return list(paths.values())
    store = root / f".{what.name}.fetched"
    try:
        with alone(store, tell):
            inputs = _Inputs(what, store, source, tell)
            for name, text in BUILDERS[what.build](what, missing, inputs):
                if hashlib.sha256(text).hexdigest() != what.outputs[name].sha256:
                    raise error("D533", Place(str(paths[name])), corpus=what.name)
                paths[name].parent.mkdir(parents=True, exist_ok=True)
                write_whole(paths[name], gzip.compress(text, 9, mtime=0) if name.endswith(".gz") else text)
                tell(f"{paths[name]}")
            shutil.rmtree(store, ignore_errors=True)
    except OSError as fault:
        raise error("K301", Place(str(fault.filename or root)), reason=(fault.strerror or str(fault)).lower()) from None
    return list(paths.values())


class _Inputs:
    """The inputs of a corpus as bytes, each checked against its sum."""

    def __init__(self, what: PublicCorpus, store: Path, source: Path | None, tell: Callable[[str], None]):
        self.what, self.store, self.source, self.tell = what, store, source, tell

    def __call__(self, name: str) -> bytes:
        expected = self.what.inputs[name]
        if self.source is not None:
            path = self.source / name
            try:
                body = path.read_bytes()
            except OSError as fault:
                reason = (fault.strerror or str(fault)).lower()
                raise error("D532", Place(str(path)), reason=reason, url=expected.url) from None
            _check(body, expected, Place(str(path)))
            return body
        path = self.store / name
        if path.is_file() and _sum(body := path.read_bytes()) == expected.sha256:
            return body
        self.tell(f"fetching {expected.url}")
        body = _fetch(expected.url)
        _check(body, expected, Place(expected.url))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, body)
        return body


def _fetch(url: str) -> bytes:
    # Slow to load, and few calls need them.
    import http.client
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as fault:
        fault.close()
        raise error("D530", Place(url), reason=f"{fault.code} {fault.reason}".lower()) from None
    except (OSError, http.client.HTTPException) as fault:
        # URLError is an OSError; its reason says more than itself.
        reason = getattr(fault, "reason", None) or fault
        text = getattr(reason, "strerror", None) or str(reason)
        raise error("D530", Place(url), reason=text.lower()) from None


def _check(body: bytes, expected: Input, where: Place) -> None:
    if (found := _sum(body)) != expected.sha256:
        raise error("D531", where, expected=expected.sha256[:16], found=found[:16], size=len(body))


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _text_sum(path: Path) -> str | None:
    """The sum of a file's text, unpacked; None where it cannot be read."""
    try:
        body = path.read_bytes()
        return _sum(gzip.decompress(body) if path.suffix == ".gz" else body)
    except (OSError, EOFError, zlib.error):
        return None
