"""Imported models compute and generate here what they do in transformers."""

import errno
import json
import math
import os
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from comparisons import CASES, build, compare
from small_models import lines

from calque.decode.sentences import sentences_of
from calque.exchange.hf_folder import read_pieces
from calque.exchange.hf_vocabulary import Languages
from calque.exchange.import_run import import_hf, open_hf
from calque.ground.diagnostics import CalqueError
from calque.workflow.api import load

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
# One in the quick suite: the others take longer.
KINDS = [pytest.param(name, id=name, marks=[pytest.mark.slow] * (k > 0)) for k, name in enumerate(CASES)]


@pytest.mark.medium
@pytest.mark.parametrize("name", KINDS)
def test_logits_and_translations_are_the_same(name: str, tmp_path: Path) -> None:
    kind, settings, asked = CASES[name]
    count = 30 if name == "marian" else 200
    model = build(kind, tmp_path / "hf", **settings)
    compared = compare(tmp_path / "hf", model, tmp_path, asked, count)
    assert compared.apart < 1e-5 * max(1.0, compared.largest)
    for sentences, differ in compared.sentences.values():
        assert sentences > count / 3
        assert not differ


@pytest.mark.parametrize("name", ["m2m_100", "mbart"])
def test_a_translation_scores_as_the_search_scored_it(name: str, tmp_path: Path) -> None:
    """The name of its language, with which every translation of M2M-100 begins, costs nothing in either."""
    kind, settings, asked = CASES[name]
    build(kind, tmp_path / "hf", **settings)
    import_hf(tmp_path / "hf", tmp_path / "run", asked)
    how = {"beam": 2, "max_length_factor": 0.0, "max_length_offset": 12}
    for folders in (tmp_path / "run", [tmp_path / "run", tmp_path / "run"]):
        run = load(folders, **how)
        texts = lines(20)
        found = [some[0] for some in run.candidates(texts)]
        again = run.loaded.target.encode([one.text for one in found])
        same = [k for k, one in enumerate(found) if list(one.ids) == again[k]]
        assert len(same) > 10
        scores = run.score([(texts[k], found[k].text) for k in same])
        assert scores == pytest.approx([found[k].score for k in same], abs=1e-4)
        means = run.cross_entropies({texts[k]: found[k].text for k in same})
        assert [one for (one,) in means] == pytest.approx([-score for score in scores], abs=1e-4)


def test_an_import_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, settings, asked = CASES["marian"]
    build(kind, tmp_path / "hf", **settings)
    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("calque.exchange.import_run.save_model", _full)
        for out in (tmp_path / "made" / "run", tmp_path / "run"):
            with pytest.raises(CalqueError, match="K301"):
                import_hf(tmp_path / "hf", out, asked)
    assert not (tmp_path / "made").exists()
    import_hf(tmp_path / "hf", tmp_path / "run", asked)


def _full(*args: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_is_cut_keeps_what_the_model_reads_behind_it(tmp_path: Path) -> None:
    kind, settings, asked = CASES["mbart"]
    build(kind, tmp_path / "hf", **settings)
    import_hf(tmp_path / "hf", tmp_path / "run", asked)
    run = load(tmp_path / "run", max_source_tokens=5).loaded
    text = max(lines(20), key=len)
    (whole,) = run.source.encode([text])
    behind = run.source.encode(["x"])[0][-2:]
    (sentence,) = sentences_of(run, [text])
    assert whole[-2:] == behind
    assert sentence.sources[0].tolist() == [*whole[:3], *behind]


def test_text_gets_the_ids_that_their_tokenizer_gives(tmp_path: Path) -> None:
    build("marian", tmp_path / "hf")
    texts = [*lines(20), ">>deu<< abc", "x y é  two", ""]
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "hf")
    tokenizer.punc_normalizer = lambda text: text
    _, (source, _), _, _ = open_hf(tmp_path / "hf", Languages())
    for text, ids in zip(texts, source.codec.encode(texts), strict=True):
        assert [source.rows[i] for i in [*ids, 2]] == tokenizer(text).input_ids


@pytest.mark.parametrize("name", ["marian", "m2m_100"])
def test_an_absent_key_has_the_value_that_transformers_assumes(name: str, tmp_path: Path) -> None:
    kind, settings, asked = CASES[name]
    build(kind, tmp_path, **settings)
    file = tmp_path / "config.json"
    named = json.loads(file.read_text())
    assumed = transformers.AutoConfig.for_model(kind)
    keys = ("activation_function", "attention_dropout", "activation_dropout", "dropout", "scale_embedding")
    file.write_text(json.dumps({**named, **{key: getattr(assumed, key) for key in keys}}))
    as_named = open_hf(tmp_path, asked)[0]
    file.write_text(json.dumps({key: value for key, value in named.items() if key not in keys}))
    assert open_hf(tmp_path, asked)[0].checked.text == as_named.checked.text
    file.write_text(json.dumps({**named, "scale_embedding": "no"}))
    with pytest.raises(CalqueError, match="X522"):
        open_hf(tmp_path, asked)


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


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("config.json", {"model_type": ["marian"]}, "X511"),
    ("config.json", {"encoder_layers": None}, "`encoder_layers` is absent, expected a whole number from 1"),
    ("config.json", {"d_model": "x"}, '`d_model` is "x", expected'),
    ("config.json", {"pad_token_id": 10**9}, "`pad_token_id` is 1000000000, expected a whole number from 0 to"),
    ("config.json", {"eos_token_id": []}, "`eos_token_id`"),
    ("config.json", {"activation_function": {}}, "`activation_function`"),
    ("config.json", {"dropout": float("nan")}, "`dropout` is NaN"),
    ("generation_config.json", {"num_beams": 5000}, "`num_beams`"),
    ("generation_config.json", {"length_penalty": [1]}, "`length_penalty`"),
    ("tokenizer_config.json", {"tokenizer_class": 3}, "`tokenizer_class`"),
    ("tokenizer_config.json", {"extra_special_tokens": [{}]}, "`extra_special_tokens`"),
    ("vocab.json", {"<unk>": 10**6}, "`<unk>`"),
    ("vocab.json", {"a": "first"}, "`a`"),
    ("model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}}, "`weight_map`"),
]


def test_a_value_of_a_wrong_kind_is_one_error(tmp_path: Path) -> None:
    kind, settings, asked = CASES["m2m_100"]
    build(kind, tmp_path / "hf", **settings)
    for name, changes, message in WRONG:
        file = tmp_path / "hf" / name
        before = file.read_bytes() if file.exists() else b""
        file.write_text(json.dumps({**json.loads(before or b"{}"), **changes}))
        with pytest.raises(CalqueError) as fault:
            import_hf(tmp_path / "hf", tmp_path / "run", asked)
        assert message in str(fault.value)
        assert name in str(fault.value) or name == "vocab.json"
        assert len(fault.value.diagnostics) == 1
        assert not (tmp_path / "run").exists()
        if before:
            file.write_bytes(before)
        else:
            file.unlink()
    (tmp_path / "hf" / "config.json").write_text("[" * 100_000)
    with pytest.raises(CalqueError, match="X517"):
        open_hf(tmp_path / "hf", asked)


def test_weights_that_may_not_be_read_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, settings, asked = CASES["mbart"]
    build(kind, tmp_path, **settings)
    as_before = Path.open

    def refused(path: Path, *how: str, **more: str) -> IO[Any]:
        if path.suffix == ".safetensors":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return as_before(path, *how, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(CalqueError, match="X517") as fault:
        open_hf(tmp_path, asked)
    assert "this file cannot be read: permission denied" in str(fault.value)


def test_weights_of_other_shapes_are_one_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    kind, settings, asked = CASES["mbart"]
    build(kind, tmp_path, **settings)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for name in ("model.shared.weight", "model.encoder.embed_positions.weight", "final_logits_bias"):
        save_file({**tensors, name: torch.tensor(1.0)}, file)
        with pytest.raises(CalqueError, match="X518") as fault:
            open_hf(tmp_path, asked)
        assert len(fault.value.diagnostics) == 1
    name = "model.encoder.layers.0.fc1.bias"
    save_file({**tensors, name: tensors[name] * math.nan}, file)
    with pytest.raises(CalqueError, match="X517") as fault:
        open_hf(tmp_path, asked)
    assert name in str(fault.value)
    file.unlink()
    torch.save([torch.ones(2)], tmp_path / "pytorch_model.bin")
    with pytest.raises(CalqueError, match="X517"):
        open_hf(tmp_path, asked)


def test_a_search_without_normalisation_stays_one(tmp_path: Path) -> None:
    """0 is a value of transformers' `length_penalty`, not a missing one."""
    kind, settings, asked = CASES["marian"]
    build(kind, tmp_path / "hf", **settings)
    for penalty, alpha in ((0.0, 0.0), (0.6, 0.6), (None, 1.0)):
        (tmp_path / "hf" / "generation_config.json").write_text(json.dumps({"length_penalty": penalty}))
        run = tmp_path / f"run-{penalty}"
        import_hf(tmp_path / "hf", run, asked)
        assert load(run).loaded.decode.alpha == alpha


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_damaged_model_of_sentencepiece_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "source.spm").write_bytes(content)
    with pytest.raises(CalqueError, match="X517"):
        read_pieces(tmp_path, "missing.spm", "source.spm")
