"""What measurements compute beside times: limits, work, sentences, states, entries. No figure of a clock is held."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import calque
from calque.bench import record as entry
from calque.bench.clock import best, digits, speeds
from calque.bench.inputs import batches_of, cut, definition, like_file, synthetic
from calque.bench.limit import CountedWork, Roofline, step_work, work_of
from calque.bench.machine import KERNELS, ProductShape, machine, table
from calque.bench.peers import sizes_of
from calque.bench.train import settings_for
from calque.bench.uncached import without_states
from calque.data.batches import collate
from calque.data.corpus import Pairs
from calque.data.vocabulary import EOS, PAD
from calque.decode.rule import SearchSettings
from calque.decode.search import search
from calque.ground.diagnostics import CalqueError
from calque.model import Model, Shape
from calque.train.timed_updates import fresh
from calque.train.update import update

CPU = torch.device("cpu")


def test_speeds_are_of_the_median_slowest_and_fastest_repeat() -> None:
    assert speeds(100, [2.0, 1.0, 4.0]) == {"median": 50.0, "slowest": 25.0, "fastest": 100.0}
    assert digits(123456.0) == 123500.0
    assert best(lambda: None, 0.0) >= 0


@pytest.mark.medium
def test_the_machine_has_every_limit_or_null() -> None:
    found = machine(CPU, 0.0005, rows=(1, 4), weights=((16, 32),), size=1 << 20)
    assert [(p["rows"], p["inner"], p["outer"]) for p in found["products"]] == [(1, 16, 32), (4, 16, 32)]
    for product in found["products"]:
        assert set(product["gflops"]) == set(KERNELS)
        assert (product["gflops"]["float32"] or 0) > 0
    assert min(*found["overhead_microseconds"].values(), *found["bandwidth_gigabytes_per_second"].values()) > 0
    found["products"][0]["gflops"]["int8"] = None
    text = table(found)
    assert "4 x 16 x 32" in text
    assert "GB/s" in text


def test_work_is_counted_by_the_shapes_of_products() -> None:
    x, w = torch.ones(3, 5), torch.ones(7, 5)
    work = work_of(lambda: torch.nn.functional.linear(torch.nn.functional.linear(x, w), w.t(), torch.ones(5)))
    assert work.multiply_adds == 2 * 3 * 5 * 7
    assert dict(work.products) == {ProductShape(3, 5, 7): 1, ProductShape(3, 7, 5): 1}
    assert work.weights == 2 * 35


def test_results_to_write_into_are_no_factors() -> None:
    """The training code writes its products into memory that it has: the third tensor is the result, not a weight."""
    x, w, out = torch.ones(3, 5), torch.ones(5, 7), torch.empty(3, 7)

    def run() -> None:
        torch.mm(x, w, out=out)
        torch.addmm(torch.ones(7), x, w, out=out)
        out.addmm_(x, w)
        torch.bmm(x[None], w[None])

    work = work_of(run)
    assert dict(work.products) == {ProductShape(3, 5, 7): 3}
    assert work.multiply_adds == 4 * 3 * 5 * 7


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_products_of_an_update_follow_from_the_architecture(precision: str) -> None:
    """By arithmetic: a cell's matrices forward, and twice back; fused, and as a loop over positions."""
    d, size, b, t = 24, 40, 4, 6
    text = f"d = {d}\nencoder = rnn\ndecoder = rnn -> mlp_src_att\n"
    settings = replace(settings_for(precision, 1, 1000, "cpu"), label_smoothing=0.0)
    pairs = Pairs.of([[5] * (t - 1)] * b, [[6] * (t - 1)] * b)
    updater, model = fresh(calque.check(text), Shape(size, size), settings, None, CPU, precision)
    batch = collate(pairs, np.arange(b), True)
    work = work_of(lambda: update(model, updater, [batch], settings, 0.001))
    rows = b * t
    # Of each of the two cells: all x_t and every h_t-1 times a matrix of 4 d rows; back, all x_t, and every h_t-1 but, where no
    # gradient of the start is made, the first.
    assert work.products[ProductShape(rows, d, 4 * d)] == 2
    assert work.products[ProductShape(b, d, 4 * d)] == 2 * t
    assert work.products[ProductShape(rows, 4 * d, d)] == 2
    assert work.products[ProductShape(b, 4 * d, d)] in (2 * t, 2 * (t - 1))
    # The output layer, and the gradient of what it reads.
    assert work.products[ProductShape(rows, d, size)] == work.products[ProductShape(rows, size, d)] == 1
    assert work.multiply_adds >= sum(n * p.operations // 2 for p, n in work.products.items())


def test_the_work_of_a_step_follows_from_the_architecture(model: Model) -> None:
    """By arithmetic: 8 d^2 of q, k, v, output and inner layers, 2 d^2 of a source attention's, for each block; V d at last."""
    (source, mask), *_ = batches_of(synthetic(2, 40), 2, CPU)
    work = step_work(model, source, mask, beam=3, length=8)
    assert work.weights == 2 * (4 + 2 + 8) * 16**2 + 40 * 16
    assert {p.rows for p in work.products} == {6}
    attention = work.multiply_adds - 6 * work.weights
    # Scores and sums over the source and, at most, the 5 positions of all 3 hypotheses.
    each = 6 * 2 * 2 * 16
    assert each * (source.shape[1] + 5) <= attention <= each * (source.shape[1] + 3 * 5)


def test_the_limit_is_the_time_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    product = ProductShape(2, 10, 10)
    work = work_of(lambda: torch.ones(2, 10) @ torch.ones(10, 10))
    known: dict[ProductShape, float | None] = {product: 1e-3}
    bound = Roofline(CPU, "float32", known).limit(work)
    assert bound is not None
    assert bound.seconds == pytest.approx(1e-3)
    assert bound.weight_bytes == 400
    # What has no shape, or no time was left for, is as fast as the fastest product.
    other = ProductShape(1, 10, 10)
    both = CountedWork(200 + 100 + 50, Counter({product: 1, other: 1}))
    monkeypatch.setattr("calque.bench.limit._TOTAL", -1.0)
    assert (short := Roofline(CPU, "float32", dict(known), training=True).limit(both)) is not None
    assert short.seconds == pytest.approx(1e-3 * (1 + 150 / 200))
    slow_one: dict[ProductShape, float | None] = {**known, other: 2e-3}
    assert (whole := Roofline(CPU, "float32", slow_one, training=True).limit(both)) is not None
    assert whole.seconds == pytest.approx(1e-3 * (1 + 2 + 50 / 200))
    assert Roofline(CPU, "float32", {product: None}).limit(work) is None
    assert Roofline(CPU, "float32", known).limit(CountedWork(0, type(work.products)())) is None


def test_sentences_are_the_same_each_time_and_cut_longest_first(tmp_path: Path) -> None:
    sentences = synthetic(200, 50)
    assert all((a == b).all() for a, b in zip(sentences, synthetic(200, 50), strict=True))
    lengths = [len(s) - 1 for s in sentences]
    assert 13 < np.mean(lengths) < 15
    assert all(s[-1] == EOS and s[:-1].min() >= 4 and s.max() < 50 for s in sentences)
    assert [len(part) for part in cut(sentences, 90)] == [90, 90, 20]
    source, mask = batches_of(sentences, 90, CPU)[0]
    assert mask.sum() == (source != PAD).sum()
    file = tmp_path / "text"
    file.write_text("a b c\n\nd\n")
    assert [len(s) for s in like_file(file, 9, 50)] == [4, 2, 2]


@pytest.mark.parametrize("beam", [1, 3])
def test_without_states_the_same_words_are_chosen(model: Model, beam: int) -> None:
    model = model.double()
    (source, mask), *_ = batches_of(synthetic(5, 40), 5, CPU)
    limits, settings = torch.tensor([3, 5, 2, 6, 4]), SearchSettings(beam)
    plain = search(model, source, mask, limits, settings)
    encoded: list[int] = []
    hook = model.encoder.register_forward_hook(lambda layer, given, out: encoded.append(len(out)))
    with without_states(model):
        found = search(model, source, mask, limits, settings)
    hook.remove()
    assert found.tokens == plain.tokens
    # The encoder runs for the search, and for every hypothesis at every step.
    assert sum(encoded) > len(source) * (1 + beam)
    assert not {"encode", "init_state", "step"} & set(vars(model))


def test_peers_have_the_standard_transformer_alone(text: Path) -> None:
    assert sizes_of(definition(str(text)), 40) == (16, 2, 2, 0.1, 40)
    assert sizes_of(definition("domhan2018/transformer"), 32000) == (512, 8, 6, 0.1, 32000)
    for name in ("domhan2018/rnmt", "domhan2018/transformer-post"):
        with pytest.raises(CalqueError) as caught:
            sizes_of(definition(name), 40)
        assert caught.value.diagnostics[0].code == "X602"


def test_an_entry_names_every_number_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from calque.ledger.entry import conditions, read

    monkeypatch.setattr("sys.argv", ["calque", "bench", "start", "--record", "x/start.json", "--repeats", "2"])
    found = {
        "timed": "nothing",
        "conditions": {**conditions(), "architecture": "0123456789ab"},
        "cells": [
            {"system": "calque", "beam": n, "length": None, "seconds": 0.5 * n, "limit": {"bound": "x", "ms": 2}}
            for n in (1, 5)
        ],
        "losses": [1.0, 2.0],
    }
    entry.record(tmp_path / "start.json", "Start", found)
    (held,) = read(tmp_path)
    assert held.command == "calque bench start --repeats 2"
    assert held.figures == {
        "system calque, beam 1, seconds": 0.5,
        "system calque, beam 1, limit, ms": 2,
        "system calque, beam 5, seconds": 2.5,
        "system calque, beam 5, limit, ms": 2,
    }
    assert held.architecture_hash == "0123456789ab"
    assert json.loads((tmp_path / "start.json").read_text())["kind"] == "speed"
