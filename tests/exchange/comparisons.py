"""Random models of transformers beside what `calque import` makes of them. Tests and `benchmarks/exchange.py` use it."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from small_models import fairseq_tokenizer, lines, marian_tokenizer, small_model, t5_tokenizer

from calque.data.vocabulary import BOS, PAD
from calque.exchange.hf_vocabulary import Languages
from calque.exchange.import_run import import_hf, open_hf
from calque.workflow.api import load

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SIZES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 40, "max_position_embeddings": 64, "scale_embedding": True,
}  # fmt: skip
ASKED = Languages("en_XX", "de_DE")


class Compared(NamedTuple):
    """The largest difference of logits, the largest logit, and by beam how many sentences were compared and how many differ."""

    apart: float
    largest: float
    sentences: dict[int, tuple[int, int]]


def build(kind: str, folder: Path, strength: float = 5.0, **settings: Any) -> Any:
    """A folder with a small random model of a type, and the model; the stronger, the earlier its sentences end."""
    import transformers

    folder.mkdir(exist_ok=True)
    if kind == "t5":
        size, special = t5_tokenizer(folder)
        sizes = {"d_model": 16, "d_kv": 4, "num_heads": 4, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1}
        distances = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
        config = transformers.T5Config(**{"vocab_size": size, **sizes, **distances, **special, **settings})
        return small_model(transformers.T5ForConditionalGeneration(config), folder, special["eos_token_id"], strength)
    if kind == "marian":
        separate = not settings.get("share_encoder_decoder_embeddings", True)
        size, special = marian_tokenizer(folder, separate)
    else:
        size, special = fairseq_tokenizer(folder, kind)
    cls = {"marian": "Marian", "m2m_100": "M2M100", "nllb": "M2M100", "mbart": "MBart", "pegasus": "Pegasus"}[kind]
    config = getattr(transformers, f"{cls}Config")(**{**SIZES, "vocab_size": size, **special, **settings})
    name = "MarianMTModel" if cls == "Marian" else f"{cls}ForConditionalGeneration"
    return small_model(getattr(transformers, name)(config), folder, special["eos_token_id"], strength)


def compare(folder: Path, model: Any, tmp_path: Path, asked: Languages, count: int) -> Compared:
    """Logits, and greedy and beam 4 outputs of `count` sentences; those that their `generate` does not end are left out."""
    ours, (source, target), closed, _ = open_hf(folder, asked)
    rows = [torch.tensor(side.rows) for side in (source, target)]
    texts = lines(count)
    coded = [[*ids, 2] if closed else ids for ids in source.codec.encode(texts)]
    longest = max(map(len, coded))
    batch = torch.tensor([ids + [PAD] * (longest - len(ids)) for ids in coded])
    mask = batch != PAD
    words = torch.randint(3, target.codec.size, (count, 7)).index_fill(1, torch.tensor([0]), BOS)
    theirs = {"input_ids": rows[0][batch], "attention_mask": mask.long()}
    with torch.no_grad():
        logits = model(**theirs, decoder_input_ids=rows[1][words]).logits[:, :, rows[1]]
        found = ours(batch, words, mask)
    apart = (logits - found)[:, :, [k for k in range(found.shape[2]) if k != BOS]].abs().max()
    sentences = {}
    import_hf(folder, tmp_path / "run", asked)
    pad = int(rows[1][PAD])
    first = int(rows[1][target.codec.begins[0]]) if target.codec.begins else None
    for beam in (1, 4):
        decode = {"beam": beam, "max_length_factor": 0.0, "max_length_offset": 40, "stop": "full"}
        loaded = load(tmp_path / "run", **decode)
        expected = [one[0].ids for one in loaded.candidates(texts)]
        written = model.generate(
            **theirs,
            num_beams=beam,
            early_stopping=beam > 1,
            max_length=42,
            do_sample=False,
            suppress_tokens=[pad],
            forced_bos_token_id=first,
        )
        number = {row: k for k, row in enumerate(rows[1].tolist()) if k != BOS}
        end = int(rows[1][2])
        pairs = []
        for ids, row in zip(expected, written.tolist(), strict=True):
            if end in row[1:]:
                pairs.append((list(ids), [number[i] for i in row[1 : row.index(end, 1)]]))
        sentences[beam] = len(pairs), sum(a != b for a, b in pairs)
    return Compared(float(apart), float(logits.abs().max()), sentences)


UNTIED = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_kv": 6}
CASES: dict[str, tuple[str, dict[str, Any], Languages]] = {
    "marian": ("marian", {"activation_function": "swish"}, Languages()),
    "marian, relu": ("marian", {"activation_function": "relu"}, Languages()),
    "marian, three matrices": ("marian", {"activation_function": "gelu", **UNTIED}, Languages()),
    "m2m_100": ("m2m_100", {"activation_function": "relu"}, Languages("en", "de")),
    "nllb": ("nllb", {"activation_function": "relu"}, ASKED),
    "mbart": ("mbart", {}, ASKED),
    "t5": ("t5", {}, Languages()),
    "t5, gated, narrow attention": ("t5", GATED, Languages()),
}
