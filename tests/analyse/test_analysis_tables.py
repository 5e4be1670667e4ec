"""The tables of the figures, each against the same figures counted anew."""

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from calque.align.links import Gold
from calque.analyse import curves, decode_time, gold, heads, lengths, pareto, sweeps
from calque.analyse import unknown_words as unknown
from calque.analyse.contrast import ContrastivePair, by_distance, by_kind, wilson
from calque.analyse.drawn import Table
from calque.data.vocabulary import UNK
from calque.decode.sentences import Translation
from calque.evaluate import bleu, chrf
from calque.ledger.entry import Entry

WORDS = ["eins", "zwei", "drei", "vier", "fünf"]


def sentences(count: int, seed: int, most: int = 12) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, most))) for _ in range(count)]


def test_a_table_is_written_with_empty_fields_where_there_is_no_figure() -> None:
    table = Table.of(("run", "x, s"), [("a", 0.5), ("b", None)])
    assert table.csv() == 'run,"x, s"\na,0.5\nb,\n'
    assert table.where(run="a").rows == (("a", 0.5),)
    assert math.isnan(table.numbers("x, s")[1])


def test_tokens_of_a_curve_are_summed_over_the_log() -> None:
    log: list[dict[str, Any]] = [
        {"kind": "train", "update": 10, "nll": 5.0, "seconds": 4.0, "target_tokens_per_second": 100.0},
        {"kind": "valid", "update": 15, "nll": 4.0, "seconds": 6.0, "bleu": 1.5},
        {"kind": "train", "update": 20, "nll": 3.0, "seconds": 8.0, "target_tokens_per_second": 50.0},
        {"kind": "valid", "set": "news", "update": 20, "nll": 2.0, "seconds": 8.0, "bleu": None},
        {"kind": "valid", "update": 30, "nll": None, "seconds": 9.0},
    ]
    table = curves.learning_curves({"a": log})
    assert [row[1:] for row in table.rows] == [
        ("training", 10, 400, 4.0, 5.0, None),
        ("validation", 15, 500, 6.0, 4.0, 1.5),
        ("training", 20, 600, 8.0, 3.0, None),
        ("news", 20, 600, 8.0, 2.0, None),
    ]


@pytest.mark.parametrize("equal", lengths.EQUAL)
@pytest.mark.parametrize("count", [1, 3, 7, 100])
def test_buckets(equal: str, count: int) -> None:
    draw = random.Random(count)
    sizes = [draw.randint(1, 30) for _ in range(50)]
    found = lengths.buckets(sizes, count, equal)
    assert sorted(itertools.chain(*found)) == list(range(50))
    assert all(found)
    for a, b in itertools.pairwise(found):
        assert max(sizes[i] for i in a) <= min(sizes[i] for i in b)
    if equal == "size":
        assert max(map(len, found)) - min(map(len, found)) <= 1
    else:
        edges = np.linspace(min(sizes), max(sizes) + 1, count + 1)
        assert [len(part) for part in found] == [n for n in np.histogram(sizes, edges)[0] if n]
    assert lengths.buckets([], 3, equal) == []


def test_ranges_of_one_width_are_cut_exactly() -> None:
    for high, count in itertools.product(range(1, 60), range(1, 30)):
        found = lengths.buckets(range(1, high + 1), count, "width")
        ends = [Fraction(k * high, count) for k in range(count + 1)]
        wanted = [[i for i in range(high) if a <= i < b] for a, b in itertools.pairwise(ends)]
        assert found == [part for part in wanted if part], (high, count)


def test_scores_of_a_bucket_are_those_of_its_sentences() -> None:
    sources, references = sentences(30, 1), sentences(30, 2)
    systems = {"a": sentences(30, 3), "b": [*references[:20], *sentences(10, 4)]}
    table = lengths.by_source_length(sources, references, systems, 4, tokenize="none")
    order = sorted(range(30), key=lambda i: len(sources[i].split()))
    parts = [order[:8], order[8:16], order[16:23], order[23:]]
    expected = []
    for name, lines in systems.items():
        for part in parts:
            some, ours = [references[i] for i in part], [lines[i] for i in part]
            words = [len(sources[i].split()) for i in part]
            out, ref = (sum(len(line.split()) for line in text) / len(part) for text in (ours, some))
            scores = bleu(ours, some, tokenize="none").value, chrf(ours, some).value
            expected.append((name, words[0], words[-1], sum(words) / len(part), len(part), *scores, out, ref))
    for row, wanted in zip(table.rows, expected, strict=True):
        assert row[0] == wanted[0]
        assert row[1:] == pytest.approx(wanted[1:], abs=1e-6)


def test_differences_are_by_reference_length() -> None:
    references = sentences(25, 5)
    systems = {"base": sentences(25, 6), "other": references}
    table = lengths.differences(references, systems, "base", tokenize="none")
    order = sorted(range(25), key=lambda i: len(references[i].split()))
    for k, row in enumerate(table.where(run="other").rows):
        part = order[5 * k : 5 * k + 5]
        some = [references[i] for i in part]
        scores = [bleu([systems[n][i] for i in part], some, tokenize="none").value for n in ("other", "base")]
        assert row[3:] == (5, pytest.approx(scores[0]), pytest.approx(scores[0] - scores[1]))
    assert table.where(run="base").column("BLEU less that of base") == [0.0] * 5


def weights(heads_: int, rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.rand(heads_, rows, columns, generator=torch.Generator().manual_seed(seed)).softmax(2)


def test_distances_are_counted_head_by_head() -> None:
    some = [{"encoder.0": weights(2, n, n, n), "decoder.1": weights(3, n, n + 9, 7 + n)} for n in (3, 20)]
    counted = heads.DistanceCounts()
    for one in some:
        counted.add(one)
    table = heads.distance_table({"a": counted}, {"a": {"encoder.0": heads.KINDS[0], "decoder.1": heads.KINDS[2]}})
    assert len(table.rows) == 5
    for row in table.rows:
        path, head = row[2], row[3]
        distances = [
            max(range(matrix.shape[1]), key=lambda j, t=t, m=matrix: float(m[t, j])) - t
            for one in some
            for matrix in [one[str(path)][int(str(head)) - 1]]
            for t in range(len(matrix))
        ]
        n = len(distances)
        inner = [sum(d == k for d in distances) / n for k in range(-4, 5)]
        ends = sum(d <= -5 for d in distances) / n, sum(d >= 5 for d in distances) / n
        expected = [sum(map(abs, distances)) / n, sum(distances) / n, ends[0], *inner, ends[1]]
        assert row[4] == n
        assert list(row[5:]) == pytest.approx(expected)


def test_off_diagonality_counts_tokens_heads_and_layers() -> None:
    layers = [weights(2, 6, 6, 1), weights(3, 6, 6, 2)]
    off = total = 0
    for layer in layers:
        for head in layer:
            for t, row in enumerate(head.tolist()):
                off += abs(row.index(max(row)) - t) >= 2
                total += 1
    assert heads.off_diagonality(layers) == off / total
    assert heads.off_diagonality([torch.eye(5)[None]]) == 0.0
    assert heads.off_diagonality([torch.eye(5).flip(0)[None]]) == 4 / 5
    assert heads.off_diagonality([]) is None


def test_bins_of_off_diagonality() -> None:
    shares = [0.0, 0.19, 0.2, 0.5, 0.99, 1.0, None]
    assert heads.bins_of(shares) == [[0, 1], [2], [3], [], [4, 5]]
    references = sentences(7, 8)
    systems = {"a": references, "b": sentences(7, 9)}
    table = heads.by_off_diagonality({"side": shares}, references, systems, "none")
    assert table.each("from") == [0.0, 0.2, 0.4, 0.8]
    assert table.where(run="b", **{"from": 0.8}).column("BLEU") == [
        pytest.approx(bleu(systems["b"][4:6], references[4:6], tokenize="none").value)
    ]


def test_pieces_are_put_together_to_words() -> None:
    matrix = weights(1, 6, 5, 4)[0]
    target, source = [0, 0, 1, 2, 2], [0, 1, 1, 2]  # and an end symbol on both sides
    found = gold.word_weights(matrix, target, source)
    for t in range(3):
        rows = [k for k, word in enumerate(target) if word == t]
        for s in range(3):
            columns = [k for k, word in enumerate(source) if word == s]
            expected = sum(float(matrix[r, c]) for r in rows for c in columns)
            assert float(found[t, s]) == pytest.approx(expected, rel=1e-5)
    best = {(max(range(3), key=lambda s, t=t: float(found[t, s])), t) for t in range(3)}
    assert gold.argmax_links(found) == best


def test_both_rows_of_a_word_are_linked() -> None:
    one = gold.HeadLinks()
    chosen, read = torch.eye(3, 4)[None], torch.eye(3, 4).roll(1, 0)[None]
    one.add({"x": chosen, "y": read}, [0, 1], [0, 1, 2])
    diagonal = frozenset({(0, 0), (1, 1)})
    assert one.links["x", "1", "chooses"] == [diagonal] == one.links["y", "1", "reads"]
    table = gold.aer_table({"a": one}, [Gold(diagonal, diagonal)])
    assert table.where(layer="x", head="mean").rows[0][3:] == (0.0, 100.0)


@pytest.mark.parametrize(("right", "total"), [(0, 7), (0, 50), (3, 10), (10, 10), (45, 45), (950, 1000)])
def test_the_interval_is_wilson_s(right: int, total: int) -> None:
    expected = scipy.stats.binomtest(right, total).proportion_ci(method="wilson")
    low, high = wilson(right, total)
    assert (low, high) == pytest.approx((100 * expected.low, 100 * expected.high), abs=1e-9)
    assert low <= 100 * (right / total) <= high


def test_contrastive_accuracy_by_kind_and_distance() -> None:
    pairs = [ContrastivePair("k", "s", "c", str(i), d) for i, d in enumerate([1, 1, 3, 20, 99, None])] + [
        ContrastivePair("m", "s", "c", "x")
    ]
    decided = {"a": [True, False, True, True, False, True, True], "b": [True] * 7}
    kinds = by_kind(pairs, decided)
    assert [row[:5] for row in kinds.rows[:3]] == [
        ("a", "k", 6, 4, pytest.approx(100 * 4 / 6)),
        ("a", "m", 1, 1, 100.0),
        ("a", "all", 7, 5, pytest.approx(500 / 7)),
    ]
    far = by_distance(pairs, decided)
    assert [row[:5] for row in far.where(run="a").rows] == [
        ("a", "k", 1, 2, 1),
        ("a", "k", 3, 1, 1),
        ("a", "k", 16, 2, 1),
    ]


def test_the_front_is_what_no_other_beats() -> None:
    draw = random.Random(2)
    costs, goods = ([draw.randint(0, 6) for _ in range(40)] for _ in range(2))
    for k, on in enumerate(pareto.front(costs, goods)):
        beaten = any(
            (costs[j] < costs[k] and goods[j] >= goods[k]) or (costs[j] <= costs[k] and goods[j] > goods[k])
            for j in range(40)
        )
        assert on is not beaten


def test_times_are_taken_in_turn() -> None:
    now = [0.0]

    def system(pace: float) -> Any:
        def translate(line: str) -> str:
            now[0] += pace * len(line.split())
            return line

        return translate

    lines = sentences(20, 1)
    table = decode_time.decode_times(lines, {"a": system(1.0), "b": system(3.0)}, 4, per_bucket=5, clock=lambda: now[0])
    assert table.column("seconds") == pytest.approx(
        [pace * mean for pace in (1.0, 3.0) for mean in table.where(run="a").numbers("mean")]
    )
    assert table.column("sentences") == [5] * 8
    assert table.column("output words") == table.column("mean")


FLAT, STEEP = [(1, 1.0, 9.0), (2, 2.0, 8.99)], [(1, 1.0, 9.0), (2, 2.0, 8.0)]


def cell(row: str, settings: str, value: float, seed: int = 1, curve: list[tuple[int, float, float]] = FLAT) -> Entry:
    where, figures = {"row": row, "settings": settings}, {"BLEU": value}
    return Entry("x", "x", "quality", "x", "2026-01-01", where, figures, seed=seed, validations=curve)


def test_sweeps_of_a_setting_and_of_numbers_in_rows() -> None:
    found = dict(sweeps.sweeps([cell("base", f"d=64 n={n}", n + s / 10, s) for n in (1, 2) for s in (0, 1)]))
    assert list(found) == ["n"]
    assert [row[:3] for row in found["n"].rows] == [
        ("base d=64", 1.0, pytest.approx(1.05)),
        ("base d=64", 2.0, pytest.approx(2.05)),
    ]
    assert found["n"].column("seeds") == [2, 2]
    assert "; 2 trainings per point" in sweeps.draw("n", found["n"], "here").caption
    rows = dict(sweeps.sweeps([cell(f"a-{i}-c-{j}", "", 10 * i + j) for i in (3, 6) for j in (1, 2)]))
    assert rows["#1"].where(line="a-*-c-2").rows == (
        ("a-*-c-2", 3.0, 32.0, None, 1, 0),
        ("a-*-c-2", 6.0, 62.0, None, 1, 0),
    )
    assert rows["#2"].each("line") == ["a-3-c-*", "a-6-c-*"]
    assert sweeps.sweeps([cell("base", "d=64", 1.0)]) == []
    # A width matched to a size goes with the number it follows; one that is chosen freely makes lines of its own.
    matched = dict(sweeps.sweeps([cell(f"heads-{k}", f"d={64 - k}", k) for k in (1, 2, 3)]))
    assert matched["#1"].each("line") == ["heads-*"]
    free = dict(sweeps.sweeps([cell(f"heads-{k}", f"d={d}", k) for k in (1, 2) for d in (8, 16)]))
    assert free["#1"].each("line") == ["heads-* d=8", "heads-* d=16"]
    assert free["d"].each("line") == ["heads-1", "heads-2"]


def test_sweeps_keep_texts_and_trainings_apart() -> None:
    def trained(settings: str, value: float, seed: int = 1, **where: str) -> Entry:
        one = cell("base", settings, value, seed)
        return replace(one, conditions={**one.conditions, **where})

    texts = [trained(f"n={n}", n, corpus=name) for name in ("iwslt14", "multi30k") for n in (1, 2)]
    assert dict(sweeps.sweeps(texts))["n"].each("line") == ["base", "base, 2"]
    assert sweeps.sweeps([trained("n=1", 1.0, corpus="iwslt14"), trained("n=2", 2.0, corpus="multi30k")]) == []
    # Each row may be trained by a recipe of its own, but two trainings are no two seeds.
    tuned = [trained(f"n={n}", n, recipe=f"tuned-{n}") for n in (1, 2)]
    assert dict(sweeps.sweeps(tuned))["n"].column("seeds") == [1, 1]
    recipes = [trained(f"n={n}", n + k, seed, keys=f"{k}") for n in (1, 2) for k in (0, 1) for seed in (1, 2)]
    assert [row[:5] for row in dict(sweeps.sweeps(recipes))["n"].rows] == [
        ("base", 1.0, 1.0, 0.0, 2),
        ("base", 2.0, 2.0, 0.0, 2),
        ("base, 2", 1.0, 2.0, 0.0, 2),
        ("base, 2", 2.0, 3.0, 0.0, 2),
    ]


def test_sweeps_read_all_that_settings_say() -> None:
    said = [("p=1e-1", 1), ("p=.2", 2), ("p=0.3", 3)]
    table = dict(sweeps.sweeps([cell("base", text, value) for text, value in said]))["p"]
    assert table.numbers("p") == [0.1, 0.2, 0.3]
    words = [cell("base", f"act={act} n={n}", n) for act in ("gelu", "relu") for n in (1, 2)]
    assert dict(sweeps.sweeps(words))["n"].each("line") == ["base act=gelu", "base act=relu"]
    assert sweeps.sweeps([cell("base", "as in the text", 1.0)]) == []


def test_sweeps_mark_points_whose_trainings_had_not_converged() -> None:
    curves = {1: FLAT, 2: STEEP, 3: []}
    table = dict(sweeps.sweeps([cell("base", f"n={n}", n, s, curves[n]) for n in curves for s in (0, 1)]))["n"]
    assert table.column("not converged") == [0, 2, 2]
    drawn = sweeps.draw("n", table, "here")
    assert "Hollow points: 4 trainings had not converged" in drawn.caption
    assert (
        "Hollow" not in sweeps.draw("n", replace(table, rows=tuple((*row[:-1], 0) for row in table.rows)), "").caption
    )
    assert sweeps.sweeps([]) == []


def test_unknown_words_are_counted_by_what_becomes_of_them() -> None:
    ids = (UNK, 5, UNK, UNK)
    found = [Translation("<unk> b <unk> <unk>", ids, 0.0, 0.0), Translation("b", (5,), 0.0, 0.0)]
    words = [
        unknown.UnknownWord(1, "x", "dictionary", "ex", True, "ex b y <unk>"),
        unknown.UnknownWord(1, "y", "copy", "y", False, "ex b y <unk>"),
        unknown.UnknownWord(1, None, "left", None, False, "ex b y <unk>"),
    ]
    table = unknown.table({"a": (found, words), "b": (found[1:], [])})
    assert table.rows == (("a", 5, 3, 60.0, 1, 1, 1, 1, 0), ("b", 1, 0, 0.0, 0, 0, 0, 0, 0))
    shown = unknown.examples({"a": words, "b": []})
    assert [row[2:6] for row in shown.rows] == [
        ("x", "dictionary", "ex", "yes"),
        ("y", "copy", "y", "no"),
        (None, "left", None, None),
    ]
    drawn = unknown.draw(table, 2, "table.txt")
    assert drawn.png.startswith(b"\x89PNG")
    assert "table.txt" in drawn.caption
