"""Runs as CTranslate2 models: `calque export RUN --to ctranslate2`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calque.adl.tree import Node
from calque.data.vocabulary import SPECIALS
from calque.exchange.network import (
    FEED,
    SELF,
    SOURCE,
    Block,
    Side,
    alternate,
    check_attention,
    check_norms,
    recognise,
    refuse,
    same,
)
from calque.exchange.weights import Exported, Linear
from calque.ground.diagnostics import Place, error
from calque.layers.self_attention import EPS

NAME = "CTranslate2"
PRECISIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")
CARRIED = ("width", "rope", "kv_heads", "qk_norm", "relative")
"""Arguments of self-attention that it has places for, beside those of every format."""
ROWS = 4096
"""Positions of the table that is written; CTranslate2 refuses longer sentences."""
_ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh", "sigmoid": "Sigmoid",
}  # fmt: skip


def write_ctranslate2(exported: Exported, folder: Path, precision: str) -> None:
    """Writes model.bin, config.json and the vocabularies into an empty folder.

    Raises X301 (the package is missing), X501 (what the format cannot carry), X503 (the precision).
    """
    try:
        from ctranslate2.specs import TransformerSpec
    except ImportError:
        raise error("X301", extra="ctranslate2", package="ctranslate2") from None
    if precision not in PRECISIONS:
        raise error("X503", None, precision=precision, format=NAME, names=PRECISIONS)
    network = recognise(exported.model.checked, NAME)
    for side, kinds in ((network.encoder, (SELF, FEED)), (network.decoder, (SELF, SOURCE, FEED))):
        _check(side, kinds, exported)
    same(network.encoder.norms + network.decoder.norms, lambda node: node.args.eps, "epsilon", NAME)
    spec = TransformerSpec(_encoder(exported, network.encoder), _decoder(exported, network.decoder))
    spec.config.layer_norm_epsilon = (network.encoder.norms + network.decoder.norms)[0].args.eps
    spec.config.add_source_eos = exported.trained.experiment.data.source_end
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = SPECIALS[1:]
    spec.config.decoder_start_token = SPECIALS[1]
    source, target = exported.trained.codecs
    spec.register_source_vocabulary(source.tokens(range(source.size)))
    spec.register_target_vocabulary(target.tokens(range(target.size)))
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    spec.save(str(folder))


def _check(side: Side, kinds: tuple[str, ...], exported: Exported) -> None:
    """Raises X501 for what the format has no place for."""
    if not side.blocks:
        raise error("X502", Place(str(exported.folder)), format=NAME, side=side.name)
    alternate(side, NAME, kinds)
    check_norms(side, NAME, end=side.name == "decoder")
    attentions = [block for block in side.blocks if block.kind != FEED]
    for block in attentions:
        check_attention(block, side.width, NAME, CARRIED if block.kind == SELF else ("width",))
    same([block.node for block in attentions], lambda node: node.args.heads, "number of heads", NAME)
    same([block.node for block in attentions], lambda node: node.args.width, "width of attention", NAME)
    _check_positions(side)
    _check_feed_forward(side)
    if side.final_norm is not None and not side.blocks[0].pre:
        refuse(side.final_norm, NAME, "a post-norm network has no further norm at its end", "no norm here")
    if side.zero_first is not None and side.name == "encoder":
        refuse(side.zero_first, NAME, "only a decoder can start from zeros", "no `zero_first`")


def _check_positions(side: Side) -> None:
    """Raises X501 where positions stand in scores and embeddings, or in the scores in ways that the format does not have."""
    nodes = [block.node for block in side.of(SELF)]
    for name in ("rope", "relative", "reach", "kv_heads", "qk_norm"):
        same(nodes, lambda node, name=name: getattr(node.args, name), f"`{name}`", NAME)  # type: ignore[misc]
    args = nodes[0].args
    if args.relative == "alibi":
        refuse(
            nodes[0],
            NAME,
            "distances in the scores of both sides are those of T5 or of Shaw",
            "`relative=t5`, `shaw` or `rope`",
        )
    ways = [args.rope is not None, args.relative != "none"]
    if all(ways):
        refuse(nodes[0], NAME, "positions are in the scores once", "`rope` or `relative`, not both")
    if any(ways) and side.positions is not None:
        refuse(side.positions, NAME, "positions are in the scores of this side already", f"no `{side.positions.name}`")
    if any(node.args.qk_norm for node in nodes) and side.norms[0].args.eps != EPS:
        refuse(
            side.norms[0], NAME, f"queries and keys have an epsilon of {EPS}, and all norms have one", f"`eps={EPS}`"
        )


def _check_feed_forward(side: Side) -> None:
    for block in side.of(FEED):
        if block.act not in _ACTIVATIONS:
            refuse(block.node, NAME, f"it has no activation {block.act}", f"one of {', '.join(_ACTIVATIONS)}")
        first = side.of(FEED)[0]
        if (block.act, block.gate is None) != (first.act, first.gate is None):
            refuse(block.node, NAME, f"every feed-forward network is of one kind: {first.act} before", first.act)


def _encoder(exported: Exported, side: Side) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    spec = TransformerEncoderSpec(len(side.of(FEED)), _heads(side), **_options(side))
    _embed(exported, spec, side, spec.embeddings[0], exported.source_embedding)
    _fill(exported, spec, side)
    return spec


def _decoder(exported: Exported, side: Side) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    # As `decode.align_layer` by default: the mean of all heads of the last layer.
    spec = TransformerDecoderSpec(len(side.of(FEED)), _heads(side), alignment_heads=_heads(side), **_options(side))
    spec.start_from_zero_embedding = side.zero_first is not None
    if side.end is not None:
        spec.scale_outputs = _number(side.end.args.by)
    _embed(exported, spec, side, spec.embeddings, exported.target_embedding)
    _fill(exported, spec, side)
    _linear(spec.projection, exported.output)
    return spec


def _options(side: Side) -> dict[str, Any]:
    from ctranslate2.specs.common_spec import Activation

    feed, node = side.of(FEED)[0], side.of(SELF)[0].node
    return {
        "pre_norm": side.blocks[0].pre,
        "no_final_norm": side.final_norm is None,
        "activation": Activation[_ACTIVATIONS[feed.act]],
        "layernorm_embedding": side.input_norm is not None,
        "ffn_glu": feed.gate is not None,
        "rms_norm": side.norms[0].name == "rms_norm",
        "rotary_dim": None if node.args.rope is None else node.args.head,
        "rotary_interleave": False,
        "rotary_base": node.args.rope or 0.0,
        "num_heads_kv": node.args.kv_heads,
        "head_dim": node.args.head,
        "qk_norm": node.args.qk_norm,
        "relative_position": node.args.relative == "shaw",
        "relative_attention_bias": node.args.relative == "t5",
    }


def _heads(side: Side) -> int:
    heads: int = side.of(SELF)[0].node.args.heads
    return heads


def _embed(exported: Exported, spec: Any, side: Side, embeddings: Any, weight: Tensor) -> None:
    """Embeddings, their factor, and positions; a network without any gets a table of zeros."""
    embeddings.weight = _array(weight)
    spec.scale_embeddings = _number(side.scale) if side.scale != 1.0 else False
    table = exported.positions(side, ROWS)
    if hasattr(spec, "position_encodings"):
        spec.position_encodings.encodings = _array(torch.zeros(ROWS, side.width) if table is None else table)
    if side.input_norm is not None:
        _norm(spec.layernorm_embedding, exported, side.input_norm)
    if side.final_norm is not None:
        _norm(spec.layer_norm, exported, side.final_norm)


def _fill(exported: Exported, spec: Any, side: Side) -> None:
    kinds = (SELF, FEED) if side.name == "encoder" else (SELF, SOURCE, FEED)
    write: dict[str, tuple[str, Callable[[Any, Exported, Block], None]]] = {
        SELF: ("self_attention", _self_attention),
        SOURCE: ("attention", _source_attention),
        FEED: ("ffn", _feed_forward),
    }
    for layer, blocks in zip(spec.layer, alternate(side, NAME, kinds), strict=True):
        for block in blocks:
            name, fill = write[block.kind]
            part = getattr(layer, name)
            _norm(part.layer_norm, exported, block.norm)
            fill(part, exported, block)


def _self_attention(spec: Any, exported: Exported, block: Block) -> None:
    args = block.node.args
    _linear(spec.linear[0], _stacked(exported, block.node, "q", "k", "v"))
    if args.qk_norm:
        spec.q_norm.gamma, spec.k_norm.gamma = (
            _array(exported.tensor(block.node, f"{letter}_gain")) for letter in "qk"
        )
    if args.relative == "t5":
        spec.relative_attention_bias = _array(exported.tensor(block.node, "relative.table"))
        spec.relative_attention_max_distance = np.dtype("int32").type(args.reach)
    if args.relative == "shaw":
        spec.relative_position_keys, spec.relative_position_values = (
            _array(_both_directions(exported.tensor(block.node, f"relative.{name}"), args.reach))
            for name in ("keys", "values")
        )
    _finish_attention(spec, exported, block)


def _both_directions(rows: Tensor, reach: int) -> Tensor:
    """Vectors of distances from -reach to reach; a decoder has none for later keys, and never reads them."""
    return torch.cat([rows, torch.zeros(2 * reach + 1 - len(rows), rows.shape[1])])


def _source_attention(spec: Any, exported: Exported, block: Block) -> None:
    _linear(spec.linear[0], exported.linear(block.node, "q"))
    _linear(spec.linear[1], _stacked(exported, block.node, "k", "v"))
    # The library declares these for every attention of a decoder.
    if hasattr(spec, "num_heads_kv"):
        spec.num_heads_kv = np.dtype("int32").type(block.node.args.heads)
    for name in ("q_norm", "k_norm"):
        if hasattr(spec, name):
            delattr(spec, name)
    _finish_attention(spec, exported, block)


def _finish_attention(spec: Any, exported: Exported, block: Block) -> None:
    """The way out, the factor of scores, and the width of heads."""
    args = block.node.args
    _linear(spec.linear[-1], exported.linear(block.node, "out") if block.out is None else exported.linear(block.out))
    if args.s is not None:
        spec.queries_scale = _number(args.s**-0.5)


def _feed_forward(spec: Any, exported: Exported, block: Block) -> None:
    _linear(spec.linear_0, exported.linear(block.node))
    if block.gate is not None:
        _linear(spec.linear_0_noact, exported.linear(block.gate))
    if block.out is not None:
        _linear(spec.linear_1, exported.linear(block.out))


def _stacked(exported: Exported, node: Node, *parts: str) -> Linear:
    """Several maps of a layer as one."""
    weights, biases = zip(*(exported.linear(node, part) for part in parts), strict=True)
    return torch.cat(weights), None if biases[0] is None else torch.cat(biases)


def _linear(spec: Any, linear: Linear) -> None:
    spec.weight = _array(linear[0])
    if linear[1] is not None:
        spec.bias = _array(linear[1])


def _norm(spec: Any, exported: Exported, node: Node) -> None:
    gain, shift = exported.norm(node)
    spec.gamma = _array(gain)
    if shift is not None:
        spec.beta = _array(shift)


def _number(value: float) -> Any:
    return np.dtype("float32").type(value)


def _array(t: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.ascontiguousarray(t.detach().to(torch.float32).numpy())
