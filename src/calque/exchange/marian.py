"""Marian's own format: names of tensors, settings and vocabularies, as its reader and its writer share them.

A model is a file of numpy, `model.npz`. Its matrices are [in, out], its vectors [1, d]; the settings, a text of YAML, are the bytes
of one more array. Marian (marian-dev, src/models/transformer.h) computes

    embeddings   sqrt(d) E[w] + sinusoids from position 0 whose slowest rate is 1/10000; for the first target word, zeros
                 stand in the place of E[w]
    blocks       norm(x + f(x)), or x + f(norm(x)) with a norm behind the last one; the epsilon of norms is 1e-6
    f            attention with biases, the simplest recurrent unit, act(x W_1 + b_1) W_2 + b_2
    output       x E^T + b, or with a matrix of its own
"""

from calque.exchange.network import FEED, RECURRENT, SELF, SOURCE, Block

NAME = "Marian"
MODEL, DECODER = "model.npz", "decoder.yml"
SETTINGS = "special:model.yml"
EPSILON = 1e-6
"""Of every norm."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "sigmoid": "sigmoid"}
"""Their activations and ours. Their `gelu` is x sigmoid(1.702 x), which the language does not have."""
NORMS = {"n": "norm", "r": "rms_norm"}
"""The letters of their norms, and ours."""
_PARTS = {SELF: "self", SOURCE: "context", RECURRENT: "rnn", FEED: "ffn"}


def block_name(side: str, layer: int, kind: str) -> str:
    """What the names of a block's tensors begin with; layers count from 1."""
    return f"{side}_l{layer}_{_PARTS[kind]}"


def norm_names(name: str, rms: bool, before: bool) -> tuple[str, ...]:
    """The gain and, unless it is a root-mean-square norm, the shift of a norm; `before`: it stands before its block."""
    behind = "_pre" if before else ""
    return (f"{name}_rms_scale{behind}",) if rms else (f"{name}_ln_scale{behind}", f"{name}_ln_bias{behind}")


def norm_of(block: Block, name: str) -> str:
    """What the names of a block's norm begin with."""
    if block.kind == FEED or (block.kind == RECURRENT and not block.pre):
        return f"{name}_ffn"
    return name if block.kind == RECURRENT else f"{name}_Wo"
