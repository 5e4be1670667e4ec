"""Plugins: modules with layers of a user, imported by name or from a file."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from calque.adl.numbers import WIDTH_IN
from calque.adl.program import RESERVED, prelude
from calque.adl.signature import REPEAT, SETTINGS, is_name
from calque.experiment import ModelSettings, load
from calque.ground.diagnostics import CalqueError, Diagnostic, Place, error
from calque.layers.contract import Layer, Registry
from calque.layers.registry import builtin, layers_in, nameless_in, with_plugins
from calque.run.folder import EXPERIMENT

PLUGIN = "calque_plugin."
"""Prefix of the names of modules that come from files: such a module hides no other of the same name."""


def load_plugin(name: str) -> ModuleType:
    """A module of layers: a file whose name ends in .py, or an importable name.

    Raises X401 where it cannot be imported, X411 where one of its layers has a name that the language already uses, X420 where
    one has no name that a text can write, X426 where one lacks a method that every layer has.
    """
    try:
        module = _from_file(name) if name.endswith(".py") else importlib.import_module(name)
    except CalqueError:
        raise
    except (Exception, SystemExit) as e:  # a module can raise anything
        raise error("X401", Place(name), reason=f"{type(e).__name__}: {e}") from None
    taken = {*builtin(), REPEAT.name, *RESERVED, WIDTH_IN, *SETTINGS, *(s.name for s in prelude())}
    unnamed = [layer for layer in layers_in(module) if not is_name(layer.name)]
    if faults := [_misnamed(layer, name, taken) for layer in [*unnamed, *nameless_in(module)]]:
        raise CalqueError(faults)
    _check_layers(module, name, taken)
    return module


def _misnamed(layer: type[Layer], file: str, taken: set[str]) -> Diagnostic:
    """X420, with a name that a text can write where one is like what the class has."""
    own = vars(layer).get("name")
    near = re.sub(r"\W+", "_", own).strip("_") if isinstance(own, str) and own.isascii() else None
    found = f"`{own!r}`" if "name" in vars(layer) else "none"
    free = is_name(near) and near not in taken
    return Diagnostic("X420", Place(file), {"layer": layer.__name__, "found": found, "near": near if free else None})


def _from_file(name: str) -> ModuleType:
    path = Path(name)
    spec = importlib.util.spec_from_file_location(PLUGIN + path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise error("X401", Place(name), reason="there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _check_layers(module: ModuleType, file: str, taken: set[str]) -> None:
    taken = set(taken)
    for layer in layers_in(module):
        if layer.name in taken and builtin().get(layer.name) is not layer:  # a plugin may be a module of the library
            raise error("X411", Place(file), name=layer.name)
        try:
            layer.signature()
        except (TypeError, ValueError, AttributeError) as e:
            raise error("X401", Place(file), reason=f"the arguments of `{layer.name}`: {e}") from None
        if missing := sorted(getattr(layer, "__abstractmethods__", ())):
            raise error("X426", Place(file), layer=layer.name, methods=missing)
        taken.add(layer.name)


def registry_of(model: ModelSettings) -> Registry:
    """The library's layers and those of the experiment's plugins."""
    modules: list[ModuleType] = []
    for name in model.plugins:
        module = load_plugin(name)
        _check_layers(module, name, {layer.name for before in modules for layer in layers_in(before)})
        modules.append(module)
    return with_plugins(tuple(modules)) if modules else builtin()


def registry_of_run(folder: Path) -> Registry:
    """The layers that the definition in a run folder may name; the library's where the folder holds no experiment."""
    file = folder / EXPERIMENT
    return registry_of(load(file).model) if file.is_file() else builtin()
