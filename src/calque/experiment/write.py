"""An experiment as TOML, its digest, and the keys in which two experiments differ."""

import hashlib
from pathlib import Path

from calque.experiment.key import Key
from calque.experiment.keys import SECTIONS, Experiment
from calque.experiment.toml import comment, literal
from calque.ground.files import write_whole


def differences(before: Experiment, after: Experiment) -> dict[str, tuple[object, object]]:
    """The keys in which two experiments differ, as `section.key`, each with both values."""
    changed = {}
    for section, keys in SECTIONS.items():
        for key in keys:
            old, new = (getattr(getattr(x, section), key) for x in (before, after))
            if old != new:
                changed[f"{section}.{key}"] = (old, new)
    return changed


def to_toml(experiment: Experiment, *, comments: bool = False) -> str:
    """The whole experiment as TOML with every key; `load` reads an equal experiment from it.

    With `comments`, each section and each key follows a comment with its meaning.
    """
    blocks = []
    for section, keys in SECTIONS.items():
        part = getattr(experiment, section)
        lines = [*(comment(str(type(part).__doc__).partition(": ")[2].rstrip(".")) if comments else ()), f"[{section}]"]
        for name, key in keys.items():
            if comments:
                lines += comment(_meaning(key))
            lines.append(f"{name} = {literal(getattr(part, name))}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _meaning(key: Key) -> str:
    """The meaning of a key, with its choices where the text does not name all of them."""
    complete = all(choice in key.doc for choice in key.choices)
    return key.doc if complete else key.doc + "; one of " + ", ".join(key.choices)


def write(experiment: Experiment, path: Path | str, *, comments: bool = True, head: str = "") -> None:
    """Writes an experiment to a file, whole or not at all; `head` becomes comments above the first section."""
    above = "".join(f"{line}\n" for line in comment(head)) + "\n" if head else ""
    write_whole(Path(path), (above + to_toml(experiment, comments=comments)).encode("utf-8"))


def digest(experiment: Experiment) -> str:
    """The first twelve hexadecimal digits of the SHA-256 of an experiment's TOML."""
    return hashlib.sha256(to_toml(experiment).encode("utf-8")).hexdigest()[:12]
