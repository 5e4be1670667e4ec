"""The viewer of the documentation: the studio's picture and tables as files that need no server and no network."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from calque import zoo
from calque.adl.check import check
from calque.adl.declaration import Library
from calque.ground.diagnostics import Text
from calque.layers.declared import declared
from calque.studio.checked import checked_json, picture_json
from calque.studio.requests import TextToCheck

PAGE = Path(__file__).parent / "page"
MODULES = ("dom", "shared", "picture", "table", "viewer")
"""The modules of the page that the viewer needs, each after those that it imports."""
FIRST = "domhan2018/transformer"
_IMPORT = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|let) (\w+)", re.MULTILINE)


def viewer_files(names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Names and contents of its files: script, styles, and one script of figures for each architecture, by default the zoo's."""
    library = declared()
    yield "viewer.js", bundle()
    yield "viewer.css", "".join((PAGE / name).read_text(encoding="utf-8") for name in ("picture.css", "viewer.css"))
    for name in names or zoo.distinct():
        figures = json.dumps(viewer_json(zoo.read(name).body, library), separators=(",", ":"), ensure_ascii=False)
        yield f"{name}.js", f"calqueViewer({json.dumps(name)}, {figures});\n"


def viewer_json(text: str, library: Library) -> dict[str, object]:
    """What the page shows of a text: its figures, and its picture for every way to fold its repetitions."""
    found = checked_json(TextToCheck(text=text), library)
    repeats = [frame["path"] for frame in found["picture"]["frames"] if frame["kind"] == "repeat"]  # type: ignore[index]
    checked = check(Text("text", text), library)
    pictures = {}
    for folded in itertools.product((0, 1), repeat=len(repeats)):
        paths = frozenset(path for path, one in zip(repeats, folded, strict=True) if one)
        pictures["".join(map(str, folded))] = picture_json(checked, paths)
    return {
        "text": text,
        "repeats": repeats,
        "rows": found["rows"],
        "totals": found["totals"],
        "pictures": pictures,
    }


def bundle() -> str:
    """The modules as one script, each in a function of its own: browsers refuse modules that are read from a disk."""
    parts = ["// Written from the studio's page: see calque.studio.viewer.\n(() => {\n"]
    for name in MODULES:
        body = (PAGE / f"{name}.js").read_text(encoding="utf-8")
        names = ", ".join(found[2] for found in _EXPORT.finditer(body))
        body = _IMPORT.sub(lambda found: f"const {found[1] or found[2]} = of_{found[3]};", body)
        body = _EXPORT.sub(r"\1 \2", body)
        parts.append(f"const of_{name} = (() => {{\n{body}return {{ {names} }};\n}})();\n")
    return "".join([*parts, "})();\n"])


def viewer_html(files: str) -> str:
    """The elements of the viewer, with scripts and styles from the folder `files`."""
    shelves = itertools.groupby(zoo.distinct(), lambda name: name.partition("/")[0])
    options = "".join(
        f'<optgroup label="{shelf}">' + "".join(f'<option value="{one}">{one}</option>' for one in some) + "</optgroup>"
        for shelf, some in shelves
    )
    return (PAGE / "viewer.html").read_text(encoding="utf-8").format(files=files, options=options, first=FIRST)
