"""Layers of the years after the papers, written as `naive` writes them: from the equations of their papers, one loop each."""

import math
from collections.abc import Callable

import numpy as np
from naive import Sequence_, Vector, sigmoid, softmax
from naive import affine as naive_affine


def rms_norm(xs: Sequence_, gain: Vector | None, eps: float, groups: int = 1) -> Sequence_:
    """a_i / RMS(a) g_i, RMS(a) = sqrt(1/n sum a_i^2) (Zhang and Sennrich 2019, equation 4), in each group of the width."""
    out = []
    for h in xs:
        n = len(h) // groups
        y = np.zeros(len(h))
        for i in range(len(h)):
            group = h[i // n * n : i // n * n + n]
            y[i] = h[i] / math.sqrt(sum(a * a for a in group) / n + eps)
        out.append(y if gain is None else np.array([y[i] * gain[i] for i in range(len(h))]))
    return out


def mul(*bodies: Sequence_) -> Sequence_:
    """The product of all bodies, number by number."""
    out = []
    for hs in zip(*bodies, strict=True):
        y = np.ones(len(hs[0]))
        for h in hs:
            y = np.array([y[i] * h[i] for i in range(len(y))])
        out.append(y)
    return out


def pointwise(name: str, h: Vector) -> Vector:
    """Hendrycks and Gimpel 2016, section 2; Ramachandran et al. 2017; So et al. 2021."""
    functions = {
        "gelu_tanh": lambda a: 0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
        "silu": lambda a: a * sigmoid(a),
        "relu2": lambda a: a * a if a > 0 else 0.0,
    }
    return np.array([functions[name](a) for a in h])


def rotated(x: Vector, t: int, base: float) -> Vector:
    """The pairs (x_i, x_{i + k/2}) turned by t base^(-2i/k) (Su et al. 2021, equation 34)."""
    k, y = len(x), np.zeros(len(x))
    for i in range(k // 2):
        angle = t * base ** (-2 * i / k)
        a, b = x[i], x[i + k // 2]
        y[i] = a * math.cos(angle) - b * math.sin(angle)
        y[i + k // 2] = a * math.sin(angle) + b * math.cos(angle)
    return y


def t5_bucket(distance: int, buckets: int, reach: int, both: bool) -> int:
    """The bucket of key - query (Raffel et al. 2020, section 2.1, and its released code)."""
    first = 0
    if both:
        buckets //= 2
        if distance > 0:
            first = buckets
        away = abs(distance)
    else:
        away = max(0, -distance)
    exact = buckets // 2
    if away < exact:
        return first + away
    far = exact + int(math.log(away / exact) / math.log(reach / exact) * (buckets - exact))
    return first + min(far, buckets - 1)


class Attention:
    """Self-attention with everything that its paper's successors changed; the attributes say what, None where nothing."""

    heads: int
    shared: int
    s: float | None = None
    causal = False
    window: int | None = None
    base: float | None = None
    q_gain: Vector | None = None
    k_gain: Vector | None = None
    alibi = False
    table: Vector | None = None
    reach = 0
    a_keys: Vector | None = None
    a_values: Vector | None = None
    before: Vector | None = None
    after: Vector | None = None

    def head(self, x: Vector, h: int, k: int, t: int, gain: Vector | None) -> Vector:
        part = x[h * k : h * k + k]
        if gain is not None:
            part = rms_norm([part], gain, 1e-6)[0]
        return part if self.base is None else rotated(part, t, self.base)

    def seen(self, t: int, length: int) -> list[int]:
        """The positions that position t looks at."""
        first = 0 if self.window is None else max(0, t - self.window)
        last = length - 1 if self.window is None else min(length - 1, t + self.window)
        return list(range(first, (t if self.causal else last) + 1))

    def clipped(self, distance: int) -> int:
        """The row of a distance in Shaw's tables."""
        return max(-self.reach, min(0 if self.causal else self.reach, distance)) + self.reach

    def score(self, q: Vector, key: Vector, h: int, distance: int) -> float:
        scale = math.sqrt(len(q) if self.s is None else self.s)
        if self.a_keys is not None:
            key = key + self.a_keys[self.clipped(distance)]
        score = sum(q[i] * key[i] for i in range(len(q))) / scale
        if self.alibi:
            score -= 2 ** (-8 * (h + 1) / self.heads) * abs(distance)
        if self.table is not None:
            score += self.table[t5_bucket(distance, len(self.table), self.reach, not self.causal)][h]
        return float(score)

    def __call__(self, qs: Sequence_, ks: Sequence_, vs: Sequence_) -> Sequence_:
        out, k, each = [], len(qs[0]) // self.heads, self.heads // self.shared
        for t in range(len(qs)):
            seen = self.seen(t, len(qs))
            scores = np.zeros((self.heads, len(seen)))
            for h in range(self.heads):
                q = self.head(qs[t], h, k, t, self.q_gain)
                for j, s in enumerate(seen):
                    scores[h][j] = self.score(q, self.head(ks[s], h // each, k, s, self.k_gain), h, s - t)
            weights = self.mixed(self.after, np.array([softmax(list(row)) for row in self.mixed(self.before, scores)]))
            contexts = []
            for h in range(self.heads):
                context = np.zeros(k)
                for j, s in enumerate(seen):
                    value = vs[s][h // each * k : h // each * k + k]
                    if self.a_values is not None:
                        value = value + self.a_values[self.clipped(s - t)]
                    context = context + weights[h][j] * value
                contexts.append(context)
            out.append(np.concatenate(contexts))
        return out

    def mixed(self, matrix: Vector | None, rows: Vector) -> Vector:
        """sum_h' M[h, h'] row_h' (Shazeer et al. 2020, equations 3 and 4)."""
        if matrix is None:
            return rows
        return np.array([sum(matrix[h][g] * rows[g] for g in range(self.heads)) for h in range(self.heads)])


def matrix_scan(
    qs: Sequence_, ks: Sequence_, vs: Sequence_, decays: Sequence_, betas: list[float] | None = None
) -> Sequence_:
    """One head: S_t = D_t S_{t-1} + k_t v_t^T, y_t = S_t^T q_t; the delta rule with betas, S_t = D_t (I - b k k^T) S + b k v^T.

    D_t is diagonal: one number of `decays` for each channel of the keys (Yang et al. 2023, equation 3; 2024, equation 10).
    """
    k, v = len(ks[0]), len(vs[0])
    s, out = np.zeros((k, v)), []
    for t in range(len(qs)):
        new = np.zeros((k, v))
        for i in range(k):
            for j in range(v):
                old = s[i][j]
                if betas is not None:
                    old -= betas[t] * ks[t][i] * sum(ks[t][m] * s[m][j] for m in range(k))
                new[i][j] = decays[t][i] * old + (1.0 if betas is None else betas[t]) * ks[t][i] * vs[t][j]
        s = new
        out.append(np.array([sum(s[i][j] * qs[t][i] for i in range(k)) for j in range(v)]))
    return out


def weighted_mean(qs: Sequence_, ks: Sequence_, vs: Sequence_) -> Sequence_:
    """sum_s (q_t . k_s) v_s / sum_s q_t . k_s over s up to t (Katharopoulos et al. 2020, equation 8), as attention."""
    out = []
    for t, q in enumerate(qs):
        weights = [sum(q[i] * ks[s][i] for i in range(len(q))) for s in range(t + 1)]
        out.append(sum((w * vs[s] for s, w in enumerate(weights)), np.zeros(len(vs[0]))) / sum(weights))
    return out


def gated_scan(factors: Sequence_, terms: Sequence_) -> Sequence_:
    """h_t = a_t h_{t-1} + b_t."""
    h, out = np.zeros(len(terms[0])), []
    for a, b in zip(factors, terms, strict=True):
        h = np.array([a[i] * h[i] + b[i] for i in range(len(h))])
        out.append(h)
    return out


def softplus(a: float) -> float:
    return math.log1p(math.exp(a))


def light_cnn(xs: Sequence_, weights: list[Vector], heads: int, causal: bool) -> Sequence_:
    """sum_j w_t,h,j x_{t - floor(k/2) + j}, channel by channel (Wu et al. 2019, equations 3 to 5); weights: [heads, k]."""
    out, width = [], len(xs[0])
    for t in range(len(xs)):
        kernel, y = weights[t].shape[1], np.zeros(width)
        for c in range(width):
            for j in range(kernel):
                at = t + j - (kernel - 1 if causal else kernel // 2)
                if 0 <= at < len(xs):
                    y[c] += weights[t][c * heads // width][j] * xs[at][c]
        out.append(y)
    return out


def normalised_sum(a: Vector, gain: Vector) -> Vector:
    """Ba et al. 2016, equation 3, without the bias."""
    mean = sum(a) / len(a)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in a) / len(a) + 1e-6)
    return np.array([gain[i] * (a[i] - mean) / deviation for i in range(len(a))])


class Cell:
    """A recurrent cell with what its successors put inside; None where nothing. `mask` multiplies the state before U."""

    w: Vector
    u: Vector
    b: Vector
    g: Vector | None = None
    g_state: Vector | None = None
    g_cell: Vector | None = None
    b_cell: Vector | None = None
    mask: Vector | None = None
    forget = 0.0

    def sums(self, x: Vector, h: Vector, kind: str) -> tuple[Vector, Vector]:
        """What W and U say, apart."""
        masked = h if self.mask is None else np.array([self.mask[i] * h[i] for i in range(len(h))])
        a, p = naive_affine(self.w, x), naive_affine(self.u, masked)
        if self.g is None or kind == "tanh":
            return a, p
        assert self.g_state is not None
        if kind == "lstm":
            return normalised_sum(a, self.g), normalised_sum(p, self.g_state)
        n = 2 * len(h)
        parts = [
            [normalised_sum(v[:n], g[:n]), normalised_sum(v[n:], g[n:])] for v, g in ((a, self.g), (p, self.g_state))
        ]
        return np.concatenate(parts[0]), np.concatenate(parts[1])

    def lstm(self, xs: Sequence_, h: Vector, c: Vector) -> Sequence_:
        """Ba et al. 2016, appendix."""
        d, out = len(h), []
        for x in xs:
            a, p = self.sums(x, h, "lstm")
            z = [a[k] + p[k] + self.b[k] for k in range(4 * d)]
            c = np.array(
                [sigmoid(z[d + k] + self.forget) * c[k] + sigmoid(z[k]) * math.tanh(z[2 * d + k]) for k in range(d)]
            )
            seen = c if self.g_cell is None else normalised_sum(c, self.g_cell)
            if self.b_cell is not None:
                seen = seen + self.b_cell
            h = np.array([sigmoid(z[3 * d + k]) * math.tanh(seen[k]) for k in range(d)])
            out.append(h)
        return out

    def gru(self, xs: Sequence_, h: Vector) -> Sequence_:
        """Ba et al. 2016, appendix; the gates in the order r, z."""
        d, out = len(h), []
        for x in xs:
            a, p = self.sums(x, h, "gru")
            a, new = a + self.b, np.zeros(d)
            for k in range(d):
                r, z = sigmoid(a[k] + p[k]), sigmoid(a[d + k] + p[d + k])
                new[k] = (1 - z) * math.tanh(a[2 * d + k] + r * p[2 * d + k]) + z * h[k]
            h = new
            out.append(h)
        return out

    def tanh(self, xs: Sequence_, h: Vector) -> Sequence_:
        """Ba et al. 2016, equation 4."""
        out = []
        for x in xs:
            a, p = self.sums(x, h, "tanh")
            z = a + p if self.g is None else normalised_sum(a + p, self.g)
            h = np.array([math.tanh(z[k] + self.b[k]) for k in range(len(h))])
            out.append(h)
        return out


def gates(scores: Vector, top: int, renorm: bool) -> Vector:
    """Shazeer et al. 2017, equations 3 and 5 without noise; not `renorm`: Fedus et al. 2021, equation 2."""
    order = sorted(range(len(scores)), key=lambda e: -scores[e])[:top]
    whole = softmax(np.array([scores[e] for e in order])) if renorm else softmax(np.array(scores))
    g = np.zeros(len(scores))
    for k, e in enumerate(order):
        g[e] = whole[k] if renorm else whole[e]
    return g


def mixture(
    xs: Sequence_, router: Vector, expert: Callable[[int, Vector], Vector], top: int, renorm: bool
) -> Sequence_:
    """Shazeer et al. 2017, equation 1: only what was chosen is computed."""
    out = []
    for x in xs:
        g = gates(naive_affine(router, x), top, renorm)
        terms = [g[e] * expert(e, x) for e in range(len(g)) if g[e]]
        y = np.zeros(len(terms[0]))
        for term in terms:
            y = y + term
        out.append(y)
    return out
