"""The layers of this package: a class with a `name` in a module of the package is a layer, but for the chain, written `->`."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType

import calque.layers
from calque.layers.chain import Chain
from calque.layers.contract import Layer, Registry


def layers_in(module: ModuleType) -> list[type[Layer]]:
    """The layers that a module defines, in the order of their names."""
    layers = [value for value in _classes(module) if "name" in vars(value) and value is not Chain]
    return sorted(layers, key=lambda layer: str(layer.name))


def nameless_in(module: ModuleType) -> list[type[Layer]]:
    """The classes of a module that could be layers, had they a `name` of their own.

    A class from which another of the module derives needs none, nor does one whose own name begins with `_`.
    """
    classes = _classes(module)
    bases = {base for value in classes for base in value.__mro__[1:]}
    return [
        value
        for value in classes
        if "name" not in vars(value)
        and value not in bases
        and not inspect.isabstract(value)
        and not value.__name__.startswith("_")
    ]


def _classes(module: ModuleType) -> list[type[Layer]]:
    """The classes of layers that a module defines itself."""
    found = dict.fromkeys(value for value in vars(module).values() if inspect.isclass(value))
    return [value for value in found if issubclass(value, Layer) and value.__module__ == module.__name__]


@functools.cache
def builtin() -> Registry:
    """Every layer of `calque.layers`."""
    return registry_of_package(importlib.import_module)


def registry_of_package(load: Callable[[str], ModuleType]) -> Registry:
    """Every layer of `calque.layers`, whose modules `load` returns by name."""
    registry = Registry()
    for info in sorted(pkgutil.iter_modules(calque.layers.__path__), key=lambda m: m.name):
        for layer in layers_in(load(f"calque.layers.{info.name}")):
            registry.add(layer)
    return registry


def with_plugins(modules: tuple[ModuleType, ...]) -> Registry:
    """The package's layers and those of further modules."""
    registry = Registry(builtin().values())
    for module in modules:
        for layer in layers_in(module):
            registry.add(layer)
    return registry
