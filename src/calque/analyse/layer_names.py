"""Layers in words: the name of a layer and its block, shown beside its path."""

import re
from collections import Counter

from calque.adl.check import CheckedDefinition

_COPY = re.compile(r"\[(\d+)\]")


def layers_in_words(checked: CheckedDefinition) -> dict[str, str]:
    """Each layer's path followed by its name and block: `decoder.1[3].0 — mh_dot_src_att, block 3`.

    The block is the number of a repetition's copy; `2.1` is the first copy of a repetition inside the second copy of another.
    Layers of one name in one block are numbered too.
    """
    nodes = [node for chain in (checked.encoder, checked.decoder) for node in chain.nodes()]
    groups = {node.path: (node.path.partition(".")[0], node.name, ".".join(_COPY.findall(node.path))) for node in nodes}
    sizes, seen = Counter(groups.values()), Counter[tuple[str, str, str]]()
    named = {}
    for path, group in groups.items():
        seen[group] += 1
        _, name, block = group
        words = [name] + [f"block {block}"] * bool(block) + [f"{seen[group]} of {sizes[group]}"] * (sizes[group] > 1)
        named[path] = f"{path} — {', '.join(words)}"
    return named
