"""docs/experiment.md: every key of an experiment file, from where they are declared.

python -m calque.experiment.keys_page > docs/experiment.md
"""

import sys
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from calque.experiment import Experiment
from calque.experiment.toml import literal

HEAD = """\
# The experiment file

<!-- Made by `python -m calque.experiment.keys_page > docs/experiment.md`; a test makes it again. -->

One TOML file is one complete run. It has four sections; every key has a default, and a key that does not exist is an error with a
suggestion. Paths start from the folder of the file. `calque new` writes a short file with the keys that people change; the
`experiment.toml` of a run folder holds every key with its value, so that `calque train RUN` repeats it. `--set
train.lr=0.0005` replaces one key for one call; paths in it start from the current folder.

A run needs `train` and `valid` of `[data]`, an architecture in `[model]`, and one of the limits `max_updates`, `max_epochs`,
`max_seconds`, `patience` and `min_lr` of `[train]`.
"""
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for section in fields(Experiment):
        part = getattr(Experiment(), section.name)
        what = str(type(part).__doc__).partition(": ")[2]
        yield f"## [{section.name}]\n\n{what[:1].upper()}{what[1:]}\n"
        yield "| key | default | values | meaning |\n|---|---|---|---|"
        yield "\n".join(_row(key, getattr(part, key.name)) for key in fields(part)) + "\n"


def _row(key: "Field[Any]", default: object) -> str:
    cells = (f"`{key.name}`", f"`{literal(default)}`", _values(key), key.metadata["doc"].replace("<", "&lt;"))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(key: "Field[Any]") -> str:
    about = key.metadata
    if about["choices"]:
        return ", ".join(f"`{literal(choice)}`" for choice in about["choices"])
    kind = next((name for type_, name in KINDS.items() if key.type is type_), "a list of texts")
    bounds = [
        f"{word} {about[bound]:g}" for word, bound in (("from", "low"), ("to", "high")) if about[bound] is not None
    ]
    return " ".join([kind, *bounds])


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode("utf-8"))
