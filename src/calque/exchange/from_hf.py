"""Models of Hugging Face transformers as texts and weights: Marian, Pegasus, BART, mBART, M2M100 and NLLB.

They are one network: two switches say where norms stand, and `config.json` the rest. The text is written first; `recognise` then
finds its parts again, and each part takes its tensors by the names that transformers gives them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calque.exchange.hf_folder import Tensors
from calque.exchange.hf_vocabulary import Words
from calque.exchange.imported import Filling, Matrices, assemble, definition, kinds_of, residual
from calque.exchange.network import FEED, SELF, SOURCE, Block, Side, alternate
from calque.exchange.settings import DROPOUT, FLAG, SIZE, TEXT, check_values
from calque.ground.diagnostics import Place, error
from calque.layers.pos import sinusoids
from calque.layers.registry import builtin
from calque.model import Model

Config = Mapping[str, Any]
EPSILON = "1e-05"
"""Of every norm of these model types; config.json does not name it."""
ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu",
    "swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip
_NORMS = {SELF: "self_attn_layer_norm", SOURCE: "encoder_attn_layer_norm", FEED: "final_layer_norm"}
_PARTS = {SELF: "self_attn", SOURCE: "encoder_attn"}
_VALUES = {
    "activation_function": TEXT,
    **{f"{side}_{what}": SIZE for side in ("encoder", "decoder") for what in ("layers", "attention_heads", "ffn_dim")},
    **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), DROPOUT),
    "scale_embedding": FLAG,
}
"""What values in config.json have to be."""
_ASSUMED = {"m2m_100": {"activation_function": "relu", "attention_dropout": 0.1, "scale_embedding": True}}
"""What transformers assumes of a type where a key is absent, and not of the others."""
CLOSE = 2e-3
"""Between a table of positions and its formula: the tables of some files are in 16 bits."""


@dataclass(frozen=True)
class ModelType:
    """What a model type fixes: where norms stand, and its positions."""

    pre: bool
    embedded: bool
    positions: str
    output_bias: bool = True


TYPES = {
    "marian": ModelType(False, False, "sinusoids"),
    "pegasus": ModelType(True, False, "sinusoids"),
    "bart": ModelType(False, True, "learned"),
    "mbart": ModelType(True, True, "learned"),
    "m2m_100": ModelType(True, False, "from two", output_bias=False),
}


def read_model(config: Config, tensors: Tensors, words: tuple[Words, Words], place: Place) -> Model:
    """The model that a folder holds. Raises X512 (what the language cannot say), X513, X514, X518, X522."""
    check_values(config, _VALUES, place)
    rows = (words[0].rows, words[1].rows)

    def read(filling: Filling, side: Side) -> None:
        _read_side(config, filling, side)

    return assemble(text_of(config, tensors, place), _matrices(tensors), rows, tensors, read, place)


def _matrices(tensors: Tensors) -> Matrices:
    shared, encoder, decoder = (
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    )
    source = tensors.take([encoder, shared], dims=2)
    target = tensors.take([decoder, shared], dims=2)
    output = tensors.take(["lm_head.weight", decoder, shared], dims=2)
    tensors.copies([shared, encoder, decoder, "lm_head.weight"], [source, target, output])
    bias = torch.zeros(len(output))
    if "final_logits_bias" in tensors:
        bias = tensors.take("final_logits_bias").flatten()
    return Matrices(source, target, output, bias)


# -- the text


def text_of(config: Config, tensors: Tensors, place: Place) -> str:
    """The definition of a model. Raises X512, X513, X518."""
    kind = TYPES[config["model_type"]]
    act = activation(config["activation_function"], place)
    sides = []
    for side in ("encoder", "decoder"):
        blocks = _blocks(config, side, act, kind.pre)
        parts = [
            *_front(config, tensors, side, kind, place),
            f"repeat({config[f'{side}_layers']}, {' -> '.join(blocks)})",
        ]
        if kind.pre:
            parts.append(f"norm(eps={EPSILON})")
        sides.append(" -> ".join(parts))
    return definition(config["d_model"], *sides)


def activation(name: str, place: Place) -> str:
    """Our word for an activation. Raises X512 where the language has none."""
    if (ours := ACTIVATIONS.get(name)) not in (choices := activations()):
        known = [theirs for theirs, word in ACTIVATIONS.items() if word in choices]
        raise error("X512", place, key="activation_function", found=name, expected=", ".join(known))
    return str(ours)


def activations() -> tuple[str, ...]:
    """The activations of the language."""
    (parameter,) = builtin()["act"].signature().parameters
    choices: tuple[str, ...] = parameter.kind.choices  # type: ignore[attr-defined]  # `v` is a word
    return choices


def knows(layer: str, argument: str) -> bool:
    """Whether the language has a layer with an argument."""
    registry = builtin()
    return layer in registry and any(p.name == argument for p in registry[layer].signature().parameters)


def _front(config: Config, tensors: Tensors, side: str, kind: ModelType, place: Place) -> list[str]:
    """Scale, positions, the norm behind them, dropout."""
    p, scaled = config["dropout"], config["scale_embedding"]
    if kind.positions == "from two":
        if not knows("pos", "start"):
            raise error("X512", place, key="model_type", found=config["model_type"], expected="positions from 0")
        start = config["pad_token_id"] + 1
        return [f"pos(dropout={p}, scale={_flag(scaled)}, endpoint=yes, start={start})"]
    table = f"model.{side}.embed_positions.weight"
    if kind.positions == "sinusoids" and tensors.follows(table, _sinusoids, CLOSE):
        return [f"pos(dropout={p}, scale={_flag(scaled)})"]
    rows = len(tensors.take(table, dims=2)) - (2 if kind.positions == "learned" else 0)
    parts = [f"learn_pos({rows})"]
    if scaled:
        if not knows("scale", "by"):
            raise error("X512", place, key="scale_embedding", found="true", expected="false with learned positions")
        parts.insert(0, f"scale({math.sqrt(config['d_model'])!r})")
    if kind.embedded:
        parts.append(f"norm(eps={EPSILON})")
    return [*parts, f"dropout({p})"]


def _sinusoids(table: Tensor) -> Tensor:
    return sinusoids(torch.arange(len(table)), table.shape[1], "halves", False).to(table.dtype)


def _flag(value: bool) -> str:
    return "yes" if value else "no"


def _blocks(config: Config, side: str, act: str, pre: bool) -> list[str]:
    heads, p = config[f"{side}_attention_heads"], config.get("dropout", 0.0)
    weights = config.get("attention_dropout", 0.0)
    bodies = [f"mh_dot_self_att(heads={heads}, bias=yes, dropout={weights})"]
    if side == "decoder":
        bodies.append(f"mh_dot_src_att(heads={heads}, bias=yes, dropout={weights})")
    n, inner = config[f"{side}_ffn_dim"], config.get("activation_dropout", 0.0)
    first = f"ff({n}, dropout={inner})" if act == "relu" else f"linear({n}) -> act({act}) -> dropout({inner})"
    bodies.append(f"{first} -> linear")
    return [residual(f"norm(eps={EPSILON})", body, p, pre) for body in bodies]


# -- the tensors


def _read_side(config: Config, filling: Filling, side: Side) -> None:
    name, kind = f"model.{side.name}", TYPES[config["model_type"]]
    if side.positions is not None and side.positions.name == "learn_pos":
        skipped = 2 if kind.positions == "learned" else 0
        filling.put(f"{side.positions.path}.table", f"{name}.embed_positions.weight", lambda table: table[skipped:], 2)
    if side.input_norm is not None:
        filling.norm(side.input_norm, f"{name}.layernorm_embedding")
    if side.final_norm is not None:
        filling.norm(side.final_norm, f"{name}.layer_norm")
    for k, blocks in enumerate(alternate(side, "import", kinds_of(side, SOURCE))):
        for block in blocks:
            _read_block(filling, block, f"{name}.layers.{k}")


def _read_block(filling: Filling, block: Block, name: str) -> None:
    filling.norm(block.norm, f"{name}.{_NORMS[block.kind]}")
    if block.kind == FEED:
        filling.feed_forward((block.node, block.out), (f"{name}.fc1", f"{name}.fc2"))
        return
    for ours in ("q", "k", "v", "out"):
        filling.linear(block.node, ours, f"{name}.{_PARTS[block.kind]}.{ours}_proj")


Reader = Callable[[Config, Tensors, tuple[Words, Words], Place], Model]


def read_config(config: dict[str, Any]) -> Config:
    """config.json with the values that transformers assumes where a key is absent."""
    assumed = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "activation_function": "gelu"}
    assumed |= {"scale_embedding": False} | _ASSUMED.get(config.get("model_type", ""), {})
    return {**assumed, **{key: value for key, value in config.items() if value is not None}}
