"""Imported models compute and generate here what they do in transformers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import fairseq_tokenizer, lines, marian_tokenizer, small_model, t5_tokenizer

from calque.data.vocabulary import BOS, PAD
from calque.exchange.hf_vocabulary import Languages
from calque.exchange.import_run import import_hf, open_hf
from calque.ground.diagnostics import CalqueError
from calque.workflow.api import load

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

SIZES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 40, "max_position_embeddings": 64, "scale_embedding": True,
}  # fmt: skip
ASKED = Languages("en_XX", "de_DE")


def build(kind: str, folder: Path, **settings: Any) -> Any:
    """A folder with a small random model of a type, and the model."""
    folder.mkdir(exist_ok=True)
    if kind == "t5":
        size, special = t5_tokenizer(folder)
        sizes = {"d_model": 16, "d_kv": 4, "num_heads": 4, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1}
        distances = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
        config = transformers.T5Config(**{"vocab_size": size, **sizes, **distances, **special, **settings})
        return small_model(transformers.T5ForConditionalGeneration(config), folder, special["eos_token_id"])
    if kind == "marian":
        separate = not settings.get("share_encoder_decoder_embeddings", True)
        size, special = marian_tokenizer(folder, separate)
    else:
        size, special = fairseq_tokenizer(folder, kind)
    cls = {"marian": "Marian", "m2m_100": "M2M100", "nllb": "M2M100", "mbart": "MBart", "pegasus": "Pegasus"}[kind]
    config = getattr(transformers, f"{cls}Config")(**{**SIZES, "vocab_size": size, **special, **settings})
    name = "MarianMTModel" if cls == "Marian" else f"{cls}ForConditionalGeneration"
    return small_model(getattr(transformers, name)(config), folder, special["eos_token_id"])


def compare(folder: Path, model: Any, tmp_path: Path, asked: Languages, count: int) -> None:
    """Logits to 1e-5, greedy and beam 4 outputs, and the ids that both tokenizers give."""
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
    assert apart < 1e-5 * max(1.0, logits.abs().max())
    import_hf(folder, tmp_path / "run", asked)
    pad = int(rows[1][PAD])
    first = int(rows[1][target.codec.begins[0]]) if target.codec.begins else None
    for beam in (1, 4):
        decode = {"beam": beam, "max_length_factor": 0.0, "max_length_offset": 40}
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
        assert len(pairs) > count / 3
        assert not [pair for pair in pairs if pair[0] != pair[1]]


SLOW = pytest.mark.slow
UNTIED = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_kv": 6}
CASES = [
    pytest.param("marian", {"activation_function": "swish"}, Languages(), 30, id="marian"),
    pytest.param("marian", {"activation_function": "relu"}, Languages(), 200, id="marian-relu", marks=SLOW),
    pytest.param("marian", {"activation_function": "gelu", **UNTIED}, Languages(), 200, id="marian-untied", marks=SLOW),
    pytest.param("m2m_100", {"activation_function": "relu"}, Languages("en", "de"), 200, id="m2m_100", marks=SLOW),
    pytest.param("nllb", {"activation_function": "relu"}, ASKED, 200, id="nllb", marks=SLOW),
    pytest.param("mbart", {}, ASKED, 200, id="mbart", marks=SLOW),
    pytest.param("t5", {}, Languages(), 200, id="t5", marks=SLOW),
    pytest.param("t5", GATED, Languages(), 200, id="t5-gated", marks=SLOW),
]


@pytest.mark.parametrize(("kind", "settings", "asked", "count"), CASES)
def test_logits_and_translations_are_the_same(
    kind: str, settings: dict[str, Any], asked: Languages, count: int, tmp_path: Path
) -> None:
    model = build(kind, tmp_path / "hf", **settings)
    compare(tmp_path / "hf", model, tmp_path, asked, count)


def test_text_gets_the_ids_that_their_tokenizer_gives(tmp_path: Path) -> None:
    build("marian", tmp_path / "hf")
    texts = [*lines(20), ">>deu<< abc", "x y é  two", ""]
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "hf")
    tokenizer.punc_normalizer = lambda text: text
    _, (source, _), _, _ = open_hf(tmp_path / "hf", Languages())
    for text, ids in zip(texts, source.codec.encode(texts), strict=True):
        assert [source.rows[i] for i in [*ids, 2]] == tokenizer(text).input_ids


def test_a_tensor_that_nobody_uses_is_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    build("marian", tmp_path, activation_function="relu")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "model.extra.weight": torch.ones(2)}, file)
    with pytest.raises(CalqueError, match="X514") as fault:
        open_hf(tmp_path, Languages())
    assert "model.extra.weight" in str(fault.value)
    save_file({k: t for k, t in tensors.items() if "fc1" not in k}, file)
    with pytest.raises(CalqueError, match="X513"):
        open_hf(tmp_path, Languages())
    config = json.loads((tmp_path / "config.json").read_text())
    for changed, code in (({"model_type": "gpt2"}, "X511"), ({"activation_function": "mish"}, "X512")):
        (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
        with pytest.raises(CalqueError, match=code):
            open_hf(tmp_path, Languages())
    (tmp_path / "config.json").unlink()
    with pytest.raises(CalqueError, match="X510"):
        open_hf(tmp_path, Languages())
