"""A training that starts from the weights of another run: its parent (`model.parent`, `calque train --from`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calque.data.codecs import Codec, difference
from calque.data.compiled import GivenCodecs
from calque.data.subwords import load_codecs
from calque.experiment import DataSettings, Experiment, load
from calque.ground.diagnostics import CalqueError, Place, error
from calque.model import Model
from calque.run.folder import CODECS, EXPERIMENT, MODEL
from calque.run.model_file import check_codecs, codec_sums, read_model
from calque.run.tensors import read_about

TAKEN = (
    "subwords",
    "codes",
    "vocabulary_size",
    "minimum_count",
    "split_digits",
    "byte_fallback",
    "joint",
    "source_end",
)
"""The keys of [data] that describe codecs, and how the sentences that they make end."""
_SOURCE = "source_embedding.weight"
_TARGET = ("target_embedding.weight", "output.weight")
_VOCABULARY = {_SOURCE: 0, **dict.fromkeys(_TARGET, 1), "output.bias": 1}
"""The tensors with a row for each entry of a vocabulary, and its side."""


@dataclass(frozen=True)
class WeightMatch:
    """What a model took over from its parent, and why it took over no more."""

    matched: Mapping[str, int]
    """Path and number of parameters."""
    others: Mapping[str, str]
    """Path and reason."""
    parameters: int
    """Of the whole model."""

    def __str__(self) -> str:
        count = sum(self.matched.values())
        share = f"{len(self.matched)} of {len(self.matched) + len(self.others)} tensors"
        return f"{share} match, {count:,} of {self.parameters:,} parameters"


def named(folder: Path) -> dict[str, str]:
    """What identifies a parent: the hash of its architecture and the checksum of its weights. Raises K101 to K103."""
    about = read_about(folder / MODEL)
    return {"run": str(folder), "architecture_hash": about["architecture_hash"], "sha256": about["sha256"]}


def codecs_of(data: DataSettings, folder: Path) -> tuple[DataSettings, GivenCodecs]:
    """The codecs of a run folder, and [data] with the keys that describe them.

    Raises K101, D209 where they lack a symbol of [data], and what `load_codecs` raises.
    """
    if not (folder / EXPERIMENT).is_file():
        raise error("K101", Place(str(folder)), name=EXPERIMENT)
    theirs = load(folder / EXPERIMENT).data
    kept = {key: getattr(theirs, key) for key in TAKEN}
    codecs = load_codecs(folder / CODECS)
    for symbol in data.every_symbol:
        codecs[0].check_symbol(symbol, Place(str(folder)))
    taken = replace(data, **kept, symbols=theirs.every_symbol)
    return taken, GivenCodecs(codecs, codec_sums(folder / CODECS))


def start_from(model: Model, codecs: tuple[Codec, Codec], folder: Path) -> WeightMatch:
    """Copies what fits from the model of a run folder: every parameter of the same path and shape.

    Embeddings and the output layer fit where the vocabulary of their side is the same and as many matrices are one; constants
    that were measured on data stay those of this run's data. Raises X441 where nothing fits, and what `read_model` raises.
    """
    weights, about = read_model(folder)
    check_codecs(folder, about)
    theirs = _every_name(weights, about["shape"]["tying"])
    same = [difference(a, b) is None for a, b in zip(codecs, load_codecs(folder / CODECS), strict=True)]
    aliases: dict[int, list[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(p), []).append(name)
    matched: dict[str, int] = {}
    others: dict[str, str] = {}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, p in parameters.items():
            reason = _misfit(aliases[id(p)], p, theirs, same)
            if reason is None:
                p.copy_(theirs[name])
                matched[name] = p.numel()
            else:
                others[name] = reason
    if not matched:
        raise error("X441", Place(str(folder)), count=len(parameters))
    return WeightMatch(matched, others, sum(p.numel() for p in parameters.values()))


def _every_name(weights: Mapping[str, Tensor], tying: str) -> dict[str, Tensor]:
    """Weights under every name that they have in the model: a shared matrix is stored once."""
    by_name = dict(weights)
    if tying == "three-way":
        by_name |= dict.fromkeys(_TARGET, weights[_SOURCE])
    elif tying == "target":
        by_name[_TARGET[1]] = weights[_TARGET[0]]
    return by_name


def _misfit(names: Iterable[str], p: Tensor, theirs: Mapping[str, Tensor], same: list[bool]) -> str | None:
    """Why a parameter with these names cannot be taken over; None where it can."""
    given = [theirs.get(name) for name in names]
    first = given[0]
    if first is None:
        return "the parent has none of this path"
    if any(other is not first for other in given):
        return "the parent has several matrices instead of one"
    if not all(same[_VOCABULARY[name]] for name in names if name in _VOCABULARY):
        return "the vocabulary is another"
    if first.shape != p.shape:
        return f"of shape {list(first.shape)} there, {list(p.shape)} here"
    return None


def begin_from(
    model: Model, codecs: tuple[Codec, Codec], experiment: Experiment, tell: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Takes over what fits from the parent that an experiment names, and reports what does not fit.

    Returns what the run remembers of its parent, which it does not need any more, and the same with every path for the log.
    """
    folder = Path(experiment.model.parent)
    match = start_from(model, codecs, folder)
    tell(f"from {folder}: {match}")
    for path, reason in match.others.items():
        tell(f"  {path} starts anew: {reason}")
    remembered = {
        **named(folder),
        "vocabulary": experiment.data.vocabulary,
        "tensors": [len(match.matched), len(match.matched) + len(match.others)],
        "parameters": [sum(match.matched.values()), match.parameters],
    }
    return remembered, {"parent": {**remembered, "matched": dict(match.matched), "others": dict(match.others)}}


def refuse_another_parent(run: Path, state: Mapping[str, Any], before: str, asked: str) -> None:
    """Raises K201 where the run of a state began from another parent than the one asked for.

    `before` and `asked` are paths. A run continues without its parent: where none, or the same path, is named, nothing is read.
    """
    if not state or not asked or asked == before:
        return
    try:
        given = named(Path(asked))["sha256"]
    except CalqueError:
        given = asked
    if given != (state.get("parent") or {}).get("sha256"):
        raise error("K201", Place(str(run)), what="parent", expected=before or "none", found=asked, run=run)
