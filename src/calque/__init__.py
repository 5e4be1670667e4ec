"""Calque: neural machine translation in which the architecture is a line of text.

    import calque
    model = calque.build(text, source_size=8000, target_size=8000)   # a torch module with `forward` and `step`
    run = calque.load("runs/small")                                   # a trained model
    run.translate("a sentence .")
    run.translate(["a sentence .", "another one ."])
    run.score([("a sentence .", "ein Satz .")])

Nothing here imports torch, or anything else, before one of these names is used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from calque.decode.sentences import Translation
    from calque.ground.diagnostics import CalqueError
    from calque.workflow.api import Run, build, check, load

__all__ = ["CalqueError", "Run", "Translation", "build", "check", "load"]

_HOMES = {
    "__version__": "calque.ground.version",
    "CalqueError": "calque.ground.diagnostics",
    "Run": "calque.workflow.api",
    "Translation": "calque.decode.sentences",
    "build": "calque.workflow.api",
    "check": "calque.workflow.api",
    "load": "calque.workflow.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'calque' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), {"__version__": "VERSION"}.get(name, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES} - {"TYPE_CHECKING"})
