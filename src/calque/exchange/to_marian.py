"""Runs as Marian's own models: `calque export RUN --to marian`. Bergamot, the translator in Firefox, is built from such models."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calque.data.codecs import Codec, PieceCodec
from calque.data.imported_codec import ImportedCodec
from calque.data.vocabulary import EOS, SPECIALS, UNK
from calque.exchange.card import length_penalty
from calque.exchange.from_marian import maps_of
from calque.exchange.imported import kinds_of
from calque.exchange.marian import (
    ACTIVATIONS,
    DECODER,
    EPSILON,
    MODEL,
    NAME,
    NORMS,
    SETTINGS,
    block_name,
    norm_names,
    norm_of,
)
from calque.exchange.network import (
    FEED,
    RECURRENT,
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
from calque.exchange.weights import Exported
from calque.ground.diagnostics import Place, error

Arrays = dict[str, Tensor]


def write_marian(exported: Exported, folder: Path, precision: str) -> None:
    """Writes model.npz, decoder.yml and the vocabularies into an empty folder.

    Raises X301 (a package is missing), X501 (what the format cannot carry), X503 (the precision), X520 (codecs).
    """
    try:
        import yaml
        from sentencepiece import sentencepiece_model_pb2 as _  # noqa: F401
    except ImportError as e:
        package = "pyyaml" if e.name == "yaml" else "protobuf"
        raise error("X301", extra="marian", package=package) from None
    if precision != "float32":
        raise error("X503", None, precision=precision, format=NAME, names=("float32",))
    network = recognise(exported.model.checked, NAME)
    _check(network, exported)
    names = _write_vocabularies(exported, folder)
    arrays: Arrays = {}
    for side in (network.encoder, network.decoder):
        _write_side(exported, arrays, side)
    _write_matrices(exported, arrays)
    settings = yaml.safe_dump(_settings(exported, network, names), sort_keys=False).encode()
    numbers: dict[str, Any] = {
        name: np.ascontiguousarray(t.detach().to(torch.float32).numpy()) for name, t in arrays.items()
    }
    numbers[SETTINGS] = np.frombuffer(settings + b"\0", dtype=np.int8)
    with open(folder / MODEL, "wb") as file:
        np.savez(file, **numbers)
    (folder / DECODER).write_text(yaml.safe_dump(_decoder(exported, names), sort_keys=False), encoding="utf-8")


# -- what the format has no place for


def _check(network: Transformer, exported: Exported) -> None:
    """Raises X501, X520."""
    encoder, decoder = network.encoder, network.decoder
    for side in (encoder, decoder):
        if not side.blocks:
            raise error("X502", Place(str(exported.folder)), format=NAME, side=side.name)
        alternate(side, NAME, (SELF, FEED) if side is encoder else kinds_of(side, SOURCE))
        check_norms(side, NAME)
        _check_side(side)
    _check_both(network)
    for codec, name in zip(exported.trained.codecs, ("source", "target"), strict=True):
        if reason := _misfit(codec, exported.trained.experiment.data.source_end):
            raise error("X520", Place(str(exported.folder)), format=NAME, side=name, kind=codec.kind, reason=reason)


def _check_side(side: Side) -> None:
    if side.norms[0].args.eps != EPSILON:
        refuse(side.norms[0], NAME, f"its norms have an epsilon of {EPSILON}", f"`eps={EPSILON}`")
    for block in side.blocks:
        if block.kind in (SELF, SOURCE):
            check_attention(block, side.width, NAME)
        elif block.kind == RECURRENT and block.node.width_out != side.width:
            refuse(block.node, NAME, "its state is as wide as the model", f"`ssru({side.width})`")
        elif block.kind == FEED and block.gate is not None:
            refuse(block.node, NAME, "it has no gated feed-forward network", "`ffl`")
        elif block.kind == FEED and block.act not in ACTIVATIONS.values():
            refuse(block.node, NAME, f"it has no activation {block.act}", ", ".join(ACTIVATIONS.values()))
    same([b.node for b in side.of(FEED)], lambda node: node.width_out, "width of feed-forward networks", NAME)
    _check_start(side)


def _check_start(side: Side) -> None:
    """Embeddings, positions, and what a decoder starts from."""
    positions = side.positions
    if positions is None and side.scale != 1.0:
        refuse(side.blocks[0].node, NAME, "embeddings are scaled where positions are added", "`pos(endpoint=yes)`")
    if positions is not None:
        args = positions.args
        ours = positions.name == "pos" and (args.layout, args.endpoint, args.start) == ("halves", True, 0)
        if not ours or abs(side.scale - side.width**0.5) > 1e-6:
            reason = "its positions are sinusoids whose slowest rate is 1/10000, behind a scale of sqrt(d)"
            refuse(positions, NAME, reason, "`pos(endpoint=yes)`, or no positions at all")
    if (side.zero_first is None) == (side.name == "decoder"):
        where = side.zero_first or side.positions or side.blocks[0].node
        refuse(where, NAME, "a decoder starts from zeros, and an encoder does not", "`decoder = zero_first -> ...`")


def _check_both(network: Transformer) -> None:
    """What is one for both sides."""
    one, two = network.encoder, network.decoder
    attentions = [b.node for side in (one, two) for b in side.blocks if b.kind in (SELF, SOURCE)]
    same(attentions, lambda node: node.args.heads, "number of heads", NAME)
    feeds = [block for side in (one, two) for block in side.of(FEED)]
    acts = {block.node.path: block.act for block in feeds}
    same([block.node for block in feeds], lambda node: acts[node.path], "activation", NAME)
    same([one.norms[0], two.norms[0]], lambda node: node.name, "kind of norm", NAME)
    where = two.blocks[0]
    if where.pre != one.blocks[0].pre:
        refuse(where.norm, NAME, "both sides have their norms at one place", "`res_nd` or `post` on both sides")
    for name, of in (
        ("a last norm", "final_norm"),
        ("a norm behind positions", "input_norm"),
        ("positions", "positions"),
    ):
        if (getattr(one, of) is None) != (getattr(two, of) is None):
            refuse(getattr(one, of) or getattr(two, of), NAME, f"{name}: on both sides or on none", "both sides alike")


def _misfit(codec: Codec, closed: bool) -> str:
    """Why a codec has no place; empty where it has."""
    if not closed:
        return "sources are closed with the end symbol there, and not in this run (`source_end`)"
    if isinstance(codec, ImportedCodec) and (codec.listed.text or codec.listed.first or codec.listed.last):
        return "sources get words around them"
    return "every translation begins with a word of its own" if codec.begins else ""


# -- words


def _rows(codec: Codec) -> list[int]:
    """Our id for each of theirs: the end symbol, the unknown word, then the others. Two of our symbols are none there."""
    return [EOS, UNK, *range(len(SPECIALS), codec.size)]


def _write_vocabularies(exported: Exported, folder: Path) -> list[str]:
    """Writes the files of both sides; their names, of source and target."""
    source, target = exported.trained.codecs
    if source is target:
        return [_write_vocabulary(source, folder, "vocab", ("source", "target"))] * 2
    return [
        _write_vocabulary(c, folder, f"{side}.vocab", (side,)) for c, side in ((source, "source"), (target, "target"))
    ]


def _write_vocabulary(codec: Codec, folder: Path, name: str, sides: tuple[str, ...]) -> str:
    """A model of sentencepiece, which Marian itself cuts text with, or a list of words for text that is cut before."""
    if isinstance(codec, PieceCodec):
        (folder / f"{name}.spm").write_bytes(_renumbered(codec.model))
        return f"{name}.spm"
    words = [*SPECIALS[EOS : UNK + 1], *codec.tokens(range(len(SPECIALS), codec.size))]
    # A JSON text in quotes is one of YAML; these two characters end a line of YAML.
    quoted = [
        json.dumps(word, ensure_ascii=False).replace("\x85", "\\u0085").replace("\u2028", "\\u2028") for word in words
    ]
    lines = "".join(f"{word}: {id_}\n" for id_, word in enumerate(quoted))
    (folder / f"{name}.yml").write_text(lines, encoding="utf-8", newline="\n")
    if isinstance(codec, ImportedCodec):
        for side in sides:
            (folder / f"{side}.spm").write_bytes(codec.model)
    return f"{name}.yml"


def _renumbered(model: bytes) -> bytes:
    """The same pieces of sentencepiece, with the ids that Marian expects: end 0, unknown 1, no padding and no begin symbol."""
    from sentencepiece import sentencepiece_model_pb2

    described: Any = sentencepiece_model_pb2
    proto = described.ModelProto.FromString(model)
    pieces = list(proto.pieces)
    del proto.pieces[:]
    proto.pieces.extend([pieces[EOS], pieces[UNK], *pieces[len(SPECIALS) :]])
    about = proto.trainer_spec
    about.eos_id, about.unk_id, about.bos_id, about.pad_id, about.vocab_size = 0, 1, -1, -1, len(proto.pieces)
    return bytes(proto.SerializeToString())


# -- tensors


def _write_matrices(exported: Exported, arrays: Arrays) -> None:
    source, target = (_rows(codec) for codec in exported.trained.codecs)
    weight, bias = exported.output
    assert bias is not None
    tying, output = exported.model.shape.tying, "decoder_ff_logit_out"
    if tying == "three-way":
        arrays["Wemb"] = exported.source_embedding[source]
    else:
        arrays["encoder_Wemb"] = exported.source_embedding[source]
        arrays["decoder_Wemb"] = exported.target_embedding[target]
    if tying == "none":
        arrays[f"{output}_Wt"] = weight[target]
    arrays[f"{output}_b"] = bias[target][None]


def _write_side(exported: Exported, arrays: Arrays, side: Side) -> None:
    for node, name, before in ((side.input_norm, "emb", True), (side.final_norm, "top", False)):
        if node is not None:
            _write_norm(exported, arrays, node, f"{side.name}_{name}", before)
    for k, blocks in enumerate(alternate(side, NAME, kinds_of(side, SOURCE)), 1):
        for block in blocks:
            name = block_name(side.name, k, block.kind)
            _write_norm(exported, arrays, block.norm, norm_of(block, name), block.pre)
            for ours, theirs in maps_of(block):
                scale = _scale(block) if theirs == "q" else 1.0
                weight = exported.numbers[f"{ours}.weight"]
                bias = exported.numbers.get(f"{ours}.bias")
                arrays[f"{name}_W{theirs}"] = weight.t() * scale
                if (block.kind, theirs) != (RECURRENT, ""):
                    zeros = torch.zeros(len(weight))
                    arrays[f"{name}_b{theirs}"] = (zeros if bias is None else bias * scale)[None]


def _scale(block: Block) -> float:
    """Their scores are divided by the root of a head's width."""
    args = block.node.args
    return 1.0 if args.s is None else float((args.width / args.heads / args.s) ** 0.5)


def _write_norm(exported: Exported, arrays: Arrays, node: Any, name: str, before: bool) -> None:
    gain, shift = exported.norm(node)
    values = (gain, torch.zeros_like(gain) if shift is None else shift)
    for theirs, value in zip(norm_names(name, node.name == "rms_norm", before), values, strict=False):
        arrays[theirs] = value[None]


# -- settings


_ALWAYS = {
    "transformer-ffn-depth": 2,
    "transformer-decoder-ffn-depth": 0,
    "transformer-train-positions": False,
    "transformer-attention-mask": "default",
    "transformer-no-projection": False,
    "transformer-no-bias": False,
    "transformer-pool": False,
    "transformer-tied-layers": [],
    "transformer-guided-alignment-layer": "last",
    "transformer-depth-scaling": False,
    "dec-cell": "ssru",
    "layer-normalization": False,
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "ulr": False,
    "input-types": [],
}
"""Settings that no text changes."""


def _settings(exported: Exported, network: Transformer, names: list[str]) -> Mapping[str, Any]:
    encoder, decoder, tying = network.encoder, network.decoder, exported.model.shape.tying
    return {
        "version": "v1.12.0",
        "type": "transformer",
        "dim-emb": network.width,
        "dim-vocabs": [len(_rows(codec)) for codec in exported.trained.codecs],
        "vocabs": names,
        "enc-depth": len(encoder.of(FEED)),
        "dec-depth": len(decoder.of(FEED)),
        "tied-embeddings": tying == "target",
        "tied-embeddings-src": False,
        "tied-embeddings-all": tying == "three-way",
        "transformer-heads": encoder.of(SELF)[0].node.args.heads,
        "transformer-dim-ffn": encoder.of(FEED)[0].node.width_out,
        "transformer-decoder-dim-ffn": decoder.of(FEED)[0].node.width_out,
        **_steps(encoder, decoder),
        **_ALWAYS,
    }


def _steps(encoder: Side, decoder: Side) -> Mapping[str, Any]:
    """Where norms stand, what the first block of the decoder is, the activation."""
    letter = {ours: theirs for theirs, ours in NORMS.items()}[encoder.norms[0].name]
    pre, first = encoder.blocks[0].pre, decoder.blocks[0]
    recurrent = first.kind == RECURRENT
    return {
        "transformer-ffn-activation": {ours: theirs for theirs, ours in ACTIVATIONS.items()}[encoder.of(FEED)[0].act],
        "transformer-preprocess": letter if pre else "",
        "transformer-postprocess": "da" if pre else f"da{letter}",
        "transformer-postprocess-emb": "d" if encoder.input_norm is None else f"{letter}d",
        "transformer-postprocess-top": "" if encoder.final_norm is None else letter,
        "transformer-decoder-autoreg": "rnn" if recurrent else "self-attention",
        "transformer-rnn-projection": recurrent and first.out is not None,
        "transformer-disable-position-embeddings": encoder.positions is None,
    }


def _decoder(exported: Exported, names: list[str]) -> Mapping[str, Any]:
    """The settings of a search."""
    decode = exported.trained.experiment.decode
    penalty = length_penalty(decode)
    return {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": names,
        "beam-size": decode.beam,
        "normalize": 1.0 if penalty is None else penalty,
        "word-penalty": 0,
        "mini-batch": 16,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }
