"""The files of a tokenizer of transformers, from codecs."""

import json
from pathlib import Path
from typing import Any

from calque.data.codecs import Codec, PieceCodec
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK


def write_tokenizer(folder: Path, source: Codec, target: Codec) -> None:
    """Writes the files that `AutoTokenizer.from_pretrained` reads.

    Sentencepiece models go as the files of a `MarianTokenizer`, which has a model for each side. Other codecs go as a list of words
    for text that is cut already: `tokenizer.json`, and where the sides differ `target_tokenizer.json`.
    """
    if isinstance(source, PieceCodec) and isinstance(target, PieceCodec):
        _write_pieces(folder, source, target)
        return
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1024, **_special_tokens()}
    _write(folder / "tokenizer_config.json", about)
    _write(folder / "tokenizer.json", _word_list(source))
    if source is not target:
        _write(folder / "target_tokenizer.json", _word_list(target))


def _special_tokens() -> dict[str, str]:
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    return {name: SPECIALS[id_] for name, id_ in names.items()}


def _write_pieces(folder: Path, source: PieceCodec, target: PieceCodec) -> None:
    separate = source is not target
    about = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **_special_tokens()}
    _write(folder / "tokenizer_config.json", {**about, "model_max_length": 1024})
    for codec, name, vocabulary in ((source, "source", "vocab"), (target, "target", "target_vocab")):
        (folder / f"{name}.spm").write_bytes(codec.model)
        if name == "source" or separate:
            ids = {token: id_ for id_, token in enumerate(codec.tokens(range(codec.size)))}
            _write(folder / f"{vocabulary}.json", ids)


def _word_list(codec: Codec) -> dict[str, Any]:
    """A tokenizer of the library `tokenizers`: words between white space, closed with the end symbol."""
    tokens = codec.tokens(range(codec.size))
    end = SPECIALS[EOS]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": id_,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for id_, token in enumerate(SPECIALS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(tokens)}, "unk_token": SPECIALS[UNK]},
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
