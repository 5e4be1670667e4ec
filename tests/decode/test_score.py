"""Forced scores against those of the search, and against a sum written out."""

import numpy as np
import pytest
import torch
from decode_oracle import MODELS, sources, varied

from calque.data.batches import collate
from calque.data.corpus import Pairs
from calque.data.vocabulary import BOS, EOS
from calque.decode.score import score, score_versions
from calque.decode.search import SearchSettings, search

LENGTHS, LIMITS = [6, 1, 4, 7, 2, 5], [9, 3, 6, 12, 1, 8]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_forced_scores_are_those_of_the_search(name: str, beam: int) -> None:
    model = varied(name).float()
    source, mask = sources(LENGTHS)
    found = search(model, source, mask, torch.tensor(LIMITS), SearchSettings(beam, "none"))
    pairs = Pairs.of(
        [row[:n].tolist() for row, n in zip(source, LENGTHS, strict=True)], [words[0] for words in found.tokens]
    )
    # Two batches, out of order: the scores come back in the order of the pairs.
    batches = [collate(pairs, np.array(rows), source_end=False) for rows in ([4, 0, 3], [2, 5, 1])]
    forced = score(model, batches)
    torch.testing.assert_close(forced.logp.tolist(), [logps[0] for logps in found.logps], rtol=1e-6, atol=1e-4)
    assert forced.tokens.tolist() == [len(words[0]) + 1 for words in found.tokens]


def test_the_end_symbol_counts() -> None:
    model = varied("transformer")
    pairs = Pairs.of([[4, 5, 6], [7]], [[8, 9], []])
    found = score(model, [collate(pairs, np.arange(2), source_end=True)])
    with torch.inference_mode():
        logp = model(torch.tensor([[4, 5, 6, EOS]]), torch.tensor([[BOS, 8, 9]]))[0].log_softmax(1)
        empty = model(torch.tensor([[7, EOS]]), torch.tensor([[BOS]]))[0].log_softmax(1)
    expected = [float(logp[0, 8] + logp[1, 9] + logp[2, EOS]), float(empty[0, EOS])]
    torch.testing.assert_close(found.logp.tolist(), expected, rtol=0, atol=1e-9)


def test_given_words_cost_nothing() -> None:
    model = varied("transformer")
    pairs = Pairs.of([[4, 5, 6], [7]], [[8, 9, 10], [8]])
    batch = collate(pairs, np.arange(2), source_end=True)
    whole, behind = score(model, [batch]), score(model, [batch], given=1)
    with torch.inference_mode():
        firsts = [
            model(torch.tensor([ids]), torch.tensor([[BOS]]))[0, 0].log_softmax(0)[8]
            for ids in ([4, 5, 6, EOS], [7, EOS])
        ]
    torch.testing.assert_close(whole.logp - behind.logp, torch.stack(firsts), rtol=0, atol=1e-9)
    assert behind.tokens.tolist() == whole.tokens.tolist()
    versions = score_versions(model, [[4, 5, 6], [7]], [[[8, 9, 10], [8, 9]], [[8]]], given=1)
    assert versions[0].logp[0] == pytest.approx(float(behind.logp[0]), abs=1e-9)
    assert versions[1].logp[0] == pytest.approx(float(behind.logp[1]), abs=1e-9)


def test_nothing_to_score() -> None:
    model = varied("cnn")
    found = score(model, [])
    assert found.logp.shape == found.tokens.shape == (0,)
    none, one, last = score_versions(model, [[4], [5, 6], [7]], [[], [[4, 5]], []])
    assert none.logp.shape == none.tokens.shape == last.logp.shape == (0,)
    assert one.logp.tolist() == score_versions(model, [[5, 6]], [[[4, 5]]])[0].logp.tolist()
    assert [len(one.logp) for one in score_versions(model, [[4], [5]], [[], []])] == [0, 0]


@pytest.mark.parametrize("name", MODELS)
def test_a_blank_source_does_not_see_its_batch(name: str) -> None:
    """Without an end symbol it has no word that attention could take."""
    model = varied(name)
    pairs = Pairs.of([[], [4, 5, 6], [4, 5, 6, 7, 8, 9, 10]], [[4, 5]] * 3)
    found = [score(model, [collate(pairs, np.array(rows), False)]).logp[0].item() for rows in ([0], [0, 1], [0, 1, 2])]
    assert found == pytest.approx([found[0]] * 3, abs=1e-9)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_versions_of_a_source_score_as_they_do_alone(name: str, end: bool) -> None:
    model = varied(name)
    read = [[4, 5, 6, 7, 8], [9], [5, 5, 12], [6, 7]]
    versions = [
        [[4, 5, 6, 7], [4, 5, 9, 7], [4, 5, 6, 7, 10, 11], [12], []],
        [[8]],
        [[], [5, 6], [5, 6]],
        [[10, 9, 8], [10, 9, 8, 7], [10, 9]],
    ]
    flat = [(s, ids) for s, some in zip(read, versions, strict=True) for ids in some]
    pairs = Pairs.of(*map(list, zip(*flat, strict=True)))
    alone = score(model, (collate(pairs, np.array([k]), end) for k in range(len(pairs))))
    for tokens in (1, 40, 4096):
        each = score_versions(model, read, versions, end, tokens)
        assert [len(one.logp) for one in each] == list(map(len, versions))
        torch.testing.assert_close(torch.cat([one.logp for one in each]), alone.logp, rtol=1e-9, atol=1e-9)
        assert torch.cat([one.tokens for one in each]).tolist() == alone.tokens.tolist()
    assert score_versions(model, [], [], end) == []
