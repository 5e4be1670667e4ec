"""Folders as transformers writes them: small networks with random weights, and a tokenizer of a few made-up words."""

import io
import json
import random
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from small_runs import randomise

LETTERS = "abcdefghij"
LANGUAGES = ["en_XX", "de_DE", "fr_XX"]


def lines(count: int, seed: int = 1) -> list[str]:
    """Made-up words."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(LETTERS, k=draw.randint(1, 5))) for _ in range(60)]
    return [" ".join(draw.choices(words, k=draw.randint(1, 8))) for _ in range(count)]


def pieces(size: int = 60, **options: Any) -> bytes:
    """A sentencepiece model of those words, with the symbols where sentencepiece has them by itself."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines(300, 7)),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        minloglevel=3,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def names(model: bytes) -> list[str]:
    """Its pieces, the three symbols left out."""
    processor = SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(k) for k in range(3, processor.get_piece_size())]


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def marian_tokenizer(folder: Path, separate: bool = False) -> tuple[int, dict[str, int]]:
    """Writes the files of a MarianTokenizer; the size of its vocabulary and the special ids."""
    model = pieces()
    tokens = ["</s>", "<unk>", *names(model), ">>deu<<", ">>fra<<", "<pad>"]
    ids = {token: k for k, token in enumerate(tokens)}
    write(folder / "vocab.json", ids)
    if separate:
        write(folder / "target_vocab.json", ids)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    about = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "separate_vocabs": separate}
    write(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", **about})
    pad = ids["<pad>"]
    return len(tokens), {
        "pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": None,
    }  # fmt: skip


def fairseq_tokenizer(folder: Path, kind: str) -> tuple[int, dict[str, int]]:
    """Writes a sentencepiece model and a list of languages, as M2M100, NLLB and mBART have them."""
    model = pieces()
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *names(model)]
    codes = [f"__{code[:2]}__" for code in LANGUAGES] if kind == "m2m_100" else LANGUAGES
    if kind == "m2m_100":
        write(folder / "vocab.json", {token: k for k, token in enumerate(tokens)})
    write(folder / "special_tokens_map.json", {"additional_special_tokens": codes})
    tokenizer = {"m2m_100": "M2M100Tokenizer", "nllb": "NllbTokenizer", "mbart": "MBartTokenizer"}[kind]
    write(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer, "additional_special_tokens": codes})
    size = len(tokens) + len(codes) + 3
    target = len(tokens) + 1
    start = target if kind == "mbart" else 2
    return size, {
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": start,
        "forced_eos_token_id": None, "forced_bos_token_id": None if kind == "mbart" else target,
    }  # fmt: skip


def t5_tokenizer(folder: Path) -> tuple[int, dict[str, int]]:
    """Writes a sentencepiece model as T5 has it: pad 0, end 1, unknown 2; the matrices have some rows more."""
    (folder / "spiece.model").write_bytes(pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    return 64, {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}


def small_model(model: Any, folder: Path, ends: int, strength: float = 5.0) -> Any:
    """Gives a network random weights with which sentences end after some words, and saves it."""
    randomise(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1 and p.requires_grad and "norm" not in name:  # tables of sinusoids stay
                p.normal_(0, 1.3 * p.shape[1] ** -0.5)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0, 0.3)
            model.final_logits_bias[0, ends] += strength
        else:  # without a bias of words, the last norm moves everything towards the end symbol, or its row is longer
            end, norm = model.get_output_embeddings().weight[ends], getattr(model.get_decoder(), "layer_norm", None)
            if norm is None:
                end *= 8
            else:
                norm.bias += end * strength / end.square().sum()
    model.save_pretrained(folder)
    return model.eval()
