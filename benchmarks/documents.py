"""Do documents keep all that they have? Each sentence of each file is put back as it is, and the file compared with itself.

    python benchmarks/documents.py FOLDER [FOLDER ...]

reads all `docx`, `docm`, `pptx`, `xlsx`, `xlsm`, `odt`, `odp`, `ods`, `epub`, `md`, `po`, `xlf` and `xliff` files below the folders
and prints one JSON object: how many files there are, which are refused and why, and in which the characters of an XML text, white
space apart, or its elements other than runs and formats, are no longer the same. Of Markdown that is its HTML; of catalogues and
XLIFF each translation, where there was none, has to be its source. No model is needed: the words of each sentence are aligned to
themselves.
"""

import argparse
import contextlib
import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from babel.messages.pofile import read_po
from markdown_it import MarkdownIt

from calque.ground.diagnostics import CalqueError, message
from calque.workflow.document.formats import read_document
from calque.workflow.document.layout import Lines

Contents = Mapping[str, tuple[str, Counter[str]]]
"""Of each text of a file: its characters without white space, and its elements without runs and formats."""
WRITTEN_ANEW = frozenset(
    [
        "r",
        "t",
        "rPr",
        "lang",
        "proofErr",
        "lastRenderedPageBreak",
        "noBreakHyphen",
        "softHyphen",
        "s",
        "soft-page-break",
    ]
)
"""Elements of runs, and what has no meaning for another text."""


def put_back(file: Path) -> bytes:
    """The file with its own sentences as translations. Raises CalqueError."""
    lines = Lines(by_sentence=True, letters=True)
    document = read_document(str(file), file.read_bytes(), lines, True)
    shares = {}
    for k in lines.aligned:
        count = len(lines.lines[k].split(" "))
        shares[k] = [[float(i == j) for j in range(count)] for i in range(count)]
    return document.fill(lines.lines, shares)


def of_package(body: bytes, filled: bool) -> Contents:
    """The XML texts of a package."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(body)) as package:
        for name in package.namelist():
            if name.endswith((".xml", ".xhtml", ".ncx")):
                try:
                    tree = ElementTree.fromstring(package.read(name))
                except ElementTree.ParseError:
                    continue
                formats = {one for run in tree.iter() if _local(run) == "rPr" for one in run.iter()}
                elements = Counter(_local(e) for e in tree.iter() if e not in formats and _local(e) not in WRITTEN_ANEW)
                found[name] = "".join("".join(tree.itertext()).split()), elements
    return found


def of_markdown(body: bytes, filled: bool) -> Contents:
    """The HTML that Markdown becomes."""
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(body.decode())
    return {"html": ("".join(re.sub(r"<[^<>]*>", "", shown).split()), Counter(re.findall(r"<[^<>]*>", shown)))}


def of_catalogue(body: bytes, filled: bool) -> Contents:
    """The translations of a catalogue. One that was not there, or is a source where it is `filled`, counts as `source`."""
    found = {}
    with contextlib.redirect_stdout(sys.stderr):  # babel prints what it finds wrong
        entries = [*read_po(io.BytesIO(body))]
    for entry in entries:
        sources, strings = ([*x] if isinstance(x, list | tuple) else [str(x)] for x in (entry.id, entry.string))
        plain = ["".join(source.split()) for source in sources]
        texts = ["".join(string.split()) for string in strings]
        texts = ["source" if text in plain + [""] * (not filled) else text for text in texts]
        found[f"{entry.context} {entry.id}"] = "|".join(texts), Counter[str]()
    return found


def of_segments(body: bytes, filled: bool) -> Contents:
    """The translations of a file of XLIFF; where there are none and it is not `filled`, the sources."""
    found = {}
    segments = (e for e in ElementTree.fromstring(body).iter() if _local(e) in ("trans-unit", "segment"))
    for number, segment in enumerate(segments):
        children = {_local(child): child for child in segment}
        source = children.get("seg-source", children["source"])
        target = children.get("target")
        is_empty = target is None or not "".join(target.itertext()).strip()
        text = "".join((source if is_empty or target is None else target).itertext())
        found[str(number)] = "" if filled and is_empty else "".join(text.split()), Counter[str]()
    return found


KINDS: dict[str, Callable[[bytes, bool], Contents]] = {
    **dict.fromkeys(("docx", "docm", "pptx", "odt", "odp", "ods", "xlsx", "xlsm", "epub"), of_package),
    "md": of_markdown,
    "po": of_catalogue,
    **dict.fromkeys(("xlf", "xliff"), of_segments),
}


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def ending(file: Path) -> str:
    """The ending of its name."""
    return file.suffix.lower().removeprefix(".")


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description="Put the sentences of documents back as they are, and compare.")
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    files = sorted(f for folder in given.folders for f in folder.rglob("*") if f.is_file() and ending(f) in KINDS)
    refused: dict[str, str] = {}
    texts: list[str] = []
    elements: list[str] = []
    for file in files:
        of_kind, body = KINDS[ending(file)], file.read_bytes()
        try:
            filled = put_back(file)
            before, after = of_kind(body, False), of_kind(filled, True)
        except CalqueError as fault:
            refused[file.name] = message(fault.diagnostics[0])
            continue
        except UnicodeDecodeError as fault:
            refused[file.name] = f"not by Calque, but by the library that compares: {fault}"
            continue
        changed = [name for name in before if before[name] != after.get(name)]
        texts += [f"{file.name}: {name}" for name in changed if name not in after or before[name][0] != after[name][0]]
        elements += [f"{file.name}: {name}" for name in changed if name in after and before[name][1] != after[name][1]]
    print(
        json.dumps(
            {
                "files": Counter(map(ending, files)),
                "refused": refused,
                "texts changed": texts,
                "elements changed": elements,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
