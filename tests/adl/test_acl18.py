"""The strings of the 2018 research code: all that its README and its tests have are read, with that code's parameters.

The shapes are worked out below from what that code makes (`layers.py`, `convolution.py` and `rnn.py` of its branch), with two
differences that change no function: it keeps the projections of self-attention in one matrix, and gives a recurrent cell a
second bias.
"""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from adl_corpus import checked
from hypothesis import given, settings
from hypothesis import strategies as st

from calque.adl.acl18.dialect_layers import SIGNATURES
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import DIALECTS, reader, text_of
from calque.adl.normal import equal
from calque.adl.settings import parse_settings
from calque.ground.diagnostics import CalqueError, Diagnostic, Text, apply_fix, codes, message, render_all
from calque.layers.registry import builtin
from calque.workflow.api import build

GOLDEN = sorted(Path(__file__).parent.glob("acl18/*.txt"))
D, F = 16, 24
Shapes = list[tuple[int, ...]]


def read(body: str) -> CheckedDefinition:
    return check(Text("model.txt", body), builtin(), reader("acl18"))


def faults(body: str) -> list[Diagnostic]:
    try:
        return list(read(body).warnings)
    except CalqueError as error:
        return list(error.diagnostics)


def translated(body: str) -> str:
    return text_of(reader("acl18")(Text("model.txt", body)).statements)


# -- what the research code makes of a layer


def norm(d: int = D) -> Shapes:
    return [(d,), (d,)]


def dense(n: int, d: int = D) -> Shapes:
    return [(n, d), (n,)]


def self_att(d: int = D) -> Shapes:
    return [(d, d)] * 3 + [(d, d)]  # the three in one matrix, (3 * d, d)


def src_att(d: int = D, inner: int = D) -> Shapes:
    return [(inner, d)] * 3 + [(d, inner)]


def lstm(h: int, d: int = D) -> Shapes:
    return [(4 * h, d), (4 * h,), (4 * h, h)]  # and a second bias, (4 * h,)


def birnn(d: int = D) -> Shapes:
    return 2 * lstm(d // 2, d)


def cnn(out: int = D, d: int = D, k: int = 3) -> Shapes:
    return [(out, d, k), (out,)]


GLU = 2 * D
FF = dense(F) + dense(D, F)
N_FF = norm() + FF
SELF = norm() + self_att()
SRC = norm() + src_att()
RNN = norm() + lstm(D)
CNN = norm() + cnn()
N_BIRNN = norm() + birnn()

# Encoder, decoder, and the parameters of each. `ff` and `rnn`, `att` as in the README, whose strings stand here whole.
TRANSFORMER_E = "pos->repeat(6,res(norm->mh_dot_self_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
TRANSFORMER_D = (
    "pos->repeat(6,res(norm->mh_dot_self_att)->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
)
RNN_E = "dropout->res(birnn->dropout)->repeat(5,res(rnn->dropout))"
NORM_E = "pos->res(norm->birnn->dropout)->repeat(5,res(norm->rnn->dropout))->norm"
RNN_FF_E = (
    "pos->res(norm->birnn->dropout)->res(norm->ff($FF_NUM_HIDDEN)->linear)->"
    "repeat(5,res(norm->rnn->dropout)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
)
RNN_FF_D = "pos->repeat(6,res(norm->rnn->dropout)->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
RELU_E = "pos->repeat(6,res(norm->cnn($NUM_HIDDEN,3,relu)))->norm"
CNN_FF_E = "pos->repeat(6,res(norm->cnn($NUM_HIDDEN,3,relu))->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
CNN_FF_D = "pos->repeat(6,res(norm->cnn($NUM_HIDDEN,3,relu))->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm"
TRANSFORMER = 6 * (SELF + N_FF) + norm()
RNN_FF = N_BIRNN + N_FF + 5 * (RNN + N_FF) + norm()
README: dict[str, tuple[str, str, Shapes, Shapes]] = {
    "example": (
        "pos->repeat(6,res(norm->mh_dot_self_att)->res(norm->ff->linear))->norm",
        TRANSFORMER_D,
        6 * (SELF + norm() + dense(D) + dense(D)) + norm(),
        6 * (SELF + SRC + N_FF) + norm(),
    ),
    "table3/transformer": (TRANSFORMER_E, TRANSFORMER_D, TRANSFORMER, 6 * (SELF + SRC + N_FF) + norm()),
    "table3/rnn": (
        RNN_E,
        "dropout->repeat(6,res(rnn->dropout))->res(mh_dot_att(heads=1))->res(ff($FF_NUM_HIDDEN)->linear)",
        birnn() + 5 * lstm(D),
        6 * lstm(D) + src_att() + FF,
    ),
    "table3/rnn+mh": (
        RNN_E,
        "dropout->repeat(6,res(rnn->dropout))->res(mh_dot_att)->res(ff($FF_NUM_HIDDEN)->linear)",
        birnn() + 5 * lstm(D),
        6 * lstm(D) + src_att() + FF,
    ),
    "table3/rnn+pos": (
        "pos->res(birnn->dropout)->repeat(5,res(rnn->dropout))",
        "pos->repeat(6,res(rnn->dropout))->res(mh_dot_att)->res(ff($FF_NUM_HIDDEN)->linear)",
        birnn() + 5 * lstm(D),
        6 * lstm(D) + src_att() + FF,
    ),
    "table3/rnn+norm": (
        NORM_E,
        "pos->repeat(6,res(norm->rnn->dropout))->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear)->norm",
        N_BIRNN + 5 * RNN + norm(),
        6 * RNN + SRC + N_FF + norm(),
    ),
    "table3/rnn+multi-att-1h": (
        NORM_E,
        "pos->repeat(6,res(norm->rnn->dropout)->res(norm->mh_dot_att(heads=1)))->res(norm->ff($FF_NUM_HIDDEN)->linear)->norm",
        N_BIRNN + 5 * RNN + norm(),
        6 * (RNN + SRC) + N_FF + norm(),
    ),
    "table3/rnn+multi-att": (
        NORM_E,
        "pos->repeat(6,res(norm->rnn->dropout)->res(norm->mh_dot_att))->res(norm->ff($FF_NUM_HIDDEN)->linear)->norm",
        N_BIRNN + 5 * RNN + norm(),
        6 * (RNN + SRC) + N_FF + norm(),
    ),
    "table3/rnn+ff": (RNN_FF_E, RNN_FF_D, RNN_FF, 6 * (RNN + SRC + N_FF) + norm()),
    "table4/cnn-glu-nested": (
        "pos->repeat(6,res(cnn))",
        "pos->repeat(6,res(cnn->res(mh_dot_att(heads=1))))",
        6 * cnn(GLU),
        6 * (cnn(GLU) + src_att()),
    ),
    "table4/cnn-glu+norm": (
        "pos->repeat(6,res(norm->cnn))->norm",
        "pos->repeat(6,res(norm->cnn)->res(norm->mh_dot_att(heads=1)))->norm",
        6 * (norm() + cnn(GLU)) + norm(),
        6 * (norm() + cnn(GLU) + SRC) + norm(),
    ),
    "table4/cnn-glu+mh": (
        "pos->repeat(6,res(norm->cnn))->norm",
        "pos->repeat(6,res(norm->cnn)->res(norm->mh_dot_att))->norm",
        6 * (norm() + cnn(GLU)) + norm(),
        6 * (norm() + cnn(GLU) + SRC) + norm(),
    ),
    "table4/cnn-glu+ff": (
        "pos->repeat(6,res(norm->cnn)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm",
        "pos->repeat(6,res(norm->cnn)->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm",
        6 * (norm() + cnn(GLU) + N_FF) + norm(),
        6 * (norm() + cnn(GLU) + SRC + N_FF) + norm(),
    ),
    "table4/cnn-relu": (
        "pos->repeat(6,res(cnn($NUM_HIDDEN,3,relu)))",
        "pos->repeat(6,res(cnn($NUM_HIDDEN,3,relu))->res(mh_dot_att(heads=1)))",
        6 * cnn(),
        6 * (cnn() + src_att()),
    ),
    "table4/cnn-relu+norm": (
        RELU_E,
        "pos->repeat(6,res(norm->cnn($NUM_HIDDEN,3,relu))->res(norm->mh_dot_att(heads=1)))->norm",
        6 * CNN + norm(),
        6 * (CNN + SRC) + norm(),
    ),
    "table4/cnn-relu+mh": (
        RELU_E,
        "pos->repeat(6,res(norm->cnn($NUM_HIDDEN,3,relu))->res(norm->mh_dot_att))->norm",
        6 * CNN + norm(),
        6 * (CNN + SRC) + norm(),
    ),
    "table4/cnn-relu+ff": (CNN_FF_E, CNN_FF_D, 6 * (CNN + N_FF) + norm(), 6 * (CNN + SRC + N_FF) + norm()),
    "table5/self-rnn": (TRANSFORMER_E, RNN_FF_D, TRANSFORMER, 6 * (RNN + SRC + N_FF) + norm()),
    "table5/self-cnn": (TRANSFORMER_E, CNN_FF_D, TRANSFORMER, 6 * (CNN + SRC + N_FF) + norm()),
    "table5/rnn-self": (RNN_FF_E, TRANSFORMER_D, RNN_FF, 6 * (SELF + SRC + N_FF) + norm()),
    "table5/cnn-self": (CNN_FF_E, TRANSFORMER_D, 6 * (CNN + N_FF) + norm(), 6 * (SELF + SRC + N_FF) + norm()),
    "table5/self-combined": (
        TRANSFORMER_E,
        "pos->repeat(2,res(norm->mh_dot_self_att)->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear)->"
        "res(norm->rnn->dropout)->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear)->"
        "res(norm->cnn($NUM_HIDDEN,3,relu))->res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm",
        TRANSFORMER,
        2 * (SELF + RNN + CNN + 3 * (SRC + N_FF)) + norm(),
    ),
    "table5/self-none": (
        TRANSFORMER_E,
        "pos->repeat(6,res(norm->mh_dot_att)->res(norm->ff($FF_NUM_HIDDEN)->linear))->norm",
        TRANSFORMER,
        6 * (SRC + N_FF) + norm(),
    ),
}
# One layer each, behind an embedding of width D.
LAYERS: dict[str, Shapes] = {
    "rnn": lstm(D),  # the strings of `test_custom_seq_parser.py`
    "rnn->rnn": 2 * lstm(D),
    "ff": dense(D),
    "ff(24)": dense(24),
    "ff(24,0.5,tanh)": dense(24),
    "ff(act_type=glu,num_hidden=24)": dense(48),
    "ff(24,act_type=swish1)": dense(24),
    "ff(24,0.0,none)": dense(24),
    "ff(24,num_hidden=8)": dense(8),
    "linear(8)": dense(8),
    "linear(8,0.1,True)": [(8, D)],
    "act(tanh)->id->dropout(0.3)": [],
    "norm": norm(),
    "learn_pos(16,0.1,50)": [(50, D)],
    "learn_pos": [(30, D)],
    "mh_dot_self_att(4)": self_att(),
    "mh_dot_self_att(heads=2,num_hidden=8,dropout_attention=0.0)": [(8, D)] * 3 + [(8, 8)],
    "mh_dot_self_att(heads=2,att_num_hidden=8)": [(8, D)] * 3 + [(D, 8)],
    "cnn": cnn(2 * D),
    "cnn(16,5,sigmoid,0.2,2)": cnn(D, D, 5),
    "cnn(kernel_width=7,act_type=tanh)": cnn(D, D, 7),
    "cnn(prefix=deep)": cnn(2 * D),
    "rnn(8)": lstm(8),
    "rnn(8,gru)": [(24, D), (24,), (24, 8)],
    "rnn(forget_bias=1.0,norm_states=True)": lstm(D),
    "birnn": birnn(),
    "birnn(8)": 2 * lstm(4),
    "birnn(num_hidden=8,cell_type=gru)": 2 * [(12, D), (12,), (12, 4)],
    "res(ff->linear)": dense(D) + dense(D),
    "highway(ff(8)->linear)": dense(D) + dense(8) + dense(D, 8),
    "repeat(3,res(norm->cnn($NUM_HIDDEN,3,relu)))": 3 * CNN,
    "repeat(0,rnn)->repeat(-2,rnn)": [],
}


def held(side: str, model: object) -> Counter[tuple[int, ...]]:
    named = model.named_parameters()  # type: ignore[attr-defined]
    return Counter(tuple(p.shape) for name, p in named if name.startswith(f"{side}."))


def body(encoder: str, decoder: str, d: int = D) -> str:
    quoted = f'encoder = "{encoder}"\ndecoder = {decoder}\n'
    names = f"FF_NUM_HIDDEN = {F}\n" if "$FF_NUM_HIDDEN" in quoted else ""
    names += "max_seq_len = 30\n" if "learn_pos->" in f"{encoder}->" or "learn_pos->" in f"{decoder}->" else ""
    return f"d = {d}  # --custom-seq-num-hidden\n{names}{quoted}"


@pytest.mark.parametrize("name", README)
def test_strings_of_the_readme(name: str) -> None:
    encoder, decoder, one, two = README[name]
    found = read(body(encoder, decoder))
    assert found.warnings == ()
    model = build(found.text, 9, 9)
    assert held("encoder", model) == Counter(one)
    assert held("decoder", model) == Counter(two)


@pytest.mark.parametrize("string", LAYERS)
def test_layers(string: str) -> None:
    found = read(body(string, "mh_dot_att"))
    assert held("encoder", build(found.text, 9, 9)) == Counter(LAYERS[string])


def test_the_string_of_the_parsers_own_test() -> None:
    """It has 2048 inside and 512 around, and source attention, so it is a decoder."""
    string = "pos->repeat(6,res(norm->mh_dot_self_att)->res(norm->mh_dot_att)->res(norm->ff(2048)->linear(512)))->norm"
    found = read(f"encoder = rnn\ndecoder = {string}\n")
    d = 512
    block = 3 * 2 * d + 8 * d * d + 2048 * (d + 1) + d * (2048 + 1)
    assert found.decoder.parameters == 6 * block + 2 * d


@pytest.mark.parametrize("name", [n for n in README if n != "example"])
def test_rows_of_the_zoo_are_these_strings_but_for_the_dropout_of_weights(name: str) -> None:
    """What the paper does not name: dropout among attention weights, and `ffl` as wide inside as its string says."""
    encoder, decoder, _, _ = README[name]
    string = read(body(encoder, decoder).replace(f"N = {F}", f"N = {4 * D}")).text
    weights = re.compile(r"(mh_dot_\w+\([^()]*dropout=)0\.1")
    row = check(Text("row", _zoo(name)), builtin(), reader("calque", parse_settings([f"d={D}"])))
    assert equal(checked(weights.sub(r"\g<1>0.0", string)), row)


def _zoo(name: str) -> str:
    from calque import zoo

    return zoo.read(f"domhan2018/{name}").body


# -- what a string says


@pytest.mark.parametrize(
    ("string", "means"),
    [
        ("ff", "ff"),
        ("ff(8)->linear", "ff(8) -> linear -> dropout"),
        ("ff(dropout=0.3)", "ff(dropout=0.3)"),
        ("ff(dropout=-1)", "ff(dropout=0)"),
        ("ff(act_type=tanh)", "linear -> act(tanh) -> dropout"),
        ("ff(12,0.0,glu)", "linear(24) -> act(glu)"),
        ("linear(8,0.0,True)", "linear(8, bias=no)"),
        ("act", "act(relu)"),
        ("act(sigmoid)", "act(sigmoid)"),
        ("dropout(0)", "id"),
        ("pos(16,0.2)", "pos(0.2)"),
        ("pos(16,0.2,False)", "pos(0.2) -> scale(0.25)"),
        ("pos(scale_inputs=False)", "pos -> scale(0.25)"),
        ("mh_dot_self_att", "mh_dot_self_att(dropout=p) -> dropout"),
        ("mh_dot_self_att(4,0.2,0.3)", "mh_dot_self_att(heads=4, dropout=0.3) -> dropout(0.2)"),
        ("mh_dot_self_att(dropout=0.0)", "mh_dot_self_att"),
        (
            "mh_dot_self_att(att_num_hidden=8)",
            "mh_dot_self_att(width=8, out=no, dropout=p) -> linear(bias=no) -> dropout",
        ),
        ("cnn", "cnn(glu) -> dropout"),
        ("cnn(16,5,relu,0.0,2)", "cnn(relu, kernel=5, dilation=2)"),
        ("cnn(act_type=sigmoid)", "cnn(id) -> act(sigmoid) -> dropout"),
        ("rnn(8,gru)", "rnn(width=8, cell=gru)"),
        ("rnn(forget_bias=1)", "rnn(forget=1)"),
        ("birnn", "birnn"),
        ("res(norm->rnn->dropout)", "res(norm -> rnn -> dropout)"),
        ("highway(ff)", "highway(ff)"),
        ("repeat(2,norm->ff)", "repeat(2, norm -> ff)"),
        ("repeat(0,norm)", "id"),
        ("ff( 8,  0.3 )", "ff(8, dropout=0.3)"),
        ("ff(act_type=swish1)", "linear -> act(silu) -> dropout"),
        ("ff(act_type=gelu)", "linear -> act(gelu_tanh) -> dropout"),
    ],
)
def test_hidden_dropout_is_visible(string: str, means: str) -> None:
    text = translated(body(string, "mh_dot_att"))
    assert re.search(r"^encoder = (.*)$", text, re.MULTILINE)[1] == means  # type: ignore[index]
    # The translation is a text of the language, and means what was read.
    assert checked(text).text == read(body(string, "mh_dot_att")).text


def test_settings() -> None:
    written = (
        "d = 8\np = 0.3\nnum_embed = 6\nencoder = linear->cnn\ndecoder = rnn->mh_dot_att(2)->linear(num_hidden=6)\n"
    )
    assert translated(written) == (
        "adl = 0\nd = 6\np = 0.3\nencoder = linear(8) -> dropout -> cnn(glu, width=8) -> dropout\n"
        "decoder = rnn(width=8) -> mh_dot_src_att(heads=2, width=8, dropout=p) -> dropout -> linear -> dropout\n"
    )
    given = parse_settings(["d=4", "num_embed=2"])
    assert check(Text("model.txt", written), builtin(), reader("acl18", given)).width == 2
    with pytest.raises(CalqueError, match="no setting `n`"):
        check(Text("model.txt", written), builtin(), reader("acl18", parse_settings(["n=4"])))
    with pytest.raises(CalqueError, match="expects a number"):
        check(Text("model.txt", written), builtin(), reader("acl18", parse_settings(["d=2*2"])))


# -- faults


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_message(path: Path) -> None:
    written, _, expected = path.read_text(encoding="utf-8").partition("---\n")
    assert render_all(faults(written)) + "\n" == expected


def test_every_code_has_a_message() -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in GOLDEN)
    assert [code for code in codes() if code[:2] == "S2" and f"[{code}]" not in shown] == []


def test_what_help_proposes_works() -> None:
    for path in GOLDEN:
        written = path.read_text(encoding="utf-8").partition("---\n")[0]
        for fault in faults(written):
            if fault.fix is not None:
                after = {(f.code, message(f)) for f in faults(apply_fix(fault.fix))}
                assert (fault.code, message(fault)) not in after


WORDS = "res highway repeat qrnn parallel relu glu True heads num_hidden d p encoder decoder $N N 3 0.1 -2 0 1e3 -> ->"
PIECES = [*SIGNATURES, *WORDS.split(), *"()),=|- \n\"'#é"]


@pytest.mark.medium
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_written_is_answered(seed: int) -> None:
    draw = random.Random(seed)
    soup = "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 60)))
    valid = body(*draw.choice(list(README.values()))[:2])
    at = draw.randrange(len(valid))
    for text in (soup, f"encoder = {soup}\ndecoder = mh_dot_att\n", valid[:at] + draw.choice(PIECES) + valid[at + 1 :]):
        told = faults(text)
        assert render_all(told) or not told
        if all(fault.severity == "warning" for fault in told):
            found = read(text)
            assert checked(found.text).text == found.text


def test_large_strings_are_refused() -> None:
    for string in ("res(" * 300 + "id" + ")" * 300, "->".join(["id"] * 30_000), "ff(" + "9" * 40 + ")", "a" * 200_000):
        (fault,) = faults(f"encoder = {string}\ndecoder = mh_dot_att\n")
        assert fault.code == "C401"


def test_dialects() -> None:
    from calque.experiment import ModelSettings

    choices = ModelSettings.__dataclass_fields__["dialect"].metadata["choices"]
    assert tuple(choices) == DIALECTS
