"""Runs another system, as a program under an interpreter that has its packages; Calque need not be there.

Reads one JSON object a line and answers with one: `build` a model with random weights, `decode` batches, take updates
(`train`). All models are Transformers of the same sizes: tied embeddings, inner layers four times as wide. CTranslate2
normalises before each block, as ours; Hugging Face's Marian after it. The products are the same.
"""

import json
import os
import sys
import tempfile
import time
from typing import Any

LAST = 1
"""The last word of the vocabulary pads, in Marian."""


class HuggingFace:
    """`MarianMTModel`: `generate`, and a plain loop of updates."""

    def __init__(self, size: dict[str, Any]):
        import torch
        import transformers

        torch.set_num_threads(size["threads"])
        torch.manual_seed(1)
        self.torch, self.pad = torch, size["vocabulary"] - LAST
        config = transformers.MarianConfig(
            vocab_size=size["vocabulary"],
            decoder_vocab_size=size["vocabulary"],
            d_model=size["width"],
            encoder_layers=size["layers"],
            decoder_layers=size["layers"],
            encoder_ffn_dim=4 * size["width"],
            decoder_ffn_dim=4 * size["width"],
            encoder_attention_heads=size["heads"],
            decoder_attention_heads=size["heads"],
            max_position_embeddings=1024,
            activation_function="relu",
            dropout=size["dropout"],
            attention_dropout=0.0,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=self.pad,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=self.pad,
            forced_eos_token_id=None,
            num_beams=1,
        )
        self.model = transformers.MarianMTModel(config).to(getattr(torch, size["precision"])).eval()
        self.optimiser: Any = None
        self.versions = {"transformers": transformers.__version__, "torch": torch.__version__}

    def _padded(self, rows: list[list[int]]) -> Any:
        width = max(map(len, rows))
        return self.torch.tensor([[min(i, self.pad - 1) for i in r] + [self.pad] * (width - len(r)) for r in rows])

    def decode(self, batches: list[list[list[int]]], beam: int, length: int) -> int:
        """Words written."""
        return sum(self._one(batch, beam, length) for batch in batches)

    def _one(self, batch: list[list[int]], beam: int, length: int) -> int:
        ids = self._padded(batch)
        with self.torch.inference_mode():
            found = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != self.pad).long(),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=length,
                max_new_tokens=length,
            )
        return int((found.size(1) - 1) * found.size(0))

    def train(self, pairs: list[list[list[int]]], smoothing: float, lr: float) -> float:
        """One update on a batch of sources and targets; the loss of a token."""
        torch, model = self.torch, self.model.train()
        if self.optimiser is None:
            self.optimiser = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
        source, target = map(self._padded, pairs)
        start = torch.full((len(target), 1), self.pad)
        logits = model(
            input_ids=source,
            attention_mask=(source != self.pad).long(),
            decoder_input_ids=torch.cat([start, target[:, :-1]], 1),
            use_cache=False,
        ).logits
        loss = torch.nn.functional.cross_entropy(
            logits.view(-1, logits.shape[-1]), target.view(-1), ignore_index=self.pad, label_smoothing=smoothing
        )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())


class CTranslate2:
    """`Translator.translate_batch` on a model specified here, so that no converter is needed."""

    def __init__(self, size: dict[str, Any]):
        import ctranslate2
        import numpy as np
        from ctranslate2.specs import TransformerSpec

        random, width, inner = np.random.default_rng(1), size["width"], 4 * size["width"]
        self.words = [f"w{i}" for i in range(size["vocabulary"])]
        self.words[1:3] = ["<s>", "</s>"]
        self.words[3] = "<unk>"

        def fill(layer: Any, rows: int, columns: int, bias: bool = True) -> None:
            layer.weight = (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)
            if bias:
                layer.bias = np.zeros(rows, np.float32)

        def norm(layer: Any) -> None:
            layer.gamma, layer.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

        spec = TransformerSpec.from_config((size["layers"], size["layers"]), size["heads"], pre_norm=True)
        sides = spec.encoder, spec.decoder
        fill(spec.decoder.embeddings, size["vocabulary"], width, bias=False)
        spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
        spec.decoder.projection.bias = np.zeros(size["vocabulary"], np.float32)
        for side in sides:
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
        spec.register_source_vocabulary(self.words)
        spec.register_target_vocabulary(self.words)
        precision = size["precision"]
        if precision not in ctranslate2.get_supported_compute_types("cpu"):
            raise ValueError(f"ctranslate2 has no {precision} on this processor")
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
        self.versions = {"ctranslate2": ctranslate2.__version__}

    def decode(self, batches: list[list[list[int]]], beam: int, length: int) -> int:
        """Words written; as many batches at a time as the model has workers."""
        asked = [
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
        return sum(len(each.result().hypotheses[0]) for found in asked for each in found)


SYSTEMS: dict[str, Any] = {"hf": HuggingFace, "ctranslate2": CTranslate2}


def answer(system: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Does a piece of work and times it."""
    if asked["do"] == "decode":
        began = time.perf_counter()
        tokens = system.decode(asked["batches"], asked["beam"], asked["length"])
        return {"seconds": time.perf_counter() - began, "tokens": tokens}
    began = time.perf_counter()
    loss = system.train(asked["pairs"], asked["smoothing"], asked["lr"])
    return {"seconds": time.perf_counter() - began, "loss": loss}


def main() -> None:
    """Answers until there is nothing more to read."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    system = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["do"] == "build":
                system = SYSTEMS[asked["system"]](asked)
                found = system.versions
            else:
                found = answer(system, asked)
        except Exception as e:
            found = {"fault": f"{type(e).__name__}: {e}"}
        told.write(json.dumps(found) + "\n")
        told.flush()


if __name__ == "__main__":
    main()
