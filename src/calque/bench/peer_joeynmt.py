"""JoeyNMT beside ours. Runs where Calque need not be installed."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calque.bench.peer_runner import PeerSize, Rows


class JoeyNMT:
    """`joeynmt.search.search` on a model that JoeyNMT builds."""

    UNK, PAD, BOS, EOS = range(4)

    def __init__(self, size: "PeerSize"):
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

    def decode(self, batches: "list[Rows]", beam: int, length: int) -> int:
        """The number of words written."""
        from joeynmt.batch import Batch
        from joeynmt.search import search

        torch, count = self.torch, 0
        for batch in batches:
            rows = [torch.tensor([*(max(4, n) for n in row[:-1]), self.EOS]) for row in batch]
            inputs = Batch(
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
            written, _, _ = search(
                model=self.model,
                batch=inputs,
                max_output_length=length,
                min_output_length=length,
                beam_size=beam,
                beam_alpha=1.0,
                n_best=1,
                return_attention=False,
                return_prob="none",
                generate_unk=True,
            )
            count += len(rows) * min(length, written.shape[1])
        return count
