"""Calque: neural machine translation in which the architecture is a line of text.

    import calque
    model = calque.build(text, source_size=8000, target_size=8000)   # a torch module with `forward` and `step`
    run = calque.load("runs/small")                                   # a trained model
    run.translate("a sentence .")
    run.translate(["a sentence .", "another one ."])
    run.score([("a sentence .", "ein Satz .")])

Nothing here imports torch, or anything else, before one of these names is used.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

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


_MOVED = {
    "calque.api": "calque.workflow.api",
    "calque.definitions": "calque.workflow.definitions",
    "calque.diagnostics": "calque.ground.diagnostics",
    "calque.plot": "calque.ground.plot",
    "calque.table": "calque.ground.table",
}
"""Modules that plugins and programs may import under their old names."""


class _MovedModules:
    """Finds the modules of `_MOVED` under their old names, with a DeprecationWarning."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if name not in _MOVED:
            return None
        import warnings

        from calque.ground.moved import spec

        warnings.warn(f"{name} is now {_MOVED[name]}", DeprecationWarning, stacklevel=2)
        return spec(name, _MOVED[name])


sys.meta_path.append(_MovedModules)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'calque' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), {"__version__": "VERSION"}.get(name, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES} - {"TYPE_CHECKING"})
