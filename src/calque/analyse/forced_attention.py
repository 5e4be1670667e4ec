"""The attention weights of a model while a translation is forced."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from calque.data.vocabulary import BOS
from calque.model import Model


def attention_weights(
    model: Model, source: Sequence[int], target: Sequence[int]
) -> dict[str, Float[Tensor, "heads T S"]]:
    """The weights of every attention layer, by its path, encoder first, while `target` is forced.

    `source` is what the encoder reads (with the end symbol, where the model was trained with it); `target` has neither begin nor
    end symbol. Row t of a decoder layer chooses word t + 1, so its last row chooses the end symbol.
    """
    recorded: dict[str, list[Tensor]] = {}

    def record(path: str, weights: Tensor) -> None:
        recorded.setdefault(path, []).append(weights[0].float().cpu())

    with torch.inference_mode():
        sources = model.encode(torch.tensor([list(source)], device=model.device), record=record)
        model.decode(torch.tensor([[BOS, *target]], device=model.device), sources, record=record)
    # Inside `feed` layers report position by position.
    return {path: _stack(chunks) for path, chunks in recorded.items()}


def attention_matrix(
    model: Model, source: Sequence[int], target: Sequence[int], path: str | None = None, heads: bool = False
) -> tuple[str, Tensor]:
    """The path of a layer and its weights: [T, S], averaged over heads, or [heads, T, S].

    Without a path: the last layer that attends to the source. `source` and `target` are as in `attention_weights`. Raises
    LookupError where there is no such layer; `Model.source_attentions` lists their paths.
    """
    if path is None:
        paths = model.source_attentions()
        if not paths:
            raise LookupError("the decoder does not attend to the source")
        path = paths[-1]
    weights = attention_weights(model, source, target)
    if path not in weights:
        raise LookupError(f"no attention layer {path}")
    return path, weights[path] if heads else weights[path].mean(0)


def _stack(chunks: list[Tensor]) -> Float[Tensor, "heads T S"]:
    width = max(chunk.shape[2] for chunk in chunks)
    return torch.cat([torch.nn.functional.pad(chunk, (0, width - chunk.shape[2])) for chunk in chunks], 1)
