"""What rows of Domhan's tables can see, by gradient."""

import pytest
import torch
from torch import Tensor

from calque import zoo
from calque.adl.check import check
from calque.adl.dialect import reader
from calque.adl.settings import parse_settings
from calque.layers.contract import Context, Point
from calque.layers.registry import builtin
from calque.model import Model, Shape

LENGTH = 16


def model(name: str, *settings: str) -> Model:
    text = zoo.read(f"domhan2018/{name}")
    checked = check(text, builtin(), reader("calque", parse_settings(["d=8", *settings])))
    torch.manual_seed(3)
    made = Model(checked, Shape(7, 7)).double().eval()
    for p in made.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return made


def seen(made: Model, t: int) -> list[int]:
    """The target positions that output `t` depends on."""
    x = torch.randn(1, LENGTH, 8, dtype=torch.float64, requires_grad=True)
    sources = made.encode(torch.tensor([[1, 2, 3]]))
    z = made.decoder(x, Context(sources=sources, like=x.new_empty(0)))
    z[0, t].square().sum().backward()
    return [s for s in range(LENGTH) if x.grad is not None and x.grad[0, s].abs().max() > 0]


def test_none_sees_the_previous_word_alone() -> None:
    """Section 4.4: through the embedding that enters at this position, that is, of the word before."""
    made = model("table5/self-none", "heads=2")
    assert [seen(made, t) for t in (0, 7, 15)] == [[0], [7], [15]]


@pytest.mark.parametrize("name", ["table4/cnn-relu+ff", "table4/cnn-glu", "table4/cnn-glu-nested", "table5/self-cnn"])
def test_six_convolutions_of_width_three_see_thirteen_words(name: str) -> None:
    heads = [] if "glu" in name else ["heads=2"]  # the baseline has one
    made = model(name, *heads)
    assert seen(made, 15) == list(range(3, 16))
    assert seen(made, 5) == list(range(6))


@pytest.mark.parametrize("name", ["table5/self-rnn", "table5/self-self", "table3/rnmt", "table3/rnn"])
def test_the_others_see_all_before(name: str) -> None:
    made = model(name, *(["heads=2"] if "table5" in name else []))
    assert seen(made, 9) == list(range(10))


BLOCKS = {
    "increasing": [1, 2, 3, 4, 5, 6],
    "increasing-raw": [1, 2, 3, 4, 5, 6],
    "decreasing": [6, 5, 4, 3, 2, 1],
    "decreasing-raw": [6, 5, 4, 3, 2, 1],
    "upper-normed": [6, 6, 6, 6, 6, 6],
    "upper-raw": [6, 6, 6, 6, 6, 6],
}


@pytest.mark.medium
@pytest.mark.parametrize("name", BLOCKS)
def test_decoder_blocks_read_the_encoder_blocks_they_claim(name: str) -> None:
    """With the attention of one decoder block left alone, the output depends on one encoder block."""
    for k, block in enumerate(BLOCKS[name]):
        made = model(f"table2/{name}", "heads=2")
        attentions = [m for m in made.decoder.modules() if type(m).__name__ == "DotSourceAttention"]
        assert len(attentions) == 6
        for j, attention in enumerate(attentions):
            if j != k:
                torch.nn.init.zeros_(attention.out.weight)
        points: dict[str, Tensor] = {
            key: point.value.detach().requires_grad_() for key, point in made.encode(torch.tensor([[1, 2, 3]])).items()
        }
        sources = {key: Point(value, None) for key, value in points.items()}
        made.decode(torch.tensor([[1, 4, 5, 6]]), sources).square().sum().backward()
        read = [key for key, value in points.items() if value.grad is not None and value.grad.abs().max() > 0]
        assert read == [f"block[{block}]"]


def test_upper_reads_the_end() -> None:
    made = model("table2/upper", "heads=2")
    assert list(made.encode(torch.tensor([[1, 2]]))) == ["end"]
