"""Marian's models, both ways: beside a program that knows its names alone, beside CTranslate2's reader, and there and back."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from marian_reference import Names, Network
from sentencepiece import SentencePieceProcessor
from small_models import lines as made_up
from small_models import pieces
from small_runs import WORDS, draw_lines, make_run, piece_codec

from calque import zoo
from calque.data.codecs import Codec, WordCodec
from calque.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary
from calque.exchange.export import export
from calque.exchange.hf_vocabulary import Languages
from calque.exchange.import_run import import_marian
from calque.ground.diagnostics import CalqueError, Span
from calque.workflow.api import load

yaml = pytest.importorskip("yaml", reason="the package pyyaml is not installed")

HEAD = "d = 32\nheads = 4\n"
POST = (
    f"{HEAD}encoder = pos(endpoint=yes) -> repeat(1, post(mh_dot_self_att(bias=yes)) -> post(ffl(48)))\n"
    "decoder = zero_first -> pos(endpoint=yes) -> repeat(2, post(mh_dot_self_att(bias=yes)) -> "
    "post(mh_dot_src_att(bias=yes)) -> post(ffl))\n"
)
STUDENT = POST.replace("repeat(2, post(mh_dot_self_att(bias=yes))", "repeat(2, post(ssru -> linear)").replace(
    "bias=yes", "bias=no"
)
PRE = (
    f"{HEAD}block(b) = res(rms_norm -> b)\n"
    "encoder = rms_norm -> repeat(1, block(mh_dot_self_att(s=3)) -> block(ffl(48, 0, silu))) -> rms_norm\n"
    "decoder = zero_first -> rms_norm -> repeat(1, block(ssru) -> block(mh_dot_src_att(s=5)) -> block(ffl(48, 0, silu)))"
    " -> rms_norm\n"
)
CASES = {"post-norm": (POST, "three-way"), "student": (STUDENT, "target"), "pre-norm": (PRE, "none")}


def written(run: Path, out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the tensors of an exported run."""
    export(run, "marian", out, "float32", (), str)
    with np.load(out / "model.npz") as file:
        arrays = {name: file[name] for name in file.files}
    settings = arrays.pop("special:model.yml")
    assert settings.dtype == np.int8
    assert settings[-1] == 0
    return yaml.safe_load(settings[:-1].tobytes()), arrays


def ids(codec: Codec) -> list[int]:
    """Our id of each of theirs."""
    return [EOS, UNK, *range(4, codec.size)]


@pytest.mark.parametrize("name", CASES)
def test_an_exported_file_computes_in_marians_equations_what_the_run_does(name: str, tmp_path: Path) -> None:
    text, tying = CASES[name]
    source = piece_codec()
    target = source if tying == "three-way" else piece_codec([*WORDS[3:], "extra"])
    model = make_run(tmp_path / "run", text, 0, source, tying, target=target)
    config, arrays = written(tmp_path / "run", tmp_path / "out")
    network = Network(Names(arrays), config)
    rows = [ids(source), ids(target)]
    draw = np.random.default_rng(5)
    for n, m in ((1, 0), (6, 5), (9, 12)):
        x = [*draw.integers(1, len(rows[0]), n).tolist(), 0]
        y = draw.integers(1, len(rows[1]), m).tolist()
        theirs = network.logits(x, y)
        given = [torch.tensor([[rows[side][i] for i in given]]) for side, given in ((0, x), (1, y))]
        words = torch.cat([torch.tensor([[BOS]]), given[1].long().view(1, -1)], 1)
        with torch.no_grad():
            ours = model.double()(given[0], words, torch.ones_like(given[0], dtype=torch.bool))[0][:, rows[1]]
        # Queries are scaled in float32 where `s` is another one.
        assert np.abs(theirs - ours.numpy()).max() < 1e-6 * max(1.0, np.abs(theirs).max())
    assert set(arrays) == set(network.at.used)


CONFIG = {
    "type": "transformer", "dim-emb": 16, "enc-depth": 2, "dec-depth": 1, "transformer-heads": 2, "transformer-dim-ffn": 24,
    "transformer-decoder-dim-ffn": 40, "transformer-ffn-depth": 2, "transformer-ffn-activation": "swish",
    "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "", "transformer-decoder-autoreg": "self-attention", "dec-cell": "ssru",
    "tied-embeddings-all": True, "tied-embeddings": False, "tied-embeddings-src": False, "layer-normalization": False,
    "transformer-dropout": 0.1, "version": "v1.9.0",
}  # fmt: skip
PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
MODELS: dict[str, dict[str, Any]] = {
    "opus-mt": {},
    "bergamot": {"transformer-decoder-autoreg": "rnn", "transformer-ffn-activation": "relu"},
    "pre-norm, two embeddings": {**PRE_NORM, "tied-embeddings-all": False, "tied-embeddings": True},
    "recurrent, pre-norm, three matrices": {
        **PRE_NORM, "transformer-decoder-autoreg": "rnn", "transformer-rnn-projection": True, "tied-embeddings-all": False,
        "transformer-postprocess-emb": "nd", "transformer-disable-position-embeddings": True,
    },
}  # fmt: skip


def make_folder(folder: Path, changes: dict[str, Any], opus: bool) -> Network:
    """A folder of Marian with a random model, whose tensors are those that the reference asks for."""
    folder.mkdir()
    model = pieces(eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    processor = SentencePieceProcessor(model_proto=model)
    words = [processor.id_to_piece(k) for k in range(processor.get_piece_size())]
    if opus:
        words += [">>deu<<", ">>fra<<"]
        (folder / "list.yml").write_text("".join(f"{json.dumps(word)}: {k}\n" for k, word in enumerate(words)))
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(model)
    else:
        (folder / "both.spm").write_bytes(model)
    vocabulary = "list.yml" if opus else "both.spm"
    decoder = {"models": ["a.npz"], "vocabs": [vocabulary, vocabulary], "normalize": 0.8, "beam-size": 6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    config = {**CONFIG, **changes, "dim-vocabs": [len(words), len(words)]}
    network = Network(Names(), config)
    network.logits([3, 0], [4])
    save(folder, config, network.at.used)
    return network


def save(folder: Path, config: dict[str, Any], arrays: dict[str, Any]) -> None:
    settings = np.frombuffer(yaml.safe_dump(config).encode() + b"\0", dtype=np.int8)
    numbers = {name: array.astype(np.float32) for name, array in arrays.items()}
    np.savez(folder / "a.npz", **{**numbers, "special:model.yml": settings})


@pytest.mark.parametrize("name", MODELS)
def test_an_imported_model_computes_what_marians_equations_say(name: str, tmp_path: Path) -> None:
    network = make_folder(tmp_path / "theirs", MODELS[name], name == "opus-mt")
    model = import_marian(tmp_path / "theirs", tmp_path / "run", Languages()).double()
    loaded = load(tmp_path / "run")
    source, target = loaded.loaded.source, loaded.loaded.target
    number = {token: k for k, token in enumerate(target.tokens(range(target.size)))}
    theirs = {"</s>": 0, "<unk>": 1}
    processor = SentencePieceProcessor(model_file=str(next((tmp_path / "theirs").glob("*.spm"))))
    theirs |= {processor.id_to_piece(k): k for k in range(2, processor.get_piece_size())}
    rows = [number[piece] for piece in theirs]
    for line, other in zip(made_up(12), made_up(12, 9), strict=True):
        x, y = ([theirs[piece] for piece in processor.encode(text, out_type=str)] for text in (line, other))
        expected = network.logits([*x, 0], y)
        given = torch.tensor([[*source.encode([line])[0], EOS]])
        words = torch.tensor([[BOS, *target.encode([other])[0]]])
        with torch.no_grad():
            found = model(given, words, torch.ones_like(given, dtype=torch.bool))[0]
        assert np.abs(expected[:, list(theirs.values())] - found[:, rows].numpy()).max() < 1e-6
        assert (found[:, [PAD, BOS]] < -1000).all()
    assert (loaded.experiment.decode.beam, loaded.experiment.decode.alpha) == (6, 0.8)
    greedy = load(tmp_path / "run", beam=1, max_length_factor=0.0, max_length_offset=9)
    for line in made_up(4):
        x, y = [theirs[piece] for piece in processor.encode(line, out_type=str)], [0]
        for _ in range(9):
            y = [*y[:-1], int(network.logits([*x, 0], y[:-1])[-1].argmax()), 0]
            if y[-2] == 0:
                break
        expected = [rows[list(theirs.values()).index(i)] for i in y[:-1] if i]
        assert list(greedy.candidates([line])[0][0].ids) == expected


def test_there_and_back_is_the_same_model(tmp_path: Path) -> None:
    ours = make_run(tmp_path / "run", STUDENT, 0, piece_codec(), "three-way")
    export(tmp_path / "run", "marian", tmp_path / "out", "float32", (), str)
    back = import_marian(tmp_path / "out", tmp_path / "again", Languages())
    one, two = (load(tmp_path / name, beam=4) for name in ("run", "again"))
    texts = draw_lines(20)
    assert one.loaded.source.encode(texts) == two.loaded.source.encode(texts)
    x = torch.tensor([[4, 5, 6, EOS]])
    mask = torch.ones_like(x, dtype=torch.bool)
    with torch.no_grad():
        pair = [model(x, torch.tensor([[BOS, 7, 8]]), mask)[:, :, UNK:] for model in (ours, back)]
    assert (pair[0] - pair[1]).abs().max() < 1e-6
    (out_spm,) = (tmp_path / "out").glob("*.spm")
    processor = SentencePieceProcessor(model_file=str(out_spm))
    assert (processor.eos_id(), processor.unk_id(), processor.bos_id(), processor.pad_id()) == (0, 1, -1, -1)
    assert [i + 2 for i in processor.encode("w3 w5 w7")] == one.loaded.source.encode(["w3 w5 w7"])[0]


@pytest.mark.slow
def test_ctranslate2s_reader_of_marian_finds_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    from ctranslate2.converters import marian

    from calque.layers.pos import sinusoids

    codec = WordCodec(Vocabulary([*WORDS[2:], "x:y", '"', "yes", "1", "\x85", "a\\b"]))
    make_run(tmp_path / "run", POST, 100, WordCodec(Vocabulary(WORDS)))
    make_run(tmp_path / "odd", POST, 0, codec)
    export(tmp_path / "run", "marian", tmp_path / "out", "float32", (), str)
    export(tmp_path / "odd", "marian", tmp_path / "odd-out", "float32", (), str)
    # It takes other sinusoids than Marian does: here it gets Marian's.
    monkeypatch.setattr(
        marian,
        "_make_sinusoidal_position_encodings",
        lambda d: sinusoids(torch.arange(200), d, "halves", True).float().numpy(),
    )
    folder, list_ = str(tmp_path / "ct2"), str(tmp_path / "out" / "vocab.yml")
    marian.MarianConverter(str(tmp_path / "out" / "model.npz"), [list_, list_]).convert(folder)
    translator = ctranslate2.Translator(folder, intra_threads=1)
    texts = draw_lines(40)
    results = translator.translate_batch([text.split() for text in texts], beam_size=1, max_decoding_length=61)
    ours = load(tmp_path / "run", beam=1).translate(texts)
    pairs = {
        pair for pair in zip(ours, (" ".join(one.hypotheses[0]) for one in results), strict=True) if len(pair[0]) < 150
    }
    assert len(pairs) > 15
    assert not [pair for pair in pairs if pair[0] != pair[1]]
    odd = yaml.load((tmp_path / "odd-out" / "vocab.yml").read_bytes(), yaml.BaseLoader)
    assert list(odd) == ["</s>", "<unk>", *codec.tokens(range(len(SPECIALS), codec.size))]


REFUSED = {
    "pos": POST.replace("encoder = pos(endpoint=yes)", "encoder = pos"),
    "pos ": POST.replace("zero_first -> ", ""),
    "norm": POST.replace("post(ffl(48))", "res_d(ffl(48)) -> norm(1e-3)").replace(
        "bias=yes)) -> res", "bias=yes)) -> res"
    ),
    "mh_dot_self_att": POST.replace(
        "repeat(1, post(mh_dot_self_att(bias=yes))", "repeat(1, post(mh_dot_self_att(rope=9))"
    ),
    "rnn": POST.replace("post(mh_dot_self_att(bias=yes)) -> post(mh", "post(rnn) -> post(mh"),
    "ff": POST.replace("ffl(48)", "ffl(48, 0, gelu)"),
    "mh_dot_src_att": POST.replace("mh_dot_src_att(bias=yes)", "mh_dot_src_att(heads=2)"),
}


@pytest.mark.parametrize("layer", REFUSED)
def test_what_marian_cannot_say_is_one_error_at_its_layer(layer: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", REFUSED[layer], 0)
    with pytest.raises(CalqueError) as fault:
        export(tmp_path / "run", "marian", tmp_path / "out", "float32", (), str)
    (diagnostic,) = fault.value.diagnostics
    assert diagnostic.code == "X501"
    place = diagnostic.where
    assert isinstance(place, Span)
    assert place.text.body[place.start : place.end].startswith(layer.strip())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["modern/marian", "modern/bergamot-tiny"])
def test_the_zoos_marian_models_can_go_there(name: str, tmp_path: Path) -> None:
    sizes = {"d": 32, "n": 1, "m": 1, "h": 48}
    text = re.sub(r"(?m)^([dnmh]) = \d+$", lambda found: f"{found[1]} = {sizes[found[1]]}", zoo.read(name).body)
    make_run(tmp_path / "run", text, 0)
    settings, _ = written(tmp_path / "run", tmp_path / "out")
    assert settings["dim-emb"] == 32


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "s2s"}, "X512"),
    ({"transformer-ffn-activation": "gelu"}, "X512"),
    ({"transformer-ffn-depth": 3}, "X512"),
    ({"transformer-postprocess": "dah"}, "X512"),
    ({"transformer-preprocess": "n"}, "X512"),
    ({"transformer-decoder-autoreg": "average-attention"}, "X512"),
    ({"dim-emb": "none"}, "X522"),
    ({"transformer-dropout": "x"}, "X522"),
    ({"enc-depth": 1}, "X514"),
    ({"enc-depth": 3}, "X513"),
]


def test_what_cannot_be_read_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    network = make_folder(folder, {}, False)
    config = dict(network.config)

    def fails(code: str) -> None:
        with pytest.raises(CalqueError, match=code) as fault:
            import_marian(folder, tmp_path / "run", Languages())
        assert len(fault.value.diagnostics) == 1
        assert not (tmp_path / "run").exists()

    for changes, code in WRONG:
        save(folder, {**config, **changes}, network.at.used)
        fails(code)
    arrays = (
        (np.array(["a"]), "X517"),
        (np.full((8, 16), np.nan), "X517"),
        (np.zeros((2, 3, 4)), "X518"),
        (np.zeros(()), "X518"),
    )
    for array, code in arrays:
        save(folder, config, network.at.used)
        tensors = dict(np.load(folder / "a.npz"))
        np.savez(folder / "a.npz", **{**tensors, "encoder_l1_ffn_W1": array})
        fails(code)
    aliases = "a: &a [1, 1]\nb: [*a, *a]"
    for text, code in (
        ("beam-size: many", "X522"),
        ("normalize: -1", "X522"),
        ("[" * 100_000, "X517"),
        (aliases, "X517"),
    ):
        (folder / "decoder.yml").write_text(text)
        fails(code)
    (folder / "decoder.yml").unlink()
    np.savez(folder / "a.npz", Wemb=np.zeros((3, 4)))
    fails("X521")
    (folder / "a.npz").write_bytes(b"PK no archive")
    fails("X517")
    for text in ("models: [b.npz]", "models: b.npz", "models: [a.npz]\nvocabs: [other.spm]"):
        save(folder, config, network.at.used)
        (folder / "decoder.yml").write_text(text)
        fails("X521")
    (folder / "decoder.yml").write_text("models: [a.npz\n")
    fails("X517")
    (folder / "decoder.yml").unlink()
    (folder / "c.npz").write_bytes(b"")
    fails("X521")
