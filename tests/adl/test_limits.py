"""What is accepted can be stored and read again; what is too large says so, and where."""

import re

import pytest
from adl_corpus import HERE, checked, faults, where

from calque.adl import limits
from calque.ground.diagnostics import Text, message

DECODER = "decoder = mh_dot_src_att\n"


@pytest.mark.medium
@pytest.mark.parametrize("layer", ["linear", "mlp_src_att", "rnn", "mh_dot_src_att", "res(dropout)"])
def test_the_largest_text_has_a_canonical_text_that_is_read(layer: str) -> None:
    """Canonical texts are longer than what was written: either is held against the limits."""
    accepted = 0
    for count in (100, 400, 700, 1000, 1400, 1900):
        body = f"encoder = id\ndecoder = {' -> '.join([layer] * count)}\n"
        told = faults(body)
        if told:
            assert {fault.code for fault in told} == {"C401"}
        else:
            found = checked(body)
            assert checked(found.text).text == found.text
            accepted = count
    assert 100 <= accepted < 1900


@pytest.mark.parametrize("depth", [10, 18, 19, 20, 37, 38, 39, 40, 60])
def test_the_deepest_text_has_a_canonical_text_that_is_read(depth: int) -> None:
    for opening, base in (
        ("gate(", "id"),
        ("repeat(2 - 1, ", "id"),
        ("concat(id, ", "id"),
        ("res(", "norm"),
        ("post(", "norm"),
    ):
        body = "d = 2\nheads = 1\nencoder = " + opening * depth + base + ")" * depth + f"\n{DECODER}"
        told = faults(body)
        if told:
            assert [fault.code for fault in told] == ["C401"]
        else:
            found = checked(body)
            assert checked(found.text).text == found.text


def test_deep_definitions_with_deep_arithmetic() -> None:
    """Operations pile up through definitions; what passes is read again."""
    for levels in (5, 10, 16, 30, 31, 32, 33, 39):
        steps = "".join(f"f{k}(a) = f{k - 1}(a + 1)\n" for k in range(1, levels))
        body = (
            f"d = 8\nheads = 1\nf0(a) = linear(a)\n{steps}encoder = repeat(2, f{levels - 1}(i*1)) -> linear\n{DECODER}"
        )
        told = faults(body)
        if told:
            assert [fault.code for fault in told] == ["C401"]
        else:
            found = checked(body)
            assert checked(found.text).text == found.text


def test_parameters() -> None:
    (fault,) = faults(f"d = 65536\nencoder = repeat(5, linear)\n{DECODER}")
    assert (fault.code, where(fault)) == ("C401", (2, 11))
    found = 5 * 65536 * 65537 + 4 * 65536**2
    assert message(fault) == f"expected at most {limits.MAX_PARAMETERS} parameters, found {found}"
    # Nothing of this size is ever made.
    assert (
        faults(
            "d = 65536\nencoder = repeat(2, linear(bias=no)) -> linear(1) -> linear(bias=no)\ndecoder = mlp_src_att\n"
        )
        == []
    )


def test_characters() -> None:
    (fault,) = faults("encoder = id" + " " * limits.MAX_CHARACTERS)
    assert (fault.code, where(fault)) == ("C401", (1, limits.MAX_CHARACTERS + 1))


def test_the_specification_states_the_limits() -> None:
    page = (HERE.parents[1] / "docs" / "spec.md").read_text(encoding="utf-8")
    table = page.partition("## 10. Limits")[2].partition("## 11.")[0]
    stated = {int(n.replace(",", "")) for n in re.findall(r"\| ([0-9,]+)(?: \(C403\))? \|", table)} | {
        10**15,
        2 * 10**10,
    }
    names = {name for name in vars(limits) if name.startswith("MAX_")} - {"MAX_FAULTS", "MAX_HOLES"}
    assert {getattr(limits, name) for name in names} | {1000} == stated
    assert f"At most {limits.MAX_FAULTS} faults" in table


@pytest.mark.parametrize(
    "body",
    [
        "encoder = " + "nrom -> " * 300 + "id",
        "encoder = cnn(" + "kernal=3, " * 60 + ")",
        "encoder = id\n" + "x = (\n" * 300,
        "encoder = " + " -> ".join(f"repeat(1000, nrom{k})" for k in range(40)),
    ],
)
def test_edits_are_tried_for_a_while_only(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many errors a text has, trying edits is bounded by steps of checking."""
    from calque.adl import advice

    spent: list[int] = []
    tried = advice.advise

    def counted(desk, faults, check, work):  # type: ignore[no-untyped-def]
        def one(text: Text):  # type: ignore[no-untyped-def]
            found = check(text)
            spent.append(found[1])
            return found

        return tried(desk, faults, one, work)

    monkeypatch.setattr(advice, "advise", counted)
    assert faults(body + "\n" + DECODER)
    assert sum(spent) <= advice.MAX_WORK + max(spent, default=0)
