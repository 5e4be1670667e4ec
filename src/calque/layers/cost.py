"""What a layer costs. The values are the language's, since a cost is declared and added up without torch."""

from calque.adl.declaration import (
    BACKWARDS,
    BEFORE,
    EVERYWHERE,
    FED,
    HERE,
    TOGETHER,
    Cost,
    Held,
    Products,
    Reach,
)

__all__ = ["BACKWARDS", "BEFORE", "EVERYWHERE", "FED", "HERE", "TOGETHER", "Cost", "Held", "Products", "Reach"]
