"""The figures of two definitions side by side, against counts by hand."""

import math

from explained import explained

from calque.explain import differences, differences_json, differences_text

D, N, S = 8, 5, 7
ONE = f"d = {D}\nencoder = cnn\ndecoder = norm -> mh_dot_src_att(2)\n"
TWO = f"d = {D}\nencoder = rnn\ndecoder = mh_dot_self_att(2) -> mh_dot_src_att(2)\n"
READ = 2 * D * D + 2 * D * S  # a source attention of a position: q and out, and the two products with the memory
KEPT = 8 + 4 * 2 * D * S  # history, keys and values of the source
COUNTS = {
    "parameters": (D * (3 * D + 1) + 2 * D + 4 * D * D, 4 * D * (2 * D + 1) + 8 * D * D),
    "per_source_token": (3 * D * D + 2 * D * D, 8 * D * D + 2 * D * D),
    "per_target_token": (READ, READ + 4 * D * D + 2 * D * N),
    "step": (READ, READ + 4 * D * D + 2 * D * N),
    "state_bytes": (KEPT, KEPT + 4 * 2 * D * (N + 1)),
    "encoder_field": ((-1, 1), (-math.inf, 0)),
    "encoder_sequential": (1, S),
    "encoder_path": (math.inf, S - 1),
    "decoder_field": ((0, 0), (-math.inf, 0)),
    "decoder_sequential": (2, 2),
    "decoder_path": (math.inf, 1),
}


def test_figures_are_those_counted_by_hand() -> None:
    found = differences(explained(ONE, N, S), explained(TWO, N, S))
    assert {d.key: (d.a, d.b) for d in found} == COUNTS
    assert [d.key for d in found] == list(COUNTS)
    for d in found:
        bounded = not isinstance(d.a, tuple) and not any(math.isinf(x) for x in COUNTS[d.key])  # type: ignore[arg-type]
        assert d.more == (COUNTS[d.key][1] - COUNTS[d.key][0] if bounded else None)  # type: ignore[operator]


def test_as_text_and_as_json() -> None:
    found = differences(explained(ONE, N, S), explained(TWO, N, S), "bfloat16")
    lines = {line[:50].split("  ")[0]: line.split()[-3:] for line in differences_text(found).splitlines()[1:]}
    assert lines["multiply-adds per source token"] == ["320", "640", "+320"]
    assert lines["encoder: operations in sequence, n = 7"] == ["1", "7", "+6"]
    assert lines["encoder: positions seen"][-2:] == ["-1..+1", "-∞..0"]
    assert lines["encoder: longest path, n = 7"][-2:] == ["none", "6"]
    assert "bytes of state in bfloat16 after 5 words" in lines
    data = differences_json(found)
    assert data["encoder_field"] == [[-1, 1], [None, 0]]
    assert data["encoder_path"] == [None, 6]
    assert data["per_source_token"] == [320, 640]
