"""Attention as Luong 2015 writes it, one loop per equation: scores, windows, weights. Source positions s count from 0.

A score is a function of the query h_t, of the source position and of the first position of the window.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import naive
import numpy as np
from naive import Sequence_, Vector, affine, sigmoid, softmax

Score = Callable[[Vector, int, int], float]


@dataclass(frozen=True)
class Window:
    """`d` positions on either side of a centre: of the word's own position, or with W_p and v_p of a predicted one."""

    d: int
    wp: Vector | None = None
    vp: Vector | None = None
    bounds: str = "floor"
    renorm: bool = False
    scored: bool = False


def predicted(h: Vector, wp: Vector, vp: Vector, words: int) -> float:
    """p_t = S sigmoid(v_p^T tanh(W_p h_t)) (equation 9)."""
    hidden = naive.activation("tanh", affine(wp, h))
    return words * sigmoid(sum(vp[i] * hidden[i] for i in range(len(hidden))))


def limits(t: int, h: Vector, words: int, window: Window) -> tuple[int, int, float | None]:
    """The first and the last position of the window of word t, counted from 1, and p_t where there is one."""
    if window.wp is None or window.vp is None:
        word = min(t, words) - 1
        return word - window.d, word + window.d, None
    p = predicted(h, window.wp, window.vp, words)
    if window.bounds == "real":
        return math.ceil(p - window.d), math.floor(p + window.d), p
    word = math.floor(p) if window.bounds == "floor" else round(p)
    return word - window.d, word + window.d, p


def weights(t: int, h: Vector, words: int, score: Score, window: Window | None) -> list[float]:
    """a_t(s) = align(h_t, h_s) exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D/2 (equations 7 and 10); `scored`: the Gaussian
    multiplies the scores of the alignment."""
    first, last, p = (0, words - 1, None) if window is None else limits(t, h, words, window)
    seen = [s for s in range(words) if first <= s <= last]
    scores, a = [score(h, s, first) for s in seen], [0.0] * words
    gaussian = [1.0] * len(seen)
    if p is not None and window is not None:
        gaussian = [math.exp(-((s - p) ** 2) / (2 * (window.d / 2) ** 2)) for s in seen]
        if window.scored:
            scores, gaussian = [g * x for g, x in zip(gaussian, scores, strict=True)], [1.0] * len(seen)
    for s, share, left in zip(seen, softmax(scores), gaussian, strict=True):
        a[s] = share * left
    return [b / sum(a) for b in a] if window is not None and window.renorm else a


def dot(keys: Sequence_, wa: Vector | None = None) -> Score:
    """h_t^T h_s, or with W_a, "general", the product with W_a h_t: W_a^T of the paper's."""

    def score(h: Vector, s: int, _: int) -> float:
        query = h if wa is None else affine(wa, h)
        return float(sum(query[i] * keys[s][i] for i in range(len(query))))

    return score


def concat(keys: Sequence_, wq: Vector, wk: Vector | None, va: Vector) -> Score:
    """v_a^T tanh(W_a [h_t; h_s]); without W_k the part of h_s is the identity (footnote 15)."""

    def score(h: Vector, s: int, _: int) -> float:
        inside = affine(wq, h) + (keys[s] if wk is None else affine(wk, keys[s]))
        return float(affine(va, naive.activation("tanh", inside))[0])

    return score


def location(wa: Vector) -> Score:
    """The row of W_a h_t for the position in the window."""
    return lambda h, s, first: float(affine(wa, h)[s - first])


def top_part(h: Vector, words: int, wa: Vector, renorm: bool) -> list[float]:
    """a_t = softmax(W_a h_t), of which as much is used as there are words (equation 8, footnote 6)."""
    shares = softmax(list(affine(wa, h)))
    a = [shares[s] if s < len(shares) else 0.0 for s in range(words)]
    return [b / sum(a) for b in a] if renorm else a


def context(a: Sequence[float], values: Sequence_) -> Vector:
    """The average of the source states, weighted."""
    total = np.zeros(len(values[0]))
    for s, share in enumerate(a):
        total = total + share * values[s]
    return total
