"""Exported models translate in CTranslate2 as they do here."""

from pathlib import Path

import pytest
from small_runs import POST, PRE, draw_lines, make_run

from calque.exchange.to_ctranslate2 import PRECISIONS, write_ctranslate2
from calque.exchange.weights import open_exported
from calque.ground.diagnostics import CalqueError, Span
from calque.workflow.api import load

ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")

LIMIT = 60
"""Where a translation is cut off, each library does it in its own way."""
LEARNED = (
    "d = 32\nheads = 4\nencoder = learn_pos(20) -> norm -> repeat(1, res_nd(mh_dot_self_att) -> "
    "res_nd(linear(64) -> gelu -> linear))\n"
    "decoder = zero_first -> pos(endpoint=yes) -> repeat(1, res_nd(mh_dot_self_att(s=3)) -> res_nd(mh_dot_src_att) -> "
    "res_nd(linear(48) -> tanh -> linear(bias=no)))\n"
)


def export(run: Path, out: Path, precision: str = "float32") -> Path:
    out.mkdir()
    write_ctranslate2(open_exported(run), out, precision)
    return out


def theirs(folder: Path, lines: list[str], beam: int) -> list[str]:
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    results = translator.translate_batch(
        [line.split() for line in lines],
        beam_size=beam,
        length_penalty=1.0,
        return_end_token=True,
        min_decoding_length=0,
        max_decoding_length=LIMIT + 1,
    )
    return [" ".join(word for word in one.hypotheses[0] if word != "</s>") for one in results]


@pytest.mark.parametrize(("text", "tying"), [(PRE, "three-way"), (POST, "target"), (LEARNED, "none")])
def test_greedy_and_beam_search_give_the_same_translations(text: str, tying: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", text, tying=tying, bias=tying != "target")
    folder = export(tmp_path / "run", tmp_path / "out")
    lines = draw_lines(50)
    for beam in (1, 4):
        ours = load(tmp_path / "run", beam=beam).translate(lines)
        pairs = [pair for pair in zip(ours, theirs(folder, lines, beam), strict=True) if len(pair[0].split()) < LIMIT]
        assert len(set(pairs)) > 25
        assert not [pair for pair in pairs if pair[0] != pair[1]]


def test_int8_is_smaller_and_nearly_the_same(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE)
    whole, small = (export(tmp_path / "run", tmp_path / kind, kind) for kind in ("float32", "int8"))
    sizes = [(folder / "model.bin").stat().st_size for folder in (whole, small)]
    assert sizes[1] < sizes[0]
    lines = draw_lines(50)
    pairs = zip(theirs(whole, lines, 1), theirs(small, lines, 1), strict=True)
    assert sum(a == b for a, b in pairs) > 40


REFUSED = [
    ("encoder = pos -> birnn -> norm", "concat"),
    ("encoder = pos -> repeat(2, tenc(rnn)) -> norm", "rnn"),
    ("encoder = pos -> res_nd(ffl) -> res_nd(mh_dot_self_att) -> norm", "ff"),
    ("encoder = pos -> tenc -> post(mh_dot_self_att) -> post(ffl)", "norm"),
    ("encoder = pos -> tenc -> tenc(mh_dot_self_att(heads=2)) -> norm", "mh_dot_self_att"),
    ("encoder = pos -> res_nd(mh_dot_self_att) -> norm", "mh_dot_self_att"),
    ("encoder = pos -> tenc -> norm(eps=1e-3)", "norm"),
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
