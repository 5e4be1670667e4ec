"""The layers of the research code: their arguments in order, and their translations into the language."""

from collections.abc import Callable
from dataclasses import dataclass

from calque.adl.acl18.strings import StringLayer
from calque.adl.acl18.terms import Value, call, word
from calque.adl.syntax import Term
from calque.ground.diagnostics import Span

WHOLE, RATE, NUMBER, FLAG, ANY = "a whole number", "a number from 0 to 1", "a number", "`True` or `False`", "a value"
D, P, E, M = (
    "D",
    "P",
    "E",
    "M",
)  # defaults: the width, the dropout rate, the width of the embeddings, the longest sentence


@dataclass(frozen=True)
class DialectParameter:
    """An argument of a layer: its kind or its words, its default, and whether it is ignored."""

    name: str
    takes: str | tuple[str, ...]
    default: object
    ignored: bool = False


def _parameters(*rows: tuple[str, str | tuple[str, ...], object]) -> tuple[DialectParameter, ...]:
    return tuple(DialectParameter(*row) for row in rows)


ACTS = ("relu", "sigmoid", "tanh", "softrelu")
NAMED = {"gelu": "gelu_tanh", "swish1": "silu"}
"""Activations with another name here; that code approximates `gelu` with tanh."""
CELLS = ("lstm", "lnlstm", "lnglstm", "gru", "lngru", "lnggru", "simple")
_ATTENTION = _parameters(
    ("heads", WHOLE, 8),
    ("dropout", RATE, P),
    ("dropout_attention", RATE, None),
    ("num_hidden", WHOLE, D),
    ("att_num_hidden", WHOLE, None),
)
_IGNORED = "norm_source factors project_q project_kv project_out gated_heads heads_default_value head_dropout"
_CELL = _parameters(
    ("num_hidden", WHOLE, D),
    ("cell_type", CELLS, "lstm"),
    ("dropout_inputs", RATE, 0),
    ("dropout_states", RATE, 0),
    ("dropout_recurrent", RATE, 0),
)
_NORM_STATES = DialectParameter("norm_states", FLAG, None, ignored=True)
_FORGET = DialectParameter("forget_bias", NUMBER, 0)

SIGNATURES: dict[str, tuple[DialectParameter, ...]] = {
    "ff": _parameters(
        ("num_hidden", WHOLE, D), ("dropout", RATE, P), ("act_type", (*ACTS, "gelu", "swish1", "none", "glu"), "relu")
    ),
    "linear": _parameters(("num_hidden", WHOLE, D), ("dropout", RATE, P), ("no_bias", FLAG, False)),
    "act": _parameters(("act_type", ACTS, "relu")),
    "id": (),
    "norm": (),
    "dropout": _parameters(("dropout", RATE, P)),
    "pos": _parameters(("num_embed", WHOLE, E), ("dropout", RATE, P), ("scale_inputs", FLAG, True)),
    "learn_pos": _parameters(("num_embed", WHOLE, E), ("dropout", RATE, P), ("max_seq_len", WHOLE, M)),
    "mh_dot_att": (*_ATTENTION, *(DialectParameter(name, ANY, None, ignored=True) for name in _IGNORED.split())),
    "mh_dot_self_att": _ATTENTION,
    "cnn": _parameters(
        ("num_hidden", WHOLE, D),
        ("kernel_width", WHOLE, 3),
        ("act_type", ("glu", *ACTS), "glu"),
        ("dropout", RATE, P),
        ("dilate", WHOLE, 1),
        ("stride", WHOLE, 1),
        ("prefix", ANY, None),
    ),
    "rnn": (
        *_CELL,
        _NORM_STATES,
        DialectParameter("norm_first_step", FLAG, None, ignored=True),
        _FORGET,
        DialectParameter("chrono_init", FLAG, None, ignored=True),
    ),
    "birnn": (*_CELL, _NORM_STATES, _FORGET),
}
# Layers of the research code that the language does not have, and names of its grammar that its code does not have.
MISSING = ("qrnn", "pool")
NEVER = ("parallel", "parallel_add", "subsample")


@dataclass(frozen=True)
class BoundLayer:
    """A layer with the value of each argument. `width` is its input width, `embedding` the width where none is written.

    `refuse` records an argument without a counterpart, `remark` an argument whose meaning differs a little.
    """

    layer: StringLayer
    values: dict[str, Value]
    width: int
    embedding: int
    refuse: Callable[[Span, str], None]
    remark: Callable[[Span, str, str], None]
    fits: Callable[[Span, str, int, int], None]

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def whole(self, name: str) -> int:
        """The value of an argument that is a whole number; 0 for another."""
        number = self.values[name].number
        return number if isinstance(number, int) else 0

    def drop(self) -> tuple[Term, ...]:
        """The dropout after the layer."""
        return dropout(self["dropout"], self.layer.span)

    def sized(self, name: str, value: int, span: Span) -> dict[str, Value]:
        """A width as an argument; none where it is the default."""
        return {} if value == self.embedding else {name: Value(value, span)}


Terms = tuple[Term, ...]


def dropout(rate: Value, span: Span) -> Terms:
    """`dropout`, or nothing at a rate of zero."""
    if rate.zero:
        return ()
    return (call("dropout", span, *([] if rate.default else [rate])),)


def activation(name: str, span: Span, bound: BoundLayer) -> Terms:
    """The activation, where the language has it."""
    if name == "none":
        return ()
    if name == "softrelu":
        bound.refuse(span, "the activation `softrelu`")
        return ()
    return (call("act", span, word(NAMED.get(name, name), span)),)


def _ff(b: BoundLayer) -> tuple[Terms, int]:
    n, act, span = b.whole("num_hidden"), b["act_type"], b.layer.span
    if act.word == "relu":
        rate = {} if b["dropout"].default else {"dropout": b["dropout"].clipped()}
        return (call("ff", span, *b.sized("n", n, b["num_hidden"].span).values(), **rate),), n
    wide = 2 * n if act.word == "glu" else n
    linear = call("linear", span, *b.sized("width", wide, b["num_hidden"].span).values())
    return (linear, *activation(act.word, act.span, b), *b.drop()), n


def _linear(b: BoundLayer) -> tuple[Terms, int]:
    n, span = b.whole("num_hidden"), b.layer.span
    bias = {"bias": word("no", b["no_bias"].span)} if b["no_bias"].word == "True" else {}
    return (call("linear", span, *b.sized("width", n, b["num_hidden"].span).values(), **bias), *b.drop()), n


def _act(b: BoundLayer) -> tuple[Terms, int]:
    return activation(b["act_type"].word, b["act_type"].span, b), b.width


def _plain(b: BoundLayer) -> tuple[Terms, int]:
    return (call(b.layer.name, b.layer.span),), b.width


def _dropout(b: BoundLayer) -> tuple[Terms, int]:
    return b.drop() or (call("id", b.layer.span),), b.width


def _pos(b: BoundLayer) -> tuple[Terms, int]:
    b.fits(b["num_embed"].span, "pos", b.whole("num_embed"), b.width)
    rate = [] if b["dropout"].default else [b["dropout"].clipped()]
    terms: Terms = (call("pos", b.layer.span, *rate),)
    if b["scale_inputs"].word == "False":  # there h + p / sqrt(E)
        span = b["scale_inputs"].span
        terms += (call("scale", span, Value(max(1, b.whole("num_embed")) ** -0.5, span)),)
    return terms, b.width


def _learn_pos(b: BoundLayer) -> tuple[Terms, int]:
    b.fits(b["num_embed"].span, "learn_pos", b.whole("num_embed"), b.width)
    return (call("learn_pos", b.layer.span, b["max_seq_len"]), *b.drop()), b.width


def _attention(b: BoundLayer) -> tuple[Terms, int]:
    n, span = b.whole("num_hidden"), b.layer.span
    inner = n if b["att_num_hidden"].missing else b.whole("att_num_hidden")
    rate = b["dropout"] if b["dropout_attention"].missing else b["dropout_attention"]
    args = {"heads": b["heads"]} if b["heads"].number != 8 else {}
    args |= b.sized("width", inner, b["num_hidden" if b["att_num_hidden"].missing else "att_num_hidden"].span)
    weights = {} if rate.zero else {"dropout": word("p", rate.span) if rate.default else rate}
    name = "mh_dot_self_att" if b.layer.name == "mh_dot_self_att" else "mh_dot_src_att"
    if inner == n:
        return (call(name, span, **args, **weights), *b.drop()), n
    out = call("linear", span, **b.sized("width", n, b["num_hidden"].span), bias=word("no", span))
    return (call(name, span, **args, out=word("no", span), **weights), out, *b.drop()), n


def _cnn(b: BoundLayer) -> tuple[Terms, int]:
    n, act, span = b.whole("num_hidden"), b["act_type"], b.layer.span
    b.fits(b["num_hidden"].span, "cnn", n, b.width)
    if b["stride"].number != 1:
        b.refuse(b["stride"].span, "`stride`")
    plain = act.word in ("relu", "glu", "tanh")
    args = {"kernel": b["kernel_width"]} if b["kernel_width"].number != 3 else {}
    args |= b.sized("width", n, b["num_hidden"].span)
    args |= {"dilation": b["dilate"]} if b["dilate"].number != 1 else {}
    cnn = call("cnn", span, word(act.word if plain else "id", act.span), **args)
    return (cnn, *(() if plain else activation(act.word, act.span, b)), *b.drop()), n


def _rnn(b: BoundLayer) -> tuple[Terms, int]:
    n, cell = b.whole("num_hidden"), b["cell_type"]
    for name in ("dropout_inputs", "dropout_states", "dropout_recurrent"):
        if not b[name].zero:
            b.refuse(b[name].span, f"`{name}`")
    if cell.word not in ("lstm", "gru"):
        b.refuse(cell.span, f"the cell `{cell.word}`")
        cell = Value("lstm", cell.span)
    if cell.word == "gru":
        b.remark(cell.span, "gru", "without the second bias, which the reset gate multiplies there")
    args = b.sized("width", n, b["num_hidden"].span)
    args |= {"cell": cell} if cell.word != "lstm" else {}
    args |= {"forget": b["forget_bias"]} if not b["forget_bias"].zero else {}
    return (call(b.layer.name, b.layer.span, **args),), n


TRANSLATIONS: dict[str, Callable[[BoundLayer], tuple[Terms, int]]] = {
    "ff": _ff,
    "linear": _linear,
    "act": _act,
    "id": _plain,
    "norm": _plain,
    "dropout": _dropout,
    "pos": _pos,
    "learn_pos": _learn_pos,
    "mh_dot_att": _attention,
    "mh_dot_self_att": _attention,
    "cnn": _cnn,
    "rnn": _rnn,
    "birnn": _rnn,
}
