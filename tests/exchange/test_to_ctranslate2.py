"""Exported models translate in CTranslate2 as they do here."""

from pathlib import Path

import pytest
import torch
from small_runs import POST, PRE, draw_lines, make_run

from calque.data.vocabulary import BOS, EOS, PAD
from calque.exchange.import_run import import_hf
from calque.exchange.to_ctranslate2 import PRECISIONS, write_ctranslate2
from calque.exchange.weights import open_exported
from calque.ground.diagnostics import CalqueError, Span
from calque.model import Model
from calque.workflow.api import Run, load

ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")

LIMIT = 60
"""Where a translation is cut off, each library does it in its own way."""
LEARNED = (
    "d = 32\nheads = 4\nencoder = learn_pos(20) -> norm -> repeat(1, res_nd(mh_dot_self_att) -> "
    "res_nd(linear(64) -> gelu -> linear))\n"
    "decoder = zero_first -> pos(endpoint=yes) -> repeat(1, res_nd(mh_dot_self_att(s=3)) -> res_nd(mh_dot_src_att) -> "
    "res_nd(linear(48) -> tanh -> linear(bias=no)))\n"
)


def blocks(att: str, src: str = "mh_dot_src_att", ff: str = "swiglu(48, 0)", end: str = "") -> str:
    """A pre-norm Transformer with RMSNorm and without positions in its embeddings."""
    return (
        f"d = 32\nheads = 4\nblock(b) = res(rms_norm -> b)\n"
        f"encoder = repeat(2, block({att}) -> block({ff})) -> rms_norm\n"
        f"decoder = repeat(2, block({att}) -> block({src}) -> block({ff})) -> rms_norm{end}\n"
    )


WIDE = "s=1, width=48, out=no) -> linear(bias=no)"
T5 = blocks(
    f"mh_dot_self_att(relative=t5, buckets=8, reach=6, {WIDE}",
    f"mh_dot_src_att({WIDE}",
    "ffl(48, bias=no)",
    " -> scale(0.2)",
)
MODERN = [
    (blocks("mh_dot_self_att(rope=10000, kv_heads=2, qk_norm=yes)"), "three-way"),
    (T5, "three-way"),
    (blocks("mh_dot_self_att(relative=shaw, reach=3)"), "none"),
    (blocks("mh_dot_self_att(rope=100, kv_heads=1)"), "three-way"),
]
# Two of them in the quick suite.
CASES = [pytest.param(*one, marks=[pytest.mark.slow] * (k > 1)) for k, one in enumerate(MODERN)]

IMPORTED = ("marian, three matrices", "nllb", "mbart", "t5", "t5, gated, narrow attention")


def export(run: Path, out: Path, precision: str = "float32") -> Path:
    out.mkdir()
    write_ctranslate2(open_exported(run), out, precision)
    return out


def theirs(folder: Path, lines: list[str], beam: int, compute: str = "default") -> list[str]:
    translator = ctranslate2.Translator(str(folder), intra_threads=1, compute_type=compute)
    results = translator.translate_batch(
        [line.split() for line in lines],
        beam_size=beam,
        length_penalty=1.0,
        return_end_token=True,
        min_decoding_length=0,
        max_decoding_length=LIMIT + 1,
    )
    return [" ".join(word for word in one.hypotheses[0] if word != "</s>") for one in results]


@pytest.mark.medium
@pytest.mark.parametrize(("text", "tying"), [(PRE, "three-way"), (POST, "target"), (LEARNED, "none")])
def test_greedy_and_beam_search_give_the_same_translations(text: str, tying: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", text, tying=tying, bias=tying != "target")
    folder = export(tmp_path / "run", tmp_path / "out")
    lines = draw_lines(50)
    for beam in (1, 4):
        ours = load(tmp_path / "run", beam=beam, stop="full").translate(lines)
        both = zip(ours, theirs(folder, lines, beam), strict=True)
        pairs = [pair for pair in both if max(len(text.split()) for text in pair) < LIMIT]
        assert len(set(pairs)) > 25
        assert not [pair for pair in pairs if pair[0] != pair[1]]


@pytest.mark.medium
@pytest.mark.parametrize(("text", "tying"), CASES)
def test_positions_in_the_scores_give_the_same_probabilities(text: str, tying: str, tmp_path: Path) -> None:
    model = make_run(tmp_path / "run", text, tying=tying)
    folder = export(tmp_path / "run", tmp_path / "out")
    lines, others = draw_lines(50), draw_lines(20, seed=3, longest=12)
    loaded = load(tmp_path / "run", beam=1)
    pairs = list(zip(loaded.translate(lines), theirs(folder, lines, 1), strict=True))
    assert len(set(pairs)) > 25
    assert not [pair for pair in pairs if pair[0] != pair[1] and len(pair[0].split()) < LIMIT]
    assert apart(loaded, model, folder, others, others[::-1]) < 2e-5


def apart(run: Run, model: Model, folder: Path, lines: list[str], others: list[str]) -> float:
    """The largest difference of the log-probabilities of forced translations, from those of CTranslate2."""
    source, target = run.loaded.source, run.loaded.target
    given, forced = source.encode(lines), target.encode(others)
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    scores = translator.score_batch([source.tokens(ids) for ids in given], [target.tokens(ids) for ids in forced])
    differences = []
    for ids, words, found in zip(given, forced, scores, strict=True):
        x = torch.tensor([[*ids, EOS] if run.experiment.data.source_end else ids])
        with torch.no_grad():
            logits = model(x, torch.tensor([[BOS, *words]]), torch.ones_like(x, dtype=torch.bool))
        logits[:, :, [PAD, BOS]] = -torch.inf
        expected = logits[0].log_softmax(-1).gather(1, torch.tensor([*words, EOS])[:, None])[:, 0]
        differences.append(float((expected - torch.tensor(found.log_probs)).abs().max()))
    return max(differences)


@pytest.mark.slow
@pytest.mark.parametrize("name", IMPORTED)
def test_imported_models_go_on_with_the_same_probabilities(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    from comparisons import CASES, build
    from small_models import lines as made_up

    kind, settings, asked = CASES[name]
    build(kind, tmp_path / "hf", **settings)
    model = import_hf(tmp_path / "hf", tmp_path / "run", asked)
    folder = export(tmp_path / "run", tmp_path / "out")
    assert apart(load(tmp_path / "run"), model, folder, made_up(30), made_up(30, 4)) < 1e-4


@pytest.mark.medium
def test_int8_is_smaller_and_nearly_the_same(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE)
    whole, small = (export(tmp_path / "run", tmp_path / kind, kind) for kind in ("float32", "int8"))
    sizes = [(folder / "model.bin").stat().st_size for folder in (whole, small)]
    assert sizes[1] < sizes[0]
    lines = draw_lines(50)
    # What the file holds; CTranslate2's own products in int8 lose more on processors without VNNI.
    pairs = zip(theirs(whole, lines, 1), theirs(small, lines, 1, "float32"), strict=True)
    assert sum(a == b for a, b in pairs) > 40


REFUSED = [
    ("encoder = pos -> birnn -> norm", "concat"),
    ("encoder = pos -> repeat(2, tenc(rnn)) -> norm", "rnn"),
    ("encoder = pos -> res_nd(ffl) -> res_nd(mh_dot_self_att) -> norm", "ff"),
    ("encoder = pos -> tenc -> post(mh_dot_self_att) -> post(ffl)", "norm"),
    ("encoder = pos -> tenc -> tenc(mh_dot_self_att(heads=2)) -> norm", "mh_dot_self_att"),
    ("encoder = pos -> res_nd(mh_dot_self_att) -> norm", "mh_dot_self_att"),
    ("encoder = pos -> tenc -> norm(eps=1e-3)", "norm"),
    ("encoder = pos -> tenc(mh_dot_self_att(rope=100)) -> norm", "pos"),
    ("encoder = tenc(mh_dot_self_att(rope=100, relative=t5)) -> norm", "mh_dot_self_att"),
    ("encoder = tenc(mh_dot_self_att(relative=alibi)) -> norm", "mh_dot_self_att"),
    ("encoder = tenc(mh_dot_self_att(window=3)) -> norm", "mh_dot_self_att"),
    ("encoder = tenc(mh_dot_self_att(rope=9)) -> tenc(mh_dot_self_att(rope=8)) -> norm", "mh_dot_self_att"),
    ("encoder = pos -> tenc(mh_dot_self_att(width=48, out=no) -> linear) -> tenc -> norm", "mh_dot_self_att"),
    ("encoder = pos -> tenc -> norm -> scale(2)", "scale"),
]


@pytest.mark.parametrize(("encoder", "layer"), REFUSED)
def test_what_the_format_cannot_carry_is_one_error_at_its_layer(encoder: str, layer: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", f"d = 32\nheads = 4\n{encoder}\ndecoder = pos -> tdec -> norm\n", updates=0)
    (tmp_path / "out").mkdir()
    with pytest.raises(CalqueError) as fault:
        write_ctranslate2(open_exported(tmp_path / "run"), tmp_path / "out", "float32")
    (diagnostic,) = fault.value.diagnostics
    assert diagnostic.code == "X501"
    assert isinstance(diagnostic.where, Span)
    place = diagnostic.where
    assert place.text.body[place.start : place.end].startswith(layer)
    assert place.text.name == str(tmp_path / "run" / "architecture.adl")
    assert "^" in str(fault.value)
    assert not list((tmp_path / "out").iterdir())


def test_an_unknown_precision_names_the_others(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE, updates=0)
    with pytest.raises(CalqueError) as fault:
        write_ctranslate2(open_exported(tmp_path / "run"), tmp_path, "int4")
    assert all(name in str(fault.value) for name in ("X503", *PRECISIONS))
