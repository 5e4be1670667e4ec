"""Tensors with a description: STEM.safetensors and STEM.json, written together and checked when read."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from calque.data.corpus import seal
from calque.data.sums import checksum
from calque.ground.diagnostics import Place, error, reason_of
from calque.ground.files import staged, sync_folder, write_whole

FORMAT = 1


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises K301 where the system refuses to write below `path`."""
    try:
        yield
    except OSError as fault:
        raise error("K301", Place(str(path)), reason=reason_of(fault)) from None
    except SafetensorError as fault:  # its word for a full disk
        raise error("K301", Place(str(path)), reason=str(fault).lower()) from None


def restore_pair(stem: Path, aside: Path) -> None:
    """Completes or undoes an interrupted replacement of a pair: of its old and new JSON, the one that fits the weights stays.

    `aside` is a JSON under a temporary name.
    """
    weights, index = _pair(stem)
    if not index.exists() and weights.is_file():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if json.loads(aside.read_bytes())["sha256"] == checksum(weights):
                os.replace(aside, index)
                sync_folder(index.parent)
    if aside.name.endswith(".old"):
        aside.unlink(missing_ok=True)


def write_tensors(stem: Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    """Writes STEM.safetensors and STEM.json, which describes the contents and has their checksum.

    The JSON is written last and makes the pair valid. Both are complete on disk before an earlier pair is touched; the earlier
    JSON is removed first, so that the files of two pairs are never mixed. Raises K301.
    """
    weights, index = _pair(stem)
    temporary, old = (weights.with_name(f".{weights.name}.tmp"), index.with_name(f".{index.name}.old"))
    with writing(weights):
        weights.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary)
            os.chmod(temporary, 0o644)  # as `write_whole` does; safetensors gives access to the owner alone
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            contents = {"bytes": temporary.stat().st_size, "sha256": checksum(temporary)}
            with staged(index, _sealed({**about, **contents})) as new:
                _replace_pair((temporary, new), (weights, index), old)
        finally:
            temporary.unlink(missing_ok=True)
            old.unlink(missing_ok=True)


def _replace_pair(new: tuple[Path, Path], pair: tuple[Path, Path], old: Path) -> None:
    """Renames weights and JSON, which are complete on disk, to their names."""
    weights, index = pair
    try:
        if index.exists():
            os.replace(index, old)
            sync_folder(index.parent)
        os.replace(new[0], weights)
    except OSError:
        if old.exists():
            os.replace(old, index)
        raise
    sync_folder(weights.parent)
    os.replace(new[1], index)
    sync_folder(weights.parent)


def rewrite_about(stem: Path, about: Mapping[str, object]) -> None:
    """Replaces the description of existing tensors in one step. Raises K301 and what `read_about` raises."""
    kept = {key: value for key, value in read_about(stem).items() if key in ("bytes", "sha256")}
    with writing(index := _pair(stem)[1]):
        write_whole(index, _sealed({**about, **kept}))


def _sealed(about: Mapping[str, object]) -> bytes:
    whole: dict[str, object] = {"format": FORMAT, **about}
    whole["seal"] = seal(json.loads(json.dumps(whole)))
    return (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()


def read_about(stem: Path) -> dict[str, Any]:
    """STEM.json. Raises K101 (missing), K102 (damaged), K103 (of another format)."""
    index = _pair(stem)[1]
    try:
        about = json.loads(index.read_bytes())
    except FileNotFoundError:
        raise error("K101", Place(str(index.parent)), name=index.name) from None
    except OSError as fault:
        raise error("K302", Place(str(index)), reason=reason_of(fault)) from None
    except ValueError:
        raise error("K102", Place(str(index)), reason="it is not JSON") from None
    if not isinstance(about, dict) or "format" not in about:
        raise error("K102", Place(str(index)), reason="it names no format")
    if about["format"] != FORMAT:
        raise error("K103", Place(str(index)), expected=FORMAT, found=about["format"])
    if about.get("seal") != seal(about):
        raise error("K102", Place(str(index)), reason="its contents changed after it was written")
    return about


def read_tensors(stem: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote. Raises what `read_about` raises, K101, K104 (of another size), K105 (changed)."""
    about = read_about(stem)
    weights = _pair(stem)[0]
    place = Place(str(weights))
    if not weights.is_file():
        raise error("K101", Place(str(weights.parent)), name=weights.name)
    try:
        if (size := weights.stat().st_size) != about["bytes"]:
            raise error("K104", place, expected=about["bytes"], found=size)
        if checksum(weights) != about["sha256"]:
            raise error("K105", place)
        return load_file(weights), about
    except OSError as fault:
        raise error("K302", place, reason=reason_of(fault)) from None


def remove_tensors(stem: Path) -> None:
    """Deletes a pair, its JSON first."""
    for path in reversed(_pair(stem)):
        with writing(path):
            path.unlink(missing_ok=True)


def _pair(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")
