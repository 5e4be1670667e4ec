"""Every layer once more, as its paper writes it: one sentence, one loop per equation, numbers in lists of float64 vectors.

Written from the papers' equations and from nothing else. `xs` is the list of a sentence's hidden states, weights are matrices
of [out, in]; positions and copies count from 0 unless an equation counts from 1.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Sequence_ = list[Vector]


def sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a))


def activation(name: str, h: Vector) -> Vector:
    if name == "glu":
        half = len(h) // 2
        return np.array([h[i] * sigmoid(h[half + i]) for i in range(half)])
    functions: dict[str, Callable[[float], float]] = {
        "relu": lambda a: max(0.0, a),
        "tanh": math.tanh,
        "sigmoid": sigmoid,
        "gelu": lambda a: a * 0.5 * (1 + math.erf(a / math.sqrt(2))),
        "id": lambda a: a,
    }
    return np.array([functions[name](a) for a in h])


def affine(w: Vector, h: Vector, b: Vector | None = None) -> Vector:
    out = np.array([sum(w[o][i] * h[i] for i in range(len(h))) for o in range(len(w))])
    return out if b is None else out + b


def linear(xs: Sequence_, w: Vector, b: Vector | None = None) -> Sequence_:
    """W h + b (Domhan 2018, 2.3)."""
    return [affine(w, h, b) for h in xs]


def ff(xs: Sequence_, w: Vector, b: Vector) -> Sequence_:
    """max(0, W h + b) (Domhan 2018, 2.3), dropout aside."""
    return [activation("relu", affine(w, h, b)) for h in xs]


def norm(xs: Sequence_, gain: Vector, shift: Vector, eps: float) -> Sequence_:
    """g / sigma (h - mu) + b, mu and sigma over the width (Ba et al. 2016)."""
    out = []
    for h in xs:
        mean = sum(h) / len(h)
        variance = sum((a - mean) ** 2 for a in h) / len(h)
        out.append(np.array([gain[i] / math.sqrt(variance + eps) * (h[i] - mean) + shift[i] for i in range(len(h))]))
    return out


def cnn(xs: Sequence_, w: Vector, b: Vector, v: str, dilation: int, causal: bool) -> Sequence_:
    """v(W [h_{i - floor(k/2)}; ...; h_{i + floor(k/2)}] + b), or the k inputs that end in h_i; w is [out, in, k]."""
    kernel = w.shape[2]
    out = []
    for i in range(len(xs)):
        total = b.copy()
        for j in range(kernel):
            at = i + dilation * (j - (kernel - 1 if causal else kernel // 2))
            if 0 <= at < len(xs):
                total = total + affine(w[:, :, j], xs[at])
        out.append(activation(v, total))
    return out


def pool(xs: Sequence_, k: int, causal: bool) -> Sequence_:
    """1/k of the sum of the k inputs around h_i, or that end in it, as far as there are any (Gehring 2017, 3.1)."""
    out = []
    for i in range(len(xs)):
        total = np.zeros(len(xs[0]))
        for j in range(k):
            at = i + j - (k - 1 if causal else k // 2)
            if 0 <= at < len(xs):
                total = total + xs[at]
        out.append(total / k)
    return out


def lstm(
    xs: Sequence_, w: Vector, u: Vector, b: Vector, forget: float, h: Vector, c: Vector
) -> tuple[Sequence_, tuple[Vector, Vector]]:
    """i, f, g, o in this order (Hochreiter and Schmidhuber 1997, with forget gates)."""
    d, out = len(h), []
    for x in xs:
        a = affine(w, x) + affine(u, h) + b
        new_h, new_c = np.zeros(d), np.zeros(d)
        for k in range(d):
            i, f = sigmoid(a[k]), sigmoid(a[d + k] + forget)
            g, o = math.tanh(a[2 * d + k]), sigmoid(a[3 * d + k])
            new_c[k] = f * c[k] + i * g
            new_h[k] = o * math.tanh(new_c[k])
        h, c = new_h, new_c
        out.append(h)
    return out, (h, c)


def gru(xs: Sequence_, w: Vector, u: Vector, b: Vector, h: Vector) -> tuple[Sequence_, tuple[Vector]]:
    """r, z, n in this order; the reset gate multiplies behind the product with U (Cho et al. 2014, version 3)."""
    d, out = len(h), []
    for x in xs:
        a, p = affine(w, x) + b, affine(u, h)
        new = np.zeros(d)
        for k in range(d):
            r, z = sigmoid(a[k] + p[k]), sigmoid(a[d + k] + p[d + k])
            n = math.tanh(a[2 * d + k] + r * p[2 * d + k])
            new[k] = (1 - z) * n + z * h[k]
        h = new
        out.append(h)
    return out, (h,)


def simple(xs: Sequence_, w: Vector, u: Vector, b: Vector, h: Vector) -> tuple[Sequence_, tuple[Vector]]:
    """h_t = tanh(W x_t + U h_{t-1} + b) (Elman 1990)."""
    out = []
    for x in xs:
        h = activation("tanh", affine(w, x) + affine(u, h) + b)
        out.append(h)
    return out, (h,)


def pos(xs: Sequence_, scale: bool, layout: str, endpoint: bool) -> Sequence_:
    """sqrt(d) h_t + p_t; p_t holds sin and cos of t / 10000^(2i/d), by pairs or by halves (Vaswani et al. 2017)."""
    out = []
    for t, h in enumerate(xs):
        d = len(h)
        y = np.array([a * (math.sqrt(d) if scale else 1.0) for a in h])
        for i in range(d // 2):
            power = i / (d // 2 - 1) if endpoint and d > 2 else 2 * i / d if not endpoint else 0.0
            angle = t / 10000.0**power
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, d // 2 + i)
            y[sine] += math.sin(angle)
            y[cosine] += math.cos(angle)
        out.append(y)
    return out


def zero_first(xs: Sequence_) -> Sequence_:
    """The target shifted by one place, zeros moved in (Zhang 2018, the authors' code), where xs begins with a begin symbol."""
    return [np.zeros_like(x) if t == 0 else x for t, x in enumerate(xs)]


def learn_pos(xs: Sequence_, table: Vector) -> Sequence_:
    """h_t + l_t; the last row for every position past the table."""
    return [h + table[min(t, len(table) - 1)] for t, h in enumerate(xs)]


def learn_length(xs: Sequence_, table: Vector, m: int) -> Sequence_:
    """h_t + l_m, m from 1; the last row for every length past the table (Gehring 2017, appendix A)."""
    return [h + table[min(m, len(table)) - 1] for h in xs]


def softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    powers = [math.exp(a - top) for a in scores]
    return [p / sum(powers) for p in powers]


def attention(
    queries: Sequence_, keys: Sequence_, values: Sequence_, heads: int, s: float | None, causal: bool
) -> tuple[Sequence_, list[list[list[float]]]]:
    """[C_1; ...; C_h], C = softmax(Q K^T / sqrt(s)) V per head; s of none is a head's width (Domhan 2018, 2.3)."""
    out, weights = [], [[[0.0] * len(keys) for _ in queries] for _ in range(heads)]
    for t, query in enumerate(queries):
        contexts = []
        for head in range(heads):
            k, v = len(query) // heads, len(values[0]) // heads
            seen = range(t + 1) if causal else range(len(keys))
            scores = []
            for j in seen:
                product = sum(query[head * k + i] * keys[j][head * k + i] for i in range(k))
                scores.append(product / math.sqrt(k if s is None else s))
            shares = softmax(scores)
            context = np.zeros(v)
            for j, share in zip(seen, shares, strict=True):
                weights[head][t][j] = share
                context = context + share * values[j][head * v : (head + 1) * v]
            contexts.append(context)
        out.append(np.concatenate(contexts))
    return out, weights


def mlp_attention(
    queries: Sequence_, keys: Sequence_, values: Sequence_, wq: Vector, wk: Vector, wo: Vector
) -> Sequence_:
    """softmax(S) U, S_ij = w_o^T tanh(W_q h_i + W_k u_j) (Bahdanau et al. 2014)."""
    out = []
    for query in queries:
        scores = []
        for key in keys:
            hidden = activation("tanh", affine(wq, query) + affine(wk, key))
            scores.append(float(affine(wo, hidden)[0]))
        out.append(sum((share * v for share, v in zip(softmax(scores), values, strict=True)), np.zeros(len(values[0]))))
    return out


def gate(xs: Sequence_, ys: Sequence_, w: Vector, b: Vector) -> Sequence_:
    """i * h + f * l(h), [i; f] = sigmoid(W [h; l(h)] + b) (Zhang 2018, equations 2 and 3)."""
    out = []
    for x, y in zip(xs, ys, strict=True):
        both = affine(w, np.concatenate([x, y]), b)
        d = len(x)
        out.append(np.array([sigmoid(both[k]) * x[k] + sigmoid(both[d + k]) * y[k] for k in range(d)]))
    return out


def highway(xs: Sequence_, ys: Sequence_, w: Vector, b: Vector) -> Sequence_:
    """s * h + (1 - s) * l(h), s = sigmoid(W h + b) (readings of the 2018 code)."""
    out = []
    for x, y in zip(xs, ys, strict=True):
        a = affine(w, x, b)
        out.append(np.array([sigmoid(a[k]) * x[k] + (1 - sigmoid(a[k])) * y[k] for k in range(len(x))]))
    return out


def add(*bodies: Sequence_) -> Sequence_:
    """The sum of the bodies' outputs, position by position."""
    return [sum(hs[1:], hs[0]) for hs in zip(*bodies, strict=True)]


def concat(*bodies: Sequence_) -> Sequence_:
    """The bodies' outputs side by side."""
    return [np.concatenate(hs) for hs in zip(*bodies, strict=True)]


def take(xs: Sequence_, start: int, width: int) -> Sequence_:
    """Some of the numbers of each state."""
    return [np.array([h[start + k] for k in range(width)]) for h in xs]


def reverse(xs: Sequence_, body: Callable[[Sequence_], Sequence_]) -> Sequence_:
    """The body over the sentence backwards, turned round again."""
    return list(reversed(body(list(reversed(xs)))))


def feed(xs: Sequence_, body: Callable[[Sequence_], Sequence_], width: int) -> Sequence_:
    """y_t = l([y_{t-1}; x_t]), y_0 = 0 (Luong 2015, 3.3). The body maps the whole sequence so far; its last output counts."""
    seen: Sequence_ = []
    y = np.zeros(width)
    out = []
    for x in xs:
        seen.append(np.concatenate([y, x]))
        y = body(seen)[-1]
        out.append(y)
    return out


def scan(factors: Sequence_, bs: Sequence_, h: Vector) -> Sequence_:
    """h_t = a_t h_{t-1} + b_t, element by element."""
    out = []
    for a, b in zip(factors, bs, strict=True):
        h = np.array([a[k] * h[k] + b[k] for k in range(len(h))])
        out.append(h)
    return out


def average(xs: Sequence_) -> Sequence_:
    """1/j sum_{k <= j} y_k (Zhang 2018, equation 1, FFN aside)."""
    out = []
    for j in range(1, len(xs) + 1):
        total = np.zeros(len(xs[0]))
        for k in range(1, j + 1):
            total = total + xs[k - 1]
        out.append(total / j)
    return out


def ssru(xs: Sequence_, w: Vector, wf: Vector, bf: Vector) -> Sequence_:
    """f_t = sig(W_f x_t + b_f), c_t = f_t c_{t-1} + (1 - f_t) W x_t, max(0, c_t) (Kim et al. 2019)."""
    c, out = np.zeros(len(w)), []
    for x in xs:
        f, new = [sigmoid(a) for a in affine(wf, x, bf)], affine(w, x)
        c = np.array([f[k] * c[k] + (1 - f[k]) * new[k] for k in range(len(c))])
        out.append(activation("relu", c))
    return out


def hard_coded(
    values: Sequence_, offsets: Sequence[int], weight: Callable[[int], float], causal: bool, renorm: bool = False
) -> Sequence_:
    """sum_j w(j - i - o) v_j per head, over every j there is, up to i where causal (You 2020, equation 2 and footnote 5)."""
    d, out = len(values[0]) // len(offsets), []
    for i in range(len(values)):
        contexts = []
        for head, offset in enumerate(offsets):
            seen = range(i + 1) if causal else range(len(values))
            shares = _shares([weight(j - i - offset) for j in seen], renorm)
            context = np.zeros(d)
            for j, share in zip(seen, shares, strict=True):
                context = context + share * values[j][head * d : (head + 1) * d]
            contexts.append(context)
        out.append(np.concatenate(contexts))
    return out


def _shares(weights: list[float], renorm: bool) -> list[float]:
    """The weights, or what makes of them a sum of one."""
    whole = sum(weights)
    return [w / whole for w in weights] if renorm and whole > 0 else weights


def density(x: float, sigma: float) -> float:
    """N(0, sigma^2) at x, and 0 from nine deviations on, which matters where what is left is made to sum to one."""
    if abs(x) >= 9 * sigma:
        return 0.0
    return math.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))


def hard_coded_source(
    count: int,
    values: Sequence_,
    offsets: Sequence[int],
    weight: Callable[[float], float],
    gamma: float,
    floor: bool,
    clamp: bool,
    renorm: bool = False,
) -> Sequence_:
    """sum_j w(j - floor(gamma i) - o) v_j per head, for i = 0 .. count - 1 (You 2020, section 3.2); nothing of x counts."""
    d, out = len(values[0]) // len(offsets), []
    for i in range(count):
        centre = gamma * i
        if clamp and centre > len(values) - 1:
            centre = len(values) - 1
        if floor:
            centre = math.floor(centre)
        contexts = []
        for head, offset in enumerate(offsets):
            shares = _shares([weight(j - centre - offset) for j in range(len(values))], renorm)
            context = np.zeros(d)
            for j in range(len(values)):
                context = context + shares[j] * values[j][head * d : (head + 1) * d]
            contexts.append(context)
        out.append(np.concatenate(contexts))
    return out
