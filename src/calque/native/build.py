"""Compiles the kernels for the processor at hand, once, and loads them.

The environment variable CALQUE_NATIVE names the instructions to compile for, or `off`. Without a compiler, or on a processor that
has none of them, there are no kernels, and torch computes what they would.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch

from calque.ground.diagnostics import Diagnostic, error, render
from calque.ground.files import only, write_whole

HERE = Path(__file__).parent
SOURCES = tuple(
    HERE / name
    for name in ("kernels.cpp", "program.cpp", "steps.cpp", "training.cpp", "training_products.cpp", "muon.cpp")
)
ALWAYS = ("-std=c++17", "-O3", "-fno-math-errno", "-ffp-contract=fast", "-fPIC", "-shared", "-w")
OPENMP = "-fopenmp"
"""Without it, as where clang++ has no library of threads, every kernel uses one thread."""
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
_AVX2 = ("avx2", "fma", "f16c", "bmi2")
INSTRUCTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "amx": (
        (*_AVX512, "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
    ),
    "avx512-bf16": (
        (*_AVX512, "avx512_vnni", "avx512_bf16"),
        ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"),
    ),
    "avx512-vnni": ((*_AVX512, "avx512_vnni"), ("-march=x86-64-v4", "-mavx512vnni")),
    "avx512": (_AVX512, ("-march=x86-64-v4",)),
    "avx2-vnni": ((*_AVX2, "avx_vnni"), ("-march=x86-64-v3", "-mavxvnni")),
    "avx2": (_AVX2, ("-march=x86-64-v3",)),
    "neon-bf16": (("asimd", "asimddp", "bf16"), ("-march=armv8.2-a+dotprod+bf16",)),
    "neon-dot": (("asimd", "asimddp"), ("-march=armv8.2-a+dotprod",)),
    "neon": (("asimd",), ("-march=armv8-a",)),
}
"""Sets of instructions, the fastest first: the processor's flags that each needs, and the compiler's options."""
OFF = "off"
SUM = 4
"""Bytes of a checksum."""
SECONDS = 300
"""A compiler that has not ended by then is ended; it takes about a quarter of a minute."""


@functools.cache
def library() -> tuple[ctypes.CDLL, str] | None:
    """The kernels for this processor and the name of their instructions; None where there are none.

    Raises X417 where CALQUE_NATIVE is neither a set of instructions nor `off`.
    """
    asked = os.environ.get("CALQUE_NATIVE", "")
    if asked and asked not in (*INSTRUCTIONS, OFF):
        raise error("X417", None, found=asked, names=(*INSTRUCTIONS, OFF))
    for name in available():
        if not asked or name == asked:
            try:
                loaded = load(name)
            except subprocess.TimeoutExpired:
                _give_up()
                return None
            if loaded is not None:
                return loaded, name
    return None


def _give_up() -> None:
    """Warns that the compiler does not end. Neither this process nor those that it starts wait for it again."""
    warning = Diagnostic("X425", None, {"compiler": compiler(), "seconds": SECONDS}, severity="warning")
    print(render(warning), file=sys.stderr, flush=True)
    os.environ["CALQUE_NATIVE"] = OFF


def available() -> list[str]:
    """The sets of instructions that this processor has, the fastest first; none where there is no compiler."""
    if compiler() is None:
        return []
    return [name for name, (needs, _) in INSTRUCTIONS.items() if _flags().issuperset(needs)]


def narrow_library() -> bool:
    """Whether torch's library makes products in float32 with half of the width of the processor, as MKL does on those of AMD."""
    return "AuthenticAMD" in _said("vendor_id")


def _flags() -> frozenset[str]:
    return _said("flags" if platform.machine() == "x86_64" else "Features")


@functools.cache
def _said(name: str) -> frozenset[str]:
    """The words that the processor says of itself under a name, as Linux lists them; none on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split(":", 1)[1].split()) for line in lines if line.startswith(name)), frozenset())


@functools.cache
def compiler() -> str | None:
    """The C++ compiler: $CXX, else g++ or clang++."""
    named = os.environ.get("CXX")
    return next((path for name in (named, "g++", "clang++") if name and (path := shutil.which(name))), None)


def load(name: str) -> ctypes.CDLL | None:
    """The kernels for a set of instructions, compiled where they are not yet; None where that fails.

    Raises `TimeoutExpired` where the compiler does not end.
    """
    try:
        path = _folder() / f"kernels-{name}-{_key(name)}.so"
        loaded = ctypes.CDLL(str(path)) if _undamaged(path) else _compiled(name, path)
    except subprocess.TimeoutExpired:
        raise
    except (OSError, subprocess.SubprocessError, RuntimeError):  # RuntimeError: the user has no home folder
        return None
    # The system must allow a process to use the processor's tiles.
    return loaded if loaded.calque_start() == 0 else None


def _undamaged(path: Path) -> bool:
    """Whether a library is there as it was kept, with its checksum behind it: to load a part of one may end the process."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return content[-SUM:] == _sum(content[:-SUM])


def _sum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(SUM, "little")


def _folder() -> Path:
    """Where compiled kernels are kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "calque" / "native"


def _key(name: str) -> str:
    # Machines with other systems may share a home folder.
    system = platform.libc_ver()
    options = " ".join([*ALWAYS, OPENMP, *INSTRUCTIONS[name][1], *_threads(), compiler() or "", *system])
    text = b"".join(file.read_bytes() for file in (*SOURCES, *sorted(HERE.glob("*.h"))))
    return hashlib.sha256(text + options.encode()).hexdigest()[:16]


def _threads() -> tuple[str, ...]:
    """The library of threads that torch has loaded, so that there is one pool of them."""
    beside = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    return tuple(map(str, beside[:1]))


def _compiled(name: str, path: Path) -> ctypes.CDLL:
    """The kernels, compiled by one process at a time, and kept where they can be.

    Raises `SubprocessError` or `OSError` where they do not compile or load.
    """
    with _alone(path), tempfile.TemporaryDirectory() as folder:
        if _undamaged(path):  # another process was faster
            return ctypes.CDLL(str(path))
        result = Path(folder) / path.name
        command = [compiler() or "", *ALWAYS, *INSTRUCTIONS[name][1], *map(str, SOURCES), "-o", str(result)]
        try:
            _run([*command, OPENMP, *_threads()])
        except subprocess.CalledProcessError:
            _run(command)
        content = result.read_bytes()
        with contextlib.suppress(OSError):  # a full disk, or a folder of somebody else
            write_whole(path, content + _sum(content))
            # Where it was kept it is loaded from: a system may let nothing run from its temporary folder.
            return ctypes.CDLL(str(path))
        return ctypes.CDLL(str(result))


def _run(command: list[str]) -> None:
    """Runs the compiler. One that does not end is ended, with all that it has started, and so it is on Ctrl-C."""
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True) as process:
        try:
            status = process.wait(SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock beside a file while open, where the system lets it."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(only(path.with_suffix(".lock"), lambda line: None))
        yield
