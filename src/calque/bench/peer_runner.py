"""Runs another system, as a program under an interpreter that has its packages; Calque need not be there.

Reads one JSON object a line and answers with one: `build` a model with random weights, `decode` batches, take updates
(`train`). All models are Transformers of the same sizes: tied embeddings, inner layers four times as wide. They normalise
before each block, as ours, but for Hugging Face's Marian, which does after it. The products are the same.
"""

import json
import logging
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


class Sockeye:
    """Sockeye 3: `Translator.translate`, and its loss in a plain loop over its traced model, as its trainer traces it."""

    def __init__(self, size: dict[str, Any]):
        import sockeye
        import torch
        from sockeye import constants, data_io, encoder, model, transformer

        torch.set_num_threads(size["threads"])
        torch.manual_seed(1)
        logging.disable(logging.WARNING)
        self.torch, self.size, self.constants = torch, size, constants
        sides = transformer.TransformerConfig(
            model_size=size["width"],
            attention_heads=size["heads"],
            feed_forward_num_hidden=4 * size["width"],
            act_type=constants.RELU,
            num_layers=size["layers"],
            dropout_attention=0.0,
            dropout_act=0.0,
            dropout_prepost=size["dropout"],
            positional_embedding_type=constants.FIXED_POSITIONAL_EMBEDDING,
            preprocess_sequence="n",
            postprocess_sequence="dr",
            max_seq_len_source=128,
            max_seq_len_target=128,
            depth_key_value=size["width"],
        )
        embeddings = encoder.EmbeddingConfig(size["vocabulary"], size["width"], 0.0)
        words = size["vocabulary"]
        counts = data_io.DataStatistics(1, 0, 1, 1, 0, 0, 127, 127, words, words, 1.0, 0.0, [], [], (), ())
        read = data_io.DataConfig(counts, 128, 128, 1, 1)
        self.config = model.ModelConfig(read, words, words, embeddings, embeddings, sides, sides)
        self.translators: dict[tuple[int, int, int], Any] = {}
        self.trained: Any = None
        self.versions = {"sockeye": sockeye.__version__, "torch": torch.__version__}

    def _translator(self, beam: int, batch: int, length: int) -> Any:
        """One for each kind of search; its greedy search takes a sentence at a time."""
        key = beam, batch, length
        if key not in self.translators:
            from sockeye import inference, model

            words = self.size["vocabulary"]
            if not self.translators:
                # Parameters pass through a file, as its own are stored: projections are laid out otherwise for inference.
                with tempfile.TemporaryDirectory() as folder:
                    drawn = model.SockeyeModel(self.config).apply(model.initialize_parameters)
                    drawn.save_parameters(os.path.join(folder, "params"))
                    self.model = model.SockeyeModel(self.config, inference_only=True).eval()
                    self.model.load_parameters(os.path.join(folder, "params"), self.torch.device("cpu"))
                self.model.cast(self.size["precision"])
                with self.torch.no_grad():  # nothing ends before the forced length
                    self.model.output_layer.bias[self.constants.EOS_ID] = -1e4
            greedy = beam == 1 and batch == 1  # which counts otherwise
            names = [*self.constants.VOCAB_SYMBOLS, *(f"w{i}" for i in range(len(self.constants.VOCAB_SYMBOLS), words))]
            vocabulary = {name: i for i, name in enumerate(names)}
            scorer = inference.CandidateScorer(1.0, 0.0, 0.0)
            self.translators[key] = inference.Translator(
                device=self.torch.device("cpu"),
                ensemble_mode="linear",
                scorer=scorer.to(self.model.dtype),
                batch_size=batch,
                beam_size=beam,
                beam_search_stop=self.constants.BEAM_SEARCH_STOP_ALL,
                nbest_size=1,
                models=[self.model],
                source_vocabs=[vocabulary],
                target_vocabs=[vocabulary],
                constant_length_ratio=-1.0,
                max_output_length=length - greedy,
                greedy=greedy,
            )
        return self.translators[key]

    def decode(self, batches: list[list[list[int]]], beam: int, length: int) -> int:
        """Words written; it closes sources itself."""
        from sockeye import inference

        count = 0
        for batch in batches:
            asked = [inference.TranslatorInput(i, [f"w{max(4, n)}" for n in row[:-1]]) for i, row in enumerate(batch)]
            told = self._translator(beam, len(batch), length).translate(asked, fill_up_batches=False)
            count += sum(len(each.tokens) for each in told)
        return count

    def train(self, pairs: list[list[list[int]]], smoothing: float, lr: float) -> float:
        """One update on a batch of sources and targets; the loss of a token."""
        torch = self.torch
        if self.trained is None:
            from sockeye import loss, model, training

            drawn = model.SockeyeModel(self.config).apply(model.initialize_parameters).train()
            traced = torch.jit.trace(drawn, self._tensors(pairs)[:4], strict=False)
            self.trained = training.ModelWithLoss(traced, [loss.CrossEntropyLoss(label_smoothing=smoothing)])
            self.optimiser = torch.optim.Adam(drawn.parameters(), lr=lr, betas=(0.9, 0.98))
        source, source_length, target, target_length, labels = self._tensors(pairs)
        summed = self.trained(source, source_length, target, target_length, labels)[0]
        self.optimiser.zero_grad(set_to_none=True)
        summed.backward()
        self.optimiser.step()
        return float(summed.detach())

    def _tensors(self, pairs: list[list[list[int]]]) -> tuple[Any, ...]:
        torch, names = self.torch, self.constants
        source, labels = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, names.PAD_ID) for rows in pairs
        )
        target = torch.cat([torch.full((len(labels), 1), names.BOS_ID), labels[:, :-1]], 1)
        lengths = [torch.tensor([[len(row)] for row in rows], dtype=torch.int32) for rows in pairs]
        # By factor; lengths with those of a prefix, of which there is none.
        lengths[0] = torch.cat([lengths[0], torch.zeros_like(lengths[0])], 1)
        shaped = source[:, :, None].int(), lengths[0], target[:, :, None].int(), lengths[1][:, 0]
        return *shaped, {names.TARGET_LABEL_NAME: labels}


class JoeyNMT:
    """JoeyNMT: `search` on a model of its own making."""

    UNK, PAD, BOS, EOS = range(4)

    def __init__(self, size: dict[str, Any]):
        from importlib.metadata import version
        from types import SimpleNamespace

        import torch
        from joeynmt.config import _check_special_symbols
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        torch.set_num_threads(size["threads"])
        torch.manual_seed(1)
        self.torch = torch
        # It adds its four special symbols itself.
        words = Vocabulary(
            [f"w{i}" for i in range(size["vocabulary"] - 4)], SimpleNamespace(**_check_special_symbols({}))
        )
        side = {
            "type": "transformer",
            "num_layers": size["layers"],
            "num_heads": size["heads"],
            "hidden_size": size["width"],
            "ff_size": 4 * size["width"],
            "dropout": size["dropout"],
            "layer_norm": "pre",
            "embeddings": {"embedding_dim": size["width"], "scale": True, "dropout": 0.0},
        }
        drawn = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
        tied = {"tied_embeddings": True, "tied_softmax": True}
        self.model = build_model({**drawn, **tied, "encoder": side, "decoder": side}, words, words).eval()
        self.versions = {"joeynmt": version("joeynmt"), "torch": torch.__version__}

    def decode(self, batches: list[list[list[int]]], beam: int, length: int) -> int:
        """Words written."""
        from joeynmt.batch import Batch
        from joeynmt.search import search

        torch, count = self.torch, 0
        for batch in batches:
            rows = [torch.tensor([*(max(4, n) for n in row[:-1]), self.EOS]) for row in batch]
            asked = Batch(
                src=torch.nn.utils.rnn.pad_sequence(rows, True, self.PAD),
                src_length=torch.tensor([len(row) for row in rows]),
                src_prompt_mask=None,
                trg=None,
                trg_prompt_mask=None,
                indices=torch.arange(len(rows)),
                device=torch.device("cpu"),
                pad_index=self.PAD,
                eos_index=self.EOS,
                is_train=False,
            )
            found, _, _ = search(
                model=self.model,
                batch=asked,
                max_output_length=length,
                min_output_length=length,
                beam_size=beam,
                beam_alpha=1.0,
                n_best=1,
                return_attention=False,
                return_prob="none",
                generate_unk=True,
            )
            count += len(rows) * min(length, found.shape[1])
        return count


SYSTEMS: dict[str, Any] = {"hf": HuggingFace, "ctranslate2": CTranslate2, "sockeye": Sockeye, "joeynmt": JoeyNMT}


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
