"""From lines to lines."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from decode_oracle import naive_beam, next_word, varied

from calque.data.codecs import WordCodec
from calque.data.imported_codec import ImportedCodec
from calque.data.vocabulary import EOS, Vocabulary
from calque.decode.prepare import prepare_for_decoding
from calque.decode.translate import EMPTY, Translator, force, translate_lines, translate_stream
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import Diagnostic, Place
from calque.workflow.given import given_prefix

LINES = ["a b c", "", "d", "a a b i h g", " \t ", "c never-seen", "e f g h i a b", "a b c", "b", "h h"]


@pytest.fixture
def loaded() -> Translator:
    source, target = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
    decode = DecodeSettings(beam=3, max_length_factor=1.3, max_length_offset=1, batch_tokens=30)
    return Translator(varied("transformer"), source, target, decode)


@pytest.mark.parametrize("source_end", [True, False])
def test_every_line_is_what_the_naive_search_makes_of_it(loaded: Translator, source_end: bool) -> None:
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
def test_a_line_does_not_see_its_batch(loaded: Translator, beam: int) -> None:
    def texts(batch_tokens: int, lines: list[str]) -> list[str]:
        settings = replace(loaded.decode, beam=beam, batch_tokens=batch_tokens)
        return [t[0].text for t in translate_lines(replace(loaded, decode=settings), lines)]

    expected = [texts(1, [line])[0] for line in LINES]
    assert texts(1, LINES) == texts(25, LINES) == texts(10_000, LINES) == expected
    assert texts(40, LINES[::-1]) == expected[::-1]
    assert expected[0] == expected[7]


def test_a_stream_gives_as_many_lines_as_it_takes_and_reads_no_further(loaded: Translator) -> None:
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


def test_bfloat16_casts_every_weight_once_and_keeps_ties(loaded: Translator) -> None:
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


@pytest.mark.parametrize("prefix", ["C A", [6, 4]])
@pytest.mark.parametrize("invariant", [False, True])
def test_a_translation_begins_with_its_prefix(loaded: Translator, prefix, invariant: bool) -> None:
    plain = translate_lines(loaded, LINES, invariant=invariant)
    asked = [line if k % 2 else (line, prefix) for k, line in enumerate(LINES)]
    found = translate_lines(loaded, asked, invariant=invariant)
    for k, (line, translations) in enumerate(zip(LINES, found, strict=True)):
        if k % 2 or not line.strip():
            assert translations == plain[k] or not invariant
            assert [t.ids for t in translations] == [t.ids for t in plain[k]]
        else:
            assert translations[0].ids[:2] == (6, 4)
            assert translations[0].text.startswith("C A")
    if invariant:
        assert translate_lines(loaded, asked[::-1], invariant=True) == found[::-1]


def test_samples_depend_on_the_line_and_the_seed_alone(loaded: Translator) -> None:
    def drawn(lines, n_best=2, first=1, invariant=False, **keys):
        decode = replace(loaded.decode, sample=True, **keys)
        return translate_lines(replace(loaded, decode=decode), lines, n_best, invariant, first)

    with torch.no_grad():
        loaded.model.output.weight.mul_(0.3)
    expected = drawn(LINES)
    assert len({t.text for t in drawn(["a b c"] * 20, 1) for t in t}) > 5
    assert [[t.ids for t in f] for f in drawn(LINES, batch_tokens=1)] == [[t.ids for t in f] for f in expected]
    assert [[t.ids for t in f] for f in drawn(LINES, invariant=True)] == [[t.ids for t in f] for f in expected]
    assert [t.ids for t in drawn(LINES[3:4], first=4)[0]] == [t.ids for t in expected[3]]
    assert drawn(LINES, seed=2) != expected


@pytest.mark.parametrize(("beam", "scores"), [(1, True), (1, False), (3, True)])
@pytest.mark.parametrize("precision", [None, "float32", "int8"])
@pytest.mark.parametrize("lost", [True, False])
def test_a_model_without_numbers_says_so_for_each_line(
    loaded: Translator, beam: int, scores: bool, precision: str | None, lost: bool
) -> None:
    """And one that has numbers says nothing."""
    if lost:
        with torch.no_grad():
            loaded.model.output.weight.fill_(math.nan)
    model = loaded.model if precision is None else prepare_for_decoding(loaded.model, precision)
    searched = replace(loaded, model=model, decode=replace(loaded.decode, beam=beam), scores=scores)
    warnings: list[Diagnostic] = []
    found = translate_lines(searched, ["a b", "", "c"], warn=warnings.append, first=7)
    expected = [("D607", Place("stdin", 7)), ("D607", Place("stdin", 9))] if lost else []
    assert [(d.code, d.where) for d in warnings] == expected
    assert len(found) == 3


def test_a_line_that_is_too_long_is_cut_with_a_warning(loaded: Translator) -> None:
    warnings = []
    bounded = replace(loaded, decode=replace(loaded.decode, max_source_tokens=5))
    found = translate_lines(bounded, LINES, warn=warnings.append, first=11)
    assert [(d.code, d.where.line, d.fields["found"]) for d in warnings] == [("D606", 14, 6), ("D606", 17, 7)]
    cut = translate_lines(loaded, [" ".join(line.split()[:5]) for line in LINES])
    assert [[t.ids for t in f] for f in found] == [[t.ids for t in f] for f in cut]
    unbounded = replace(loaded, decode=replace(loaded.decode, max_source_tokens=0))
    assert translate_lines(unbounded, LINES, warn=warnings.append) == translate_lines(loaded, LINES)
    assert len(warnings) == 2


@pytest.mark.medium
def test_an_ensemble_reads_each_line_with_each_codec(loaded: Translator) -> None:
    other = Translator(
        varied("rnmt"), WordCodec(Vocabulary("ihgfedcba")), loaded.target, loaded.decode, source_end=False
    )
    both = replace(loaded, others=(other,))
    found = translate_lines(both, LINES, n_best=2)
    for line, translations in zip(LINES, found, strict=True):
        first, second = loaded.source.encode([line])[0], other.source.encode([line])[0]
        if not first:
            assert translations == [EMPTY]
            continue
        with torch.inference_mode():
            say = next_word([loaded.model, other.model], [[*first, EOS], second])
            expected = naive_beam(say, [], math.ceil(1.3 * len(first)) + 1, 3, "length", 1.0, 2)
        assert [list(t.ids) for t in translations] == [words for _, _, words in expected]
    scores = force(both, LINES, [t[0].ids for t in found])
    said = [t[0].logp for t, line in zip(found, LINES, strict=True) if line.strip()]
    kept = [p for p, line in zip(scores.logp.tolist(), LINES, strict=True) if line.strip()]
    torch.testing.assert_close(kept, said, rtol=1e-5, atol=1e-5)
    assert translate_lines(both, LINES, invariant=True)[0][0].ids == found[0][0].ids


def test_a_line_that_is_cut_keeps_the_ids_behind_it() -> None:
    """Those of an imported model: its end and its language."""
    codec = SimpleNamespace(closes=(2, 90))
    ids = [5, 6, 7, 8, 2, 90]
    assert [ImportedCodec.cut(codec, ids, most) for most in (None, 6, 4, 2)] == [ids, ids, [5, 6, 2, 90], [5, 6]]  # type: ignore[arg-type]  # it needs no more
    assert ImportedCodec.cut(SimpleNamespace(closes=()), ids, 4) == [5, 6, 7, 8]  # type: ignore[arg-type]  # likewise


def test_ids_of_a_prefix_are_those_of_words() -> None:
    assert given_prefix([0, 3], 4) == [0, 3]
    for ids in ([4], [-1], [0, 10**6]):
        with pytest.raises(ValueError, match="expected ids from 0 to 3"):
            given_prefix(ids, 4)
