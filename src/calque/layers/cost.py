"""What a layer costs. The values are the language's, since a cost is declared and added up without torch."""

from calque.adl.declaration import (
    BACKWARDS,
    BEFORE,
    COMPUTED,
    EVERYWHERE,
    FED,
    HERE,
    INPUT,
    SUM,
    TOGETHER,
    Cost,
    Held,
    Products,
    Reach,
)

__all__ = ["BACKWARDS", "BEFORE", "COMPUTED", "EVERYWHERE", "FED", "HERE", "INPUT", "SUM", "TOGETHER"]
__all__ += ["Cost", "Held", "Products", "Reach"]
