"""Whether a training had converged when it ended, as its learning curve shows."""

from collections.abc import Sequence
from itertools import pairwise

FALLING = 0.01
"""The share of validation perplexity by which it may still fall in an epoch."""
JUMP = 1.5
"""By this factor perplexity rises from one validation to the next where training has diverged; a text that is learned by heart
raises it by a tenth."""
NOT_CONVERGED = "not converged"
NO_CURVE = "no learning curve is recorded that would show convergence"


def fall(validations: Sequence[Sequence[float]]) -> float | None:
    """By what share the lowest perplexity so far fell per epoch at the end of training; None where fewer than two were taken.

    A validation is its update, epoch and perplexity. The end is the last epoch; where validations are further apart, what lies
    between the last two.
    """
    if len(validations) < 2:
        return None
    end = validations[-1][1]
    earlier = [point for point in validations[:-1] if point[1] <= end - 1] or [validations[0]]
    lowest_then, lowest = min(point[2] for point in earlier), min(point[2] for point in validations)
    epochs = end - earlier[-1][1]
    return 1 - (lowest / lowest_then) ** (1 / epochs) if epochs > 0 else None


def diverged(validations: Sequence[Sequence[float]]) -> bool:
    """Whether perplexity jumped behind its lowest value, or was higher at the end than at the first validation."""
    curve = [perplexity for _, _, perplexity in validations]
    if not curve:
        return False
    behind = curve[curve.index(min(curve)) :]
    return curve[-1] > curve[0] or any(after > JUMP * before for before, after in pairwise(behind))


def why_not_converged(validations: Sequence[Sequence[float]]) -> str:
    """Why a learning curve does not show that its training had converged; empty where it does."""
    if not validations:
        return NO_CURVE
    if (share := fall(validations)) is None:
        return "a single validation does not show whether perplexity still falls"
    if diverged(validations):
        lowest, last = min(point[2] for point in validations), validations[-1][2]
        return f"validation perplexity had diverged, from {lowest:.1f} to {last:.1f}"
    return f"validation perplexity was still falling by {100 * share:.1f} % per epoch" if share > FALLING else ""
