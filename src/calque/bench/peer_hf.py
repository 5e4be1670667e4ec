"""Hugging Face's Marian beside ours. Runs where Calque need not be installed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calque.bench.peer_runner import PeerSize, Rows

LAST = 1
"""Marian pads with the last word of the vocabulary: it is taken from the words."""


class HuggingFace:
    """`MarianMTModel`: `generate`, and a plain loop of updates."""

    def __init__(self, size: "PeerSize"):
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

    def _padded(self, rows: "Rows") -> Any:
        width = max(map(len, rows))
        return self.torch.tensor([[min(i, self.pad - 1) for i in r] + [self.pad] * (width - len(r)) for r in rows])

    def decode(self, batches: "list[Rows]", beam: int, length: int) -> int:
        """The number of words written."""
        return sum(self._one(batch, beam, length) for batch in batches)

    def _one(self, batch: "Rows", beam: int, length: int) -> int:
        ids = self._padded(batch)
        with self.torch.inference_mode():
            written = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != self.pad).long(),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=length,
                max_new_tokens=length,
            )
        return int((written.size(1) - 1) * written.size(0))

    def train(self, pairs: "list[Rows]", smoothing: float, lr: float) -> float:
        """One update on a batch of sources and targets; returns the mean loss of a token."""
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
