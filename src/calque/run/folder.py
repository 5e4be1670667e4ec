"""The run folder: what training writes, and how a trained model comes back without a flag.

experiment.toml      the experiment, every value resolved
architecture.adl     the canonical definition
codecs/              text to ids and back
log.jsonl            one JSON object per line: training, validation, calls of `calque train`, changes of the experiment
phases/              the experiment of each phase of the training: NNNN-from-update-U.toml
data/                the compiled corpus
training.lock        held by the training that writes here
checkpoints/         UPDATE.safetensors + UPDATE.json; state-UPDATE.* to resume from
model.safetensors    the final model, with model.json
replaced-NNNN/       what `calque train --restart` moved aside
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from calque.adl.check import CheckedDefinition, check
from calque.adl.compatibility import kept
from calque.data.codecs import Codec
from calque.data.corpus import checksum, seal
from calque.data.subwords import load_codecs, save_codecs
from calque.experiment import Experiment, digest, load
from calque.experiment import write as write_experiment
from calque.experiment.toml import EXPERIMENT as EXPERIMENT
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, Text, error
from calque.ground.files import clear_beside, made, only, staged, sweep, sync_folder, write_whole
from calque.layers.contract import Registry
from calque.layers.registry import builtin
from calque.model import Model, Shape

FORMAT = 1
ARCHITECTURE = "architecture.adl"
CODECS = "codecs"
LOG = "log.jsonl"
LOCK = "training.lock"
CHECKPOINTS = "checkpoints"
PHASES = "phases"
CORPUS = "data"
MODEL = "model"


@dataclass(frozen=True)
class TrainedModel:
    """A trained model and what is needed to use it; `meta` is its `model.json`."""

    model: Model
    codecs: tuple[Codec, Codec]
    experiment: Experiment
    meta: Mapping[str, Any]


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """K301 where the system refuses to write below `path`."""
    try:
        yield
    except OSError as fault:
        raise error("K301", Place(str(path)), reason=(fault.strerror or str(fault)).lower()) from None


@contextlib.contextmanager
def sole_training(folder: Path) -> Iterator[None]:
    """Makes the run folder and keeps every other training out of it. Raises K203 (one is there), K301.

    An error removes what was made here, as far as it is empty.
    """
    new = not (folder / LOCK).exists()
    with contextlib.ExitStack() as stack:
        with writing(folder):
            stack.enter_context(made(folder / CHECKPOINTS))
            free = stack.enter_context(only(folder / LOCK))
        if not free:
            raise error("K203", Place(str(folder)))
        with writing(folder):
            _clear(folder)
        try:
            yield
        except BaseException:
            if new:
                (folder / LOCK).unlink(missing_ok=True)
            raise


def clear(folder: Path) -> None:
    """Deletes what killed processes left in a run folder, for commands that only read it: what cannot be deleted stays."""
    with contextlib.suppress(OSError):
        if _leftovers(folder):
            with only(folder / LOCK) as free:
                if free:
                    _clear(folder)


def _leftovers(folder: Path) -> bool:
    return any(any(part.glob(".*")) for part in (folder, folder / CODECS, folder / PHASES, folder / CHECKPOINTS))


def _clear(folder: Path) -> None:
    """Deletes what killed processes left; the caller holds the lock of the folder."""
    clear_beside(folder / CORPUS)
    for part in (folder, folder / CODECS, folder / PHASES, folder / CHECKPOINTS):
        if part.is_dir():
            for path in part.iterdir():
                if match := re.fullmatch(r"\.(.+)\.json\.(old|[a-z0-9_]{8})", path.name):
                    _restore_pair(part / match[1], path)
            for weights in part.glob(".*.safetensors.tmp"):
                weights.unlink()
            sweep(part)


def _restore_pair(stem: Path, found: Path) -> None:
    """Brings back the JSON of a pair, old or new, whose replacement was killed; deletes the one that is not of its weights."""
    weights, index = _pair(stem)
    if not index.exists() and weights.is_file():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if json.loads(found.read_bytes())["sha256"] == checksum(weights):
                os.replace(found, index)
                sync_folder(index.parent)
    if found.name.endswith(".old"):
        found.unlink(missing_ok=True)


def write_tensors(stem: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes STEM.safetensors and STEM.json, which names the contents and their checksum.

    The JSON comes last and makes the pair valid. Both are whole on the disk before a pair that stood there is touched, and its
    JSON goes first, so that no moment shows parts of two pairs. Raises K301.
    """
    weights, index = _pair(stem)
    temporary, old = (weights.with_name(f".{weights.name}.tmp"), index.with_name(f".{index.name}.old"))
    with writing(weights):
        weights.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary)
            os.chmod(temporary, 0o644)  # as `write_whole` leaves files; safetensors writes for the owner alone
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            found = {"bytes": temporary.stat().st_size, "sha256": checksum(temporary)}
            with staged(index, _sealed({**about, **found})) as new:
                _replace_pair((temporary, new), (weights, index), old)
        except SafetensorError as fault:  # a full disk arrives as one
            raise error("K301", Place(str(weights)), reason=str(fault).lower()) from None
        finally:
            temporary.unlink(missing_ok=True)
            old.unlink(missing_ok=True)


def _replace_pair(new: tuple[Path, Path], pair: tuple[Path, Path], old: Path) -> None:
    """Puts weights and JSON that are whole on the disk under their names."""
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


def rewrite_about(stem: Path, about: Mapping[str, Any]) -> None:
    """Says something else about tensors that are there, in one step. Raises K301 and what `read_about` raises."""
    kept = {key: value for key, value in read_about(stem).items() if key in ("bytes", "sha256")}
    with writing(index := _pair(stem)[1]):
        write_whole(index, _sealed({**about, **kept}))


def _sealed(about: Mapping[str, Any]) -> bytes:
    whole = {"format": FORMAT, **about}
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
        raise error("K302", Place(str(index)), reason=(fault.strerror or str(fault)).lower()) from None
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
        raise error("K302", place, reason=(fault.strerror or str(fault)).lower()) from None


def remove_tensors(stem: Path) -> None:
    """Deletes a pair, its JSON first."""
    for path in reversed(_pair(stem)):
        with writing(path):
            path.unlink(missing_ok=True)


def _pair(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")


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
    held = weights_of(model)
    faults = [
        Diagnostic("K106", place, {"name": n, "expected": _shape(held.get(n)), "found": _shape(weights.get(n))})
        for n in sorted(held.keys() | weights.keys())
        if n not in held or n not in weights or held[n].shape != weights[n].shape
    ]
    if faults:
        raise CalqueError(faults[:10])
    with torch.no_grad():
        for name, t in held.items():
            given = weights[name]
            if share and isinstance(t, nn.Parameter) and (t.dtype, t.device) == (given.dtype, given.device):
                t.data = given
            else:
                t.copy_(given)


def _shape(t: Tensor | None) -> str:
    return "none" if t is None else "[" + ", ".join(map(str, t.shape)) + "]"


def start_run(folder: Path, experiment: Experiment, checked: CheckedDefinition, codecs: tuple[Codec, Codec]) -> None:
    """Makes the run folder and writes all that is known before training. Raises K301."""
    write_definition(folder, checked, codecs)
    with writing(folder):
        write_experiment(experiment, folder / EXPERIMENT)


def write_definition(folder: Path, checked: CheckedDefinition, codecs: tuple[Codec, Codec]) -> None:
    """Makes the run folder, with the architecture and the codecs. Raises K301."""
    with writing(folder):
        (folder / CODECS).mkdir(parents=True, exist_ok=True)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        save_codecs(folder / CODECS, *codecs)
        write_whole(folder / ARCHITECTURE, checked.text.encode())


def save_model(
    folder: Path,
    model: Model,
    weights: Mapping[str, Tensor],
    experiment: Experiment,
    data: str,
    figures: Mapping[str, Any],
    origin: Mapping[str, Any] | None = None,
) -> None:
    """Writes the final model of a run: `weights` by path, `data` the digest of the corpus. Raises K301.

    `origin`: the phases of its training and the parent that it started from, where there are some.
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


def codec_sums(folder: Path) -> dict[str, str]:
    """The checksums of the files of codecs, by name; temporary files of killed processes left out."""
    return {path.name: checksum(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def check_codecs(folder: Path, meta: Mapping[str, Any]) -> None:
    """Raises K101 or K105 where the codecs of a run folder are not those that its `model.json` names."""
    for name, expected in meta["codecs"].items():
        if name.startswith("."):  # a temporary file, which older versions took for a part of the codecs
            continue
        path = folder / CODECS / name
        if not path.is_file():
            raise error("K101", Place(str(path.parent)), name=name)
        if checksum(path) != expected:
            raise error("K105", Place(str(path)))


def load_model(
    folder: Path,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    registry: Registry | None = None,
) -> TrainedModel:
    """The model of a run folder, in evaluation mode. `registry` is needed only for layers that are not Calque's own.

    Raises K101 to K106 for a folder that is not whole, K107 where the definition no longer means what it did, and what
    `check`, `load_codecs` and `experiment.load` raise.
    """
    clear(folder)
    weights, meta = read_tensors(folder / MODEL)
    check_codecs(folder, meta)
    if not (folder / EXPERIMENT).is_file():
        raise error("K101", Place(str(folder)), name=EXPERIMENT)
    registry = registry or builtin()
    stored = Text(f"{folder / MODEL}.json", meta["architecture"])
    checked = check(stored, registry)
    if checked.hash != meta["architecture_hash"] and not kept(stored, checked.text):
        raise error("K107", Place(str(folder)), expected=meta["architecture_hash"], found=checked.hash)
    with torch.random.fork_rng(devices=[]):  # the first values, replaced below, are no one's random numbers
        model = Model(checked, Shape(**meta["shape"]), registry)
    # The file stays mapped: processes that load one model share its memory.
    load_weights(model, weights, Place(f"{folder / MODEL}.safetensors"), share=True)
    model.to(device=device, dtype=dtype).eval()
    return TrainedModel(model, load_codecs(folder / CODECS), load(folder / EXPERIMENT), meta)
