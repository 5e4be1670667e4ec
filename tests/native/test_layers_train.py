"""Layers in training with the compiled kernels and without: the same outputs and gradients, and what the kernels leave to torch."""

import math

import pytest
import torch
from torch import Tensor

from calque.adl.check import check
from calque.ground.diagnostics import Text
from calque.layers import projections
from calque.layers.contract import Context
from calque.layers.registry import builtin
from calque.model import Model, Shape
from calque.native.kernels import without_kernels
from calque.native.training import ALL, TrainingKernels, training_kernels, training_kernels_for

pytestmark = pytest.mark.skipif(training_kernels() is None, reason="no kernels of training for this processor")
LENGTHS = (21, 9, 1, 17)
ENCODERS = (
    "tenc",
    "mh_dot_self_att(heads=2, window=3)",
    "mh_dot_self_att(heads=4, kv_heads=2, rope=100, qk_norm=yes, window=1)",
    "mh_dot_self_att(heads=1, bias=yes, s=2)",
    "birnn -> norm",
    "cnn(glu, kernel=5)",
    "light_cnn(3, heads=4, dynamic=yes)",
)
DECODERS = (
    "tdec",
    "mh_dot_self_att(heads=2, window=4) -> mh_dot_src_att",
    "rnn -> mlp_src_att",
    "mlp_src_att(project=q, window=2, center=predict)",
    "feed(rnn -> concat(id, mlp_src_att) -> ff)",
    "feed(cnn(kernel=3) -> mh_dot_src_att)",
    "light_cnn(4, heads=2, dynamic=yes) -> hc_self_att(-1, 0)",
)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


def model(encoder: str = "id", decoder: str = "id") -> Model:
    text = f"d = 32\nencoder = {encoder}\ndecoder = {decoder}\n"
    made = Model(check(Text("layers", text), builtin()), Shape(30, 30, "none"), builtin())
    for p in made.parameters():
        p.data = torch.randn(p.shape) / (p[0].numel() ** 0.5 if p.dim() > 1 else 4)
    return made.eval()  # without dropout, whose random numbers are not torch's


def outcome(made: Model, source: Tensor, mask: Tensor, target: Tensor) -> list[Tensor]:
    """The output at real positions, and the gradients of what was read."""
    made.zero_grad()
    parameters = [p for p in made.parameters() if p.requires_grad]
    y = made.decode(target, made.encode(source, mask))
    given = torch.sin(torch.arange(y.numel(), dtype=y.dtype)).view(y.shape) * mask[..., None]
    gradients = torch.autograd.grad((y * given).sum(), parameters, allow_unused=True)
    return [y * mask[..., None], *(g for g in gradients if g is not None)]


@pytest.mark.parametrize(("encoder", "decoder"), [*((e, "id") for e in ENCODERS), *(("id", d) for d in DECODERS)])
def test_outputs_and_gradients_are_those_of_torch(encoder: str, decoder: str) -> None:
    made = model(encoder, decoder if decoder != "id" else "add(id, mh_dot_src_att)")
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source, target = (torch.randint(3, 30, mask.shape) for _ in "st")
    mine = outcome(made, source, mask, target)
    with without_kernels():
        theirs = outcome(made, source, mask, target)
    assert len(mine) == len(theirs) > 1
    largest = max(float(one.detach().abs().max()) for one in theirs)
    for ours, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(ours, other, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("decoder", ["mlp_src_att", "mh_dot_src_att"])
def test_candidates_of_one_sentence_read_its_memory(decoder: str) -> None:
    """Four targets, one source: torch broadcasts it, and kernels, which do not, are not called."""
    made = model("linear", decoder)
    one, target = torch.randint(3, 30, (1, 6)), torch.randint(3, 30, (4, 5))
    whole = torch.ones(1, 6, dtype=torch.bool)
    y = made.decode(target, made.encode(one, whole))
    apart = torch.cat([made.decode(row[None], made.encode(one, whole)) for row in target])
    torch.testing.assert_close(y, apart)
    y.sum().backward()


def test_numbers_of_two_types_have_no_kernel() -> None:
    x = torch.randn(4, 32)
    assert training_kernels_for(x, torch.randn(3)) is not None
    assert training_kernels_for(x, None, torch.randn(3).bfloat16()) is None
    weight = torch.nn.Parameter(torch.randn(32, 64))
    kernels = training_kernels_for(x)
    assert kernels is not None
    assert kernels.linear(x, weight, None) is None  # of another width: torch says so
    with pytest.raises(RuntimeError):
        projections.linear(x, weight, None)


def test_tensors_that_do_not_fit_are_refused() -> None:
    kernels = training_kernels()
    assert kernels is not None
    q, k = torch.randn(3, 5, 8), torch.randn(1, 7, 8)
    with pytest.raises(ValueError, match="additive scores"):
        kernels.additive_scores(q, k, torch.randn(8))
    with pytest.raises(ValueError, match="additive scores"):
        kernels.additive_scores(k, k, torch.randn(8).bfloat16())
    for parts, real in (
        ([q, k, k], None),
        ([q, torch.randn(3, 7, 8), torch.randn(3, 7, 4)], None),
        ([q, torch.randn(3, 7, 16).bfloat16()], None),
        ([torch.randn(3, 5, 24)], torch.ones(3, 4, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match="attention of"):
            kernels.attend(parts, (8, 8, 8), 2, 1.0, real, (ALL, ALL))


def test_what_is_no_number_stays_so() -> None:
    kernels = training_kernels()
    assert isinstance(kernels, TrainingKernels)
    x = torch.randn(1, 4, 16)
    x[0, 2, 3] = math.nan
    assert kernels.attend([x.repeat(1, 1, 3)], (16, 16, 16), 1, 1.0, None, (ALL, ALL)).isnan().all()
    assert kernels.additive_scores(x, torch.randn(1, 3, 16), torch.ones(16))[0].isnan().all(1).tolist() == [0, 0, 1, 0]
    h, c = kernels.lstm(x.view(1, 64), torch.zeros(1, 64), torch.zeros(1, 16), 0.0)
    assert h.isnan().sum() == c.isnan().sum() == 1


def test_a_convolution_in_a_loop_is_one_matrix() -> None:
    made = model("id", "feed(cnn(kernel=3))")
    sizes: list[int] = []
    summed = projections._Matrix.gradients

    def counted(self: projections._Matrix) -> tuple[Tensor, Tensor | None] | None:
        sizes.append(len(self.terms))
        return summed(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projections._Matrix, "gradients", counted)
        source = torch.randint(3, 30, (2, 6))
        made.decode(source, made.encode(source, source > 0)).sum().backward()
    assert sizes == [6]


def test_a_layer_of_its_own_is_not_asked_for_gradients_twice() -> None:
    layer = model("mh_dot_self_att(heads=2, window=1)").get_submodule("encoder.0")
    x = torch.randn(2, 5, 32, requires_grad=True)
    (g,) = torch.autograd.grad(layer(x, Context()).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        g.sum().backward()
