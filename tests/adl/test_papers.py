"""Domhan's tables: the texts are the paper's, the figures are as printed, the claims are about rows that exist."""

import re
from collections import Counter
from typing import Any

import pytest
import torch
from adl_corpus import checked

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.dialect import reader
from calque.adl.normal import equal
from calque.adl.program import prelude
from calque.adl.settings import parse_settings
from calque.ground.diagnostics import CalqueError
from calque.layers.registry import builtin
from calque.papers import read_paper
from calque.papers.paper import Claim, Figure, Paper
from calque.papers.read_paper import joined, load_paper, printed
from calque.workflow.api import build

DOMHAN = read_paper.paper("domhan2018")
ROWS = {row.name.removeprefix("domhan2018/"): row for table in DOMHAN.tables for row in table.rows}

# The tables as the paper prints them, pasted from its text.
PRINTED = """
table1 vaswani2017 27.3
table1 transformer 27.5
table2 upper 25.4± 0.2 27.6± 0.0
table2 increasing 25.4± 0.1 27.3± 0.1
table2 decreasing 25.3± 0.2 27.1± 0.1
table3 transformer 25.4± 0.1 27.6± 0.0 47.2± 0.1 18.5± 0.0 51.3± 0.1
table3 rnmt 23.2± 0.2 25.5± 0.2 45.1± 0.1 - -
table3 rnmt-no-feed 23.1± 0.2 24.6± 0.1 43.8± 0.2 - -
table3 rnn 22.8± 0.2 23.8± 0.1 43.3± 0.1 15.2± 0.1 45.9± 0.1
table3 rnn+mh 23.7± 0.4 24.4± 0.1 43.9± 0.1 16.0± 0.1 47.1± 0.1
table3 rnn+pos 23.9± 0.2 24.1± 0.1 43.5± 0.2 - -
table3 rnn+norm 23.7± 0.1 24.0± 0.2 43.2± 0.1 15.2± 0.1 46.3± 0.2
table3 rnn+multi-att-1h 24.5± 0.0 25.2± 0.1 44.9± 0.1 16.6± 0.2 49.1± 0.2
table3 rnn+multi-att 24.4± 0.3 25.5± 0.0 45.3± 0.0 17.0± 0.2 49.4± 0.1
table3 rnn+ff 25.1± 0.1 26.7± 0.1 46.4± 0.2 17.8± 0.1 50.5± 0.1
table4 transformer 25.4± 0.1 27.6± 0.0 47.2± 0.1 18.5± 0.0 51.3± 0.1
table4 cnn-glu 24.3± 0.4 25.0± 0.3 44.4± 0.2 16.0± 0.5 47.4± 0.4
table4 cnn-glu+norm 24.1± 0.1 - - - -
table4 cnn-glu+mh 24.2± 0.2 25.4± 0.1 44.8± 0.1 16.1± 0.1 47.6± 0.2
table4 cnn-glu+ff 25.3± 0.1 26.8± 0.1 46.0± 0.1 16.4± 0.2 47.9± 0.2
table4 cnn-relu 23.6± 0.3 23.9± 0.1 43.4± 0.1 15.4± 0.1 46.4± 0.3
table4 cnn-relu+norm 24.3± 0.1 24.3± 0.2 43.6± 0.1 16.0± 0.2 47.1± 0.5
table4 cnn-relu+mh 24.2± 0.2 24.9± 0.1 44.4± 0.1 16.1± 0.1 47.5± 0.2
table4 cnn-relu+ff 25.3± 0.3 26.9± 0.1 46.1± 0.0 16.4± 0.2 47.9± 0.1
table5 self-self 25.4± 0.2 27.6± 0.0 47.2± 0.1 18.3± 0.0 51.1± 0.1
table5 self-rnn 25.1± 0.1 27.4± 0.1 47.0± 0.1 18.4± 0.2 51.1± 0.1
table5 self-cnn 25.4± 0.4 27.6± 0.2 46.7± 0.1 18.0± 0.3 50.3± 0.3
table5 rnn-self 25.8± 0.1 27.2± 0.1 46.7± 0.1 17.8± 0.1 50.6± 0.1
table5 cnn-self 25.7± 0.1 26.6± 0.3 46.3± 0.1 16.8± 0.4 49.4± 0.4
table5 rnn-rnn 25.1± 0.1 26.7± 0.1 46.4± 0.2 17.8± 0.1 50.5± 0.1
table5 cnn-cnn 25.3± 0.3 26.9± 0.1 46.1± 0.0 16.4± 0.2 47.9± 0.2
table5 self-combined 25.1± 0.2 27.6± 0.2 47.2± 0.2 18.3± 0.1 51.1± 0.1
table5 self-none 23.7± 0.2 25.3± 0.2 43.1± 0.1 15.9± 0.1 45.1± 0.2
"""

# The chains that the paper prints, in its words; `mlp att` of section 2.4 is `mlp src att` of section 2.3, and a missing
# bracket of "RNN + ff" is added.
SECTION_2_4 = (
    "tenc = res_nd(mh_dot_self_att) -> res_nd(ffl)",
    "tdec = res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl)",
)
TRANSFORMER = ("pos -> repeat(n, tenc) -> norm", "pos -> repeat(n, tdec) -> norm")
AS_PRINTED = {
    "table1/transformer": TRANSFORMER,
    "table2/upper": TRANSFORMER,
    "table3/transformer": TRANSFORMER,
    "table4/transformer": TRANSFORMER,
    "table5/self-self": TRANSFORMER,
    "table3/rnmt-no-feed": (
        "dropout -> birnn -> repeat(n - 1, res_d(rnn))",
        "dropout -> repeat(n, res_d(rnn)) -> concat(id, mlp_src_att) -> ff",
    ),
    "table3/rnn": (
        "dropout -> res_d(birnn) -> repeat(5, res_d(rnn))",
        "dropout -> repeat(6, res_d(rnn)) -> res_d(dot_src_att) -> res_d(ffl)",
    ),
    "table3/rnn+ff": (
        "pos -> res_nd(birnn) -> res_nd(ffl) -> repeat(5, res_nd(rnn) -> res_nd(ffl)) -> norm",
        "pos -> repeat(6, res_nd(rnn) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm",
    ),
    "table4/cnn-relu": ("pos -> repeat(6, res_d(cnn))", "pos -> repeat(6, res_d(cnn) -> res_d(dot_src_att))"),
    "table4/cnn-glu": (
        "pos -> repeat(6, res_d(cnn(glu)))",
        "pos -> repeat(6, res_d(cnn(glu)) -> res_d(dot_src_att))",
    ),
    "table4/cnn-relu+ff": (
        "pos -> repeat(6, res_nd(cnn) -> res_nd(ffl)) -> norm",
        "pos -> repeat(6, res_nd(cnn) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm",
    ),
    "table5/self-none": (TRANSFORMER[0], "pos -> repeat(n, res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm"),
}

# Where the paper's own figures do not bear out what it says: the steps are those of IWSLT, and of Latvian.
NOT_BORNE_OUT = {
    ("attention in every layer gains even more than several heads", "iwslt16-ende bleu"),
    ("the largest gains come from several attention layers ...", "iwslt16-ende bleu"),
    ("... and from feed-forward layers", "iwslt16-ende bleu"),
    ("... and from feed-forward layers", "wmt17-lven bleu"),
    ("... and from feed-forward layers", "wmt17-lven meteor"),
    ("in CNNs the largest gains come from feed-forward layers", "wmt17-lven bleu"),
    ("in CNNs the largest gains come from feed-forward layers", "wmt17-lven meteor"),
}


def small(name: str, *settings: str) -> CheckedDefinition:
    return check(zoo.read(f"domhan2018/{name}"), builtin(), reader("calque", parse_settings(settings)))


def test_figures_are_as_printed() -> None:
    lines = [line.split(maxsplit=2) for line in PRINTED.strip().split("\n")]
    found = {f"{table}/{row}": re.findall(r"([\d.]+)(?:± ([\d.]+))?|-", figures) for table, row, figures in lines}
    assert set(found) == {name for name, row in ROWS.items() if row.reading_of is None}
    for name, figures in found.items():
        columns = DOMHAN.table(name.split("/")[0]).columns
        assert len(columns) == len(figures)
        for column, (value, deviation) in zip(columns, figures, strict=True):
            expected = (
                Figure(float(value), float(deviation) if deviation else None, *str(column).split()) if value else None
            )
            assert ROWS[name].figure(column) == expected, (name, str(column))


@pytest.mark.parametrize("name", AS_PRINTED)
def test_texts_are_the_papers(name: str) -> None:
    encoder, decoder = AS_PRINTED[name]
    decoder = re.sub(r"(?<!mh_)dot_src_att", "dot_src_att(out=yes)", decoder)  # as the row says
    blocks = [line for line in SECTION_2_4 if line.split()[0] in encoder + decoder]
    n = "n = 6\n" if "(n" in encoder + decoder else ""
    printed = checked("\n".join(blocks) + f"\n{n}encoder = {encoder}\ndecoder = {decoder}\n")
    assert checked(zoo.read(f"domhan2018/{name}").body).text == printed.text


def test_feeding_hands_on_the_output_and_adds_nothing_else() -> None:
    """z0_t = [zL_(t-1); E y_t]: the first layer is twice as wide, and has no residual sum."""
    a, b = small("table3/rnmt", "d=8"), small("table3/rnmt-no-feed", "d=8")
    wide = 4 * 8 * 8
    assert a.decoder.parameters - b.decoder.parameters == wide
    assert a.encoder.parameters == b.encoder.parameters


def test_the_combined_decoder_has_its_layers_in_the_papers_blocks() -> None:
    """Section 4.4: the first and fourth block self-attention, the second and fifth an RNN, the third and sixth a CNN."""
    names = [node.name for node in small("table5/self-combined").decoder.nodes()]
    assert [n for n in names if n in ("mh_dot_self_att", "rnn", "cnn")] == 2 * ["mh_dot_self_att", "rnn", "cnn"]


@pytest.mark.parametrize(("name", "read"), [("increasing", [1, 2, 3, 4, 5, 6]), ("decreasing", [6, 5, 4, 3, 2, 1])])
def test_the_blocks_that_are_read(name: str, read: list[int]) -> None:
    for form in (name, f"{name}-raw"):
        nodes = [n for n in small(f"table2/{form}").decoder.nodes() if n.name == "mh_dot_src_att"]
        assert [node.args.from_.key for node in nodes] == [f"block[{i}]" for i in read]
        assert all(bool(node.parts["from"].items) == (form == name) for node in nodes)


def test_controls_of_table_2() -> None:
    assert equal(small("table2/upper"), small("transformer"))
    assert small("table2/upper-normed").decoder.parameters == small("table2/increasing").decoder.parameters
    assert equal(small("table2/upper-raw", "n=1"), small("table2/increasing-raw", "n=1"))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_builds_at_small_sizes(name: str) -> None:
    found = (
        small(name, "d=16", "heads=2", "p=0") if "mh_" in zoo.read(f"domhan2018/{name}").body else small(name, "d=16")
    )
    torch.manual_seed(1)
    model = build(found.text, 11, 11)
    held = sum(p.numel() for n, p in model.named_parameters() if n.startswith(("encoder", "decoder")))
    assert held == found.encoder.parameters + found.decoder.parameters
    assert found.warnings == ()


def test_settings_of_a_row() -> None:
    for name, row in ROWS.items():
        assert small(name, "d=64", "n=3").width == 64
        assert row.text.count("\nencoder = ") == 1
    assert {pair.name: pair.settings["d"] for pair in DOMHAN.pairs} == {
        "iwslt16-ende": 512,
        "wmt17-ende": 256,
        "wmt17-lven": 256,
        "wmt14-ende": 512,
    }


def test_names() -> None:
    assert "domhan2018/table3/rnn+mh" in zoo.names()
    assert Counter(name.split("/")[0] for name in ROWS) == {
        "table1": 2,
        "table2": 7,
        "table3": 10,
        "table4": 11,
        "table5": 9,
    }


SECTION_2_3 = (
    "dropout pos linear ff ffl cnn id concat rnn birnn mh_dot_src_att mlp_src_att dot_src_att mh_dot_self_att norm "
    "res res_d res_nd"
)


def test_the_language_has_every_layer_of_section_2_3() -> None:
    known = {*builtin(), *(statement.name for statement in prelude()), "repeat"}
    assert known.issuperset(SECTION_2_3.split())


# -- claims


def holds(claim: Claim, column: Any, slack: float) -> bool:
    """By the paper's own means; `slack` is what counts as alike."""
    scores = {row.key: f.value for row in DOMHAN.table(claim.table).rows if (f := row.figure(column)) is not None}
    for contrast in claim.contrasts:
        value = round(contrast.value(scores), 6)
        if not {"above": value > 0, "not-above": value <= slack, "about": abs(value) <= slack}[contrast.relation]:
            return False
    return True


def test_claims_against_the_papers_own_figures() -> None:
    failing = {(c.text, str(column)) for c in DOMHAN.claims for column in c.columns if not holds(c, column, 0.2)}
    assert failing == NOT_BORNE_OUT


def test_what_is_claimed() -> None:
    about = " ".join(claim.text for claim in DOMHAN.claims)
    for words in (
        "feeding hurts",
        "single attention layer, several heads help",
        "several heads help less",
        "small negative effect",
        "gain nothing",
        "largest gains",
        "GLU is better",
        "replaces self-attention",
        "without self-attention scores lower",
        "combined",
        "scores lowest",
        "upper encoder block",
    ):
        assert words in about, words


def test_contrasts() -> None:
    one = Claim("", "", "t", "below", ("a", "b", "c"), (), ())
    assert [c.terms for c in one.contrasts] == [((-1, "a"), (1, "b")), ((-1, "a"), (1, "c"))]
    assert {c.relation for c in one.contrasts} == {"above"}
    (gain,) = Claim("", "", "t", "gain", (), (("a", "b"), ("c", "d")), ()).contrasts
    assert gain.value({"a": 1.0, "b": 4.0, "c": 1.0, "d": 3.0}) == 1.0


# -- the loader


def source() -> dict[str, Any]:
    return joined(zoo.source("domhan2018"), printed("domhan2018"))


def load(data: dict[str, Any]) -> Paper:
    texts = {
        k: zoo.read(f"domhan2018/{k}").body for k in ("transformer", "transformer-post", "rnmt", "rnmt-feed", "convs2s")
    }
    return load_paper("domhan2018", data, texts)


def test_the_loader_reads_what_is_written() -> None:
    assert load(source()) == DOMHAN


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("tables", "table3", "colour"), "red", "table3: colour"),
        (("tables", "table3", "rows", "rnn", "figures"), ["22.8 ± 0.2"], "table3/rnn: 5 columns, 1 figures"),
        (("tables", "table3", "rows", "rnn", "figures"), ["22.8 +- 0.2"] + ["-"] * 4, "is no figure"),
        (("tables", "table3", "rows", "rnn", "same"), "transformer", "either `same`"),
        (("tables", "table3", "rows", "rnn", "reading_of"), "rnmt", "either `figures`"),
        (("tables", "table3", "rows", "rnn", "settings"), {"h": 3}, "table3/rnn: its text does not set h"),
        (("tables", "table2", "rows", "upper-raw", "reading_of"), "lower", "no row lower"),
        (("tables", "table5", "rows", "rnn-rnn", "same"), "table9/x", "no text table9/x"),
        (("tables", "table3", "columns"), ["wmt17-ende ter"], "is no column"),
        (("tables", "table3", "columns"), ["wmt99-ende bleu"], "is no column"),
        (("claims", 0, "kind"), "better", "no kind better"),
        (("claims", 0, "table"), "table9", "no table table9"),
        (("claims", 0, "rows"), ["upper", "lower"], "lower"),
        (("claims", 0, "rows"), ["upper"], "too few"),
        (("claims", 0, "columns"), ["wmt17-ende meteor"], "other columns"),
        (("claims", 0, "steps"), [["upper", "increasing"], ["upper", "decreasing"]], "too few or too many"),
        (("claims", 0, "strength"), 3, "strength"),
        (("cite",), None, "cite"),
    ],
)
def test_the_loader_is_strict(path: tuple[Any, ...], value: object, message: str) -> None:
    data = source()
    at: Any = data
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    with pytest.raises(ValueError, match=re.escape(message)):
        load(data)


def test_there_is_no_such_paper() -> None:
    with pytest.raises(CalqueError) as caught:
        read_paper.paper("domhan2019")
    assert caught.value.diagnostics[0].code == "X220"
