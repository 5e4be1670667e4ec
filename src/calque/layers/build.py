"""From the checked tree to modules. A module's path is its node's, so parameters are addressed as the tree is."""

from calque.adl.tree import CheckedChain, Node
from calque.layers.chain import Chain
from calque.layers.contract import Layer, Registry, Site


def build(chain: CheckedChain, registry: Registry, gamma: float = 1.0) -> Chain:
    """The module of a checked chain, weights as torch initialises them. `gamma` is that of every layer's `Site`."""
    items = {
        name: build(item, registry, gamma) if isinstance(item, CheckedChain) else _layer(item, registry, gamma)
        for name, item in chain.items.items()
    }
    return Chain(Site(chain.side, chain.width_in, chain.path, gamma=gamma), items, chain.labels)


def _layer(node: Node, registry: Registry, gamma: float) -> Layer:
    parts = {name: build(part, registry, gamma) for name, part in node.parts.items()}
    return registry[node.name](node.args, Site(node.side, node.width_in, node.path, node.label, gamma), parts)
