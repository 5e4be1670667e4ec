"""What the authors' code of Zhang 2018 adds to the paper: a vector on source embeddings, and zeros as the decoder's first input."""

import naive
import pytest
import torch
from test_layers import covers

from bench import Bench
from calque import zoo
from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.layers.contract import DECODER, ENCODER
from calque.layers.registry import builtin
from calque.model import Model, Shape


@covers("zero_first")
def test_zero_first() -> None:
    Bench("zero_first", DECODER).agrees(lambda xs, _: naive.zero_first(xs))


def test_zeros_get_positions_and_count_in_the_average() -> None:
    b = Bench("zero_first -> pos(endpoint=yes) -> average", DECODER)
    b.agrees(lambda xs, _: naive.average(naive.pos(naive.zero_first(xs), True, "halves", True)))


def test_bias_is_one_vector_everywhere() -> None:
    b = Bench("pos(0, endpoint=yes) -> bias -> dropout", ENCODER)
    (vector,) = b.weight("1.table")

    def loop(xs: naive.Sequence_, row: int) -> naive.Sequence_:
        return [h + vector for h in naive.pos(xs, True, "halves", True)]

    b.agrees(loop)


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_released_system_never_reads_the_begin_symbol() -> None:
    """Whatever its embedding is, the translations are the same; with the paper's text they are not."""
    target = torch.tensor([[1, 5, 6, 7]])
    for name, reads in {"aan-released": False, "aan": True}.items():
        small = reader("calque", parse_settings(["d=16", "heads=2", "n=1"]))
        model = Model(check(zoo.read(f"zhang2018/{name}"), builtin(), small), Shape(9, 9, "none")).eval()
        source = torch.tensor([[3, 4]])
        with torch.no_grad():
            before = model(source, target)
            model.target_embedding.weight[1] += 1.0
            assert torch.equal(model(source, target), before) != reads
