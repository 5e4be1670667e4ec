"""The diagram of an architecture as a figure of a report."""

from calque.adl.check import CheckedDefinition
from calque.analyse.drawn import DrawnFigure, Table
from calque.diagram import diagram


def architecture(checked: CheckedDefinition, name: str, title: str, caption: str) -> DrawnFigure:
    """The diagram of a definition, with the width and the parameters of both sides."""
    sides = (("encoder", checked.encoder), ("decoder", checked.decoder))
    table = Table.of(("side", "width", "parameters"), ((k, s.width_out, s.parameters) for k, s in sides))
    reading = (
        "Both sides flow downwards. A frame n × is a repetition, an arc into + the identity of a residual sum, an arrow from a dot "
        "goes to the layers that read this point, and a loop is input feeding."
    )
    return DrawnFigure(name, title, caption, table, diagram(checked, title).encode(), reading=reading)
