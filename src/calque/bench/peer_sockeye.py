"""Sockeye 3 beside ours. Runs where Calque need not be installed."""

import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calque.bench.peer_runner import PeerSize, Rows


class Sockeye:
    """Sockeye 3: `Translator.translate`; for training a plain loop with its loss over its model, traced as its trainer does."""

    def __init__(self, size: "PeerSize"):
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
        self.model: Any = None
        self.translators: dict[tuple[int, int, int], Any] = {}
        self.trained: Any = None

    def _translator(self, beam: int, batch: int, length: int) -> Any:
        """A translator for each kind of search, built when it is first needed."""
        key = beam, batch, length
        if key not in self.translators:
            from sockeye import inference

            if not self.translators:
                self.model = self._inference_model()
            special = self.constants.VOCAB_SYMBOLS
            names = [*special, *(f"w{i}" for i in range(len(special), self.size["vocabulary"]))]
            vocabulary = {name: i for i, name in enumerate(names)}
            greedy = beam == 1 and batch == 1  # its greedy search takes one sentence at a time, and counts otherwise
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

    def _inference_model(self) -> Any:
        """A random model for inference. Its projections are laid out otherwise, so its parameters pass through a file."""
        from sockeye import model

        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "params")
            model.SockeyeModel(self.config).apply(model.initialize_parameters).save_parameters(file)
            built = model.SockeyeModel(self.config, inference_only=True).eval()
            built.load_parameters(file, self.torch.device("cpu"))
        built.cast(self.size["precision"])
        with self.torch.no_grad():  # no hypothesis ends before the forced length
            built.output_layer.bias[self.constants.EOS_ID] = -1e4
        return built

    def decode(self, batches: "list[Rows]", beam: int, length: int) -> int:
        """The number of words written. Sockeye itself appends the end symbol to sources."""
        from sockeye import inference

        count = 0
        for batch in batches:
            inputs = [inference.TranslatorInput(i, [f"w{max(4, n)}" for n in row[:-1]]) for i, row in enumerate(batch)]
            outputs = self._translator(beam, len(batch), length).translate(inputs, fill_up_batches=False)
            count += sum(len(each.tokens) for each in outputs)
        return count

    def train(self, pairs: "list[Rows]", smoothing: float, lr: float) -> float:
        """One update on a batch of sources and targets; returns the mean loss of a token."""
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

    def _tensors(self, pairs: "list[Rows]") -> tuple[Any, ...]:
        torch, names = self.torch, self.constants
        source, labels = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, names.PAD_ID) for rows in pairs
        )
        target = torch.cat([torch.full((len(labels), 1), names.BOS_ID), labels[:, :-1]], 1)
        lengths = [torch.tensor([[len(row)] for row in rows], dtype=torch.int32) for rows in pairs]
        # Words by factor; beside each source length stands that of its target prefix, which is empty.
        lengths[0] = torch.cat([lengths[0], torch.zeros_like(lengths[0])], 1)
        shaped = source[:, :, None].int(), lengths[0], target[:, :, None].int(), lengths[1][:, 0]
        return *shaped, {names.TARGET_LABEL_NAME: labels}
