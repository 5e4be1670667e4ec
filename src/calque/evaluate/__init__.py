"""Scores of translations, each with its signature."""

from calque.evaluate.files import evaluate_files
from calque.evaluate.scores import (
    METRICS,
    TOKENISERS,
    Score,
    bleu,
    chrf,
    evaluate,
    meteor,
    ter,
    tokeniser_for,
)

__all__ = [
    "METRICS",
    "TOKENISERS",
    "Score",
    "bleu",
    "chrf",
    "evaluate",
    "evaluate_files",
    "meteor",
    "ter",
    "tokeniser_for",
]
