"""From the checked tree to modules. A module's path is its node's, so parameters are addressed as the tree is."""

from calque.adl.tree import Chain as CheckedChain
from calque.adl.tree import Node
from calque.layers.chain import Chain
from calque.layers.contract import Layer, Registry, Site


def build(chain: CheckedChain, registry: Registry) -> Chain:
    """The module of a checked chain, weights as torch initialises them."""
    items = {
        name: build(item, registry) if isinstance(item, CheckedChain) else _layer(item, registry)
        for name, item in chain.items.items()
    }
    return Chain(Site(chain.side, chain.width_in, chain.path), items, chain.labels)


def _layer(node: Node, registry: Registry) -> Layer:
    parts = {name: build(part, registry) for name, part in node.parts.items()}
    return registry.layers[node.name](node.args, Site(node.side, node.width_in, node.path, node.label), parts)
