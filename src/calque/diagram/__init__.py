"""A definition as a picture, drawn from the checked tree before weights exist."""

from calque.adl.check import CheckedDefinition
from calque.diagram.draw import picture
from calque.diagram.svg import svg

__all__ = ["diagram", "picture"]


def diagram(checked: CheckedDefinition, title: str) -> str:
    """The network as an SVG document.

    Both sides flow downwards. A frame `n ×` is a repetition, drawn once. An arc into `+` is the identity of a residual sum. An
    arrow from a dot `@label` goes to the layer that reads that point; where copies read different points, words say which. A loop
    is input feeding. Numbers beside the flow are widths, where they change.
    """
    return svg(picture(checked, title), checked.hash, f"{title} {checked.hash}", checked.text)
