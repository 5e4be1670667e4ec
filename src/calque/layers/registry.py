"""The layers of this package: a class with a `name` in a module of the package is a layer."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import ModuleType

import calque.layers
from calque.layers.contract import Layer, Registry


def layers_in(module: ModuleType) -> list[type[Layer]]:
    """The layers that a module defines, in the order of their names."""
    layers = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Layer)
        and value.__module__ == module.__name__
        and "name" in vars(value)
        and value.name.isidentifier()
    ]
    return sorted(layers, key=lambda layer: layer.name)


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
