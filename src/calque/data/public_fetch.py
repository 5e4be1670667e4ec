"""Builds public corpora: fetches inputs by their addresses, checks their sums, writes the files that experiments name.

An input with a wrong sum stops the build, and a built file is written only if it has the sum of its description.
"""

import gzip
import hashlib
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

from calque.data.public import Input, PublicCorpus
from calque.data.public_builders import BUILDERS
from calque.ground.diagnostics import Place, error, reason_of
from calque.ground.files import alone, write_whole

SECONDS = 60
"""A server that sends nothing for this time counts as unreachable."""


def build(what: PublicCorpus, root: Path, source: Path | None, tell: Callable[[str], None]) -> list[Path]:
    """Builds the files of a corpus below `root`, from the network or, with `source`, from a folder of inputs.

    Files with the right sum are kept, and complete inputs are not fetched again: a second call builds nothing, and a call after an
    interruption continues. Each file is written completely or not at all. The inputs are deleted at the end.

    Raises D530 (cannot fetch), D531 (an input has another sum), D532 (an input is not in `source`), D533 (an output has
    another sum), K301 (cannot write, no space).
    """
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
        raise error("K301", Place(str(fault.filename or root)), reason=reason_of(fault)) from None
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
                reason = reason_of(fault)
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
    # Imported here: slow to load, and few calls need them.
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
        # URLError is an OSError; its reason says more than its own text.
        reason = getattr(fault, "reason", None) or fault
        text = getattr(reason, "strerror", None) or str(reason)
        raise error("D530", Place(url), reason=text.lower()) from None


def _check(body: bytes, expected: Input, where: Place) -> None:
    if (actual := _sum(body)) != expected.sha256:
        raise error("D531", where, expected=expected.sha256[:16], found=actual[:16], size=len(body))


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _text_sum(path: Path) -> str | None:
    """The sum of a file's text, unpacked; None where it cannot be read."""
    try:
        body = path.read_bytes()
        return _sum(gzip.decompress(body) if path.suffix == ".gz" else body)
    except (OSError, EOFError, zlib.error):
        return None
