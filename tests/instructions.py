"""The sets of instructions that kernels are tested with: those of this processor, and AMX as vectors compute it."""

import ctypes
import hashlib
from pathlib import Path
from unittest.mock import patch

import pytest

from calque.native import build

HEADER = Path(__file__).parent / "native" / "tiles.h"
TILES = "amx-by-vectors"
"""The code for AMX with `HEADER` in the place of tiles: on processors that have none, but all else that the code needs."""
SETS = build.available()
"""Their names; none where there is no compiler."""
if "amx" not in SETS and "avx512-bf16" in SETS:
    SETS.append(TILES)
EACH = SETS or [pytest.param("none", marks=pytest.mark.skip(reason="no compiler, or no kernels for this processor"))]


def load(name: str) -> ctypes.CDLL:
    """The kernels for one of them."""
    needs, vectors = build.INSTRUCTIONS["avx512-bf16"]
    version = (
        f"-DTILES={hashlib.sha256(HEADER.read_bytes()).hexdigest()[:8]}"  # compiled kernels are kept by their options
    )
    with patch.dict(build.INSTRUCTIONS, {TILES: (needs, (*vectors, version, "-include", str(HEADER)))}):
        loaded = build.load(name)
    assert loaded is not None, f"the kernels for {name} do not compile or load"
    return loaded
