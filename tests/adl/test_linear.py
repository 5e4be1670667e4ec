"""Checking takes time in proportion to the text: twice the text, twice the lines of Python that run."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from adl_corpus import checked, faults

DECODER = "\ndecoder = mlp_src_att\n"
LONG = "output_of_the_layer_called_"


def labels(count: int, name: str = "a") -> str:
    return "encoder = " + " -> ".join(f"id @ {name}{k}" for k in range(count))


TEXTS: dict[str, Callable[[int], str]] = {
    "labels in a chain": lambda n: labels(n) + DECODER,
    "labels that are all read": lambda n: (
        labels(n) + "\ndecoder = " + " -> ".join(f"mlp_src_att(from=@a{k})" for k in range(n)) + "\n"
    ),
    "labels of one term": lambda n: "encoder = id" + "".join(f" @ a{k}" for k in range(n)) + DECODER,
    "one label again and again": lambda n: "encoder = id" + " @ a" * n + DECODER,
    "labels in repetitions": lambda n: (
        "encoder = "
        + " -> ".join(f"repeat(2, id @ a{k})" for k in range(n))
        + "\ndecoder = "
        + " -> ".join(f"mlp_src_att(from=@a{k}[1])" for k in range(n))
        + "\n"
    ),
    "labels that are missing": lambda n: (
        labels(n, LONG) + "\ndecoder = " + " -> ".join(f"mlp_src_att(from=@{LONG}x{k})" for k in range(n)) + "\n"
    ),
    "definitions": lambda n: (
        "".join(f"a{k} = id @ l{k}\n" for k in range(n))
        + "encoder = "
        + " -> ".join(f"a{k}" for k in range(n))
        + DECODER
    ),
    "names that are missing": lambda n: (
        "".join(f"{LONG}{k} = id\n" for k in range(n))
        + "encoder = "
        + " -> ".join(f"{LONG}x{k}" for k in range(n))
        + DECODER
    ),
    "numbers that are missing": lambda n: (
        "".join(f"{LONG}{k} = {k}\n" for k in range(n))
        + "encoder = "
        + " -> ".join(f"linear({LONG}x{k})" for k in range(n))
        + DECODER
    ),
}


def lines(body: str) -> int:
    """How many lines run while a text is checked, those of the comparison of names included."""
    count = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local)
    try:
        faults(body)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", TEXTS)
def test_twice_the_text_takes_twice_the_steps(name: str) -> None:
    text = TEXTS[name]
    faults(text(2))  # what is made once and kept
    once, twice = lines(text(90)), lines(text(180))
    assert twice < 2.1 * once


def test_a_misspelt_name_among_many_is_still_found() -> None:
    body = "".join(f"block_{k} = id\n" for k in range(190)) + "encoder = blokc_7" + DECODER
    (fault,) = faults(body)
    assert fault.fields["near"] == "block_7"


def test_a_text_sees_what_stood_before_each_statement() -> None:
    """The scopes of statements share a table; a body still sees nothing that came after it."""
    assert [f.code for f in faults("f = g\ng = id\nencoder = f" + DECODER)] == ["C101"]
    shadowed = checked("a = ffl\nffl = norm\nencoder = a -> ffl" + DECODER)
    assert "ff(n=2048" in shadowed.text
    assert shadowed.text.count("norm(") == 1
