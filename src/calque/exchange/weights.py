"""The numbers of a run by the parts of the network that `network` recognises, in float32."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from calque.adl.check import check
from calque.adl.tree import Node
from calque.data.vocabulary import BOS, PAD
from calque.exchange.network import Side
from calque.ground.diagnostics import Text
from calque.ground.languages import LanguagePair
from calque.layers.contract import Context, Registry
from calque.layers.registry import builtin
from calque.model import Model
from calque.run.folder import ARCHITECTURE
from calque.run.model_file import TrainedModel, load_model

NEVER = -1e4
"""The bias of a word that is never chosen: exp of it is 0 in every type, and it is finite in every type."""

Linear = tuple[Tensor, Tensor | None]
"""Weight [out, in] and bias."""


@dataclass(frozen=True)
class Options:
    """What some formats need to know beside the run.

    languages  the codes of source and target, empty where they are not named
    tags       for several pairs of languages, the symbol in front of the sources of each, or nothing
    runtime    a folder with what runs the model there, to take along
    beam       hypotheses for each sentence; None: as in [decode]
    """

    languages: tuple[str, str] = ("", "")
    tags: Mapping[LanguagePair, str] = field(default_factory=dict)
    runtime: Path | None = None
    beam: int | None = None


NO_OPTIONS = Options()


@dataclass(frozen=True)
class Exported:
    """A run to write for another tool: its model on the processor, and its numbers by path."""

    folder: Path
    trained: TrainedModel
    numbers: Mapping[str, Tensor]
    options: Options = NO_OPTIONS

    @property
    def model(self) -> Model:
        """The module."""
        return self.trained.model

    def tensor(self, node: Node, name: str) -> Tensor:
        """A parameter of a layer."""
        return self.numbers[f"{node.path}.{name}"].detach()

    def linear(self, node: Node, part: str = "project") -> Linear:
        """A linear map of a layer: its weight, and its bias or None."""
        bias = self.numbers.get(f"{node.path}.{part}.bias")
        return self.tensor(node, f"{part}.weight"), None if bias is None else bias.detach()

    def norm(self, node: Node) -> tuple[Tensor, Tensor | None]:
        """Gain and shift of a norm; no shift where it has none."""
        shift = self.numbers.get(f"{node.path}.shift")
        return self.tensor(node, "gain"), None if shift is None else shift.detach()

    @property
    def source_embedding(self) -> Tensor:
        """[source words, d]"""
        return self.model.source_embedding.weight.detach()

    @property
    def target_embedding(self) -> Tensor:
        """[target words, d]"""
        return self.model.target_embedding.weight.detach()

    @property
    def output(self) -> Linear:
        """The output layer; its bias is zero where the model has none, and forbids the words that no search chooses."""
        own: Tensor | None = self.model.output.bias
        bias = torch.zeros(self.model.output.out_features) if own is None else own.detach().clone()
        bias[[PAD, BOS]] = NEVER
        return self.model.output.weight.detach(), bias

    def positions(self, side: Side, rows: int) -> Tensor | None:
        """What is added to the embeddings of the first positions, [rows, d]; None where the side has no positions."""
        if side.positions is None:
            return None
        layer = self.model.get_submodule(side.positions.path)
        with torch.no_grad():
            table: Tensor = layer(torch.zeros(1, rows, side.width), Context())[0]
        return table


def open_exported(folder: Path, options: Options = NO_OPTIONS, registry: Registry | None = None) -> Exported:
    """Loads the run to export; `registry` has the layers that its definition may name. Raises what `load_model` raises.

    The definition is read from `architecture.adl`, which holds the canonical text, so that errors show a place in that file.
    """
    trained = load_model(folder, registry=registry)
    model = trained.model
    model.checked = check(Text(str(folder / ARCHITECTURE), model.checked.text), registry or builtin())
    return Exported(folder, trained, dict(model.named_parameters(remove_duplicate=False)), options)
