"""The files of a model of Marian: its settings in YAML, and its tensors in an archive of numpy."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calque.exchange.hf_folder import Tensors
from calque.exchange.marian import SETTINGS
from calque.ground.diagnostics import Place, error, reason_of

DEEPEST = 20
"""Lists inside lists of YAML, at most."""


def yaml_file(path: Path) -> dict[str, Any]:
    """The mapping of a file, its values as texts. Raises X301 (the package is missing), X517."""
    try:
        return _yaml(path.read_bytes(), Place(str(path)))
    except OSError as fault:
        raise error("X517", Place(str(path)), reason=reason_of(fault)) from None


def _yaml(content: bytes, place: Place) -> dict[str, Any]:
    """A mapping. Raises X301 (the package is missing), X517."""
    try:
        import yaml
    except ImportError:
        raise error("X301", extra="marian", package="pyyaml") from None
    try:
        # Texts alone, so that the words `yes` and `1` stay words. The reader in C is ten times as fast.
        reader, depth = getattr(yaml, "CBaseLoader", yaml.BaseLoader), 0
        for event in yaml.parse(content, reader):  # the reader in C has no bound of its own
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise error("X517", place, reason=f"it has more than {DEEPEST} lists inside each other")
            if isinstance(event, yaml.AliasEvent):  # a few lines of them can stand for more values than memory holds
                raise error("X517", place, reason="it has aliases (`*name`), which Marian does not write")
        found = yaml.load(content, reader)
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise error("X517", place, reason=str(fault).splitlines()[0].lower()) from None
    if not isinstance(found, dict):
        raise error("X517", place, reason="it is not a mapping of YAML")
    return found


def read_npz(path: Path) -> tuple[Mapping[str, Any], Tensors]:
    """The settings inside a file, and its tensors in float32. Raises X517, X521."""
    place = Place(str(path))
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as fault:
        raise error("X517", place, reason=reason_of(fault)) from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise error("X517", place, reason="it is not an archive of numpy, or not a whole one") from None
    if SETTINGS not in arrays:
        raise error("X521", place, what=f"the settings `{SETTINGS}` in the file", found="none")
    settings = _yaml(arrays[SETTINGS].tobytes().rstrip(b"\0"), place)
    numbers = {name: a for name, a in arrays.items() if not name.startswith("special:")}
    if wrong := [name for name, a in numbers.items() if a.dtype.kind not in "fiu"]:
        raise error("X517", place, reason=f"`{wrong[0]}` holds no numbers")
    tensors = {name: torch.from_numpy(a.astype(np.float32)) for name, a in numbers.items()}
    return {key: value_of(value) for key, value in settings.items()}, Tensors(path, tensors)


def value_of(text: Any) -> Any:
    """A value of the settings, which are read as texts."""
    if isinstance(text, list):
        return [value_of(one) for one in text]
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)
