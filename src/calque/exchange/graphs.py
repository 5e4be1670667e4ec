"""Models as ONNX graphs: a layer's state, taken apart into named tensors, goes from step to step.

    encoder  source, mask -> the points of the encoder that the decoder reads
    init     mask, points -> the states before the first word
    step     word, states -> logits, the states after it that the step has changed

With a beam of K, `step` has K rows, hypotheses of one sentence, and takes in `parents` which of them each row continues; in place
of logits it gives what a search needs: see `Search`. Shapes are fixed: one sentence, padded to `SOURCE_POSITIONS`, and room for
`WORDS` words, so that a graph needs no branch. Large numbers stand in one file for all three.
"""

import contextlib
import io
import keyword
import logging
import re
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS
from calque.exchange.graph_numbers import NUMBERS, quantise, share, without_constants
from calque.exchange.weights import Exported
from calque.ground.diagnostics import Place, error
from calque.layers.chain import Chain
from calque.layers.contract import Layer, Merge, Point
from calque.layers.state import Foreseen, Memory, States
from calque.model import Model

SOURCE_POSITIONS, WORDS = 64, 96
GRAPHS = ("encoder.onnx", "init.onnx", "step.onnx")
ABOUT = "model.json"
REASON = 300
"""Characters of the exporter's reason that a message shows, at most."""
_FOLDERS = re.compile(r"[^\s()]*/(?=[^\s()/]*\.py)")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Named = list[tuple[str, Tensor, str]]
"""Tensors of states: name, value, and whether a row is a sentence or a hypothesis."""


@dataclass(frozen=True)
class Search:
    """What a step gives a search with a beam of K, for each of K hypotheses, in place of logits:

    values  log-probabilities of its 2K best words but PAD and BOS, the highest first; that of EOS less the word penalty. All words
            where the vocabulary has fewer
    words   these words
    end     the value of EOS
    """

    beam: int
    word_penalty: float


def write_graphs(
    exported: Exported, folder: Path, search: Search | None = None, precision: str = "float32"
) -> dict[str, Any]:
    """Writes `GRAPHS` and their numbers into a folder, in float32 or int8; returns what a program needs to know of them.

    Raises X301 (a package is missing), X505 (a state that is no tensor), X506 (what the exporter cannot do).
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise error("X301", extra="onnx", package="onnxscript") from None
    with tempfile.TemporaryDirectory(dir=folder) as made, torch.no_grad():
        rough = Path(made)
        states = _write(_speakable(exported.model), rough, Place(str(exported.folder)), search)
        constant = without_constants(rough / GRAPHS[-1])
        share(quantise(rough, GRAPHS) if precision == "int8" else rough, folder, GRAPHS)
    return {
        "numbers": NUMBERS,
        "source_positions": SOURCE_POSITIONS,
        "words": WORDS,
        "source_end": exported.trained.experiment.data.source_end,
        **dict(zip(("pad", "begin", "end", "unknown"), range(len(SPECIALS)), strict=True)),
        "never_chosen": [PAD, BOS],
        "states": [_described(*state, constant) for state in states],
    }


def _write(model: Model, folder: Path, place: Place, search: Search | None) -> Named:
    """Writes the three graphs; returns the states."""
    source = torch.full((1, SOURCE_POSITIONS), EOS)
    mask = torch.arange(SOURCE_POSITIONS)[None] < SOURCE_POSITIONS // 2
    points = model.encode(source, mask)
    sources = [(name, t) for name, point in points.items() for name, t in _tensors_of(name, point)]
    beams = 1 if search is None else search.beam
    state = model.init_state(points, WORDS, beams)
    word, rows = torch.full((beams, 1), BOS), torch.arange(beams)
    named = list(name_states(model, state, place))
    first = [t.clone() for _, t, _ in named]
    model.step(word, _filled(state, iter([t.clone() for t in first])), WORDS, beams)  # tables of positions grow here
    names = [name for name, _, _ in named]
    inputs = [name for name, _ in sources]
    values = [t for _, t in sources]
    _save(folder / "encoder.onnx", place, _Encoder(model), (source, mask), ["source", "mask"], inputs)
    _save(folder / "init.onnx", place, _Init(model, points, beams), (mask, values), ["mask", *inputs], names)
    after = [f"next.{name}" for name in names]
    file = folder / "step.onnx"
    if search is None:
        _save(file, place, _Step(model, state), (word, first), ["word", *names], ["logits", *after])
    else:
        step, outputs = _SearchStep(model, state, search), ["values", "words", "end", *after]
        _save(file, place, step, (word, rows, first), ["word", "parents", *names], outputs)
    return named


def _speakable(model: Model) -> Model:
    """The model, without names of parts that Python reserves, such as `from`: the exporter writes paths as a program."""
    for layer in list(model.modules()):
        if isinstance(layer, Layer) and any(map(keyword.iskeyword, layer._modules)):
            parts = dict(layer._modules)
            vars(layer)["part"] = parts.__getitem__
            for name in filter(keyword.iskeyword, parts):
                layer.add_module(f"{name}_", layer._modules.pop(name))
    return model.requires_grad_(False)


def _described(name: str, t: Tensor, rows: str, constant: Set[str]) -> dict[str, Any]:
    kind, after = str(t.dtype).removeprefix("torch."), f"next.{name}"
    shape = {"shape": list(t.shape), "type": kind, "batch_axis": 0, "rows": rows}
    return {"name": name, "next": None if after in constant else after, **shape}


def _tensors_of(name: str, point: Point) -> list[tuple[str, Tensor]]:
    states = [(f"point.{name}.state.{k}", t) for k, t in enumerate(point.state or ())]
    return [(f"point.{name}.value", point.value), *states]


def name_states(model: Model, state: Any, place: Place) -> Iterator[tuple[str, Tensor, str]]:
    """The tensors of a state, named after the layers that own them. Raises X505."""
    history, inner = state.parts
    yield "state.positions", history.positions, "hypotheses"
    if history.origin is not None:
        yield "state.origin", history.origin.long(), "sentences"  # graphs do little with 16 bits
    yield from _named(model.decoder, inner, place)


def _named(layer: Layer, state: Any, place: Place) -> Iterator[tuple[str, Tensor, str]]:
    inside: list[Layer] = []
    if isinstance(layer, Chain):
        inside = [item for item, _ in layer._items]
    elif isinstance(layer, Merge):
        inside = layer._bodies
    if inside and isinstance(state, States) and len(state.parts) == len(inside):
        for part, below in zip(inside, state.parts, strict=True):
            yield from _named(part, below, place)
    else:
        yield from _leaves(f"state.{layer.path}", state, "hypotheses", place)


def _leaves(name: str, value: Any, rows: str, place: Place) -> Iterator[tuple[str, Tensor, str]]:
    if isinstance(value, Tensor):
        yield name, value, rows
    elif isinstance(value, tuple):
        rows = "sentences" if isinstance(value, Memory | Foreseen) else rows
        fields = getattr(value, "_fields", None) or range(len(value))
        for field, part in zip(fields, value, strict=True):
            yield from _leaves(f"{name}.{field}", part, rows, place)
    elif value is not None and not isinstance(value, int):
        raise error("X505", place, name=name, found=type(value).__name__)


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    """A state of the same form with other tensors; what the host knows of positions is forgotten."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, tuple):
        parts = [_filled(part, tensors) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return None


class _Encoder(nn.Module):
    def __init__(self, model: Model):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor) -> list[Tensor]:
        points = self.model.encode(source, mask)
        return [t for name, point in points.items() for _, t in _tensors_of(name, point)]


class _Init(nn.Module):
    def __init__(self, model: Model, points: Mapping[str, Point], beams: int):
        super().__init__()
        self.model, self.points, self.beams = model, points, beams

    def forward(self, mask: Tensor, values: list[Tensor]) -> list[Tensor]:
        given, points = iter(values), {}
        for name, point in self.points.items():
            value = next(given)
            state = None if point.state is None else tuple(next(given) for _ in point.state)
            points[name] = Point(value, mask, state)
        begun = self.model.init_state(points, WORDS, self.beams)
        return [t for _, t, _ in name_states(self.model, begun, Place(""))]


class _Step(nn.Module):
    def __init__(self, model: Model, state: Any):
        super().__init__()
        self.model, self.state = model, state

    def forward(self, word: Tensor, states: list[Tensor]) -> list[Tensor]:
        z, after = self.model.step(word, _filled(self.state, iter(states)), WORDS)
        return [self.model.logits(z[:, 0]), *(t for _, t, _ in name_states(self.model, after, Place("")))]


class _SearchStep(nn.Module):
    def __init__(self, model: Model, state: Any, search: Search):
        super().__init__()
        self.model, self.state, self.search = model, state, search

    def forward(self, word: Tensor, parents: Tensor, states: list[Tensor]) -> list[Tensor]:
        moved = _filled(self.state, iter(states)).select(parents)
        z, after = self.model.step(word, moved, WORDS, self.search.beam)
        logp = self.model.logits(z[:, 0]).log_softmax(1)
        end = logp[:, EOS] - self.search.word_penalty
        choice = torch.cat([end[:, None], logp[:, EOS + 1 :]], 1)  # every word but PAD and BOS
        values, words = choice.topk(min(2 * self.search.beam, choice.shape[1]), 1)
        return [values, words + EOS, end, *(t for _, t, _ in name_states(self.model, after, Place("")))]


def _save(file: Path, place: Place, module: nn.Module, given: Any, inputs: list[str], outputs: list[str]) -> None:
    """Writes a graph, its numbers inside. Raises X506 at a place, and OSError where the system refuses to write."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the exporter speaks of its own optimisations
    try:
        silence = io.StringIO()  # before it fails it may print a whole graph
        with warnings.catch_warnings(), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module.eval(), given, dynamo=True, input_names=inputs, output_names=outputs, verbose=False
            )
            if program is None:
                raise RuntimeError("it returned nothing")
            program.save(file)
    except Exception as fault:  # the exporter raises many kinds of exceptions
        # Without a number it comes from Python, not from the system.
        if isinstance(fault, OSError) and fault.errno is not None:
            raise
        raise error("X506", place, graph=file.stem, reason=_reason(fault)) from None
    finally:
        logging.disable(disabled)


def _reason(fault: BaseException) -> str:
    """Why an export failed, in plain text and short.

    What the exporter raises itself names only the step and gives advice in colours; what it was raised from is the reason.
    """
    while fault.__cause__ is not None:
        fault = fault.__cause__
    first, *rest = _COLOURS.sub("", str(fault)).strip().split("\n")
    if first and not isinstance(fault, RuntimeError):
        first = f"{type(fault).__name__}: {first}"
    told = [first or type(fault).__name__, *(_FOLDERS.sub("", line) for line in rest if line.startswith("Caused by: "))]
    return textwrap.shorten(" ".join(told), REASON, placeholder=" ...").rstrip(".")
