"""Texts that nobody means and everybody may send: one clear error, or a canonical text that is read again."""

import pytest
from adl_corpus import checked, faults, where

from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.ground.diagnostics import CalqueError, Diagnostic, Span, Text, help_of, render
from calque.layers.registry import builtin

DECODER = "decoder = pos -> mh_dot_src_att\n"


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\u2003"])
def test_white_space_that_the_language_does_not_know(space: str) -> None:
    (fault,) = faults(f"encoder = pos -> norm\n{DECODER.rstrip()}{space}\n")
    assert fault.code == "S101"
    assert render(fault)
    (fault,) = faults(f"encoder = pos ->{space}norm\n{DECODER}")
    assert (help_of(fault) or "").startswith("leave out `\\")


@pytest.mark.parametrize(
    ("before", "marked", "columns", "carets"),
    [
        ("encoder = ", "世界", 10, 4),
        ("encoder = 世界 -> ", "nrom", 18, 4),
        ("encoder = 世界 -> ", "你好", 18, 4),
        ("encoder = ｎorm -> ", "nrom", 19, 4),
        ("encoder = e\u0301 -> ", "nrom", 15, 4),
        ("encoder = ", "e\u0301e", 10, 2),
        ("encoder = e", "\u0301", 10, 1),  # under the letter that has it
        ("encoder = \u1112\u1161\u11ab -> ", "nrom", 16, 4),
        ("encoder = \U0001f600\ufe0f -> ", "nrom", 16, 4),
        ("encoder =\t", "n\trom", 10, 5),
        ("encoder = 世 -> ", "", 16, 1),
    ],
)
def test_carets_stand_under_wide_and_combining_characters(before: str, marked: str, columns: int, carets: int) -> None:
    text = Text("x.adl", f"\n{before}{marked}\n")
    start = 1 + len(before)
    shown = render(Diagnostic("S101", Span(text, start, start + len(marked)), {"character": marked})).split("\n")
    assert shown[1] == f" --> x.adl:2:{start}"
    line = f"2 | {before}{marked}".replace("\t", " ").rstrip()
    assert shown[3:5] == [line, "  | " + " " * columns + "^" * carets]


@pytest.mark.parametrize("quote", ['"', "'"])
def test_the_quotes_around_a_word_are_one_fault(quote: str) -> None:
    body = f"encoder = pos -> {quote}norm{quote} -> {quote}ffl{quote}\n{DECODER}"
    one, other = faults(body)
    assert [help_of(fault) for fault in (one, other)] == [
        f"write `{n}` for `{quote}{n}{quote}`" for n in ("norm", "ffl")
    ]
    assert checked(body.replace(quote, "")).text
    # Quotes on two lines, and of two kinds, are no pair.
    assert len(faults(f"encoder = {quote}pos\ndecoder = pos{quote} -> mh_dot_src_att\n")) == 2
    assert len([one for one in faults(f"encoder = \"norm'\n{DECODER}") if one.code == "S101"]) == 2


@pytest.mark.parametrize("letter", ["о", "ο", "\uff4f"])
def test_letters_that_look_like_others(letter: str) -> None:
    found = faults(f"enc{letter}der = pos\n{DECODER}")
    assert f"write `o` for `{letter}`" in [help_of(fault) for fault in found]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "nan", "inf", "infinity"])
@pytest.mark.parametrize("text", ["linear({})", "repeat({}, id)", "linear(bias={})", "dropout({})"])
def test_numbers_without_a_value(number: str, text: str) -> None:
    for body in (f"encoder = {text.format(number)}\n{DECODER}", f"d = {number}\nencoder = id\n{DECODER}"):
        assert all(render(fault) for fault in faults(body))
        assert faults(body)


def test_a_width_that_no_copy_has() -> None:
    for copies in (
        "repeat(1, repeat(i - 1, linear(d_in)))",
        "repeat(2 - 2, norm -> linear(d_in*2))",
        "repeat(0*i, ffl)",
    ):
        body = f"encoder = repeat(1, {copies})\n{DECODER}"
        text = checked(body).text
        assert checked(text).text == text


@pytest.mark.parametrize(
    ("number", "code"),
    [
        ("x*1000000000000000", "C401"),
        ("x/7", "C117"),
        ("i + x/7", "C117"),
        ("x/2", None),
    ],
)
@pytest.mark.parametrize("layer", ["linear({})", "res(linear({}) -> linear)", "repeat({}, id)"])
def test_numbers_of_a_body_without_copies(number: str, code: str | None, layer: str) -> None:
    body = f"f(x) = repeat(1, repeat(i - 1, {layer.format(number)}))\nencoder = f(d_in)\n{DECODER}"
    assert [fault.code for fault in faults(body)] == [code] * (code is not None)
    if code is None:
        assert checked(checked(body).text).text == checked(body).text


def test_numbers_that_grow_with_a_width_or_a_copy() -> None:
    squares = "".join(f"f{k}(x) = f{k - 1}(x*x)\n" for k in range(1, 12))
    for use in ("f11(d_in)", "repeat(3, f11(i + 999))"):
        found = faults(f"f0(x) = linear(x)\n{squares}encoder = {use}\n{DECODER}")
        assert {fault.code for fault in found} == {"C401"}
        assert all(len(str(fault.fields["found"])) <= 30 for fault in found)  # without 4,000 digits
    body = (
        f"encoder = repeat(2, linear(512 + i*(d_in*d_in*1000000000000000)/(d_in*d_in*1000000000000000) - i))\n{DECODER}"
    )
    assert {fault.code for fault in faults(body)} == {"C401"}


def test_there_is_no_negative_zero() -> None:
    plain = checked(f"p = 0.0\nencoder = dropout\n{DECODER}")
    assert checked(f"p = -0.0\nencoder = dropout\n{DECODER}").hash == plain.hash
    for body in ("p = -0.0\nencoder = dropout\n", "x = -0.0\nencoder = dropout(x)\n", "encoder = dropout(-0.0)\n"):
        found = checked(body + DECODER.replace("mh_dot_src_att", "mh_dot_src_att(dropout=0)"))
        assert checked(found.text).hash == found.hash
        assert "-0.0" not in found.text


@pytest.mark.parametrize("written", [".12345678901234567", "0.000123456789012345678", ".00000000000012345678901"])
def test_decimals_are_written_as_they_can_be_read(written: str) -> None:
    found = checked(f"encoder = dropout({written})\n{DECODER}")
    assert checked(found.text).text == found.text
    assert [fault.code for fault in faults(f"encoder = dropout(0.{'1' * 23})\n{DECODER}")] == ["C401"]


def test_a_fault_of_many_copies_hides_no_other() -> None:
    copies = "f = linear(bad)\ng = f -> f -> f -> f\nh = g -> g -> g -> g\nencoder = h -> h -> h -> h\n"
    assert [f.code for f in faults(f"{copies}decoder = pos -> bogus(3)\n")] == ["C102", "C101"]
    copies = copies.replace("bad", "0")
    assert [f.code for f in faults(f"{copies}decoder = pos -> linear(0)\n")] == ["C403", "C403"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("tenc(x, x) = res(x)\nencoder = pos -> tenc(norm, norm)\n", "C106"),
        ("relu = 1/0\nencoder = linear(relu)\n", "C117"),
        ("res(yes) = norm\nencoder = res(norm, norm, norm)\n", "C121"),
    ],
)
def test_a_faulty_statement_does_not_become_the_preludes(body: str, code: str) -> None:
    assert [fault.code for fault in faults(body + DECODER)] == [code]


def test_a_width_that_comes_too_late_hides_those_that_follow_from_it() -> None:
    found = faults("encoder = pos\nd = 256\ndecoder = pos -> add(linear(256), id) -> mh_dot_src_att\n")
    assert [fault.code for fault in found] == ["C126"]


def test_limits_of_canonical_text_are_told_at_the_text_that_was_written() -> None:
    body = f"# a comment\nencoder = repeat(900, linear)\n{DECODER}"
    long = "encoder = " + " -> ".join(["mh_dot_self_att"] * 900) + "\n"
    assert not faults(body)
    found = faults(f"# a comment\n{long}{DECODER}")
    assert [(fault.code, where(fault)[0]) for fault in found] == [("C401", 2)]


def test_infinite_settings_of_strings() -> None:
    text = Text("strings", 'd = 16\nencoder = "rnn"\ndecoder = "rnn->mh_dot_att"\n')
    with pytest.raises(CalqueError, match="S205"):
        check(text, builtin(), reader("acl18", parse_settings(["d=1e400"])))
