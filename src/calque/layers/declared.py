"""The layers' declarations without torch: names, arguments, width rules and costs, all that checking a definition needs.

Importing torch takes a second; checking a definition takes milliseconds. A layer is one class in one file, so there is no second
list of declarations to read instead. The layers' own modules are run again here, as separate copies, with a stand-in where they
import torch or kernels: the class statements, `Args`, `infer` and `cost` come out as they are, and the methods that compute with
tensors are never called. A test holds every declaration against the real class.

Layers from here cannot be built. What trains or decodes takes `calque.layers.registry`.
"""

import builtins
import functools
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

from calque.adl.declaration import Library

PACKAGE = "calque.layers."
FOLDER = Path(__file__).parent
ABSENT = ("torch", "jaxtyping", "calque.native")


class _Absent:
    """Anything of a package that is not loaded: any attribute, call or operation gives something absent again.

    Names with a capital are classes, since layers derive from them and annotate with them.
    """

    def __getattr__(self, name: str) -> "type | _Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_AbsentClass,), {}) if name[0].isupper() else self

    def __call__(self, *_args: object, **_named: object) -> "_Absent":
        return self

    def __getitem__(self, _key: object) -> "_Absent":
        return self

    def __or__(self, _other: object) -> "_Absent":
        return self

    __ror__ = __or__


class _AbsentClass:
    """A class of a package that is not loaded; `Float[Tensor, "B T"]` is `Float`."""

    def __class_getitem__(cls, _shape: object) -> type:
        return cls


class _Loader:
    """Runs modules of layers as copies whose imports come here."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.absent = _Absent()

    def load(self, name: str) -> ModuleType:
        """The copy of a module."""
        if name not in self.modules:
            # Compiled once and kept beside the source, as by any import; whatever hooks change an import is left out.
            file = str(FOLDER / f"{name.removeprefix(PACKAGE)}.py")
            code = SourceFileLoader(name, file).get_code(name)
            module = self.modules[name] = ModuleType(name)
            module.__dict__.update(__file__=file, __builtins__={**vars(builtins), "__import__": self.import_})
            exec(cast("CodeType", code), module.__dict__)
        return self.modules[name]

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> "ModuleType | _Absent":
        """`__import__` of the copies."""
        if any(name == absent or name.startswith(f"{absent}.") for absent in ABSENT):
            return self.absent
        if name.startswith(PACKAGE) and fromlist:
            return self.load(name)
        return builtins.__import__(name, globals, locals, fromlist or (), level)


@functools.cache
def declared() -> Library:
    """Every layer of the package, as far as the checker needs it."""
    loader = _Loader()
    library: Library = loader.load(f"{PACKAGE}registry").registry_of_package(loader.load)
    return library
