"""What only an accelerator can show: both forms agree there, a step can be captured, bfloat16 trains."""

from pathlib import Path

import pytest
import torch

import calque
from calque.experiment import DataSettings, Experiment, ModelSettings, TrainSettings
from calque.train.loop import FinishedTraining
from calque.workflow.steps import run_training

pytestmark = pytest.mark.gpu

TEXTS = {
    "transformer": "d = 64\nheads = 4\nencoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n",
    "rnmt": "d = 64\nencoder = birnn\ndecoder = feed(rnn -> concat(id, mlp_src_att) -> ff)\n",
    "cnn": "d = 64\nencoder = pos -> cnn(glu)\ndecoder = pos -> cnn(glu) -> dot_src_att(s=1, project=none)\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_both_forms_agree(name: str) -> None:
    model = calque.build(TEXTS[name], 100, 100).cuda().double().eval()
    source = torch.randint(4, 100, (3, 7), device="cuda")
    target = torch.randint(4, 100, (3, 5), device="cuda")
    with torch.no_grad():
        sources = model.encode(source)
        whole = model.decode(target, sources)
        state = model.init_state(sources, 5)
        for t in range(5):
            z, state = model.step(target[:, t : t + 1], state, t + 1)
            assert (z[:, 0] - whole[:, t]).abs().max() < 1e-9


def test_a_step_can_be_captured() -> None:
    model = calque.build(TEXTS["transformer"], 100, 100).cuda().eval()
    source = torch.randint(4, 100, (3, 7), device="cuda")
    words = torch.randint(4, 100, (3, 8), device="cuda")
    with torch.inference_mode():
        sources = model.encode(source)
        eager, plain = model.init_state(sources, 8), []
        for t in range(8):
            z, eager = model.step(words[:, t : t + 1], eager, 8)  # the bucket as the bound
            plain.append(z)
        held = words[:, :1].clone()
        state = model.init_state(sources, 8)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # allocations and tables before the capture
            model.step(held, model.init_state(sources, 8), 8)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z, after = model.step(held, state, 8)
            _copy(state, after)
        for t in range(8):
            held.copy_(words[:, t : t + 1])
            graph.replay()
            assert (z - plain[t]).abs().max() < 1e-4


def _copy(old: object, new: object) -> None:
    """Write a state's tensors back over those it came from, so that a replay goes on from there."""
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        if old is not new:
            old.copy_(new)
    elif isinstance(old, tuple) and isinstance(new, tuple):
        for a, b in zip(old, new, strict=True):
            _copy(a, b)


def test_bfloat16_trains(tmp_path: Path) -> None:
    lines = "".join(f"{'ab'[k % 2]} {'cd'[k % 3 % 2]}\n" for k in range(60))
    for side in ("src", "tgt"):
        (tmp_path / side).write_text(lines)
    files = (str(tmp_path / "src"), str(tmp_path / "tgt"))
    experiment = Experiment(
        data=DataSettings(train=files, valid=files, subwords="words"),
        model=ModelSettings(text=TEXTS["transformer"]),
        train=TrainSettings(
            precision="bfloat16", device="cuda", max_updates=60, warmup_updates=10, validate_every_updates=60
        ),
    )
    result = run_training(experiment, tmp_path / "run")
    assert isinstance(result, FinishedTraining)
    assert result.perplexity < 2
