"""docs/layer-table.md is made from the layers."""

from pathlib import Path

from calque.layers.registry import builtin
from calque.prove.layers_page import page, source_of

PAGE = Path(__file__).parent.parent / "docs" / "layer-table.md"
OF_NO_PAPER = {"add", "dropout", "reverse", "take"}


def test_the_page_is_what_the_layers_declare() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m calque.prove.layers_page > docs/layer-table.md"


def test_every_layer_has_a_row_with_its_class_costs_and_source() -> None:
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in page().splitlines() if line[:3] == "| `"
    ]
    classes = {row[1].split("`")[1]: row for row in rows}
    assert set(classes) == {layer.__name__ for layer in builtin().values()}
    assert {name for name, layer in builtin().items() if not source_of(layer)} == OF_NO_PAPER
    # Checked by hand: a matrix [512, 512] and its bias; four matrices, and two numbers of 512 for each position seen.
    assert classes["Linear"][4:8] == ["262,656", "262,144", "262,144", "0"]
    assert classes["SelfAttention"][4:8] == ["1,048,576", "1,048,576 + 1,024 n", "1,048,576 + 1,024 t", "1,024 t"]
