"""Calque: neural machine translation in which the architecture is a line of text.

    import calque
    model = calque.build(text, source_size=8000, target_size=8000)   # a torch module with `forward` and `step`
    run = calque.load("runs/small")                                   # a trained model
    run.translate(["a sentence ."])
    run.score([("a sentence .", "ein Satz .")])

Nothing here imports torch before one of these is called.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["CalqueError", "build", "check", "load"]

if TYPE_CHECKING:
    from calque.api import build, check, load
    from calque.diagnostics import CalqueError

_HOMES = {"build": "calque.api", "check": "calque.api", "load": "calque.api", "CalqueError": "calque.diagnostics"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'calque' has no attribute {name!r}")
