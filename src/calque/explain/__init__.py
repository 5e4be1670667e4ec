"""The costs of a definition, computed before weights exist: as values, as JSON and as a table."""

from calque.explain.differences import differences, differences_json, differences_text
from calque.explain.fit import fit, parameters
from calque.explain.json_report import explanation
from calque.explain.node_costs import Figures, figures
from calque.explain.node_table import table
from calque.explain.pages import default_text, layer_page, signature_text
from calque.explain.totals import ModelCosts, Surroundings, whole

__all__ = [
    "Figures",
    "ModelCosts",
    "Surroundings",
    "default_text",
    "differences",
    "differences_json",
    "differences_text",
    "explanation",
    "figures",
    "fit",
    "layer_page",
    "parameters",
    "signature_text",
    "table",
    "whole",
]
