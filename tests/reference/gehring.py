"""Whole models of Gehring 2017 from embeddings on: one sentence, loops from sections 2 and 3, weights in the order of the text."""

from collections.abc import Callable

import naive
import numpy as np
from naive import Sequence_, Vector
from torch import nn

Encoder = Callable[["Weights", Sequence_], tuple[Sequence_, Sequence_]]
"""From embeddings to what scores are computed from, z, and what the conditional input is a sum of."""


class Weights:
    """The parameters of a side, one after the other; all of them have to be used."""

    def __init__(self, side: nn.Module):
        self.left = [p.detach().numpy() for p in side.parameters()]

    def __call__(self, count: int = 1) -> list[Vector]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def lstm(xs: Sequence_, weights: Weights) -> Sequence_:
    """No biases, zeros at first."""
    w, u = weights(2)
    d = u.shape[1]
    return naive.lstm(xs, w, u, np.zeros(4 * d), 0.0, np.zeros(d), np.zeros(d))[0]


def positions(e: Sequence_, weights: Weights) -> Sequence_:
    """e_j = w_j + l_j (section 3.1)."""
    (table,) = weights()
    return [w + table[j] for j, w in enumerate(e)]


def with_positions(encoder: Encoder) -> Encoder:
    return lambda weights, e: encoder(weights, positions(e, weights))


def uni(weights: Weights, e: Sequence_) -> tuple[Sequence_, Sequence_]:
    z = naive.linear(lstm(e, weights), *weights())
    return z, z


def column(e: Sequence_, weights: Weights, layers: int) -> Sequence_:
    """The output of each layer is reversed before it is fed into the next (section 2)."""
    for layer in range(layers):
        e = lstm(e if layer == 0 else e[::-1], weights)
    return e


def bilstm(layers: int) -> Encoder:
    def run(weights: Weights, e: Sequence_) -> tuple[Sequence_, Sequence_]:
        first, second = column(e, weights, layers), column(e[::-1], weights, layers)
        if layers % 2:
            second = second[::-1]
        else:
            first = first[::-1]
        z = naive.linear(naive.concat(first, second), *weights())
        return z, z

    return run


def pooling(weights: Weights, e: Sequence_) -> tuple[Sequence_, Sequence_]:
    return naive.pool(e, 5, causal=False), e


def stack(xs: Sequence_, weights: Weights, layers: int, residual: bool = True) -> Sequence_:
    """tanh(conv(x) + x), behind the last convolution tanh alone (section 3.2 and the released code)."""
    for layer in range(layers):
        ys = naive.cnn(xs, *weights(2), "id", 1, causal=False)
        if residual and layer < layers - 1:
            ys = naive.add(ys, xs)
        xs = [naive.activation("tanh", y) for y in ys]
    return xs


def cnn_a(e: Sequence_, weights: Weights, layers: int, residual: bool = True) -> Sequence_:
    wide = naive.linear(e, *weights(2))
    return naive.linear(stack(wide, weights, layers, residual), *weights(2))


def convolutional(n: int, m: int, residual: bool = True) -> Encoder:
    """CNN-a and CNN-c."""
    return lambda weights, e: (cnn_a(e, weights, n, residual), stack(e, weights, m, residual))


def without_c(n: int) -> Encoder:
    return lambda weights, e: (cnn_a(e, weights, n), e)


def shared(n: int) -> Encoder:
    def run(weights: Weights, e: Sequence_) -> tuple[Sequence_, Sequence_]:
        z = cnn_a(e, weights, n)
        return z, z

    return run


def conditional(gs: Sequence_, z: Sequence_, values: Sequence_, weights: Weights) -> Sequence_:
    """d_i = W_d h_i + b_d + g_i with the state of the step before, c_i by its scores, the LSTM over [g_i; c_i] (section 2)."""
    w_d, b_d, w, u = weights(4)
    h, c = np.zeros(u.shape[1]), np.zeros(u.shape[1])
    out = []
    for g in gs:
        d = naive.affine(w_d, h, b_d) + g
        scores = [sum(d[k] * z_j[k] for k in range(len(d))) for z_j in z]
        context = np.zeros(len(values[0]))
        for share, value in zip(naive.softmax(scores), values, strict=True):
            context = context + share * value
        _, (h, c) = naive.lstm([np.concatenate([g, context])], w, u, np.zeros(4 * len(h)), 0.0, h, c)
        out.append(h)
    return out


def decoder(gs: Sequence_, z: Sequence_, values: Sequence_, weights: Weights, layers: int) -> Sequence_:
    """Further layers are LSTMs on top; a linear layer goes back to the width of embeddings where it is another one."""
    hs = conditional(gs, z, values, weights)
    for _ in range(layers - 1):
        hs = lstm(hs, weights)
    return naive.linear(hs, *weights(2)) if len(hs[0]) != len(gs[0]) else hs
