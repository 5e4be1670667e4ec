"""What kernels would read or write wrongly is an error before they see its address; damaged libraries and compilers that hang."""

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from calque.layers.history import History
from calque.layers.projections import Projection
from calque.native import build
from calque.native.kernels import Kernels
from calque.native.training import training_kernels_for

needs_compiler = pytest.mark.skipif(not build.available(), reason="no compiler, or no kernels for this processor")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(1)


@pytest.mark.parametrize(
    ("rows", "bias", "said"),
    [
        (torch.randn(3, 15), None, "rows of 15 numbers, a matrix for 16"),
        (torch.randn(3, 16), torch.randn(19), "a bias of 19 numbers, a matrix of 20 rows"),
    ],
)
def test_rows_and_biases_of_other_sizes_are_refused(
    native: Kernels, rows: Tensor, bias: Tensor | None, said: str
) -> None:
    packed = native.pack(torch.randn(20, 16), torch.float32)
    with pytest.raises(ValueError, match=said):
        native.product(rows, packed, bias)
    with pytest.raises(ValueError, match=said):
        native.best(rows, packed, bias, 2, 0, 1)


@needs_compiler
@pytest.mark.parametrize("rows", [[0, 4], [-1, 0], [100000, 0]])
def test_a_row_that_is_not_there_is_refused(rows: list[int]) -> None:
    history = History.new(4, 8, 2, torch.device("cpu")).advance(1, None)
    with torch.inference_mode(), pytest.raises(IndexError):
        history.select(torch.tensor(rows))


@needs_compiler
def test_rows_may_be_whole_numbers_of_any_size() -> None:
    history = History.new(4, 8, 2, torch.device("cpu")).advance(1, None)
    rows = torch.tensor([1, 0, 3, 2])
    with torch.inference_mode():
        long, short = history.select(rows), history.select(rows.int())
    assert long.origin is not None
    assert short.origin is not None
    assert torch.equal(long.origin, short.origin)


@needs_compiler
@pytest.mark.parametrize("word", [-1, 50])
def test_a_target_that_is_no_word_is_refused(word: int) -> None:
    native = training_kernels_for(torch.zeros(4, 64, requires_grad=True))
    assert native is not None
    target = torch.tensor([0, word, 49])
    with pytest.raises(IndexError, match="words from 0 to 49"):
        native.loss(torch.randn(3, 50), target, None, 0.1, None, True)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_a_frozen_part_of_a_projection_leaves_the_other_its_gradient(frozen: str, dtype: torch.dtype) -> None:
    projection = Projection(64, 48, bias=True).to(dtype)
    x, seen = torch.randn(512, 64).to(dtype), torch.randn(512, 48).to(dtype)
    y = nn.functional.linear(x, projection.weight, projection.bias)
    want = dict(zip(("weight", "bias"), torch.autograd.grad(y, list(projection.parameters()), seen), strict=True))
    getattr(projection, frozen).requires_grad_(False)
    projection(x).backward(seen)
    for name, parameter in projection.named_parameters():
        if name == frozen:
            assert parameter.grad is None
        else:
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, want[name], rtol=0.02, atol=0.3)


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": _cut,
    "zeros": lambda content: content[:4096] + bytes(len(content) - 4096),
    "text": lambda content: b"no library",
    "without its sum": lambda content: content[: -build.SUM],
}


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.usefixtures("tiny_source")
def test_a_damaged_library_is_compiled_anew(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = build.available()[0]
    path = _kept(name, tmp_path / "cache")
    build._compiled(name, path)
    whole = path.read_bytes()
    path.unlink()  # the library that is loaded stays whole
    path.write_bytes(DAMAGE[damage](whole))
    compiled: list[str] = []

    def run(command: list[str]) -> None:
        compiled.append(command[command.index("-o") + 1])
        Path(compiled[-1]).write_bytes(whole[: -build.SUM])

    monkeypatch.setattr(build, "_run", run)
    assert isinstance(build.load(name), ctypes.CDLL)
    assert len(compiled) == 1
    assert path.read_bytes() == whole
    assert isinstance(build.load(name), ctypes.CDLL)
    assert len(compiled) == 1


def _kept(name: str, cache: Path) -> Path:
    return cache / "calque" / "native" / f"kernels-{name}-{build._key(name)}.so"


@pytest.mark.medium
@needs_compiler
def test_a_compiler_that_does_not_end_is_ended_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hanging, started = tmp_path / "c++", tmp_path / "started"
    hanging.write_text(f"#!/bin/sh\nsleep 600 &\necho $! >> {started}\nwait\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: str(hanging))
    monkeypatch.setattr(build, "SECONDS", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALQUE_NATIVE", "")
    build.library.cache_clear()
    try:
        assert build.library() is None
    finally:
        build.library.cache_clear()
    assert f"warning[X425]: the C++ compiler `{hanging}` has not ended after 2 s" in capsys.readouterr().err
    (pid,) = started.read_text().split()
    assert any(_ended(int(pid)) or time.sleep(0.05) for _ in range(100))
    assert os.environ["CALQUE_NATIVE"] == build.OFF  # processes that this one starts do not wait for it


def _ended(pid: int) -> bool:
    """Whether a process is gone, or waits to be."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


@needs_compiler
@pytest.mark.usefixtures("tiny_source")
def test_a_folder_in_the_place_of_a_library_is_left_alone(tmp_path: Path) -> None:
    name = build.available()[0]
    _kept(name, tmp_path / "cache").mkdir(parents=True)
    assert isinstance(build.load(name), ctypes.CDLL)


@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("moved", [torch.float32, torch.bfloat16, torch.float64])
def test_rows_and_biases_of_other_types_are_brought_to_those_of_the_kernels(
    native: Kernels, kept: torch.dtype, moved: torch.dtype
) -> None:
    w, x, b = torch.randn(20, 64), torch.randn(3, 64).to(moved), torch.randn(20).to(moved)
    packed = native.pack(w, kept)
    want = nn.functional.linear(x.double(), w.double(), b.double())
    y = native.product(x, packed, b)
    assert y.dtype == moved
    torch.testing.assert_close(y.double(), want, rtol=0.05, atol=0.5)
    assert torch.equal(native.best(x, packed, b, 1, 0, 1).words[:, 0], y.argmax(1))


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64])
def test_the_default_type_of_torch_changes_nothing(native: Kernels, default: torch.dtype) -> None:
    w, x = torch.randn(20, 64), torch.randn(3, 64)

    def found() -> tuple[Tensor, ...]:
        packed = native.pack(w, torch.int8)
        return native.product(x, packed, None), *native.best(x, packed, None, 2, 0, 1)

    want = found()
    torch.set_default_dtype(default)
    try:
        assert all(map(torch.equal, found(), want))
    finally:
        torch.set_default_dtype(torch.float32)


def test_rows_too_wide_for_sums_of_int8_are_refused(native: Kernels) -> None:
    with pytest.raises(ValueError, match="room for 133144"):
        native.pack(torch.ones(2, 140_000), torch.int8)
