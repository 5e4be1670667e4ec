"""Marian's network, one loop per equation, in numpy and float64: read from the description of its tensors, not from Calque.

`Names` hands out the tensors of a file by the names that Marian gives them, and remembers which were used; without a file it draws
them, so that this program alone says what a file holds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class Names:
    """Tensors by name."""

    def __init__(self, given: Mapping[str, Any] | None = None, seed: int = 0):
        self.given, self.draw = given, np.random.default_rng(seed)
        self.used: dict[str, Array] = {}

    def __call__(self, name: str, *shape: int) -> Array:
        if name not in self.used:
            if self.given is None:
                spread = 0.3 if shape[0] == 1 else shape[0] ** -0.5
                found = self.draw.normal(1.0 * ("scale" in name), spread, shape).astype(np.float32)
            else:
                found = self.given[name]
            assert found.shape == shape, (name, found.shape, shape)
            self.used[name] = found.astype(np.float64)
        return self.used[name]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


class Network:
    """`config`: the settings inside the file."""

    def __init__(self, names: Names, config: Mapping[str, Any]):
        self.at, self.config, self.d = names, config, int(config["dim-emb"])

    def logits(self, source: list[int], words: list[int]) -> Array:
        """Of every position, the last one behind all words; `source` with the end symbol."""
        sizes = self.config["dim-vocabs"]
        tied = self.config["tied-embeddings-all"]
        one = self.at("Wemb" if tied else "encoder_Wemb", sizes[0], self.d)
        two = one if tied else self.at("decoder_Wemb", sizes[1], self.d)
        memory = self.side("encoder", one[source], None)
        y = self.side("decoder", np.concatenate([np.zeros((1, self.d)), two[words].reshape(-1, self.d)]), memory)
        name = "decoder_ff_logit_out"
        out = two if tied or self.config["tied-embeddings"] else self.at(f"{name}_Wt", sizes[1], self.d)
        return y @ out.T + self.at(f"{name}_b", 1, sizes[1])

    def side(self, name: str, x: Array, memory: Array | None) -> Array:
        half = self.d // 2
        if not self.config.get("transformer-disable-position-embeddings"):
            x = np.sqrt(self.d) * x
            for t in range(len(x)):
                for i in range(half):
                    angle = t * 10000.0 ** (-i / (half - 1))
                    x[t, i] += np.sin(angle)
                    x[t, half + i] += np.cos(angle)
        x = self.steps(f"{name}_emb", self.config["transformer-postprocess-emb"], x, x, "_pre")
        for layer in range(1, self.config["enc-depth" if name == "encoder" else "dec-depth"] + 1):
            before = f"{name}_l{layer}"
            if name == "decoder" and self.config["transformer-decoder-autoreg"] == "rnn":
                x = self.recurrent(f"{before}_rnn", x)
            else:
                x = self.attention(f"{before}_self", x, None, name == "decoder")
            if memory is not None:
                x = self.attention(f"{before}_context", x, memory, False)
            x = self.feed_forward(f"{before}_ffn", x, name)
        return self.steps(f"{name}_top", self.config["transformer-postprocess-top"], x, x, "")

    def steps(self, name: str, letters: str, x: Array, before: Array, suffix: str) -> Array:
        for letter in letters:
            if letter == "a":
                x = x + before
            elif letter == "n":
                mean = x.mean(-1, keepdims=True)
                x = (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)
                x = x * self.at(f"{name}_ln_scale{suffix}", 1, self.d) + self.at(f"{name}_ln_bias{suffix}", 1, self.d)
            elif letter == "r":
                x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * self.at(f"{name}_rms_scale{suffix}", 1, self.d)
        return x

    def affine(self, name: str, suffix: str, x: Array, out: int) -> Array:
        return x @ self.at(f"{name}_W{suffix}", x.shape[-1], out) + self.at(f"{name}_b{suffix}", 1, out)

    def attention(self, name: str, x: Array, memory: Array | None, causal: bool) -> Array:
        inner = self.steps(f"{name}_Wo", self.config["transformer-preprocess"], x, x, "_pre")
        keys = inner if memory is None else memory
        q, k, v = (self.affine(name, letter, of, self.d) for letter, of in (("q", inner), ("k", keys), ("v", keys)))
        heads = self.config["transformer-heads"]
        width = self.d // heads
        context = np.zeros_like(q)
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[:, part] @ k[:, part].T / np.sqrt(width)
            if causal:
                scores = np.where(np.tri(len(scores), dtype=bool), scores, -1e9)
            context[:, part] = softmax(scores) @ v[:, part]
        y = self.affine(name, "o", context, self.d)
        return self.steps(f"{name}_Wo", self.config["transformer-postprocess"], y, x, "")

    def recurrent(self, name: str, x: Array) -> Array:
        inner = self.steps(name, self.config["transformer-preprocess"], x, x, "_pre")
        new, forget = inner @ self.at(f"{name}_W", self.d, self.d), sigmoid(self.affine(name, "f", inner, self.d))
        c, y = np.zeros(self.d), np.zeros_like(x)
        for t in range(len(x)):
            c = forget[t] * c + (1 - forget[t]) * new[t]
            y[t] = np.maximum(c, 0)
        if self.config.get("transformer-rnn-projection"):
            y = self.affine(name, "o", y, self.d)
        return self.steps(f"{name}_ffn", self.config["transformer-postprocess"], y, x, "")

    def feed_forward(self, name: str, x: Array, side: str) -> Array:
        inner = self.steps(f"{name}_ffn", self.config["transformer-preprocess"], x, x, "_pre")
        n = self.config["transformer-dim-ffn"]
        if side == "decoder":
            n = self.config.get("transformer-decoder-dim-ffn", 0) or n
        z = self.affine(name, "1", inner, n)
        act = self.config["transformer-ffn-activation"]
        z = np.maximum(z, 0) if act == "relu" else z * sigmoid(z) if act == "swish" else sigmoid(z)
        return self.steps(
            f"{name}_ffn", self.config["transformer-postprocess"], self.affine(name, "2", z, self.d), x, ""
        )
