"""Settings that make definitions equally large, and what the commands print."""

import pytest

from calque import zoo
from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.explain import Surroundings, fit, parameters, table, whole
from calque.explain.node_table import COLUMNS, field_text, short
from calque.ground.diagnostics import CalqueError, Span, Text, message
from calque.layers.registry import builtin

INF = float("inf")


def count(text: Text, *settings: str, around: Surroundings | None = None) -> int:
    return parameters(check(text, builtin(), reader("calque", parse_settings(settings))), around)


def nearest(text: Text, target: int, setting: str, values: range, around: Surroundings | None = None) -> int:
    """By trying all of them."""
    found = {}
    for value in values:
        try:
            found[value] = abs(count(text, f"{setting}={value}", around=around) - target)
        except CalqueError:
            continue
    return min(found, key=lambda v: (found[v], v))


@pytest.mark.medium
@pytest.mark.parametrize("target", [1, 90_000, 130_000, 500_000])
@pytest.mark.parametrize("setting", ["d", "n"])
def test_the_nearest_value_is_found(target: int, setting: str) -> None:
    text = Text(
        "text", "d = 32\nheads = 4\nn = 2\nencoder = pos -> repeat(n, tenc)\ndecoder = pos -> repeat(n, tdec)\n"
    )
    expected = nearest(text, target, setting, range(1, 130 if setting == "d" else 30))
    assert fit(text, target, setting) == expected


def test_embeddings_count_where_their_sizes_are_given() -> None:
    text = Text("text", "d = 32\nheads = 4\nencoder = tenc\ndecoder = tdec\n")
    around = Surroundings(1000, 1000)
    found = fit(text, 200_000, around=around)
    assert found == nearest(text, 200_000, "d", range(4, 130, 4), around)
    assert found < fit(text, 200_000)


def test_only_multiples_are_tried() -> None:
    text = Text("text", "d = 32\nencoder = ff\ndecoder = mlp_src_att\n")
    assert fit(text, 10_000, multiple=16) % 16 == 0
    assert fit(text, 10_000) == nearest(text, 10_000, "d", range(1, 200))


def test_rows_of_a_table_are_matched() -> None:
    target = count(zoo.read("domhan2018/transformer"), "d=64")
    for row in ("rnn", "rnn+mh", "rnmt"):
        text = zoo.read(f"domhan2018/table3/{row}")
        value = fit(text, target)
        assert abs(count(text, f"d={value}") / target - 1) < 0.1


CONVOLUTIONS = "d = {}\nheads = 1\nencoder = light_cnn\ndecoder = mlp_src_att\n"


@pytest.mark.medium
@pytest.mark.parametrize(("width", "more"), [(48, -1), (60, 41), (120, 20)])
def test_heads_divide_a_width(width: int, more: int) -> None:
    text = Text("text", CONVOLUTIONS.format(width))
    target = count(text) + more
    expected = nearest(text, target, "heads", range(1, width + 1))
    assert fit(text, target, "heads") == expected
    assert fit(text, target, "heads", 3) == nearest(text, target, "heads", range(3, width + 1, 3))


@pytest.mark.medium
def test_kernels_are_odd() -> None:
    text = Text("text", "d = 8\nk = 3\nencoder = cnn(kernel=k)\ndecoder = mlp_src_att\n")
    for target in (1, count(text, "k=9") + 50, count(text, "k=11") - 10):
        assert fit(text, target, "k") == nearest(text, target, "k", range(1, 30, 2))


@pytest.mark.medium
@pytest.mark.parametrize(("multiple", "more"), [(None, 1), (1, 0), (2, 0), (4, -1)])
def test_a_setting_that_changes_no_parameters_fits_their_number_alone(multiple: int | None, more: int) -> None:
    text = Text("text", "d = 32\nheads = 4\nencoder = pos -> tenc\ndecoder = pos -> tdec\n")
    target = count(text) + more
    if not more:
        assert fit(text, target, "heads", multiple) == multiple
        return
    with pytest.raises(CalqueError) as fault:
        fit(text, target, "heads", multiple)
    told = f"expected {target} parameters for some value of `heads`, found {target - more} for every value"
    assert [message(d) for d in fault.value.diagnostics] == [told]


def test_nothing_cannot_be_matched() -> None:
    with pytest.raises(CalqueError) as fault:
        fit(Text("text", "d = 32\nencoder = tenc\ndecoder = tdec\n"), 0)
    assert {d.code for d in fault.value.diagnostics} == {"X232"}


@pytest.mark.parametrize(("setting", "code"), [("k", "X230"), ("odd", "X230"), ("p", "X231"), ("width", "X222")])
def test_what_cannot_be_solved_is_told(setting: str, code: str) -> None:
    body = "d = 64\nk = 1\nodd = 3\nencoder = dropout -> hc_self_att(k, project=no, out=no)\n"
    text = Text("text", body + "decoder = linear(odd) -> res(linear(3)) -> mlp_src_att\n")
    with pytest.raises(CalqueError) as fault:
        fit(text, 10**9, setting)
    assert {d.code for d in fault.value.diagnostics} == {code}


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("d = 64\nencoder = pos -> nrm\ndecoder = pos -> mh_dot_src_att\n", ["C101"]),  # no odd width of d = 1
        ("encoder = " + "norm -> " * 20_000 + "norm\ndecoder = tdec\n", ["C401"]),
        ("encoder = norm ->\ndecoder = tdec\n", ["S102"]),
    ],
)
def test_errors_of_the_text_are_those_of_the_text_as_it_is_written(body: str, codes: list[str]) -> None:
    with pytest.raises(CalqueError) as fault:
        fit(Text("text", body), 100_000)
    assert [d.code for d in fault.value.diagnostics] == codes
    assert all(isinstance(d.where, Span) for d in fault.value.diagnostics)


def test_an_error_that_has_nothing_to_do_with_the_setting_has_its_help() -> None:
    with pytest.raises(CalqueError) as fault:
        fit(Text("text", "d = 32\nencoder = tenc -> nrom\ndecoder = tdec\n"), 10_000)
    assert "did you mean `norm`?" in str(fault.value)


def test_a_setting_too_small_to_reach_a_number_is_told() -> None:
    with pytest.raises(CalqueError) as fault:
        fit(Text("text", "n = 2\nencoder = linear(n)\ndecoder = mlp_src_att(4)\n"), 10**15, "n")
    assert {d.code for d in fault.value.diagnostics} == {"X230"}
    assert "at most" in message(fault.value.diagnostics[0])


TINY = "d = 32\nheads = 4\nn = 3\nencoder = pos -> repeat(n, tenc)\ndecoder = pos -> repeat(n, tdec) -> norm\n"


def test_copies_stand_once_unless_they_differ() -> None:
    checked = check(Text("text", TINY), builtin())
    shown = table(checked)
    assert shown.count("mh_dot_self_att") == 2
    assert "encoder.1[1-3].0 " in shown
    every = table(checked, every=True)
    assert every.count("mh_dot_self_att") == 6
    labelled = TINY.replace("tenc", "tenc @ e").replace("tdec", "tdec(m=@e[i])")
    assert table(check(Text("text", labelled), builtin())).count("mh_dot_self_att") == 2


@pytest.mark.parametrize("name", zoo.distinct())
def test_the_table_fits_the_screen(name: str) -> None:
    checked = check(zoo.read(name), builtin())
    model = whole(checked, Surroundings(32000, 32000), 100, 100)
    for line in table(checked, model, "bfloat16").split("\n"):
        assert len(line) <= COLUMNS, line


def test_numbers_are_short() -> None:
    cases = [(0, "0"), (950, "950"), (9_994, "9,994"), (12_345, "12.3k"), (999_600, "1M"), (3_149_000, "3.15M")]
    for number, text in [*cases, (22e9, "22G"), (4e12, "4T")]:
        assert short(number) == text
    assert field_text((-INF, INF)) == "-∞..+∞"
    assert field_text((-12, 0)) == "-12..0"
    assert field_text((-3, 3)) == "-3..+3"
