"""Every score of Luong 2015 through every window against the loops of `luong`, outputs and recorded weights, and faults that
they have to find.
"""

from collections.abc import Callable
from typing import Any

import luong
import naive
import numpy as np
import pytest
import torch
from test_layers import covers

from bench import Bench
from calque.layers.contract import DECODER
from calque.layers.local import Local
from calque.prove.case import SENTENCES

Row = list[list[float]]
WINDOWS = (
    "",
    *(f", window={d}" for d in (1, 2, 7)),
    *(
        f", window={d}, center=predict, bounds={bounds}, renorm={renorm}"
        for d in (1, 2)
        for bounds in ("floor", "round", "real")
        for renorm in ("no", "yes")
    ),
    *(f", window={d}, center=predict, bounds={b}, gauss=scores" for d, b in ((1, "floor"), (2, "round"), (2, "real"))),
)
SCORES = {
    "dot": "dot_src_att(project=none, s=1, keys=@e, values=@end",
    "general": "dot_src_att(project=q, s=1, keys=@e, values=@end",
    "concat": "mlp_src_att(5, keys=@e, values=@end",
    "concat-identity": "mlp_src_att(8, project=q, keys=@e, values=@end",
}


def options(window: str) -> dict[str, str]:
    return dict(part.split("=") for part in window.split(", ") if part)


def window_of(b: Bench, window: str, head: int = 0) -> luong.Window | None:
    """The window that the arguments say, with the weights of the layer."""
    given = options(window)
    if not given:
        return None
    renorm, scored = given.get("renorm") == "yes", given.get("gauss") == "scores"
    made = luong.Window(int(given["window"]), bounds=given.get("bounds", "floor"), renorm=renorm, scored=scored)
    if given.get("center") != "predict":
        return made
    wp, vp = b.weights("0.local.hidden.weight", "0.local.position.weight")
    return luong.Window(made.d, wp, vp[head], made.bounds, made.renorm, made.scored)


def agrees(b: Bench, rows: Callable[[naive.Sequence_, int], list[Row]], values: Callable[[int], list[Any]]) -> None:
    """Outputs and recorded weights are those of the loop, which gives [head][position][source position] of a sentence."""
    s, told = b.subject, {}
    with torch.no_grad():
        y = s.forward(s.x, s.sources, s.mask, record=lambda path, w: told.update({path: w}))
    (recorded,) = told.values()
    for row in range(SENTENCES):
        n, words = int(s.mask[row].sum()), int(s.source_mask[row].sum())
        expected = rows(list(s.x[row, :n].numpy()), row)
        np.testing.assert_allclose(recorded[row, :, :n, :words].numpy(), expected, rtol=0, atol=1e-9)
        assert not recorded[row, :, :n, words:].any()
        parts = [[luong.context(a, of) for a in head] for head, of in zip(expected, values(row), strict=True)]
        contexts = [np.concatenate(heads) for heads in zip(*parts, strict=True)]
        np.testing.assert_allclose(y[row, :n].numpy(), np.stack(contexts), rtol=0, atol=1e-9)


def single(b: Bench, a: Callable[[int, naive.Vector, int], list[float]]) -> None:
    """One head, whose weights at word t, from 1, are a(t, h_t, row)."""
    agrees(b, lambda xs, row: [[a(t, h, row) for t, h in enumerate(xs, 1)]], lambda row: [b.source(row)])


def compared(score: str, window: str) -> None:
    b = Bench(f"{SCORES[score]}{window})", DECODER, "linear(8) @ e -> linear(4)", seed=2)
    seen = window_of(b, window)

    def a(t: int, h: naive.Vector, row: int) -> list[float]:
        keys = b.source(row, "e")
        if score in ("dot", "general"):
            scored = luong.dot(keys, b.weight("0.q.weight") if score == "general" else None)
        else:
            wk = b.weight("0.k.weight") if score == "concat" else None
            scored = luong.concat(keys, b.weight("0.q.weight"), wk, b.weight("0.score.weight"))
        return luong.weights(t, h, len(keys), scored, seen)

    single(b, a)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
def test_scores_and_windows(score: str, window: str) -> None:
    compared(score, window)


@pytest.mark.parametrize("window", [w for w in WINDOWS if w])
def test_several_heads_each_with_its_window(window: str) -> None:
    b = Bench(f"mh_dot_src_att(heads=2, width=6, out=no{window})", DECODER, seed=2)

    def rows(xs: naive.Sequence_, row: int) -> list[Row]:
        q, k = (b.weight(f"0.{name}.weight") for name in "qk")
        keys, found = naive.linear(b.source(row), k), []
        for head in range(2):
            part = slice(3 * head, 3 * head + 3)

            def score(h: naive.Vector, s: int, first: int, part: slice = part) -> float:
                return float(naive.affine(q, h)[part] @ keys[s][part]) / 3**0.5

            seen = window_of(b, window, head)
            found.append([luong.weights(t, h, len(keys), score, seen) for t, h in enumerate(xs, 1)])
        return found

    def values(row: int) -> list[Any]:
        v = naive.linear(b.source(row), b.weight("0.v.weight"))
        return [[h[:3] for h in v], [h[3:] for h in v]]

    agrees(b, rows, values)


@covers("location_src_att")
@pytest.mark.parametrize("slots", [None, 1, 3, 5, 9])
@pytest.mark.parametrize("renorm", [False, True])
def test_location(slots: int | None, renorm: bool) -> None:
    """Slots without words, words without slots."""
    b = Bench(f"location_src_att({slots or 'none'}, renorm={'yes' if renorm else 'no'})", DECODER, "linear(6)")
    wa = b.weight("0.score.weight")
    assert len(wa) == (slots or 50)
    single(b, lambda _, h, row: luong.top_part(h, len(b.source(row)), wa, renorm))


@pytest.mark.parametrize("window", [w for w in WINDOWS if w])
def test_location_within_a_window(window: str) -> None:
    b = Bench(f"location_src_att(none{window})", DECODER, "linear(6)", seed=2)
    score, seen = luong.location(b.weight("0.score.weight")), window_of(b, window)
    single(b, lambda t, h, row: luong.weights(t, h, len(b.source(row)), score, seen))


# -- reversal

LOCAL = (
    "dot_src_att(project=none, s=1, from=@e, window=1)",
    "dot_src_att(project=q, s=1, from=@e, window=1, center=predict)",
    "mlp_src_att(project=q, from=@e, window=2, center=predict, renorm=yes)",
    "location_src_att(3, from=@e)",
    "location_src_att(from=@end, window=1)",
)


@pytest.mark.parametrize("text", LOCAL)
def test_reversal_moves_no_position(text: str) -> None:
    """A memory that is the same word for word gives the same, in whatever order it was read."""
    there, back = Bench(text, DECODER, "linear @ e"), Bench(text, DECODER, "reverse(linear @ e)")
    for name, p in there.subject.model.named_parameters():
        with torch.no_grad():
            back.subject.model.get_parameter(name.replace("encoder.0", "encoder.0.body.0")).copy_(p)
    s, outputs = there.subject, []
    for b in (there, back):
        with torch.no_grad():
            sources = b.subject.encode(s.source, s.source_mask)
            outputs.append(b.subject.forward(s.x, sources, s.mask)[s.mask])
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)


def test_the_window_of_a_reversed_sentence_is_around_the_same_word() -> None:
    s, told = Bench("dot_src_att(project=none, s=1, window=1)", DECODER, "reverse(rnn @ e)").subject, {}
    s.forward(s.x, s.sources, s.mask, record=lambda path, w: told.update({path: w}))
    (a,) = told.values()
    for row in range(SENTENCES):
        words = int(s.source_mask[row].sum())
        for t in range(s.x.shape[1]):
            centre = min(t, words - 1)
            seen = {c for c in (centre - 1, centre, centre + 1) if 0 <= c < words}
            assert set(a[row, 0, t].nonzero().flatten().tolist()) == seen


# -- faults that laws do not find, since both forms have them


def test_where_a_window_stands_is_learned() -> None:
    """No gradient comes through floor, all of it through the Gaussian."""
    s = Bench("dot_src_att(project=none, s=1, window=2, center=predict)", DECODER).subject
    s.forward(s.x, s.sources, s.mask).square().sum().backward()
    for name in ("hidden", "position"):
        gradient = s.model.get_parameter(f"decoder.0.local.{name}.weight").grad
        assert gradient is not None
        assert gradient.abs().min() > 0


FAULTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "the centre is the word before": (", window=1", lambda n: n._replace(outside=(n.offset + 1).abs() > 1)),
    "the window ends before its last position": (
        ", window=2",
        lambda n: n._replace(outside=n.outside | (n.offset == 2)),
    ),
    "the Gaussian is renormalised": (", window=2, center=predict", lambda n: n._replace(renorm=True)),
    "the Gaussian is left out": (", window=2, center=predict", lambda n: n._replace(share=None)),
    "sigma is D": (", window=2, center=predict", lambda n: n._replace(share=n.share**0.25)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_loop_finds(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    window, change = FAULTS[fault]
    real = Local.forward
    monkeypatch.setattr(Local, "forward", lambda self, *given: change(real(self, *given)))
    for score in ("general", "concat-identity"):
        with pytest.raises(AssertionError):
            compared(score, window)
