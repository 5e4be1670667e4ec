"""Whether a training had converged when it ended, as its learning curve shows."""

from collections.abc import Sequence

FALLING = 0.01
"""The share of validation perplexity by which it may still fall in an epoch."""
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


def why_not_converged(validations: Sequence[Sequence[float]]) -> str:
    """Why a learning curve does not show that its training had converged; empty where it does."""
    if not validations:
        return NO_CURVE
    if (share := fall(validations)) is None:
        return "a single validation does not show whether perplexity still falls"
    return f"validation perplexity was still falling by {100 * share:.1f} % per epoch" if share > FALLING else ""
