"""A module under another name: the loader behind the old names of modules that have moved."""

import importlib
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType


class _AliasLoader(Loader):
    """Gives a module that is imported already; the import system replaces its spec, which is put back."""

    def __init__(self, module: ModuleType):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def spec(name: str, home: str) -> ModuleSpec:
    """The spec under which `import name` gives the module `home`."""
    return ModuleSpec(name, _AliasLoader(importlib.import_module(home)))
