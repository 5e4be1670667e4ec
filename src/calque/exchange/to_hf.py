"""Runs as folders of Hugging Face transformers: `calque export RUN --to hf`.

Four of its model types are one network with two switches, which decide the type here:

              no norm behind positions   a norm behind positions
    post-norm Marian                     BART
    pre-norm  Pegasus                    mBART

Their norms have an epsilon of 1e-5. A network with another epsilon e is written with everything between norms multiplied by
c = sqrt(1e-5 / e): norm(c x) with 1e-5 is norm(x) with e, so the folder computes the same function.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from calque.data.vocabulary import BOS, EOS, PAD
from calque.exchange.card import length_penalty
from calque.exchange.hf_tokenizer import write_tokenizer
from calque.exchange.network import (
    FEED,
    SELF,
    SOURCE,
    Block,
    Side,
    Transformer,
    alternate,
    check_attention,
    check_norms,
    recognise,
    refuse,
    same,
)
from calque.exchange.weights import Exported, Linear
from calque.ground.diagnostics import Place, error

NAME = "transformers"
EPSILON = 1e-5
ROWS = 1024
"""Positions of the table that is written; transformers refuses longer sentences."""
TYPES = {
    (False, False): ("marian", "MarianMTModel"),
    (True, False): ("pegasus", "PegasusForConditionalGeneration"),
    (False, True): ("bart", "BartForConditionalGeneration"),
    (True, True): ("mbart", "MBartForConditionalGeneration"),
}
"""Model type and class, by whether it is pre-norm and whether a norm stands behind positions."""
ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "tanh": "tanh", "sigmoid": "sigmoid",
}  # fmt: skip
_NORMS = {SELF: "self_attn_layer_norm", SOURCE: "encoder_attn_layer_norm", FEED: "final_layer_norm"}
_PARTS = {SELF: "self_attn", SOURCE: "encoder_attn"}
TYPES_OF_NUMBERS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass
class _Writer:
    """The tensors of a folder under their names there. `factor` is c of the module's docstring."""

    exported: Exported
    factor: float
    pre: bool
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def linear(self, name: str, linear: Linear, inside: float = 1.0, outside: float = 1.0) -> None:
        """A map whose input is `inside` times too large, and whose output is to be `outside` times as large."""
        weight, bias = linear
        self.tensors[f"{name}.weight"] = weight * (outside / inside)
        self.tensors[f"{name}.bias"] = torch.zeros(len(weight)) if bias is None else bias * outside

    def norm(self, name: str, node: Any, outside: float = 1.0) -> None:
        gain, shift = self.exported.norm(node)
        self.tensors[f"{name}.weight"] = gain * outside
        self.tensors[f"{name}.bias"] = (torch.zeros_like(gain) if shift is None else shift) * outside

    def block(self, name: str, block: Block, last: bool) -> None:
        """One block; `last`: what follows its norm, in a post-norm network, is not another block."""
        inside = 1.0 if self.pre else self.factor
        self.norm(f"{name}.{_NORMS[block.kind]}", block.norm, 1.0 if self.pre or last else self.factor)
        if block.kind == FEED:
            self.linear(f"{name}.fc1", self.exported.linear(block.node), inside)
            assert block.out is not None
            self.linear(f"{name}.fc2", self.exported.linear(block.out), outside=self.factor)
            return
        part, node = f"{name}.{_PARTS[block.kind]}", block.node
        # Their scores are divided by the root of a head's width.
        scale = 1.0 if node.args.s is None else math.sqrt(node.args.width / node.args.heads / node.args.s)
        self.linear(f"{part}.q_proj", self.exported.linear(node, "q"), inside, scale)
        for letter in "kv":
            self.linear(
                f"{part}.{letter}_proj", self.exported.linear(node, letter), inside if block.kind == SELF else 1.0
            )
        self.linear(f"{part}.out_proj", self.exported.linear(node, "out"), outside=self.factor)


def write_hf(exported: Exported, folder: Path, precision: str) -> None:
    """Writes config.json, generation_config.json, model.safetensors and the files of a tokenizer into an empty folder.

    Raises X501 to X504: what the format cannot carry.
    """
    if precision not in TYPES_OF_NUMBERS:
        raise error("X503", None, precision=precision, format=NAME, names=tuple(TYPES_OF_NUMBERS))
    network = recognise(exported.model.checked, NAME)
    pre, embedded = _check(network, exported)
    factor = math.sqrt(EPSILON / network.encoder.norms[0].args.eps)
    writer = _Writer(exported, 1.0 if abs(factor - 1) < 1e-9 else factor, pre)
    untied = writer.factor != 1.0 or _apart(network, exported)
    kind, architecture = TYPES[pre, embedded]
    if kind != "marian" and exported.model.shape.source_size != exported.model.shape.target_size:
        raise error("X504", Place(str(exported.folder)), format=f"{NAME} ({kind})")
    for side in (network.encoder, network.decoder):
        _write_side(writer, side, untied, 2 if embedded else 0)
    if untied and kind != "marian":  # not read, and expected all the same
        writer.tensors["model.shared.weight"] = writer.tensors["model.decoder.embed_tokens.weight"]
    _write_output(writer, untied)
    numbers = TYPES_OF_NUMBERS[precision]
    tensors = {name: t.detach().to(numbers).contiguous().clone() for name, t in writer.tensors.items()}
    weights = folder / "model.safetensors"
    save_file(tensors, weights, {"format": "pt"})
    weights.chmod(0o644)  # as `write_whole` does; safetensors gives access to the owner alone
    _write_json(folder / "config.json", _config(exported, network, kind, architecture, untied, precision))
    _write_json(folder / "generation_config.json", _generation(exported))
    write_tokenizer(folder, *exported.trained.codecs)


def _apart(network: Transformer, exported: Exported) -> bool:
    """Whether embeddings and output have to be several matrices."""
    scale = network.encoder.scale
    if scale != network.decoder.scale or scale not in (1.0, math.sqrt(network.width)):
        return True
    return bool(network.decoder.zero_first) or exported.model.shape.tying != "three-way"


def _write_output(writer: _Writer, untied: bool) -> None:
    output, bias = writer.exported.model.output.weight.detach(), writer.exported.model.output.bias
    writer.tensors["final_logits_bias"] = (torch.zeros(len(output)) if bias is None else bias.detach())[None]
    if untied:
        writer.tensors["lm_head.weight"] = output


def _check(network: Transformer, exported: Exported) -> tuple[bool, bool]:
    """Whether it is pre-norm, and whether a norm stands behind positions. Raises X501 or X502."""
    for side, kinds in ((network.encoder, (SELF, FEED)), (network.decoder, (SELF, SOURCE, FEED))):
        if not side.blocks:
            raise error("X502", Place(str(exported.folder)), format=NAME, side=side.name)
        alternate(side, NAME, kinds)
        for norm in side.norms:
            if norm.name != "norm":
                refuse(norm, NAME, "the norms of these model types subtract the mean", "`norm`")
        check_norms(side, NAME)
        _check_blocks(side)
    pre, embedded = _switches(network)
    same(network.encoder.norms + network.decoder.norms, lambda node: node.args.eps, "epsilon", NAME)
    feeds = [block.node for side in (network.encoder, network.decoder) for block in side.of(FEED)]
    acts = {block.node.path: block.act for side in (network.encoder, network.decoder) for block in side.of(FEED)}
    same(feeds, lambda node: acts[node.path], "activation", NAME)
    return pre, embedded


def _switches(network: Transformer) -> tuple[bool, bool]:
    """Whether it is pre-norm, and whether a norm stands behind positions. Raises X501 where the sides or a last norm disagree."""
    pre, embedded = (network.encoder.blocks[0].pre, network.encoder.input_norm is not None)
    for side in (network.encoder, network.decoder):
        first = side.blocks[0]
        if first.pre != pre:
            refuse(first.norm, NAME, "both sides have their norms at one place", "`res_nd` or `post` on both sides")
        if (side.input_norm is not None) != embedded:
            refuse(side.input_norm or first.node, NAME, "a norm behind positions is on both sides or on none", "both")
        if (side.final_norm is not None) != pre:
            wanted = "ends with a norm" if pre else "has no further norm at its end"
            refuse(side.final_norm or side.blocks[-1].norm, NAME, f"such a network {wanted}", "`norm` behind `res_nd`")
    return pre, embedded


def _check_blocks(side: Side) -> None:
    for block in side.blocks:
        if block.kind != FEED:
            check_attention(block, side.width, NAME)
        elif block.gate is not None:
            refuse(block.node, NAME, "these model types have no gated feed-forward network", "`ffl`")
        elif block.act not in ACTIVATIONS:
            refuse(block.node, NAME, f"it has no activation {block.act}", f"one of {', '.join(ACTIVATIONS)}")
    same([b.node for b in side.blocks if b.kind != FEED], lambda node: node.args.heads, "number of heads", NAME)
    same([b.node for b in side.of(FEED)], lambda node: node.width_out, "width of feed-forward networks", NAME)


def _write_side(writer: _Writer, side: Side, untied: bool, skipped: int) -> None:
    """The tensors of an encoder or a decoder. `skipped`: rows in front of the table of positions that are never read."""
    exported, name = writer.exported, f"model.{side.name}"
    embedding = exported.source_embedding if side.name == "encoder" else exported.target_embedding
    if untied:
        embedding = embedding * (side.scale * writer.factor)
    if side.zero_first is not None:
        embedding[BOS] = 0.0
    writer.tensors[f"{name}.embed_tokens.weight" if untied else "model.shared.weight"] = embedding
    table = exported.positions(side, ROWS)
    table = torch.zeros(ROWS, side.width) if table is None else table * writer.factor
    writer.tensors[f"{name}.embed_positions.weight"] = torch.cat([torch.zeros(skipped, side.width), table])
    if side.input_norm is not None:
        writer.norm(f"{name}.layernorm_embedding", side.input_norm, writer.factor)
    if side.final_norm is not None:
        writer.norm(f"{name}.layer_norm", side.final_norm)
    kinds = (SELF, FEED) if side.name == "encoder" else (SELF, SOURCE, FEED)
    for k, blocks in enumerate(alternate(side, NAME, kinds)):
        for block in blocks:
            writer.block(f"{name}.layers.{k}", block, block is side.blocks[-1])


def _config(
    exported: Exported, network: Transformer, kind: str, architecture: str, untied: bool, precision: str
) -> dict[str, Any]:
    shape, feed = exported.model.shape, network.encoder.of(FEED)[0]
    config: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": kind,
        "d_model": network.width,
        "activation_function": ACTIVATIONS[feed.act],
        "scale_embedding": not untied and network.encoder.scale != 1.0,
        "tie_word_embeddings": not untied,
        "share_encoder_decoder_embeddings": not untied,
        "vocab_size": shape.source_size,
        "decoder_vocab_size": shape.target_size,
        "max_position_embeddings": ROWS,
        "is_encoder_decoder": True,
        "use_cache": True,
        "torch_dtype": precision,
        "normalize_embedding": True,
        "num_hidden_layers": len(network.encoder.of(FEED)),
        **_special_words(),
    }
    for side in (network.encoder, network.decoder):
        config[f"{side.name}_layers"] = len(side.of(FEED))
        config[f"{side.name}_attention_heads"] = side.of(SELF)[0].node.args.heads
        config[f"{side.name}_ffn_dim"] = side.of(FEED)[0].node.width_out
    return config


def _special_words() -> dict[str, int | None]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "forced_bos_token_id": None,
    }


def _generation(exported: Exported) -> dict[str, Any]:
    """The settings with which `generate` searches as Calque does."""
    decode = exported.trained.experiment.decode
    penalty = length_penalty(decode)
    return {
        **_special_words(),
        "num_beams": decode.beam,
        "length_penalty": 1.0 if penalty is None else penalty,
        "early_stopping": decode.beam > 1 and decode.stop == "full",
        "max_length": ROWS // 2,
        "do_sample": False,
        "suppress_tokens": [PAD, BOS],
    }


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
