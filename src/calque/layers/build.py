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
    return registry[node.name](node.args, Site(node.side, node.width_in, node.path, node.label, gamma), parts)
