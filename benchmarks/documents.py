"""Do documents keep all that they have? Each sentence of each file is put back as it is, and the file compared with itself.

    python benchmarks/documents.py FOLDER [FOLDER ...]

reads all `docx`, `docm`, `pptx`, `odt`, `odp`, `ods` and `epub` files below the folders and prints one JSON object: how many files
there are, which are refused and why, and in which the characters of an XML text, white space apart, or its elements other than runs
and formats, are no longer the same. No model is needed: the words of each sentence are aligned to themselves.
"""

import argparse
import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from calque.ground.diagnostics import CalqueError, message
from calque.workflow.document.formats import read_document
from calque.workflow.document.layout import Lines

PACKAGES = ("docx", "docm", "pptx", "odt", "odp", "ods", "epub")
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


def contents(body: bytes) -> Mapping[str, tuple[str, Counter[str]]]:
    """Of each XML text of a package: its characters without white space, and its elements without runs and formats."""
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


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description="Put the sentences of documents back as they are, and compare.")
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    files = sorted(
        f for folder in given.folders for f in folder.rglob("*") if f.suffix.lower().removeprefix(".") in PACKAGES
    )
    refused: dict[str, str] = {}
    texts: list[str] = []
    elements: list[str] = []
    for file in files:
        try:
            before, after = contents(file.read_bytes()), contents(put_back(file))
        except CalqueError as fault:
            refused[file.name] = message(fault.diagnostics[0])
            continue
        changed = [name for name in before if before[name] != after.get(name)]
        texts += [f"{file.name}: {name}" for name in changed if name not in after or before[name][0] != after[name][0]]
        elements += [f"{file.name}: {name}" for name in changed if name in after and before[name][1] != after[name][1]]
    print(
        json.dumps(
            {"files": len(files), "refused": refused, "texts changed": texts, "elements changed": elements}, indent=2
        )
    )


if __name__ == "__main__":
    main()
