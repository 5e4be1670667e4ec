"""METEOR: the original program's scores, alignments by brute force, and the formulas worked out by hand."""

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.data.public import corpus
from calque.evaluate import evaluate, meteor
from calque.evaluate.meteor_align import EXACT, STEM, align
from calque.evaluate.meteor_metric import LANGUAGES, Lists, Meteor, MeteorSettings, read_lists
from calque.evaluate.meteor_text import ANY, NUMBER, normalise, words
from calque.ground.diagnostics import CalqueError

OFFICIAL = json.loads((Path(__file__).parent / "meteor_official.json").read_text(encoding="utf-8"))
# Those that occur in the official cases, of which the original has hundreds.
PREFIXES = {
    "en": {"Mr": ANY, "No": NUMBER, "e.g": ANY},
    "de": {"z": ANY, "b": ANY, "11": ANY, "17": ANY},
}


@pytest.mark.parametrize("case", OFFICIAL["sets"], ids=lambda c: f"{c['language']}-{c['normalise']}")
def test_scores_are_those_of_the_original(case: dict[str, Any]) -> None:
    language = case["language"]
    lists = Lists(frozenset(OFFICIAL["words"].get(language, [])), PREFIXES.get(language, {}), "test")
    scorer = Meteor(language, lists, normalise=case["normalise"])
    statistics = scorer.statistics(case["hypotheses"], case["references"])
    assert scorer.score(statistics) == pytest.approx([100 * s for s in case["scores"]], abs=1e-10)
    assert scorer.score(statistics.sum(0)) == pytest.approx(100 * case["corpus"], abs=1e-10)
    assert statistics[:, 6:10].any() == (language != "other")  # the stem module is at work


def chunks_of(pairs: list[tuple[int, int]]) -> int:
    """Runs of matches that are adjacent and in order on both sides."""
    ordered = sorted(pairs, key=lambda p: p[1])
    return sum(not k or (i, j) != (ordered[k - 1][0] + 1, ordered[k - 1][1] + 1) for k, (i, j) in enumerate(ordered))


def best(hypothesis: list[str], reference: list[str]) -> tuple[int, int]:
    """Most exact matches, then fewest chunks, over every one-to-one alignment of equal words."""
    found = (0, 0)
    choices = [[None, *(i for i, w in enumerate(hypothesis) if w == v)] for v in reference]
    for chosen in itertools.product(*choices):
        taken = [i for i in chosen if i is not None]
        if len(set(taken)) == len(taken):
            pairs = [(i, j) for j, i in enumerate(chosen) if i is not None]
            found = max(found, (len(pairs), -chunks_of(pairs)))
    return found[0], -found[1]


def test_exact_alignments_are_the_best_there_are() -> None:
    rng = random.Random(3)
    for _ in range(400):
        hypothesis, reference = ([rng.choice("aabbcd") for _ in range(rng.randint(0, 6))] for _ in range(2))
        matches, chunks = align(hypothesis, reference)
        assert all(hypothesis[m.hypothesis] == reference[m.reference] for m in matches)
        assert chunks == chunks_of([(m.hypothesis, m.reference) for m in matches])
        assert (len(matches), chunks) == best(hypothesis, reference), (hypothesis, reference)
        assert len({m.hypothesis for m in matches}) == len({m.reference for m in matches}) == len(matches)


def test_stems_match_different_words() -> None:
    def stem(word: str) -> str:
        return word[0]

    matches, chunks = align(["x", "a1", "y"], ["a2", "y", "x"], stem)
    assert [tuple(m) for m in matches] == [(1, 0, STEM), (2, 1, EXACT), (0, 2, EXACT)]
    assert chunks == 2
    # An exact match is preferred to a stem match; equal sentences need no stems.
    assert [tuple(m) for m in align(["a1", "a2"], ["a2"], stem)[0]] == [(1, 0, EXACT)]
    assert all(m.module == EXACT for m in align(["a1", "a2", "a3"], ["a1", "a2", "a3"], stem)[0])
    # A stem match that competes with another is made only where it joins chunks.
    assert align(["a1", "a2"], ["a3"], stem) == ([], 0)
    joined, chunks = align(["a1", "z", "a2"], ["z", "a3"], stem)
    assert [tuple(m) for m in joined] == [(1, 0, EXACT), (2, 1, STEM)]
    assert chunks == 1


def test_a_score_by_hand() -> None:
    # German: alpha 0.95, beta 1, gamma 0.55, delta 0.55, stem 0.8. Function words: der, .
    # der Hund bellt . | der alte Hund bellte . : exact der, Hund, . and the stem of bellt; chunks der / Hund bellt .
    scorer = Meteor("de", Lists(frozenset({"der", "."})), normalise="lower")
    statistics = scorer.statistics(["Der Hund bellt ."], ["der alte Hund bellte ."])
    assert statistics.tolist() == [[4, 5, 2, 2, 1, 2, 1, 0, 1, 0, 2]]
    matched = 0.55 * 1 + 0.45 * 2 + 0.8 * 0.55
    precision, recall = matched / (0.55 * 2 + 0.45 * 2), matched / (0.55 * 3 + 0.45 * 2)
    mean = precision * recall / (0.95 * precision + 0.05 * recall)
    assert scorer.parts(statistics)[:3] == (
        pytest.approx([precision]),
        pytest.approx([recall]),
        pytest.approx([0.55 * 2 / 4]),
    )
    assert scorer.score(statistics) == pytest.approx([100 * mean * (1 - 0.55 * 2 / 4)])
    # Without lists content and function words are one, and delta drops out.
    bare = Meteor("de", normalise="lower")
    precision, recall = 3.8 / 4, 3.8 / 5
    mean = precision * recall / (0.95 * precision + 0.05 * recall)
    assert bare.score(bare.statistics(["Der Hund bellt ."], ["der alte Hund bellte ."])) == pytest.approx(
        [100 * mean * (1 - 0.55 * 2 / 4)]
    )


def test_corpora_and_empty_sentences() -> None:
    scorer = Meteor("en", normalise="none")
    statistics = scorer.statistics(["a b c", "", "x", "a b"], ["a b c", "a", "", "b a"])
    assert scorer.score(statistics[:3]).tolist() == [100, 0, 0]
    assert scorer.score(statistics[0] * 0) == 0
    # Summed: 5 matches among 6 and 6 words; the perfect sentence has no chunk to count.
    assert scorer.score(statistics.sum(0)) == pytest.approx(100 * 5 / 6 * (1 - 0.6 * (2 / 5) ** 0.2))
    assert scorer.statistics([], []).shape == (0, 11)
    assert np.array_equal(scorer.score(statistics[None].repeat(2, 0)), np.stack([scorer.score(statistics)] * 2))


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("en", "He didn't see John's dog-like U.S. cat.", "he didn 't see john 's dog like us cat ."),
        (
            "en",
            "Mr. X paid 3,000.50, i.e. nothing... (No. 5; No. X)",
            "mr. x paid 3,000.50 , ie nothing ... ( no. 5 ; no . x )",
        ),
        ("en", "“Well” – it's the 1990's--or so", "\" well \" - it 's the 1990 's or so"),
        ("fr", "L'homme d'aujourd'hui", "l' homme d' aujourd' hui"),
        ("de", "Er sagt's: „Na‘ ja“!", "er sagt ' s : „ na ' ja \" !"),
        ("ru", "Это,что? Да.", "это , что ? да ."),
        ("de", "Ende. etwas Ende. Etwas", "ende. etwas ende . etwas"),
        ("cs", " \u00a0 x\u2003y \t z ", "x y z"),
        ("en", "", ""),
    ],
)
def test_normalisation(language: str, line: str, expected: str) -> None:
    assert normalise(line, language, PREFIXES["en"]) == expected


def test_words_stand_between_ascii_white_space() -> None:
    assert words(" a\u00a0b\tc \u2028 d\r") == ["a\u00a0b", "c", "\u2028", "d"]


def test_the_signature_names_every_setting() -> None:
    settings = MeteorSettings("de", "1.4", Lists(frozenset({"der"}), name="de"))
    found = meteor(["der Hund"], ["der Hund"], settings=settings, tokenize="none")
    assert (found.name, found.value) == ("METEOR", 100)
    assert found.detail == {"precision": 1, "recall": 1, "penalty": 0}
    head, stemmer, version = found.signature.rsplit("|", 2)
    assert head == "nrefs:1|lang:de|mod:exact+stem|par:0.95,1.0,0.55,0.55|wt:1.0,0.8|fw:de|norm:none"
    assert stemmer.startswith("stem:snowball-2.")
    assert version == "version:1.4"
    assert Meteor("other", normalise="none").signature == (
        "nrefs:1|lang:other|mod:exact|par:0.75,1.4,0.7,0.5|wt:1.0|fw:none|norm:none|stem:none|version:1.5"
    )
    # What BLEU is told of the text holds for METEOR too.
    for tokenize, lowercase, expected in (("13a", False, "norm"), ("none", True, "lower"), ("none", False, "none")):
        assert MeteorSettings("de", lists=Lists()).make(tokenize, lowercase).normalise == expected


def test_all_languages_have_their_stemmer() -> None:
    for code, language in LANGUAGES.items():
        scorer = Meteor(code, normalise="none")
        assert (scorer.stem is not None) == language.stemmer
        assert 0 < language.alpha < 1
    stem = Meteor("de", normalise="none").stem
    assert stem is not None
    # As before Snowball 2.0.
    assert [stem(w) for w in ("kenntnis", "kenntnisse", "kenntnissen", "häuser")] == [
        "kenntnis",
        "kenntniss",
        "kenntniss",
        "haus",
    ]


def put_lists(folder: Path) -> None:
    for name in ("german", "english"):
        (folder / f"{name}.words").write_text(f"{name}\nthe\n", encoding="utf-8")
        (folder / f"{name}.prefixes").write_text("# none\nMr\nNo #NUMERIC_ONLY#\n\n", encoding="utf-8")


def test_lists_are_those_of_the_release(tmp_path: Path) -> None:
    put_lists(tmp_path)
    old, new = read_lists("de", tmp_path, version="1.4"), read_lists("de", tmp_path, version="1.5")
    assert old.words == {"german", "the"}
    assert new.words == {"english", "the"}  # release 1.5 takes the English list for every language
    assert old.prefixes == {"Mr": ANY, "No": NUMBER}
    assert old.name != new.name
    assert len(old.name) == 8
    assert read_lists("de", tmp_path, normalise="none").prefixes == {}
    # Where function words weigh as much as others no list is asked for.
    assert read_lists("nl", tmp_path / "nowhere") == Lists()


def test_original_lists_are_known_by_their_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import calque.evaluate.meteor_metric as module

    put_lists(tmp_path)
    monkeypatch.setattr(
        module, "_original", lambda: {"german.words": __import__("hashlib").sha256(b"german\nthe\n").hexdigest()}
    )
    assert read_lists("de", tmp_path, version="1.4").name == "de"
    monkeypatch.undo()
    assert set(module._original()) == {Path(name).name for name in corpus("meteor").outputs}
    assert {f"{x.name}.words" for x in LANGUAGES.values() if x.listed} <= set(module._original())


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def code(call: Any) -> str:
        with pytest.raises(CalqueError) as caught:
            call()
        assert str(caught.value)
        return caught.value.diagnostics[0].code

    monkeypatch.setenv("CALQUE_DATA", str(tmp_path))
    assert code(lambda: meteor(["a"], ["a"], settings=MeteorSettings("en"))) == "D520"
    assert code(lambda: meteor(["a"], ["a"], settings=MeteorSettings("xy"))) == "X320"
    assert code(lambda: meteor(["a"], ["a"], settings=MeteorSettings("nl"))) == "X321"
    assert code(lambda: evaluate(["a"], ["a"], ["meteor"])) == "X322"
    (tmp_path / "meteor").mkdir()
    put_lists(tmp_path / "meteor")
    assert meteor(["a"], ["a"], settings=MeteorSettings("en")).value == 100
    (tmp_path / "meteor" / "english.words").write_bytes(b"caf\xe9\n")
    assert code(lambda: meteor(["a"], ["a"], settings=MeteorSettings("en"))) == "X403"
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    assert code(lambda: Meteor("en", normalise="none")) == "X301"
    with pytest.raises(ValueError, match="expected one of"):
        Meteor("en", normalise="much")
    with pytest.raises(ValueError, match="1 and 2"):
        meteor(["a"], ["a", "b"], settings=MeteorSettings("other"))
