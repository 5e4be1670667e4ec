"""Equality and edits of definitions."""

import contextlib
import functools
import itertools
import random
import time

import pytest
from adl_corpus import VALID, checked, read
from adl_texts import program
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calque import zoo
from calque.adl.check import CheckedDefinition
from calque.adl.diff import Edit, diff
from calque.adl.normal import equal, normal
from calque.ground.diagnostics import CalqueError

DECODER = "mh_dot_src_att(from=@end)"


def sides(encoder: str, decoder: str = DECODER) -> CheckedDefinition:
    return checked(f"d = 8\nheads = 2\nencoder = {encoder} -> mh_dot_self_att\ndecoder = {decoder} -> mh_dot_src_att\n")


def row(name: str) -> CheckedDefinition:
    return checked(zoo.read(f"domhan2018/{name}").body)


def layers(found: CheckedDefinition) -> int:
    one = normal(found)
    return one.encoder.size + one.decoder.size


EQUAL = [
    ("res(norm) -> linear", "add(id, norm) -> linear"),
    ("norm -> id -> linear", "norm -> linear"),
    ("id -> id", "id"),
    ("repeat(1, norm -> linear)", "norm -> linear"),
    ("repeat(3, norm) -> norm", "norm -> norm -> repeat(2, norm)"),
    ("repeat(2, repeat(2, linear(4*i)))", "linear(4) -> linear(8) -> linear(4) -> linear(8)"),
    ("repeat(2, linear(j*8), index=j)", "linear -> linear(16)"),
    ("res_nd(ffl)", "add(id, norm -> ff(4*d) -> linear -> dropout(0.1))"),
    ("add(id -> id, repeat(1, norm))", "res(norm)"),
    ("cnn", "cnn(relu, kernel=3, width=d)"),
    ("birnn", "concat(rnn(4), reverse(rnn(4)))"),
    ("repeat(2, repeat(2, linear, share=yes), share=yes)", "repeat(4, linear, share=yes)"),
    ("repeat(1, linear, share=yes)", "linear"),
    ("repeat(2, tanh, share=yes)", "tanh -> tanh"),
]
SAME_SOURCES = [
    (("norm @ a", "mlp_src_att(from=@a)"), ("norm @ b", "mlp_src_att(from=@b)")),
    (("norm @ a -> id @ b", "mlp_src_att(from=@a)"), ("norm @ a -> id @ b", "mlp_src_att(from=@b)")),
    (("norm @ a @ b", "mlp_src_att(from=@b)"), ("norm @ a", "mlp_src_att(from=@a)")),
    (("norm -> id @ a", "mlp_src_att(from=@a -> id)"), ("norm @ a", "mlp_src_att(from=@a)")),
    (("repeat(2, norm @ a)", "mlp_src_att(from=@a[1])"), ("norm @ a -> norm", "mlp_src_att(from=@a)")),
    (("norm @ a", "norm -> mlp_src_att"), ("norm", "norm -> mlp_src_att")),
    (("res(norm @ a)", "mlp_src_att(from=@a)"), ("add(id, norm @ b)", "mlp_src_att(from=@b)")),
    (("rnn @ e", "rnn(start=@e)"), ("id -> rnn @ f", "rnn(start=@f)")),
]
DIFFERENT = [
    ("norm", "norm -> norm"),
    ("norm -> linear", "linear -> norm"),
    ("dropout(0.1)", "dropout(0.2)"),
    ("add(norm, linear)", "add(linear, norm)"),
    ("linear(4) -> linear", "linear(12) -> linear"),
    ("mh_dot_self_att(2)", "mh_dot_self_att(4)"),
    ("repeat(2, linear, share=yes)", "repeat(2, linear)"),
    ("repeat(2, linear -> linear, share=yes)", "repeat(4, linear, share=yes)"),
    ("repeat(2, repeat(2, linear), share=yes)", "repeat(2, repeat(2, linear, share=yes))"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_written_differently(a: str, b: str) -> None:
    assert equal(sides(a), sides(b))
    assert diff(sides(a), sides(b)) == ()


@pytest.mark.parametrize(("a", "b"), SAME_SOURCES)
def test_points_are_places_and_not_labels(a: tuple[str, str], b: tuple[str, str]) -> None:
    assert equal(sides(*a), sides(*b))
    assert diff(sides(*a), sides(*b)) == ()


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different(a: str, b: str) -> None:
    assert not equal(sides(a), sides(b))
    assert diff(sides(a), sides(b))


def test_an_unread_label_and_an_end_by_another_name_do_not_count() -> None:
    one = checked("encoder = norm @ a\ndecoder = mlp_src_att(from=@a)\n")
    two = checked("encoder = norm\ndecoder = mlp_src_att\n")
    assert equal(one, two)
    assert one.text != two.text


def test_equal_points_and_other_points() -> None:
    encoder = "norm @ a -> linear @ b"
    (edit,) = diff(sides(encoder, "mlp_src_att(from=@a)"), sides(encoder, "mlp_src_att(from=@b)"))
    assert (edit.kind, edit.what, edit.to, edit.places) == ("change", "mlp_src_att", "from: @a -> @b", ("decoder.0",))


def test_sharing_is_an_edit_with_its_parameters() -> None:
    own, one = sides("repeat(3, res(norm -> linear))"), sides("repeat(3, res(norm -> linear), share=yes)")
    edits = diff(own, one)
    assert sum(e.parameters for e in edits) == one.encoder.parameters - own.encoder.parameters == -2 * (16 + 72)
    assert {(e.kind, e.what) for e in edits} == {("change", "norm"), ("change", "linear")}
    assert next(str(e) for e in edits) == "change `norm`: weights: own -> of the layer 1 before at encoder.0[2].0.1.0"


# -- edits of the paper's steps


def test_steps_of_table_3() -> None:
    norm = {"kind": "insert", "what": "norm"}
    (edit,) = diff(row("table3/rnn"), row("table3/rnn+mh"))
    assert (edit.kind, edit.what, edit.to) == ("change", "mh_dot_src_att", "heads: 1 -> 8")
    (edit,) = diff(row("table3/rnn+mh"), row("table3/rnn+pos"))
    assert (edit.kind, edit.what, edit.to) == ("replace", "dropout(p=0.1)", "pos(dropout=0.1)")
    assert edit.places == ("encoder.0", "decoder.0")
    (edit,) = diff(row("table3/rnn+pos"), row("table3/rnn+norm"))
    assert {"kind": edit.kind, "what": edit.what} == norm
    # Before the birnn, five RNNs and six, the attention and the feed-forward layer, and at each end.
    assert len(edit.places) == edit.layers == 1 + 5 + 1 + 6 + 2 + 1
    assert edit.parameters == 16 * 2 * 512
    assert str(edit) == "insert `norm` at 16 places"


def test_feeding_comes_around_the_decoder() -> None:
    edits = diff(row("table3/rnmt-no-feed"), row("table3/rnmt"))
    assert edits[0].kind == "wrap"
    assert str(edits[0]) == "put `feed(..., width=512)` around at decoder.0"
    assert sum(e.parameters for e in edits) == 4 * 512 * 512


def test_wrapping_and_taking_away() -> None:
    a, b = sides("repeat(4, linear -> norm)"), sides("repeat(4, linear -> res(norm))")
    (edit,) = diff(a, b)
    assert (edit.kind, edit.what, len(edit.places), edit.layers) == ("wrap", "add(id, ...)", 4, 4)
    (edit,) = diff(b, a)
    assert (edit.kind, edit.what, len(edit.places), edit.layers) == ("unwrap", "add(id, ...)", 4, -4)
    assert str(edit) == "take `add(id, ...)` away at 4 places"


def test_other_widths() -> None:
    a, b = (checked(f"d = {d}\nencoder = norm\ndecoder = mh_dot_src_att(2, 8)\n") for d in (4, 6))
    edits = diff(a, b)
    assert [(e.kind, e.what, e.parameters) for e in edits] == [
        ("change", "d", 0),
        ("width", "norm", 4),
        ("width", "mh_dot_src_att", 3 * 8 * 2),
    ]
    assert str(edits[0]) == "change `d`: 4 -> 6 at d"
    assert str(edits[2]) == "`mh_dot_src_att` receives other widths: 4, 4 -> 6, 6 at decoder.0"


def test_a_point_that_is_gone() -> None:
    edits = diff(
        sides("norm @ a -> linear -> norm", "mlp_src_att(from=@a)"),
        sides("linear -> norm @ a", "mlp_src_att(from=@a)"),
    )
    assert [str(e) for e in edits] == [
        "delete `norm` at encoder.0",
        "change `mlp_src_att`: from: @a -> @a, another point at decoder.0",
    ]


# -- laws


def accounts_for(a: CheckedDefinition, b: CheckedDefinition) -> tuple[Edit, ...]:
    edits = diff(a, b)
    assert bool(edits) != equal(a, b)
    assert equal(a, b) == equal(b, a)
    parameters = [found.encoder.parameters + found.decoder.parameters for found in (a, b)]
    assert parameters[0] + sum(e.parameters for e in edits) == parameters[1]
    assert layers(a) + sum(e.layers for e in edits) == layers(b)
    assert len({(e.kind, e.what, e.to) for e in edits}) == len(edits)
    paths = {
        side: {node.path for chain in (found.encoder, found.decoder) for node in chain.nodes()} | {"d"}
        for side, found in (("a", a), ("b", b))
    }
    for edit in edits:
        assert set(edit.places) <= paths["b" if edit.kind in ("insert", "wrap") else "a"]
    return edits


def drawn(seed: int) -> CheckedDefinition:
    """The first valid program from a seed on."""
    for k in itertools.count(seed):
        with contextlib.suppress(CalqueError):
            return checked(program(random.Random(k)))
    raise AssertionError


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_edits_account_for_the_difference(one: int, two: int) -> None:
    a, b = drawn(one), drawn(two)
    accounts_for(a, b)
    assert accounts_for(a, a) == ()


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_identities_do_not_count(seed: int) -> None:
    a = drawn(seed)
    head, encoder, decoder = a.text.split("encoder = ")[0], *a.text.split("encoder = ")[1].split("\ndecoder = ")
    b = f"{head}encoder = id -> {encoder.replace(' -> ', ' -> id -> ')} -> id\ndecoder = repeat(1, id -> {decoder.strip()})\n"
    assume(len(b) < 90_000)
    try:
        changed = checked(b)
    except CalqueError as error:
        assume(error.diagnostics[0].code != "C401")
        raise
    assert equal(a, changed)
    assert diff(a, changed) == ()


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_one_layer_more(seed: int, at: int) -> None:
    a = drawn(seed)
    places = [k for k in range(len(a.text)) if a.text.startswith(" -> ", k)]
    assume(places)
    k = places[at % len(places)]
    b = checked(f"{a.text[:k]} -> dropout(p=0.875){a.text[k:]}")
    edits = accounts_for(a, b)
    (edit,) = [e for e in edits if "0.875" in e.what]
    assert edit.kind == "insert"
    # Behind a label, it can only be that the label stands elsewhere now.
    assert all(e is edit or "another point" in e.to for e in edits)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_the_corpus_is_equal_to_its_canonical_text(path) -> None:
    found = checked(read(path))
    assert equal(found, checked(found.text))


@pytest.mark.medium
def test_all_rows_of_the_paper() -> None:
    names = [n for n in zoo.names() if n.startswith("domhan2018/table")]
    found = [checked(zoo.read(name).body) for name in names]
    for a, b in zip(found, found[1:] + found[:1], strict=True):
        accounts_for(a, b)


# -- at least cost


LEAVES = ("norm", "relu", "linear", "linear(bias=no)", "dropout(0.5)", "dropout(0.25)")


def cost(a: str, b: str) -> int:
    return 0 if a == b else 1 if a.partition("(")[0] == b.partition("(")[0] else 3


@functools.cache
def naive(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Every alignment tried."""
    if not a or not b:
        return 2 * (len(a) + len(b))
    return min(2 + naive(a[1:], b), 2 + naive(a, b[1:]), cost(a[0], b[0]) + naive(a[1:], b[1:]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(LEAVES), max_size=8), st.lists(st.sampled_from(LEAVES), max_size=8))
def test_no_alignment_is_cheaper(a: list[str], b: list[str]) -> None:
    prices = {"insert": 2, "delete": 2, "replace": 3, "change": 1}
    edits = diff(sides("id", " -> ".join([*a, "norm"])), sides("id", " -> ".join([*b, "norm"])))
    assert sum(prices[e.kind] * len(e.places) for e in edits) == naive(tuple(a), tuple(b))


@pytest.mark.slow
def test_thousands_of_layers() -> None:
    texts = (
        ("repeat(500, res_d(linear)) -> repeat(900, norm)", "repeat(500, res_nd(linear)) -> repeat(400, linear)"),
        ("repeat(1000, linear -> norm)", "repeat(900, linear -> norm -> relu)"),
    )
    for a, b in texts:
        one, two = sides("id", a), sides("id", b)
        start = time.thread_time()
        accounts_for(one, two)
        assert time.thread_time() - start < 10
