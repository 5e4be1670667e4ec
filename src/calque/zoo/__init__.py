"""Architectures of the papers, as texts. `names()` lists them, `read(name)` gives one."""

from importlib import resources
from importlib.resources.abc import Traversable

from calque.diagnostics import Text, error, nearest


def names() -> list[str]:
    """Every architecture, as `paper/name`, sorted."""
    return sorted(_files())


def read(name: str) -> Text:
    """The text of an architecture. Raises X220 where there is none of that name."""
    files = _files()
    if name not in files:
        raise error("X220", None, name=name, near=nearest(name, files), names=sorted(files))
    return Text(f"zoo/{name}.adl", files[name].read_text(encoding="utf-8"))


def _files() -> dict[str, Traversable]:
    papers = [paper for paper in resources.files("calque.zoo").iterdir() if paper.is_dir()]
    return {
        f"{paper.name}/{file.name.removesuffix('.adl')}": file
        for paper in papers
        for file in paper.iterdir()
        if file.name.endswith(".adl")
    }
