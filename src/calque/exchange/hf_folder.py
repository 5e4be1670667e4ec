"""Reads a folder of Hugging Face transformers without that library: settings, tensors, word lists."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from calque.exchange.settings import Kind, check_values
from calque.ground.diagnostics import Place, error

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_NAMES = Kind(
    "an object with names of files in this folder",
    lambda value: isinstance(value, dict) and all(isinstance(n, str) and n == Path(n).name for n in value.values()),
)


def read_json(folder: Path, name: str, required: bool = True) -> dict[str, Any]:
    """A file of the folder; an empty one where it is missing and not required. Raises X510, X517."""
    path = folder / name
    if not path.is_file():
        if required:
            raise error("X510", Place(str(folder)), name=name)
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as fault:
        raise error("X517", Place(str(path)), reason=_reason(fault)) from None
    if not isinstance(content, dict):
        raise error("X517", Place(str(path)), reason="it is not an object of JSON")
    return content


def read_bytes(folder: Path, *names: str) -> bytes:
    """The first file of these names. Raises X510, X517."""
    for name in names:
        if (folder / name).is_file():
            try:
                return (folder / name).read_bytes()
            except OSError as fault:
                raise error("X517", Place(str(folder / name)), reason=_reason(fault)) from None
    raise error("X510", Place(str(folder)), name=names[0])


def read_pieces(folder: Path, *names: str) -> bytes:
    """The first file of these names, a model of sentencepiece. Raises X510, X517."""
    model = read_bytes(folder, *names)
    try:
        pieces = SentencePieceProcessor(model_proto=model).get_piece_size() if model else 0
    except RuntimeError:
        pieces = 0
    if not pieces:
        name = next(name for name in names if (folder / name).is_file())
        raise error("X517", Place(str(folder / name)), reason="it is no model of sentencepiece")
    return model


def read_tensors(folder: Path) -> "Tensors":
    """The tensors of all files of weights, in float32. Raises X510, X517, X522."""
    indexed = next((name for name in _INDEX if (folder / name).is_file()), None)
    if indexed is not None:
        index = read_json(folder, indexed)
        check_values(index, {"weight_map": _NAMES}, Place(str(folder / indexed)))
        files = sorted(set(index["weight_map"].values()))
    else:
        files = [name for name in WEIGHTS if (folder / name).is_file()][:1]
    if not files:
        raise error("X510", Place(str(folder)), name=WEIGHTS[0])
    tensors: dict[str, Tensor] = {}
    for name in files:
        tensors |= _read_file(folder / name)
    return Tensors(folder, {name: t.to(torch.float32) for name, t in tensors.items()})


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        path.open("rb").close()  # of a file that may not be read safetensors says that there is none
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise error("X510", Place(str(path.parent)), name=path.name) from None
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError) as fault:
        raise error("X517", Place(str(path)), reason=_reason(fault)) from None
    except Exception as fault:  # pickle's own errors, for contents that are no tensors
        if type(fault).__module__ not in ("pickle", "_pickle"):
            raise
        raise error("X517", Place(str(path)), reason="it holds more than tensors") from None
    if not isinstance(content, Mapping):
        raise error("X517", Place(str(path)), reason="it holds no tensors by name")
    return {name: t for name, t in content.items() if isinstance(name, str) and isinstance(t, Tensor)}


def _reason(fault: BaseException) -> str:
    text = getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
    return str(text).splitlines()[0].lower().rstrip(".")


class Tensors:
    """Tensors by name, each of which has to be used."""

    def __init__(self, folder: Path, tensors: dict[str, Tensor]):
        self.folder, self.tensors = folder, tensors
        self.left = set(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, names: str | Sequence[str], dims: int = 0) -> Tensor:
        """The first tensor of these names, which is used from now on; `dims`: how many dimensions it has.

        Raises X513, X517 (it has NaN), X518.
        """
        names = [names] if isinstance(names, str) else names
        name = next((name for name in names if name in self.tensors), None)
        if name is None:
            raise error("X513", Place(str(self.folder)), name=names[0])
        found = self.tensors[name]
        if dims and found.dim() != dims:
            raise error(
                "X518", Place(str(self.folder)), name=name, expected=f"{dims} dimensions", found=list(found.shape)
            )
        if found.isnan().any():
            raise error("X517", Place(str(self.folder)), reason=f"`{name}` has numbers that are not a number (NaN)")
        self.left.discard(name)
        return found

    def follows(self, name: str, expected: Callable[[Tensor], Tensor], tolerance: float) -> bool:
        """Whether a tensor, if it is there, is what a formula gives; it is used then."""
        if name not in self.tensors:
            return True
        found = self.take(name, dims=2)
        if not len(found) or (found - expected(found)).abs().max() > tolerance:
            self.left.add(name)
            return False
        return True

    def sizes(self) -> tuple[int, int]:
        """The rows of both embeddings. Raises X513, X518."""
        names = [("model.encoder.embed_tokens.weight",), ("model.decoder.embed_tokens.weight",)]
        shared = ("model.shared.weight", "shared.weight")
        one, two = (len(self.take([*own, *shared], dims=2)) for own in names)
        return one, two

    def copies(self, names: Sequence[str], originals: Sequence[Tensor]) -> None:
        """Marks tensors as used that have the values of one of the originals."""
        for name in names:
            t = self.tensors.get(name)
            if t is not None and any(t.shape == other.shape and torch.equal(t, other) for other in originals):
                self.left.discard(name)

    def finish(self) -> None:
        """Raises X514 where a tensor was not used."""
        if self.left:
            raise error("X514", Place(str(self.folder)), count=len(self.left), name=min(self.left))
