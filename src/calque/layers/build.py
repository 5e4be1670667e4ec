"""From the checked tree to modules. A module's path is its node's, so parameters are addressed as the tree is."""

from functools import partial
from typing import Any

from torch import Tensor, nn

from calque.adl.answers import of_plugin, short, wrong_result
from calque.adl.tree import CheckedChain, Node
from calque.layers.chain import Chain
from calque.layers.contract import Layer, Registry, Site


def build(chain: CheckedChain, registry: Registry, gamma: float = 1.0) -> Chain:
    """The module of a checked chain, weights as torch initialises them. `gamma` is that of every layer's `Site`."""
    items = {
        name: build(item, registry, gamma) if isinstance(item, CheckedChain) else _layer(item, registry, gamma)
        for name, item in chain.items.items()
    }
    for name, owner in chain.owners.items():
        _share(items[name], items[owner])
    return Chain(Site(chain.side, chain.width_in, chain.path, gamma=gamma), items, chain.labels)


def _share(copy: Layer, owner: Layer) -> None:
    """Gives a copy the parameters of another, each in its place. Paths, labels and states stay the copy's own."""
    for mine, theirs in zip(copy.modules(), owner.modules(), strict=True):
        for name, weight in theirs.named_parameters(recurse=False):
            setattr(mine, name, weight)


def _layer(node: Node, registry: Registry, gamma: float) -> Layer:
    parts = {name: build(part, registry, gamma) for name, part in node.parts.items()}
    kind = registry[node.name]
    layer = kind(node.args, Site(node.side, node.width_in, node.path, node.label, gamma), parts)
    if of_plugin(kind):
        _watch(layer, node.width_out)
    return layer


def _watch(layer: Layer, width: int) -> None:
    """Checks what a plugin's layer returns: a wrong shape may fit the next layer, or fail far from its cause."""
    if "_forward_hooks" not in vars(layer):
        found = "with no call of `super().__init__(args, site, parts)`"
        raise wrong_result(type(layer), "__init__", found, "one before all else")
    layer.register_forward_hook(partial(_look, width))


def _look(width: int, layer: nn.Module, given: tuple[Any, ...], out: object) -> None:
    """Raises X423 for the output of a `forward` that is no sequence of this width, as long as its input."""
    if not isinstance(out, Tensor):
        raise wrong_result(type(layer), "forward", short(out), "a tensor")
    shape = (*given[0].shape[:2], width)
    if out.shape != shape:
        found = f"a tensor of {tuple(out.shape)}"
        raise wrong_result(type(layer), "forward", found, f"one of {shape} for {tuple(given[0].shape)}")
