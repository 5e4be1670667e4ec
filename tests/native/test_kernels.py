"""The kernels against torch, for every set of instructions that this processor has."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from calque.ground.diagnostics import CalqueError
from calque.layers.history import History
from calque.native import build, kernels
from calque.native.kernels import Kernels

TYPES = [torch.float32, torch.bfloat16]
FEW = [(1, 100, 203), (2, 64, 99), (3, 96, 203), (5, 33, 40), (7, 64, 83)]
SIZES = [(1, 64, 16), (3, 100, 83), (16, 32, 40), (33, 512, 48), (40, 65, 17), *FEW]


pytestmark = pytest.mark.usefixtures("no_gradients")


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """As the kernels do it: what lies halfway between two steps may fall to either side of another way to divide."""
    highest = x.float().abs().amax(1, keepdim=True).clamp(min=1e-30)
    return (x.float() * torch.full_like(highest, 127).div(highest)).round().double(), highest.double() / 127


def quantised_weight(native: Kernels, w: Tensor) -> tuple[Tensor, Tensor]:
    """Where four products are added up in 16 bits, the weights of any such four are small enough for that."""
    step = w.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
    if native.short_sums:
        for j, row in enumerate(w.abs()):
            for k in range(0, len(row), 8):
                for places in ([0, 1, 4, 5], [2, 3, 6, 7]):
                    together = sum(float(row[k + place]) for place in places if k + place < len(row))
                    step[j] = max(step[j], torch.tensor(together) / 126)
    return (w / step).round().double(), step.double()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_int8_products_are_whole_sums(native: Kernels, dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    rows, width, out = sizes
    x, w, b = torch.randn(rows, width).to(dtype), torch.randn(out, width), torch.randn(out)
    (levels, row_step), (weights, column_step) = quantised(x), quantised_weight(native, w)
    want = levels @ weights.t() * row_step * column_step.t() + b
    got = native.product(x, native.pack(w, torch.int8), b)
    torch.testing.assert_close(got, want.to(dtype), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)


def test_int8_takes_the_largest_numbers(native: Kernels) -> None:
    x, w = torch.full((5, 4096), 2.0), torch.full((16, 4096), -3.0)
    levels, steps = quantised_weight(native, w)
    got = native.product(x, native.pack(w, torch.int8), None)
    torch.testing.assert_close(got, (2 * (levels * steps).sum(1)).float().expand(5, 16), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_bfloat16_products(native: Kernels, dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    rows, width, out = sizes
    x, w, b = torch.randn(rows, width).to(dtype), torch.randn(out, width), torch.randn(out)
    want = x.bfloat16().double() @ w.bfloat16().double().t() + b
    got = native.product(x, native.pack(w, torch.bfloat16), b)
    assert got.dtype == dtype
    torch.testing.assert_close(got, want.to(dtype), rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_float32_products(native: Kernels, sizes: tuple[int, int, int]) -> None:
    rows, width, out = sizes
    x, w, b = torch.randn(rows, width), torch.randn(out, width), torch.randn(out)
    got = native.product(x, native.pack(w, torch.float32), b)
    torch.testing.assert_close(got, (x.double() @ w.double().t() + b).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_row_is_the_same_alone_and_with_two_threads(native: Kernels, dtype: torch.dtype) -> None:
    x, weight = torch.randn(37, 96), native.pack(torch.randn(203, 96), dtype)
    together, threads = native.product(x, weight, None), torch.get_num_threads()
    alone = torch.cat([native.product(row[None], weight, None) for row in x])
    assert torch.equal(together, alone)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert all(torch.equal(native.product(x[:n], weight, None), together[:n]) for n in (*range(1, 10), 37))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("past", [0, 3, 9])
def test_hypotheses_take_their_past_with_them(native: Kernels, past: int) -> None:
    rows, history = torch.tensor([3, 3, 5, 1, 0, 1]), History.new(6, 9, 3, torch.device("cpu"))._replace(at=past)
    history = history._replace(
        origin=torch.randint(0, 3, (2, 3, 9), dtype=torch.int16), positions=torch.full((6,), past)
    )
    with kernels.without_kernels():
        want = history.select(rows).origin
    assert history.origin is not None
    assert want is not None
    assert torch.equal(native.reordered(history.origin, rows, past), want)
    assert torch.equal(native.reordered(history.origin, rows[3:], past), want[1:])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [64, 24, 6])
@pytest.mark.parametrize("beams", [1, 3])
def test_attention(native: Kernels, dtype: torch.dtype, width: int, beams: int) -> None:
    sentences, heads, capacity, visible = 3, 2, 21, 19
    keys, values = torch.randn(2, sentences, heads, capacity, beams, width).to(dtype)
    q, k, v = torch.randn(3, sentences * beams, heads * width).to(dtype)
    origin = torch.randint(beams, (sentences, beams, capacity), dtype=torch.int16)
    origin[:, :, visible - 1 :] = torch.arange(beams, dtype=torch.int16)[:, None]
    packed = torch.cat([q, k, v], 1)  # as the product of a fused layer leaves them
    q, k, v = packed.chunk(3, 1)
    got = native.attend(q, keys, values, visible, 0.3, (k, v), None if beams == 1 else origin)
    assert torch.equal(keys[:, :, visible - 1], k.view(sentences, beams, heads, width).transpose(1, 2))
    index = origin[:, None, :, :visible, None].long().expand(-1, heads, -1, -1, width)
    past = [x[:, :, :visible].transpose(2, 3).gather(2, index).float() for x in (keys, values)]
    queries = q.float().view(sentences, beams, heads, 1, width).transpose(1, 2)
    weights = (queries @ past[0].transpose(3, 4) * 0.3).softmax(-1)
    want = (weights @ past[1]).transpose(1, 2).reshape(len(q), -1)
    torch.testing.assert_close(
        got.float(),
        want,
        rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=1e-2 if dtype == torch.bfloat16 else 1e-5,
    )


def test_heads_of_queries_share_keys(native: Kernels) -> None:
    keys, values = torch.randn(2, 3, 2, 9, 1, 16)
    q = torch.randn(3, 6 * 16)
    got = native.attend(q, keys, values, 9, 0.25)
    each = [x.repeat_interleave(3, 1).contiguous() for x in (keys, values)]
    assert torch.equal(got, native.attend(q, *each, 9, 0.25))


def test_attention_looks_past_padding(native: Kernels) -> None:
    keys, values = torch.randn(2, 2, 1, 18, 1, 16)
    blocked = torch.zeros(2, 18, dtype=torch.bool)
    blocked[0, 5:] = True
    blocked[1] = True  # nothing to see: the mean
    got = native.attend(q := torch.randn(4, 16), keys, values, 18, 1.0, blocked=blocked)
    short = native.attend(q[:2], keys[:1, :, :5], values[:1, :, :5], 5, 1.0)
    assert torch.equal(got[:2], short)
    torch.testing.assert_close(got[2], values[1, 0, :, 0].mean(0))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("heads", "width"), [(1, 1), (4, 16), (3, 83)])
@pytest.mark.parametrize("same", [True, False])
def test_sums_of_given_weights(native: Kernels, dtype: torch.dtype, heads: int, width: int, same: bool) -> None:
    """Some weights are zero, in front, behind and between; behind a sentence there is no number."""
    lengths, longest = torch.tensor([9, 0, 1, 4, 7]), 9
    weights = torch.randn(1 if same else 5, heads, 6, longest)
    weights[torch.rand(weights.shape) < 0.5] = 0
    values = torch.randn(5, longest, heads * width).to(dtype)
    there = torch.arange(longest) < lengths[:, None]
    wanted = (values.double() * there[:, :, None]).view(5, longest, heads, width).permute(0, 2, 1, 3)
    wanted = (weights.double() @ wanted).transpose(1, 2).flatten(2)
    values[~there] = torch.nan
    got = native.weigh(weights, values, lengths)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), wanted, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    whole = native.weigh(weights[:1], values[:1], None)
    assert torch.equal(whole, got[:1])
    alone = [
        native.weigh(weights[:1] if same else weights[i, None], values[i, None], lengths[i, None]) for i in range(5)
    ]
    assert torch.equal(torch.cat(alone), got)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [64, 50])
def test_norm(native: Kernels, dtype: torch.dtype, width: int) -> None:
    x, gain, shift = (torch.randn(n, width).to(dtype) for n in (7, 1, 1))
    want = torch.nn.functional.layer_norm(x.float(), (width,), gain[0].float(), shift[0].float(), 1e-5)
    torch.testing.assert_close(
        native.norm(x, gain[0], shift[0], 1e-5),
        want.to(dtype),
        rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=1e-5,
    )


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What was found out about compiler and kernels is found out again, inside and afterwards."""
    caches = (build.library, build.compiler, kernels._loaded)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_numbers_that_are_not_there_are_left_to_torch() -> None:
    with torch._subclasses.FakeTensorMode():
        assert kernels.kernels_for(torch.ones(2, 3)) is None


def test_there_are_none_inside_without_kernels() -> None:
    with kernels.without_kernels():
        assert kernels.kernels() is None


@pytest.mark.usefixtures("forgotten")
def test_there_are_none_where_they_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_NATIVE", build.OFF)
    assert kernels.kernels() is None


@pytest.mark.usefixtures("forgotten")
def test_a_name_that_is_no_set_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_NATIVE", "avx3")
    with pytest.raises(CalqueError) as fault:
        kernels.kernels()
    assert [d.code for d in fault.value.diagnostics] == ["X417"]


@pytest.mark.usefixtures("forgotten")
def test_there_are_none_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert kernels.kernels() is None


@pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")
def test_a_broken_compiler_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.load(build.available()[-1]) is None
    assert not list((tmp_path / "cache").rglob("*.so"))


@pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")
@pytest.mark.usefixtures("tiny_source")
def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    assert isinstance(build.load(build.available()[0]), ctypes.CDLL)
    (file,) = tmp_path.rglob("*.so")
    made = file.stat().st_mtime_ns
    build.load(build.available()[0])
    assert file.stat().st_mtime_ns == made


def test_rows_of_another_width_are_refused(native: Kernels) -> None:
    with pytest.raises(ValueError, match="rows of 16 numbers, a matrix for 32"):
        native.product(torch.randn(4, 16), native.pack(torch.randn(8, 32), torch.int8), None)


@pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")
def test_a_user_without_a_home_folder_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build.Path, "home", homeless)
    assert build.load(build.available()[0]) is None


@pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")
@pytest.mark.usefixtures("tiny_source")
def test_a_compiler_without_a_library_of_threads_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poor = tmp_path / "c++"
    poor.write_text(f'#!/bin/sh\ncase " $* " in *" {build.OPENMP} "*) exit 1;; esac\nexec {build.compiler()} "$@"\n')
    poor.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(poor))
    assert isinstance(build.load(build.available()[-1]), ctypes.CDLL)


@pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("tiny_source")
def test_kernels_are_compiled_once_and_used_where_they_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    calls = []
    run = build._run

    def counted(command: list[str]) -> None:
        if build.OPENMP in command:
            calls.append(command)
        run(command)

    monkeypatch.setattr(build, "_run", counted)
    if not kept:
        (tmp_path / "cache").write_text("a file where the folder would be")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: build.load(build.available()[-1]), range(4)))
    assert all(isinstance(one, ctypes.CDLL) for one in found)
    assert len(calls) == (1 if kept else 4)


CROSS = shutil.which("aarch64-linux-gnu-g++")


@pytest.mark.skipif(CROSS is None, reason="no compiler for ARM: install the package g++-aarch64-linux-gnu")
@pytest.mark.parametrize("name", [name for name in build.INSTRUCTIONS if name.startswith("neon")])
def test_the_sources_are_right_for_arm_too(name: str) -> None:
    needs, options = build.INSTRUCTIONS[name]
    assert "asimd" in needs
    for source in build.SOURCES:
        subprocess.run([CROSS or "", *build.ALWAYS, *options, "-fsyntax-only", str(source)], check=True)
