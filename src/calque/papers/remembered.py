"""Results of long computations, kept in a file by a digest of all that they were computed from."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from calque.ground.files import write_whole
from calque.run.tensors import writing

Part = str | int | float | Float[np.ndarray, "..."]
"""Something that a result depends on."""


class Remembered:
    """Numbers by the digest of what they follow from. A result that is not there is computed, so a lost file costs time alone.

    Without a path, results are kept for as long as the object lives.
    """

    def __init__(self, path: Path | None = None):
        """A file that cannot be read counts as empty."""
        self.path = path
        self._known: dict[str, tuple[float, ...]] = {}
        self._used: set[str] = set()
        try:
            held = json.loads(path.read_bytes()) if path is not None else {}
            self._known = {str(key): tuple(map(float, values)) for key, values in held.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return

    def __call__(self, parts: Sequence[Part], compute: Callable[[], Sequence[float]]) -> tuple[float, ...]:
        """The result for `parts`, which name everything that `compute` depends on."""
        key = _digest(parts)
        self._used.add(key)
        if key not in self._known:
            self._known[key] = tuple(map(float, compute()))
        return self._known[key]

    @property
    def content(self) -> bytes:
        """The file with the results that were asked for since it was opened; all others belong to evidence that is gone."""
        lines = (f" {json.dumps(key)}: {json.dumps(self._known[key])}" for key in sorted(self._used))
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def write(self) -> None:
        """Writes the file, unless no result was asked for. Raises K301 where it cannot."""
        if self.path is not None and self._used:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.path, self.content)


def _digest(parts: Sequence[Part]) -> str:
    total = hashlib.sha256()
    for part in parts:
        named = part.astype("<f8").tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
        shape = part.shape if isinstance(part, np.ndarray) else ()
        total.update(f"{type(part).__name__} {shape} {len(named)} ".encode() + named)
    return total.hexdigest()[:24]
