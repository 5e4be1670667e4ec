"""Exported models compute and generate in transformers what they do here."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import POST, PRE, draw_lines, make_run

from calque.data.vocabulary import BOS, EOS, PAD
from calque.exchange.to_hf import write_hf
from calque.exchange.weights import open_exported
from calque.ground.diagnostics import CalqueError
from calque.workflow.api import load

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

INNER = "mh_dot_self_att(bias=yes)"
EMBEDDED = (
    "d = 32\nheads = 4\nencoder = learn_pos(20) -> norm -> repeat(1, res_nd(mh_dot_self_att(s=3)) -> res_nd(ffl(48))) -> norm\n"
    "decoder = learn_pos(64) -> norm -> repeat(2, res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm\n"
)
BART = EMBEDDED.replace("res_nd", "post").replace(" -> norm\n", "\n")
ZERO = POST.replace("decoder = pos", "decoder = zero_first -> pos(endpoint=yes)")
OWN = POST.replace("post(mh", "add(id, mh").replace("bias=yes))", "bias=yes)) -> norm(1e-5)")
OWN = OWN.replace("post(ffl)", "add(id, linear(64) -> gelu -> linear) -> norm(1e-5)")
SLOW = pytest.mark.slow
TEXTS = [
    ("marian", OWN, "three-way"),
    ("marian", ZERO, "target"),
    ("pegasus", PRE, "none"),
    ("mbart", EMBEDDED, "three-way"),
    ("bart", BART, "three-way"),
]
# One in the quick suite: transformers itself takes seconds.
CASES = [pytest.param(*one, id=f"{one[0]}-{one[2]}", marks=[SLOW] * (k != 1)) for k, one in enumerate(TEXTS)]


def export(run: Path, out: Path) -> Any:
    out.mkdir()
    write_hf(open_exported(run), out, "float32")
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(out, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    return model.eval()


@pytest.mark.medium
@pytest.mark.parametrize(("kind", "text", "tying"), CASES)
def test_logits_and_translations_are_the_same(kind: str, text: str, tying: str, tmp_path: Path) -> None:
    ours = make_run(tmp_path / "run", text, tying=tying)
    model = export(tmp_path / "run", tmp_path / "out")
    assert model.config.model_type == kind
    assert (
        len({file.stat().st_mode & 0o444 for file in (tmp_path / "out").iterdir()}) == 1
    )  # all as the system has them
    lines = draw_lines(30)
    loaded = load(tmp_path / "run", beam=1)
    rows = [[*ids, EOS] for ids in loaded.loaded.source.encode(lines)]
    longest = max(map(len, rows))
    source = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    mask = source != PAD
    target = torch.randint(4, 16, (len(rows), 9)).index_fill(1, torch.tensor([0]), BOS)
    with torch.no_grad():
        theirs = model(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        assert (theirs - ours(source, target, mask)).abs().max() < 2e-5
    for beam in (1, 4):
        expected = [one[0].ids for one in load(tmp_path / "run", beam=beam, stop="full").candidates(lines)]
        found = model.generate(
            input_ids=source, attention_mask=mask.long(), num_beams=beam, early_stopping=beam > 1, max_length=61
        ).tolist()
        written = [tuple(i for i in row[1:] if i not in (PAD, EOS)) for row in found]
        pairs = [(a, b) for a, b in zip(expected, written, strict=True) if len(a) < 59]
        assert len(set(pairs)) > 15
        assert not [pair for pair in pairs if pair[0] != pair[1]]


def test_what_no_model_type_carries_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "run", PRE.replace("tenc) -> norm", "tenc)"), updates=0)
    with pytest.raises(CalqueError, match="X501"):
        write_hf(open_exported(tmp_path / "run"), tmp_path, "float32")
    with pytest.raises(CalqueError, match="X503"):
        write_hf(open_exported(tmp_path / "run"), tmp_path, "int8")
