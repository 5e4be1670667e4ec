"""Simultaneous translation: what each policy writes when, for every kind of model, and whole words in every vocabulary."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from decode_oracle import MODELS, make

from calque.data.codecs import Codec, MergeCodec, WordCodec
from calque.data.merges import Merges
from calque.data.vocabulary import BOS, EOS, PAD, Vocabulary
from calque.decode.sentences import with_tag
from calque.decode.simultaneous import Interpreted, Interpreter, Policy, interpret_lines
from calque.decode.translate import Translation, Translator, translate_lines
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import CalqueError
from parts import mixed

LINES = ["a b c d e f g", "", "c", "i h g a b", "d d a e b c a g h", "b a"]
POLICIES = ["wait-1", "wait-3", "agree-2", "hold-0", "hold-2"]


def translator(name: str, beam: int = 1) -> Translator:
    source, target = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
    decode = DecodeSettings(beam=beam, max_length_factor=1.5, max_length_offset=2, normalise="none")
    return Translator(make(name, end=-1.0), source, target, decode)


def test_a_policy_says_how_many_words_are_written() -> None:
    new, old = list("abcdef"), [list("abxdef"), list("abcdxf")]
    assert [Policy.of("wait-3").words(g, new, []) for g in (3, 5, 9)] == [1, 3, 6]
    assert Policy.of("hold-2").words(1, new, []) == 4
    assert Policy.of("hold-0").words(1, new, []) == 6
    assert Policy.of("agree-1").words(1, new, []) == 6
    assert Policy.of("agree-2").words(2, new, old) == 4  # the last one of the earlier ones counts
    assert Policy.of("agree-3").words(3, new, old) == 2
    assert Policy.of("agree-3").words(3, new, old[1:]) == 0
    assert Policy.of("agree-2").words(3, new, [list("abc")]) == 3
    assert [g for g in range(1, 10) if Policy.of("wait-4", 3).translates(g)] == [6, 9]


@pytest.mark.parametrize("text", ["wait", "wait-0", "agree-0", "wait3", "soon-2", "hold--1", "hold-1.5", ""])
def test_another_policy_is_an_error(text: str) -> None:
    with pytest.raises(CalqueError) as caught:
        Policy.of(text)
    assert [one.code for one in caught.value.diagnostics] == ["X808"]


def test_samples_are_refused() -> None:
    loaded = translator("transformer")
    loaded = replace(loaded, decode=replace(loaded.decode, sample=True))
    for begun in (
        lambda: Interpreter(loaded, Policy.of("wait-1")),
        lambda: interpret_lines(loaded, LINES, Policy.of("wait-1")),
    ):
        with pytest.raises(CalqueError) as caught:
            begun()
        assert [one.code for one in caught.value.diagnostics] == ["X809"]


def best_word(loaded: Translator, source: Sequence[str], target: Sequence[int]) -> int:
    """The most probable next word, by the other form of the model: all positions at once."""
    ids = torch.tensor([[*loaded.source.encode([" ".join(source)])[0], EOS]])
    with torch.no_grad():
        z = loaded.model.decode(torch.tensor([[BOS, *target]]), loaded.model.encode(ids, ids != PAD))
        logits = loaded.model.output(z)[0, -1]
    logits[[PAD, BOS]] = -torch.inf
    return int(logits.argmax())


def waiting(loaded: Translator, line: str, k: int) -> tuple[list[int], list[int]]:
    """Test-time wait-k, greedily and word by word (Ma et al. 2019, section 3): read k words, then write one and read one.

    A model that would end its translation reads on.
    """
    words, written, delays, read = line.split(), [], [], min(k, len(line.split()))
    limit = int(-(-1.5 * len(words) // 1)) + 2
    while words and len(written) < limit:
        word = best_word(loaded, words[:read], written)
        if word != EOS:
            written.append(word)
            delays.append(read)
        elif read == len(words):
            break
        read = min(max(len(written) + k, read + (word == EOS)), len(words))
    return written, delays


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_waiting_is_the_naive_loop(name: str, k: int) -> None:
    loaded = translator(name)
    found = interpret_lines(loaded, LINES, Policy.of(f"wait-{k}"))
    expected = [waiting(loaded, line, k) for line in LINES]
    assert any(len(set(delays)) > 2 for _, delays in expected)
    assert [([*one.ids], one.delays) for one in found] == expected


@pytest.mark.medium
@pytest.mark.parametrize(("name", "beam", "policy"), mixed([*MODELS], [1, 3], [*POLICIES, "agree-3"], of=11))
def test_a_translation_depends_on_its_words_alone(name: str, beam: int, policy: str) -> None:
    """Not on other lines, nor on how the words come; what is written stays, and no word comes before it may."""
    loaded, rule = translator(name, beam), Policy.of(policy)
    together = interpret_lines(loaded, LINES, rule)
    for line, found in zip(LINES, together, strict=True):
        (alone,) = interpret_lines(loaded, [line], rule)
        assert (alone.text, alone.delays) == (found.text, found.delays)
        for size in (1, 3):
            interpreter, words = Interpreter(loaded, rule), line.split()
            parts = [interpreter.read(" ".join(words[at : at + size])) for at in range(0, len(words), size)]
            parts.append(interpreter.end())
            assert "".join(parts) == found.text
        assert found.text == loaded.target.decode(list(found.ids))
        assert len(found.delays) == len(found.text.split())
        assert found.delays == sorted(found.delays)
        assert all(delay <= len(line.split()) for delay in found.delays)


@pytest.mark.parametrize("policy", ["wait-100", "agree-100", "hold-100"])
def test_a_policy_that_never_writes_translates_whole_lines(policy: str) -> None:
    loaded = translator("rnmt", 3)
    found = interpret_lines(loaded, LINES, Policy.of(policy))
    assert [one.text for one in found] == [best[0].text for best in translate_lines(loaded, LINES)]
    assert all(set(one.delays) <= {len(line.split())} for one, line in zip(found, LINES, strict=True))


def test_fewer_translations_with_more_words_between_them() -> None:
    loaded = translator("transformer")
    for one, line in zip(interpret_lines(loaded, LINES, Policy.of("hold-0", 3)), LINES, strict=True):
        assert all(delay % 3 == 0 or delay == len(line.split()) for delay in one.delays)


def test_an_interpreter_goes_on_with_the_next_sentence() -> None:
    interpreter = Interpreter(translator("rnmt"), Policy.of("wait-2"))
    first = interpreter.read("a b c") + interpreter.end()
    assert interpreter.end() == ""
    assert interpreter.read("  ") == ""
    assert interpreter.read(" a ") + interpreter.read("b c") + interpreter.end() == first


PIECES: dict[str, tuple[Codec, list[str]]] = {
    "codes": (
        MergeCodec(Merges({}, "", False), Vocabulary(["Haus@@", "boot", "und", "Kahn", ",", "."])),
        ["Haus@@", "boot", "und", "Kahn", "."],
    ),
    "words": (WordCodec(Vocabulary(["Hausboot", "und", "Kahn", "."])), ["Hausboot", "und", "Kahn", "."]),
}


@pytest.mark.parametrize("kind", PIECES)
def test_words_are_written_whole(kind: str) -> None:
    codec, tokens = PIECES[kind]
    number = {token: i for i, token in enumerate(codec.tokens(range(codec.size)))}
    ids = tuple(number[token] for token in tokens)
    whole = Translation(codec.decode(list(ids)), ids, 0.0, 0.0)
    so_far = Interpreted()
    assert so_far.write(Policy.of("wait-1"), codec, 1, whole) == "Hausboot"
    assert codec.decode(list(so_far.ids)) == "Hausboot"
    assert so_far.write(Policy.of("wait-1"), codec, 2, whole) == " und"
    assert so_far.write(Policy.of("wait-1"), codec, 2, whole) == ""
    assert so_far.write(Policy.of("wait-1"), codec, 5, whole) == " Kahn"  # the full stop waits for the end
    assert so_far.end(6, whole) == " ."
    assert so_far.delays == [1, 2, 5, 6]
    assert so_far.ids == ids


def test_a_word_may_get_its_end_later() -> None:
    so_far = Interpreted("Ein Hund", (4, 4), [1, 2])
    assert so_far.end(3, Translation("Ein Hund, der bellt.", (4, 4, 4, 4), 0.0, 0.0)) == ", der bellt."
    assert so_far.delays == [1, 3, 3, 3]


def test_what_is_written_stays_where_an_unknown_word_is_replaced_in_another_way() -> None:
    so_far = Interpreted("Ein Foo", (4, 4), [1, 2])
    assert so_far.end(3, Translation("Ein Bar schläft", (4, 4, 5), 0.0, 0.0)) == " schläft"
    assert so_far.text == "Ein Foo schläft"
    assert so_far.delays == [1, 2, 3]


def test_a_line_in_capitals_has_a_translation_in_capitals() -> None:
    so_far = Interpreted()
    codec, ids = WordCodec(Vocabulary(["Ein", "Hund", ",", "der"])), (4, 5, 6, 7)
    assert so_far.write(Policy.of("wait-1"), codec, 1, Translation("EIN HUND", ids[:2], 0.0, 0.0), str.upper) == "EIN"
    assert so_far.write(Policy.of("wait-1"), codec, 2, Translation("Ein Hund", ids[:2], 0.0, 0.0), str.upper) == " HUND"
    assert so_far.end(3, Translation("Ein Hund, der", ids, 0.0, 0.0), str.upper) == ", DER"
    assert (so_far.text, so_far.delays) == ("EIN HUND, DER", [1, 3, 3])


def test_symbols_are_no_words() -> None:
    """A tag that the translator puts in front of a line, and one that the line has, give the same."""
    loaded = translator("transformer")
    symbols = WordCodec(Vocabulary("abcdefghi"))
    symbols.symbols = ("a",)
    loaded = replace(loaded, source=symbols)
    for policy in ("wait-1", "agree-2"):
        own, put = (
            interpret_lines(one, [line], Policy.of(policy))[0]
            for one, line in ((loaded, "a c d e f g"), (with_tag(loaded, "a"), "c d e f g"))
        )
        assert (own.text, own.delays) == (put.text, put.delays)
        assert len(set(own.delays)) > 1
    interpreter = Interpreter(loaded, Policy.of("wait-1"))
    assert interpreter.read("a") == ""
    assert interpreter.read("c") != ""


def test_words_are_joined_as_their_scripts_are_written() -> None:
    def source(*words: str) -> str:
        interpreter = Interpreter(translator("transformer"), Policy.of("wait-100"))
        for word in words:
            interpreter.read(word)
        return interpreter.source

    assert source("A man", " is ", "", "walking.") == "A man is walking."
    assert source("你好，", "世界", "。") == "你好，世界。"
    assert source("今年是", "2024", "年，", "你好") == "今年是2024年，你好"
    assert source("12", "30") == "12 30"


def test_a_long_line_is_decoded_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, calls = WordCodec(Vocabulary("abcdefghi")), []
    decode = codec.decode
    monkeypatch.setattr(codec, "decode", lambda ids: calls.append(len(ids)) or decode(ids))
    ids = tuple(4 + i % 9 for i in range(400))
    whole, so_far = Translation(decode(list(ids)), ids, 0.0, 0.0), Interpreted()
    for read in range(1, 300):
        so_far.write(Policy.of("wait-1"), codec, read, whole)
    assert len(so_far.delays) == 299
    assert len(calls) <= 3 * 299
