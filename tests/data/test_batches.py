"""Batches against a loop over sentences; plans against what they promise."""

import itertools
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calque.data.batches import _sorted, collate, decode_plan, plan
from calque.data.corpus import Pairs
from calque.data.mixture import check_weights, mixed
from calque.data.vocabulary import BOS, EOS, PAD
from calque.ground.diagnostics import CalqueError


def make(lengths: list[tuple[int, int]]) -> Pairs:
    ids = itertools.cycle(range(4, 90))
    return Pairs.of(*([[next(ids) for _ in range(pair[side])] for pair in lengths] for side in (0, 1)))


PAIRS = make([(3, 5), (0, 0), (7, 1), (1, 2), (4, 4)])
lengths = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60)


@pytest.mark.parametrize("source_end", [True, False])
@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [2], [1], [4, 0, 4]])
@pytest.mark.parametrize("multiple", [1, 8])
def test_collate_equals_a_loop(rows, source_end, multiple):
    batch = collate(PAIRS, np.array(rows), source_end, multiple)
    # A blank source takes one position, which is real: nothing attends to padding that other rows have made.
    sources = [PAIRS.source(r).tolist() + [EOS] * source_end or [PAD] for r in rows]
    targets = [PAIRS.target(r).tolist() for r in rows]

    def padded(sentences: list[list[int]]) -> list[list[int]]:
        width = max(1, *map(len, sentences), 1)
        width += -width % multiple
        return [s + [PAD] * (width - len(s)) for s in sentences]

    def mask(sentences: list[list[int]]) -> list[list[bool]]:
        return [[i < len(s) for i in range(len(p))] for s, p in zip(sentences, padded(sentences), strict=True)]

    assert batch.source.tolist() == padded(sources)
    assert batch.source_mask.tolist() == mask(sources)
    assert batch.target_in.tolist() == padded([[BOS, *t] for t in targets])
    assert batch.target_out.tolist() == padded([[*t, EOS] for t in targets])
    assert batch.target_mask.tolist() == mask([[*t, EOS] for t in targets])
    assert batch.index.tolist() == rows
    assert batch.source_tokens == sum(map(len, sources))
    assert batch.target_tokens == sum(len(t) + 1 for t in targets)
    assert all(t.dtype == torch.int64 for t in (batch.source, batch.target_in, batch.target_out, batch.index))
    assert batch.source_mask.dtype == batch.target_mask.dtype == torch.bool


@given(
    lengths, st.integers(0, 100), st.integers(0, 9), st.integers(0, 2**32), st.integers(0, 9), st.sampled_from([1, 4])
)
def test_every_pair_once_within_bounds(sizes, tokens, sentences, seed, epoch, multiple):
    pairs = make(sizes)
    batches = plan(pairs, tokens, sentences, seed, epoch, multiple)
    assert sorted(i for rows in batches for i in rows.tolist()) == list(range(len(pairs)))
    for rows in batches:
        assert len(rows)
        if sentences:
            assert len(rows) <= sentences
        batch = collate(pairs, rows, True, multiple)
        if tokens and len(rows) > 1:
            assert batch.target_in.numel() <= tokens
            assert batch.source.numel() <= tokens


def test_a_pair_that_is_too_long_is_alone():
    batches = plan(make([(3, 3), (3, 99), (99, 3), (3, 3)]), 20, 0, 1, 0)
    assert sorted(sorted(rows.tolist()) for rows in batches) == [[0, 3], [1], [2]]


def corpus(n: int) -> Pairs:
    random = np.random.default_rng(5)
    source = random.poisson(14, n) + 1
    target = np.maximum(1, source + random.integers(-4, 5, n))
    return make(list(zip(source.tolist(), target.tolist(), strict=True)))


def test_deterministic_in_seed_and_epoch_and_different_otherwise():
    pairs = corpus(3000)

    def made(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in plan(pairs, 500, 0, seed, epoch)]

    assert made(1, 0) == made(1, 0)
    first, second, third = made(1, 0), made(1, 1), made(2, 0)
    for other in (second, third):
        assert first != other
        # Not only the order of batches: few batches hold the same pairs.
        assert len({frozenset(b) for b in first} & {frozenset(b) for b in other}) < len(first) / 10


def test_little_padding_and_no_order_by_length():
    pairs = corpus(5000)
    batches = [collate(pairs, rows, True) for rows in plan(pairs, 1000, 0, 1, 0)]
    assert sum(b.target_tokens for b in batches) > 0.95 * sum(b.target_in.numel() for b in batches)
    assert sum(b.source_tokens for b in batches) > 0.75 * sum(b.source.numel() for b in batches)
    widths = np.array([b.target_in.shape[1] for b in batches])
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_sentences_alone_bound_a_batch():
    sizes = sorted(len(rows) for rows in plan(corpus(100), 0, 32, 1, 0))
    assert sizes == [4, 32, 32, 32]


@given(st.lists(st.integers(0, 50), max_size=80), st.integers(1, 120))
def test_decode_plan_is_sorted_bounded_and_complete(sizes, tokens):
    batches = decode_plan(np.array(sizes, np.int64), tokens)
    order = [i for rows in batches for i in rows.tolist()]
    assert sorted(order) == list(range(len(sizes)))
    assert [sizes[i] for i in order] == sorted(sizes, reverse=True)
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(sizes[i] for i in rows) <= tokens


def test_a_million_pairs_are_planned_in_seconds():
    random = np.random.default_rng(1)
    pairs = Pairs.__new__(Pairs)
    pairs.sources, pairs.targets = (_Lengths(random.poisson(25, 1_000_000) + 1) for _ in range(2))
    before = time.process_time()
    batches = plan(pairs, 4096, 0, 1, 0)
    assert time.process_time() - before < 60  # what grows with the square of the pairs takes hours; this takes a second
    assert sum(map(len, batches)) == 1_000_000


class _Lengths:
    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)


def test_sorted_within_runs_of_batches():
    pairs = corpus(1000)
    batches = plan(pairs, 0, 8, 1, 0, sort_batches=10)
    assert sorted(i for rows in batches for i in rows.tolist()) == list(range(1000))
    assert [len(rows) for rows in batches].count(8) == 125
    runs = [batches[at : at + 10] for at in range(0, len(batches), 10)]
    for run in runs:  # each run holds all lengths, and its batches follow one another when sorted
        spans = sorted((int(pairs.target_lengths[rows].min()), int(pairs.target_lengths[rows].max())) for rows in run)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert any(
        int(pairs.target_lengths[a[-1]].min()) > int(pairs.target_lengths[b[0]].max())
        for a, b in itertools.pairwise(runs)
    )
    again, other = (plan(pairs, 0, 8, 1, epoch, sort_batches=10) for epoch in (0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    assert {frozenset(b.tolist()) for b in batches} != {frozenset(b.tolist()) for b in other}


def test_the_fast_order_is_that_of_a_stable_sort():
    random = np.random.default_rng(1)
    for size, step in ((0, 1), (1, 1), (2000, 1), (2000, 1e-6)):
        target = random.integers(1, 9, size)
        source = np.round(random.uniform(0, 9, size) / step) * step
        for high in (0, 70_000):
            assert (_sorted(source, target + high) == np.lexsort((source, target))).all()


def test_weights_with_which_an_epoch_fits_no_memory_are_refused() -> None:
    assert len(mixed([3, 40], [2**-10, 1.0], 1, 0)) == 3 + 3 * 2**10
    for weight, found in ((1e-9, "3,000,000,003 pairs;"), (1e-300, "2,999,999,999,999,")):
        with pytest.raises(CalqueError) as raised:
            mixed([3, 40], [weight, 1.0], 1, 0)
        assert raised.value.diagnostics[0].code == "D314"
        assert f"with these weights an epoch has {found}" in str(raised.value)
        assert "at most 500,000,000 are possible" in str(raised.value)


def test_weights_may_repeat_a_text_many_times_and_texts_may_be_of_any_size() -> None:
    check_weights([6_000_000, 100_000], [1.0, 9.0])
    check_weights([300_000_000, 300_000_000], [1.0, 1.0])
