"""Writes docs/experiment.md: every key of an experiment file, from its declaration.

python -m calque.experiment.keys_page > docs/experiment.md
"""

import sys
from collections.abc import Iterator

from calque.experiment.key import Key
from calque.experiment.keys import SECTIONS, Experiment
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
    for section, keys in SECTIONS.items():
        part = getattr(Experiment(), section)
        meaning = str(type(part).__doc__).partition(": ")[2]
        yield f"## [{section}]\n\n{meaning[:1].upper()}{meaning[1:]}\n"
        yield "| key | default | values | meaning |\n|---|---|---|---|"
        yield "\n".join(_row(key, getattr(part, key.name)) for key in keys.values()) + "\n"


def _row(key: Key, default: object) -> str:
    cells = (f"`{key.name}`", f"`{literal(default)}`", _values(key), key.doc.replace("<", "&lt;"))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{literal(choice)}`" for choice in key.choices)
    kind = next((name for type_, name in KINDS.items() if key.kind is type_), "a list of texts")
    bounds = [f"{word} {bound:g}" for word, bound in (("from", key.low), ("to", key.high)) if bound is not None]
    return " ".join([kind, *bounds])


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode("utf-8"))
