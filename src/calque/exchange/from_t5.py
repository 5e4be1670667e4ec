"""T5 and its descendants (T5 v1.1, mT5, Flan) as texts and weights.

No biases, no positions but those in the scores, a root-mean-square norm before each block. The numbers of distances are held by the
first block of a side there and shared by all; here each block has a copy.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from calque.adl.check import check
from calque.adl.tree import Node
from calque.data.vocabulary import BOS
from calque.exchange.from_hf import activation, tying_of
from calque.exchange.hf_folder import Tensors
from calque.exchange.hf_vocabulary import Words
from calque.exchange.network import FEED, SELF, SOURCE, Block, Side, alternate, recognise
from calque.exchange.weights import NEVER
from calque.ground.diagnostics import Place, Text
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.run.model_file import load_weights

Config = Mapping[str, Any]
SHARED = "shared.weight"
_OWN = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_ASSUMED = {
    "d_kv": 64, "num_heads": 8, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu",
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "num_layers": 6,
}  # fmt: skip


def read_t5(config: Config, tensors: Tensors, words: tuple[Words, Words], place: Place) -> Model:
    """The model that a folder holds. Raises X512, X513, X514, X518."""
    config = {**_ASSUMED, **config}
    config.setdefault("num_decoder_layers", config["num_layers"])
    source, target = tensors.take([_OWN[0], SHARED]), tensors.take([_OWN[1], SHARED])
    output = tensors.take(["lm_head.weight", _OWN[1], SHARED])
    # Their outputs are divided by sqrt(d) where input and output matrix are one.
    scaled = bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))
    tensors.copies([SHARED, *_OWN, "lm_head.weight"], [source, target, output])
    checked = check(Text("imported", text_of(config, scaled, place)), builtin())
    rows = [torch.tensor(side.rows) for side in words]
    bias = torch.zeros(len(rows[1]))
    bias[BOS] = NEVER
    source, target, output = source[rows[0]], target[rows[1]], output[rows[1]]
    tying = tying_of(source, target, output)
    model = Model(checked, Shape(len(source), len(target), tying))
    weights = {
        "source_embedding.weight": source,
        "target_embedding.weight": target,
        "output.weight": output,
        "output.bias": bias,
    }
    network = recognise(checked, "import")
    for side in (network.encoder, network.decoder):
        _read_side(tensors, side, weights)
    tensors.finish()
    own = dict(model.named_parameters())
    load_weights(model, {name: t for name, t in weights.items() if name in own}, place)
    return model.eval()


def text_of(config: Config, scaled: bool, place: Place) -> str:
    """The definition of a model. Raises X512."""
    p, eps = config["dropout_rate"], repr(float(config["layer_norm_epsilon"]))
    norm = f"rms_norm(eps={eps})"
    feed = _feed_forward(config, place)
    sides = []
    for side, count in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        bodies = [_attention(config, "mh_dot_self_att", side), *_source_attention(config, side), feed]
        blocks = " -> ".join(f"add(id, {norm} -> {body} -> dropout({p}))" for body in bodies)
        end = f" -> scale({config['d_model'] ** -0.5!r})" if scaled and side == "decoder" else ""
        sides.append(f"{side} = dropout({p}) -> repeat({count}, {blocks}) -> {norm} -> dropout({p}){end}")
    return f"adl = 0\nd = {config['d_model']}\n" + "\n".join(sides) + "\n"


def _source_attention(config: Config, side: str) -> list[str]:
    return [_attention(config, "mh_dot_src_att", side)] if side == "decoder" else []


def _attention(config: Config, layer: str, side: str) -> str:
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


def _read_side(tensors: Tensors, side: Side, weights: dict[str, Tensor]) -> None:
    if side.final_norm is not None:
        weights[f"{side.final_norm.path}.gain"] = tensors.take(f"{side.name}.final_layer_norm.weight")
    kinds = (SELF, FEED) if side.name == "encoder" else (SELF, SOURCE, FEED)
    distances = tensors.take(f"{side.name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    for k, blocks in enumerate(alternate(side, "import", kinds)):
        for number, block in enumerate(blocks):
            _read_block(tensors, weights, block, f"{side.name}.block.{k}.layer.{number}", distances)


def _read_block(tensors: Tensors, weights: dict[str, Tensor], block: Block, name: str, distances: Tensor) -> None:
    weights[f"{block.norm.path}.gain"] = tensors.take(f"{name}.layer_norm.weight")
    if block.kind != FEED:
        part = f"{name}.{'SelfAttention' if block.kind == SELF else 'EncDecAttention'}"
        for letter in "qkv":
            weights[f"{block.node.path}.{letter}.weight"] = tensors.take(f"{part}.{letter}.weight")
        out = f"{block.node.path}.out" if block.out is None else f"{block.out.path}.project"
        weights[f"{out}.weight"] = tensors.take(f"{part}.o.weight")
        if block.kind == SELF:
            weights[f"{block.node.path}.relative.table"] = distances
        return
    part = f"{name}.DenseReluDense"
    maps: list[tuple[Node | None, str]] = [(block.node, "wi"), (block.out, "wo")]
    if block.gate is not None:
        maps = [(block.node, "wi_0"), (block.gate, "wi_1"), (block.out, "wo")]
    for node, theirs in maps:
        assert node is not None
        weights[f"{node.path}.project.weight"] = tensors.take(f"{part}.{theirs}.weight")
