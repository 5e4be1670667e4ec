"""T5 and its descendants (T5 v1.1, mT5, Flan) as texts and weights.

No biases, no positions but those in the scores, a root-mean-square norm before each block. The numbers of distances are held by the
first block of a side there and shared by all; here each block has a copy.
"""

from collections.abc import Mapping
from typing import Any

import torch

from calque.exchange.from_hf import activation
from calque.exchange.hf_folder import Tensors
from calque.exchange.hf_vocabulary import Words
from calque.exchange.imported import Filling, Matrices, assemble, definition, kinds_of, residual
from calque.exchange.network import FEED, SELF, SOURCE, Block, Side, alternate
from calque.exchange.settings import DROPOUT, SIZE, TEXT, check_values, real
from calque.ground.diagnostics import Place
from calque.model import Model

Config = Mapping[str, Any]
SHARED = "shared.weight"
_OWN = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_ASSUMED = {
    "d_kv": 64, "num_heads": 8, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu",
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "num_layers": 6,
}  # fmt: skip
_VALUES = {
    **dict.fromkeys(("d_ff", "d_kv", "num_heads", "num_layers", "num_decoder_layers"), SIZE),
    **dict.fromkeys(("relative_attention_num_buckets", "relative_attention_max_distance"), SIZE),
    "dropout_rate": DROPOUT, "layer_norm_epsilon": real(0, 1), "feed_forward_proj": TEXT,
}  # fmt: skip
"""What values in config.json have to be."""


def read_t5(config: Config, tensors: Tensors, words: tuple[Words, Words], place: Place) -> Model:
    """The model that a folder holds. Raises X512, X513, X514, X518, X522."""
    config = {**_ASSUMED, **config}
    config.setdefault("num_decoder_layers", config["num_layers"])
    check_values(config, _VALUES, place)
    source, target = (tensors.take([own, SHARED], dims=2) for own in _OWN)
    output = tensors.take(["lm_head.weight", _OWN[1], SHARED], dims=2)
    # Their outputs are divided by sqrt(d) where input and output matrix are one.
    scaled = bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))
    tensors.copies([SHARED, *_OWN, "lm_head.weight"], [source, target, output])
    matrices = Matrices(source, target, output, torch.zeros(len(output)))
    rows = (words[0].rows, words[1].rows)
    return assemble(text_of(config, scaled, place), matrices, rows, tensors, _read_side, place)


def text_of(config: Config, scaled: bool, place: Place) -> str:
    """The definition of a model. Raises X512."""
    p, eps = config["dropout_rate"], repr(float(config["layer_norm_epsilon"]))
    norm = f"rms_norm(eps={eps})"
    feed = _feed_forward(config, place)
    sides = []
    for side, count in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        bodies = [_attention(config, "mh_dot_self_att"), *_source_attention(config, side), feed]
        blocks = " -> ".join(residual(norm, body, p, pre=True) for body in bodies)
        end = f" -> scale({config['d_model'] ** -0.5!r})" if scaled and side == "decoder" else ""
        sides.append(f"dropout({p}) -> repeat({count}, {blocks}) -> {norm} -> dropout({p}){end}")
    return definition(config["d_model"], *sides)


def _source_attention(config: Config, side: str) -> list[str]:
    return [_attention(config, "mh_dot_src_att")] if side == "decoder" else []


def _attention(config: Config, layer: str) -> str:
    heads, width = config["num_heads"], config["num_heads"] * config["d_kv"]
    relative = ""
    if layer == "mh_dot_self_att":
        buckets, reach = (config[f"relative_attention_{name}"] for name in ("num_buckets", "max_distance"))
        relative = f", relative=t5, buckets={buckets}, reach={reach}"
    options = f"heads={heads}, width={width}, s=1, dropout={config['dropout_rate']}{relative}"
    if width == config["d_model"]:
        return f"{layer}({options})"
    return f"{layer}({options}, out=no) -> linear(bias=no)"


def _feed_forward(config: Config, place: Place) -> str:
    """The hidden layer, gated or not, and the way back."""
    n, p = config["d_ff"], config["dropout_rate"]
    first, _, last = str(config["feed_forward_proj"]).partition("-")
    name = last or first
    # They call the tanh form of it `gelu` where the network is gated.
    act = activation("gelu_new" if first == "gated" and name == "gelu" else name, place)
    inner = f"linear({n}, bias=no) -> act({act})"
    if first == "gated":
        inner = f"mul({inner}, linear({n}, bias=no))"
    return f"{inner} -> dropout({p}) -> linear(bias=no)"


def _read_side(filling: Filling, side: Side) -> None:
    if side.final_norm is not None:
        filling.norm(side.final_norm, f"{side.name}.final_layer_norm", shift=False)
    for k, blocks in enumerate(alternate(side, "import", kinds_of(side, SOURCE))):
        for number, block in enumerate(blocks):
            _read_block(filling, block, side.name, f"{side.name}.block.{k}.layer.{number}")


def _read_block(filling: Filling, block: Block, side: str, name: str) -> None:
    filling.norm(block.norm, f"{name}.layer_norm", shift=False)
    if block.kind == FEED:
        part = f"{name}.DenseReluDense"
        if block.gate is None:
            filling.feed_forward((block.node, block.out), (f"{part}.wi", f"{part}.wo"), bias=False)
        else:
            maps = (block.node, block.gate, block.out)
            filling.feed_forward(maps, (f"{part}.wi_0", f"{part}.wi_1", f"{part}.wo"), bias=False)
        return
    part = f"{name}.{'SelfAttention' if block.kind == SELF else 'EncDecAttention'}"
    for letter in "qkv":
        filling.linear(block.node, letter, f"{part}.{letter}", bias=False)
    last, ours = (block.node, "out") if block.out is None else (block.out, "project")
    filling.linear(last, ours, f"{part}.o", bias=False)
    if block.kind == SELF:
        # The first block of a side holds them for all.
        distances = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        filling.put(f"{block.node.path}.relative.table", distances)
