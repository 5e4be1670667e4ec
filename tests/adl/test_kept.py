"""A stored definition may lack arguments that came later, and nothing else."""

import pytest

from calque.adl.check import check
from calque.adl.compatibility import kept
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin

NOW = "adl = 0\nd = 4\nencoder = a(1, 2, s=none, t=-1) @ e -> b(c(x=0.5, y=1))\ndecoder = d(from=@e -> f(z=2))\n"


@pytest.mark.parametrize("gone", ["", ", t=-1", "s=none, ", ", y=1", "x=0.5, ", "(z=2)"])
def test_arguments_that_came_later(gone: str) -> None:
    assert kept(Text("then", NOW.replace(gone, "") if gone else NOW), NOW)


@pytest.mark.parametrize(
    ("was", "other"),
    [
        ("d = 4", "d = 8"),
        ("a(1, 2,", "a(1,"),
        ("a(1, 2,", "a(2, 1,"),
        ("s=none", "s=4"),
        (" @ e ->", " ->"),
        ("b(", "bb("),
        ("y=1", "y=1, w=2"),
        ("@e ->", "@f ->"),
        (" -> f(z=2)", ""),
        ("z=2", "z=3"),
        ("decoder", "other"),
    ],
)
def test_what_means_something_else(was: str, other: str) -> None:
    assert was in NOW
    assert not kept(Text("then", NOW.replace(was, other)), NOW)


def test_a_model_keeps_arguments_that_never_had_an_effect() -> None:
    text = Text("model.json", "encoder = rnn(cell=gru, forget=1.0)\ndecoder = mlp_src_att\n")
    with pytest.raises(CalqueError) as caught:
        check(text, builtin())
    assert [d.code for d in caught.value.diagnostics] == ["C220"]
    stored = check(text, builtin(), stored=True)
    assert "forget=1.0" in stored.text
    assert check(Text("model.json", stored.text), builtin(), stored=True) == stored
