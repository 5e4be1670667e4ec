"""CTranslate2 beside ours. Runs where Calque need not be installed."""

import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calque.bench.peer_runner import PeerSize, Rows


class CTranslate2:
    """`Translator.translate_batch` on a model that is specified here: no converter is needed."""

    def __init__(self, size: "PeerSize"):
        import ctranslate2

        precision = size["precision"]
        if precision not in ctranslate2.get_supported_compute_types("cpu"):
            raise ValueError(f"ctranslate2 has no {precision} on this processor")
        self.words = [f"w{i}" for i in range(size["vocabulary"])]
        self.words[1:3] = ["<s>", "</s>"]
        self.words[3] = "<unk>"
        spec = _specification(size)
        spec.register_source_vocabulary(self.words)
        spec.register_target_vocabulary(self.words)
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.optimize(quantization=precision)
            spec.save(folder)
            self.model = ctranslate2.Translator(
                folder,
                device="cpu",
                inter_threads=size["workers"],
                intra_threads=size["threads"],
                compute_type=precision,
            )

    def decode(self, batches: "list[Rows]", beam: int, length: int) -> int:
        """The number of words written. The model decodes as many batches at a time as it has workers."""
        translations = [
            self.model.translate_batch(
                [[self.words[i] for i in row] for row in batch],
                beam_size=beam,
                min_decoding_length=length,
                max_decoding_length=length,
                return_scores=False,
                max_batch_size=0,
                asynchronous=True,
            )
            for batch in batches
        ]
        return sum(len(each.result().hypotheses[0]) for batch in translations for each in batch)


def _specification(size: "PeerSize") -> Any:
    """A Transformer of this size with random weights."""
    import numpy as np
    from ctranslate2.specs import TransformerSpec

    random, width, inner = np.random.default_rng(1), size["width"], 4 * size["width"]

    def fill(layer: Any, rows: int, columns: int, bias: bool = True) -> None:
        layer.weight = (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)
        if bias:
            layer.bias = np.zeros(rows, np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    spec = TransformerSpec.from_config((size["layers"], size["layers"]), size["heads"], pre_norm=True)
    fill(spec.decoder.embeddings, size["vocabulary"], width, bias=False)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.decoder.projection.bias = np.zeros(size["vocabulary"], np.float32)
    for side in (spec.encoder, spec.decoder):
        norm(side.layer_norm)
        for layer in side.layer:
            blocks = [layer.self_attention, layer.ffn]
            fill(layer.self_attention.linear[0], 3 * width, width, bias=False)
            fill(layer.self_attention.linear[1], width, width, bias=False)
            fill(layer.ffn.linear_0, inner, width)
            fill(layer.ffn.linear_1, width, inner)
            if side is spec.decoder:
                blocks.append(layer.attention)
                for part, rows in zip(layer.attention.linear, (width, 2 * width, width), strict=True):
                    fill(part, rows, width, bias=False)
            for block in blocks:
                norm(block.layer_norm)
    return spec
