"""The architectures of the papers: each is checked, and learns as many numbers as its equations say."""

import pytest
from adl_corpus import HERE, checked

from calque import zoo
from calque.explain import whole
from calque.ground.diagnostics import CalqueError, message
from calque.papers import read_paper

D, N = 512, 6
NORM = 2 * D
ATTENTION = 4 * D * D
INNER = 4 * D * (D + 1) + D * (4 * D + 1)
BIRNN = 2 * (4 * (D // 2) * (D + D // 2 + 1))
RNN = 4 * D * (D + D + 1)
RNN_WIDE = 4 * D * (2 * D + D + 1)
MLP = D * (D + D + 1)
LAST = D * (2 * D + 1)
GLU = 2 * D * (3 * D + 1)

FORMULAS = {
    "domhan2018/transformer": (
        N * (2 * NORM + ATTENTION + INNER) + NORM,
        N * (3 * NORM + 2 * ATTENTION + INNER) + NORM,
    ),
    "domhan2018/transformer-post": (
        N * (2 * NORM + ATTENTION + INNER),
        N * (3 * NORM + 2 * ATTENTION + INNER),
    ),
    "domhan2018/rnmt": (BIRNN + (N - 1) * RNN, N * RNN + MLP + LAST),
    "domhan2018/rnmt-feed": (BIRNN + (N - 1) * RNN, RNN_WIDE + (N - 1) * RNN + MLP + LAST),
    "domhan2018/convs2s": (N * GLU, N * GLU),
}

GATES = 2 * D * (2 * D + 1)
SSRU = D * (2 * D + 1)
W = 288  # You 2020's width for IWSLT
FIXED = 2 * W * W  # a hard-coded layer: W_v and W_o
LEARNED = 4 * W * W
BOTTLENECK = 507 * (W + 1) + W * (507 + 1)
HC_SA = 5 * (4 * W + FIXED + BOTTLENECK), 5 * (6 * W + FIXED + LEARNED + BOTTLENECK)
HC_ALL = 5 * (4 * W + FIXED + BOTTLENECK), 5 * (6 * W + 2 * FIXED + BOTTLENECK)
SH_X = 5 * (4 * W + FIXED + BOTTLENECK), 5 * (4 * W + FIXED + BOTTLENECK) + 2 * W + LEARNED
BLOCK = {"encoder": 2 * NORM + ATTENTION + INNER, "decoder": 3 * NORM + ATTENTION + INNER}

POST_NORM = {
    "zhang2018/transformer": (N * BLOCK["encoder"], N * (BLOCK["decoder"] + ATTENTION)),
    "zhang2018/aan": (N * BLOCK["encoder"], N * (BLOCK["decoder"] + INNER + GATES)),
    "zhang2018/aan-released": (N * BLOCK["encoder"] + D, N * (BLOCK["decoder"] + INNER + GATES)),
    "zhang2018/aan-no-ffn": (N * BLOCK["encoder"], N * (BLOCK["decoder"] + GATES)),
    "zhang2018/aan-no-gate": (N * BLOCK["encoder"], N * (BLOCK["decoder"] + INNER)),
    "kim2019/ssru": (6 * BLOCK["encoder"], 2 * (BLOCK["decoder"] + SSRU)),
    "you2020/base": (5 * (4 * W + LEARNED + BOTTLENECK), 5 * (6 * W + 2 * LEARNED + BOTTLENECK)),
    "you2020/base-sa": (5 * (2 * W + BOTTLENECK), 5 * (4 * W + LEARNED + BOTTLENECK)),
    "you2020/base-ff": (5 * (2 * W + LEARNED), 5 * (4 * W + 2 * LEARNED)),
    "you2020/hc-sa": HC_SA,
    "you2020/hc-sa-conv": HC_SA,
    "you2020/hc-sa-index": HC_SA,
    "you2020/hc-sa-ff": (5 * (2 * W + FIXED), 5 * (4 * W + FIXED + LEARNED)),
    "you2020/offsets": HC_SA,
    "you2020/hc-all": HC_ALL,
    "you2020/hc-all-code": HC_ALL,
    "you2020/sh-x": SH_X,
    "you2020/sh-x-sa": (5 * (2 * W + BOTTLENECK), 5 * (2 * W + BOTTLENECK) + 2 * W + LEARNED),
    "you2020/heads-same-layer": SH_X,
    "you2020/heads-across-layers": (SH_X[0], SH_X[1] + 2 * W + LEARNED),
}

KV = D // 4
TODAY = D * (D + 2 * KV) + D * D + 2 * D // 8  # W_q, W_k, W_v, W_o and the gains of a head's queries and keys
SWIGLU = 3 * D * 1408
RETENTION = 5 * D * D
GLA = D * (D + 1) + 3 * D * D + 16 * D + D // 2 * 17 + D
W2 = 2 * D
MAMBA2 = 2 * D * W2 + 4 * W2 + 3 * W2 * W2 + 16 * W2 + 2 * 16 + W2 + W2 * D
HAWK = 3 * D * (D + 1) + 4 * D + 3 * D * (D + 1) + D
T5_ATTENTION, T5_INNER = ATTENTION + 32 * 8, 2 * D * 2048
E = 1024
M2M_ATTENTION, M2M_INNER = 4 * E * (E + 1), 4 * E * (E + 1) + E * (4 * E + 1)
B = 256
TINY_ATTENTION, TINY_INNER = 4 * B * (B + 1), 1536 * (B + 1) + B * 1537
ENCODER = N * BLOCK["encoder"] + NORM


def over(decoder_layer: int) -> tuple[int, int]:
    """A Transformer's encoder, and its decoder with this layer in the place of self-attention."""
    return ENCODER, N * (BLOCK["decoder"] + decoder_layer) + NORM


POST_NORM |= {
    "modern/transformer-2026": (
        N * (2 * D + TODAY + SWIGLU) + D,
        N * (3 * D + TODAY + ATTENTION + SWIGLU) + D,
    ),
    "modern/retnet": over(RETENTION),
    "modern/gla": over(GLA),
    "modern/mamba2": over(MAMBA2),
    "modern/griffin": over(HAWK),
    "modern/t5": (N * (2 * D + T5_ATTENTION + T5_INNER) + D, N * (3 * D + T5_ATTENTION + ATTENTION + T5_INNER) + D),
    "modern/m2m100": (
        12 * (4 * E + M2M_ATTENTION + M2M_INNER) + 2 * E,
        12 * (6 * E + 2 * M2M_ATTENTION + M2M_INNER) + 2 * E,
    ),
    "modern/marian": (N * (BLOCK["encoder"] + 4 * D), N * (BLOCK["decoder"] + ATTENTION + 8 * D)),
    "modern/bergamot-tiny": (
        N * (4 * B + TINY_ATTENTION + TINY_INNER),
        2 * (6 * B + B * (2 * B + 1) + TINY_ATTENTION + TINY_INNER),
    ),
}


def test_m2m100_is_the_released_model() -> None:
    """Its 418 million parameters are 483,905,536 with the 128,112 rows of the one table."""
    found = checked(zoo.read("modern/m2m100").body)
    assert found.encoder.parameters + found.decoder.parameters + 128_112 * E == 483_905_536


def cost_line(name: str) -> str:
    costs = whole(checked(zoo.read(name).body))
    return (
        f"# Cost: {costs.encoder.parameters + costs.decoder.parameters:,} parameters without embeddings; "
        f"{costs.per_source_token / 1e6:.1f}M multiply-adds per source token,\n"
        f"# {costs.per_target_token / 1e6:.1f}M per target token of 25, {costs.state_bytes():,} bytes of state behind them."
    )


@pytest.mark.parametrize("name", [name for name in zoo.names() if name.startswith("modern/")])
def test_texts_of_today_state_their_cost(name: str) -> None:
    assert cost_line(name) in zoo.read(name).body


def test_names() -> None:
    rows = {
        row.name for p in zoo.papers() for table in read_paper.paper(p).tables for row in table.rows
    }  # see test_papers
    assert set(FORMULAS | POST_NORM) == set(zoo.names()) - rows
    assert zoo.names() == sorted(zoo.names())


@pytest.mark.medium
def test_distinct_names_leave_out_no_text() -> None:
    """Rows at the sizes of no language pair: the same text at other sizes is no other architecture."""
    rows = {row.name: row.written for p in zoo.papers() for table in read_paper.paper(p).tables for row in table.rows}
    hashes = {name: checked(rows.get(name) or zoo.read(name).body).hash for name in zoo.names()}
    assert {hashes[name] for name in zoo.distinct()} == set(hashes.values())
    assert len(zoo.distinct()) < len(zoo.names())
    assert "zhang2018/aan" in zoo.distinct()
    assert "zhang2018/table2/aan" not in zoo.distinct()


@pytest.mark.parametrize("name", zoo.names())
def test_checks(name: str) -> None:
    found = checked(zoo.read(name).body)
    assert found.warnings == ()
    assert checked(found.text).text == found.text
    assert zoo.read(name).body.startswith("# ")  # says which paper, which section, which differences


@pytest.mark.parametrize("name", FORMULAS | POST_NORM)
def test_parameters(name: str) -> None:
    found = checked(zoo.read(name).body)
    assert (found.encoder.parameters, found.decoder.parameters) == (FORMULAS | POST_NORM)[name]


@pytest.mark.parametrize("name", FORMULAS)
def test_depth_is_one_setting(name: str) -> None:
    body = zoo.read(name).body
    deep, flat = (checked(body.replace("\nn = 6\n", f"\nn = {n}\n")).encoder.parameters for n in (3, 2))
    block = {"transformer": 2 * NORM + ATTENTION + INNER, "rnmt": RNN, "convs2s": GLU}[name.split("/")[1].split("-")[0]]
    assert deep - flat == block


def test_post_norm_is_the_base_transformer() -> None:
    """Vaswani et al. 2017, table 3: the base model has 65 million parameters, embeddings of 37,000 pieces among them.

    Theirs has no biases in attention and, beside the two sides, one shared table.
    """
    found = checked(zoo.read("domhan2018/transformer-post").body)
    assert round((found.encoder.parameters + found.decoder.parameters + 37_000 * D) / 1e6) in (63, 64, 65)


def test_unknown_name() -> None:
    with pytest.raises(CalqueError) as caught:
        zoo.read("domhan2018/transfomer")
    (fault,) = caught.value.diagnostics
    assert fault.code == "X220"
    assert fault.fields["near"] == "domhan2018/transformer"
    assert message(fault) == "there is no architecture `domhan2018/transfomer`"
    with pytest.raises(CalqueError) as caught:
        zoo.read("domhan2018/table5")
    assert str(caught.value.diagnostics[0].fields["near"]).startswith("domhan2018/table5/")
    with pytest.raises(CalqueError):
        zoo.read("../codes/adl")


def test_a_row_that_is_decoded_otherwise_is_its_models_text_and_is_not_listed() -> None:
    assert "gehring2017/table3/bilstm" not in zoo.names()
    body, model = (zoo.read(f"gehring2017/table3/{row}").body for row in ("bilstm", "bilstm-all"))
    assert checked(body) == checked(model)
    with pytest.raises(CalqueError):
        zoo.read("luong2015/table1/ensemble")


def test_hashes_do_not_change() -> None:
    """They name the results that are recorded: what an architecture's text means stays. New architectures may come."""
    lines = (HERE / "zoo_hashes.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 140
    for name, known in (line.split() for line in lines):
        assert checked(zoo.read(name).body).hash == known, name
