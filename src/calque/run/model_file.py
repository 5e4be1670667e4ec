"""The model file of a run: `model.safetensors` with `model.json`, and loading a trained model from it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from calque.adl.check import check
from calque.adl.compatibility import kept
from calque.data.codecs import Codec
from calque.data.subwords import load_codecs
from calque.data.sums import checksum
from calque.experiment import Experiment, digest, load
from calque.experiment.toml import EXPERIMENT
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text, error
from calque.layers.contract import Registry
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run.folder import CODECS, MODEL, clear
from calque.run.stored import restored
from calque.run.tensors import read_tensors, write_tensors

DRAWN = {nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_}
"""What torch's own layers draw their initial values with."""


@dataclass(frozen=True)
class TrainedModel:
    """A trained model and what is needed to use it; `meta` is its `model.json`."""

    model: Model
    codecs: tuple[Codec, Codec]
    experiment: Experiment
    meta: Mapping[str, Any]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's numbers by path: parameters, shared ones once, and the constants it keeps."""
    parameters = dict(model.named_parameters())
    every = dict(model.named_parameters(remove_duplicate=False))
    constants = {name: t for name, t in model.state_dict().items() if name not in every}
    return {**parameters, **constants}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], place: Place, share: bool = False) -> None:
    """Copies weights into a model of any floating type. Raises K106, one for each that does not fit.

    `share`: parameters become the given tensors, no copies, where type and device agree.
    """
    present = weights_of(model)
    faults = [
        Diagnostic(
            "K106", place, {"name": n, "expected": shape_text(present.get(n)), "found": shape_text(weights.get(n))}
        )
        for n in sorted(present.keys() | weights.keys())
        if n not in present or n not in weights or present[n].shape != weights[n].shape
    ]
    if faults:
        raise CalqueError(faults[:10])
    with torch.no_grad():
        for name, t in present.items():
            given = weights[name]
            if share and isinstance(t, nn.Parameter) and (t.dtype, t.device) == (given.dtype, given.device):
                t.data = given
            else:
                t.copy_(given)


def shape_text(t: Tensor | None) -> str:
    """A shape as diagnostics print it; `none` for a missing tensor."""
    return "none" if t is None else "[" + ", ".join(map(str, t.shape)) + "]"


def save_model(
    folder: Path,
    model: Model,
    weights: Mapping[str, Tensor],
    experiment: Experiment,
    data: str,
    figures: Mapping[str, object],
    origin: Mapping[str, object] | None = None,
) -> None:
    """Writes the final model of a run: `weights` by path, `data` the digest of the corpus. Raises K301.

    `origin`: the phases of its training, and the parent that it started from, where it has them.
    """
    codecs = codec_sums(folder / CODECS)
    about = {
        "architecture": model.checked.text,
        "architecture_hash": model.checked.hash,
        "shape": asdict(model.shape),
        "experiment": digest(experiment),
        "data": data,
        "codecs": codecs,
        "figures": dict(figures),
        **(origin or {}),
    }
    write_tensors(folder / MODEL, weights, about)


def read_model(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The final weights of a run by path, and its `model.json`. Raises what `read_tensors` raises."""
    weights, about = read_tensors(folder / MODEL)
    return restored(weights), about


def codec_sums(folder: Path) -> dict[str, str]:
    """The checksums of the files of codecs, by name; temporary files of killed processes left out."""
    return {path.name: checksum(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def check_codecs(folder: Path, meta: Mapping[str, Any]) -> None:
    """Raises K101 or K105 where the codecs of a run folder are not those that its `model.json` names."""
    for name, expected in meta["codecs"].items():
        if name.startswith("."):  # a temporary file, which older versions listed by mistake
            continue
        path = folder / CODECS / name
        if not path.is_file():
            raise error("K101", Place(str(path.parent)), name=name)
        if checksum(path) != expected:
            raise error("K105", Place(str(path)))


class _NotDrawn(TorchFunctionMode):
    """Leaves most initial values of parameters undrawn: those of a run replace them."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func in DRAWN and isinstance(given.get("tensor"), nn.Parameter):
            return given["tensor"]
        return func(*args, **given)


def load_model(
    folder: Path,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    registry: Registry | None = None,
) -> TrainedModel:
    """The model of a run folder, in evaluation mode. `registry` is needed only for layers that are not Calque's own.

    Raises K101 to K106 for a damaged folder, K107 where the definition has changed its meaning, and what `check`, `load_codecs`
    and `experiment.load` raise.
    """
    clear(folder)
    weights, meta = read_model(folder)
    check_codecs(folder, meta)
    if not (folder / EXPERIMENT).is_file():
        raise error("K101", Place(str(folder)), name=EXPERIMENT)
    registry = registry or builtin()
    stored = Text(f"{folder / MODEL}.json", meta["architecture"])
    checked = check(stored, registry, stored=True)
    if checked.hash != meta["architecture_hash"] and not kept(stored, checked.text):
        raise error("K107", Place(str(folder)), expected=meta["architecture_hash"], found=checked.hash)
    with torch.random.fork_rng(devices=[]), _NotDrawn():
        model = Model(checked, Shape(**meta["shape"]), registry)
    # The file stays mapped: processes that load one model share its memory.
    load_weights(model, weights, Place(f"{folder / MODEL}.safetensors"), share=True)
    model.to(device=device, dtype=dtype).eval()
    return TrainedModel(model, load_codecs(folder / CODECS), load(folder / EXPERIMENT), meta)
