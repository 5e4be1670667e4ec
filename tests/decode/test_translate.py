"""From lines to lines."""

import math
from dataclasses import replace

import pytest
import torch
from decode_oracle import naive_beam, varied

from calque.data.codecs import Words
from calque.data.vocabulary import EOS, Vocabulary
from calque.decode.prepare import prepare_for_decoding
from calque.decode.translate import EMPTY, Loaded, translate_lines, translate_stream
from calque.experiment import Decode

LINES = ["a b c", "", "d", "a a b i h g", " \t ", "c never-seen", "e f g h i a b", "a b c", "b", "h h"]


@pytest.fixture
def loaded() -> Loaded:
    source, target = Words(Vocabulary("abcdefghi")), Words(Vocabulary("ABCDEFGHI"))
    decode = Decode(beam=3, max_length_factor=1.3, max_length_offset=1, batch_tokens=30)
    return Loaded(varied("transformer"), source, target, decode)


@pytest.mark.parametrize("source_end", [True, False])
def test_every_line_is_what_the_naive_search_makes_of_it(loaded: Loaded, source_end: bool) -> None:
    loaded = replace(loaded, source_end=source_end)
    found = translate_lines(loaded, LINES, n_best=2)
    for line, translations in zip(LINES, found, strict=True):
        (ids,) = loaded.source.encode([line])
        if not ids:
            assert translations == [EMPTY]
            continue
        limit = math.ceil(1.3 * len(ids)) + 1
        with torch.inference_mode():
            expected = naive_beam(loaded.model, ids + [EOS] * source_end, limit, 3, "length", 1.0, 2)
        assert [list(t.ids) for t in translations] == [words for _, _, words in expected]
        assert [t.text for t in translations] == [loaded.target.decode(words) for _, _, words in expected]
        torch.testing.assert_close([t.logp for t in translations], [logp for _, logp, _ in expected])
        torch.testing.assert_close([t.score for t in translations], [score for score, _, _ in expected])


@pytest.mark.parametrize("beam", [1, 4])
def test_a_line_does_not_see_its_batch(loaded: Loaded, beam: int) -> None:
    def texts(batch_tokens: int, lines: list[str]) -> list[str]:
        settings = replace(loaded.decode, beam=beam, batch_tokens=batch_tokens)
        return [t[0].text for t in translate_lines(replace(loaded, decode=settings), lines)]

    expected = [texts(1, [line])[0] for line in LINES]
    assert texts(1, LINES) == texts(25, LINES) == texts(10_000, LINES) == expected
    assert texts(40, LINES[::-1]) == expected[::-1]
    assert expected[0] == expected[7]


def test_a_stream_gives_as_many_lines_as_it_takes_and_reads_no_further(loaded: Loaded) -> None:
    read = []

    def lines():
        for line in LINES:
            read.append(line)
            yield line

    stream = translate_stream(loaded, lines(), chunk=4)
    first = next(stream)
    assert len(read) == 4
    for found, expected in zip([first, *stream], translate_lines(loaded, LINES), strict=True):
        assert [one.ids for one in found] == [one.ids for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-12)
    assert list(translate_stream(loaded, [])) == []
    assert list(translate_stream(loaded, ["", ""])) == [[EMPTY], [EMPTY]]


def test_bfloat16_casts_every_weight_once_and_keeps_ties(loaded: Loaded) -> None:
    model = loaded.model.float()
    model.output.weight = model.target_embedding.weight
    model.train()
    assert prepare_for_decoding(model, "bfloat16") is model
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert not any(p.requires_grad for p in model.parameters())
    assert not any(m.training for m in model.modules())
    assert model.output.weight.data_ptr() == model.target_embedding.weight.data_ptr()
    found = translate_lines(loaded, LINES)
    assert len(found) == len(LINES)
    assert [t[0] == EMPTY for t in found] == [not line.strip() for line in LINES]
    assert all(math.isfinite(t[0].score) for t in found)
