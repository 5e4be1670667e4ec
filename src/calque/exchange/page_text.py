"""Sentencepiece models, and the ids of imported models, as the data that `web/pieces.js` reads."""

import base64
from typing import Any

import numpy as np

from calque.data.codecs import Codec, PieceCodec
from calque.data.imported_codec import ImportedCodec
from calque.ground.diagnostics import Place, error

KINDS = {1: "unigram", 2: "bpe"}
"""The ways to cut that a page has, by their numbers in a model of sentencepiece."""
UNUSED = 5
"""The type of a piece that no text is cut into."""


def text_of(codec: Codec, side: str, format_name: str, place: Place) -> dict[str, Any]:
    """How text becomes ids, and back. Raises X301 (a package is missing), X520 (codecs without a place)."""
    if isinstance(codec, PieceCodec | ImportedCodec):
        model = _model(codec.model)
        reason = _refused(model)
    else:
        reason = "a page cuts text by sentencepiece"
    if reason is not None:
        raise error("X520", place, format=format_name, side=side, kind=codec.kind, reason=reason)
    listed = {"listed": _listed(codec)} if isinstance(codec, ImportedCodec) else {}
    return {"model": _described(model), **listed}


def _model(content: bytes) -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise error("X301", extra="onnx", package="protobuf") from None
    described: Any = sentencepiece_model_pb2
    return described.ModelProto.FromString(content)


def _refused(model: Any) -> str | None:
    """Why a page cannot cut text by a model."""
    if model.trainer_spec.model_type not in KINDS:
        return "its pieces are words or characters"
    if model.trainer_spec.treat_whitespace_as_suffix or not model.normalizer_spec.escape_whitespaces:
        return "its pieces do not begin with the space before a word"
    if any(piece.type == UNUSED for piece in model.pieces):
        return "some of its pieces are not used"
    if model.denormalizer_spec.precompiled_charsmap:
        return "it rewrites the text of joined pieces"
    return None


def _described(model: Any) -> dict[str, Any]:
    """A model of sentencepiece: its pieces with scores and types, and how text is normalised before it is cut."""
    rules = model.normalizer_spec
    return {
        "kind": KINDS[model.trainer_spec.model_type],
        "pieces": [piece.piece for piece in model.pieces],
        "scores": [float(str(np.float32(piece.score))) for piece in model.pieces],  # no more digits than 32 bits have
        "types": "".join(str(piece.type) for piece in model.pieces),
        "unknown": model.trainer_spec.unk_surface,
        "rules": base64.b64encode(rules.precompiled_charsmap).decode(),
        "prefix": rules.add_dummy_prefix,
        "squeeze": rules.remove_extra_whitespaces,
    }


def _listed(codec: ImportedCodec) -> dict[str, Any]:
    listed = codec.listed
    around = {name: getattr(listed, name) for name in ("text", "begins", "first", "last", "marks")}
    return {"tokens": listed.tokens, "hidden": listed.hidden, **around}
