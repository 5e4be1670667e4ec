"""Minimum Bayes risk: the choice is that of a naive loop over sacrebleu's own scores, and files of candidates are read in step."""

import math
import random
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from calque.evaluate.mbr import Candidates, Choice, most_alike, read_candidates
from calque.evaluate.meteor_metric import MeteorSettings
from calque.evaluate.statistics import measure
from calque.ground.diagnostics import CalqueError, Place

SENTENCE = "A man, in a red shirt; walks his Über-dog along the 1,000 streets . 日本 a a"
WORDS = SENTENCE.split()
METRICS = {"bleu": BLEU(effective_order=True), "chrf": CHRF(), "ter": TER(case_sensitive=True)}


def candidates(draw: random.Random, count: int) -> list[str]:
    """Variants of one sentence, some of them equal, and one that is short."""
    sentence = draw.sample(WORDS, 8)
    variants = []
    for _ in range(count):
        words = list(sentence)
        for _ in range(draw.randrange(4)):
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        variants.append(" ".join(words[: draw.randrange(4, len(words) + 1)]))
    return [*variants, variants[0], "A"]


def naive(texts: list[str], metric: str) -> list[float]:
    return [sum(METRICS[metric].sentence_score(h, [r]).score for r in texts) / len(texts) for h in texts]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_naive_choice(metric: str, seed: int) -> None:
    texts = candidates(random.Random(seed), 9)
    expected = naive(texts, metric)
    best = min(expected) if metric == "ter" else max(expected)
    found = most_alike(Candidates(texts), measure(metric))
    assert found.score == pytest.approx(best)
    assert expected[texts.index(found.text)] == pytest.approx(best)


def test_settings_of_the_metric_count() -> None:
    texts = ["THE CAT SAT", "the cat sat", "a dog ran", "a dog ran off", "the cat stood"]
    folded = measure("chrf", lowercase=True)
    assert most_alike(Candidates(texts), folded).text == "THE CAT SAT"  # of equal ones the first
    assert most_alike(Candidates(texts), measure("chrf")).text == "a dog ran off"
    assert most_alike(Candidates(["猫が走る", "猫が歩く", "犬が走る"]), measure("bleu", tokenize="char")).score > 33.4
    assert most_alike(Candidates(["猫が走る", "猫が歩く", "犬が走る"]), measure("bleu")).score == pytest.approx(100 / 3)


def test_meteor_chooses_as_its_own_pairs_do() -> None:
    how = measure("meteor", tokenize="none", meteor=MeteorSettings("other"))
    texts = candidates(random.Random(3), 6)
    expected = [float(how.sentence(how.statistics([h] * len(texts), texts)).mean()) for h in texts]
    found = most_alike(Candidates(texts), how)
    assert found.score == pytest.approx(max(expected))
    assert expected[texts.index(found.text)] == pytest.approx(max(expected))
    assert min(expected) < max(expected)


def test_probable_candidates_count_more() -> None:
    texts = candidates(random.Random(5), 9)
    weights = [0.01 * k for k in range(len(texts) - 1)] + [1.0]  # of the short one
    each = [
        sum(w * METRICS["chrf"].sentence_score(h, [r]).score for w, r in zip(weights, texts, strict=True))
        for h in texts
    ]
    found = most_alike(Candidates(texts, weights), measure("chrf"))
    assert found.score == pytest.approx(max(each) / sum(weights))
    assert found.text == "A"
    assert most_alike(Candidates(texts), measure("chrf")).text != "A"


def test_what_occurs_often_counts_as_often() -> None:
    rare = ["one two three", "four five six seven"]
    assert most_alike(Candidates([rare[0], rare[1], rare[1]]), measure("chrf")).text == rare[1]
    assert most_alike(Candidates([rare[0], rare[0], rare[1]]), measure("chrf")).text == rare[0]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_empty_translations_are_like_each_other(metric: str) -> None:
    best, worst = (0.0, 100.0) if metric == "ter" else (100.0, 0.0)
    share = pytest.approx((2 * best + worst) / 3)
    assert most_alike(Candidates(["", "a b", ""]), measure(metric)) == Choice("", share)
    assert most_alike(Candidates(["a b", "", "a b"]), measure(metric)) == Choice("a b", share)
    assert most_alike(Candidates(["a", "a b"], [0.0, 1.0]), measure(metric)) == Choice("a b", best)


def test_there_are_candidates_and_weights() -> None:
    for nothing in (Candidates([]), Candidates(["a", "b"], [0.0, 0.0])):
        with pytest.raises(ValueError, match="weights above 0"):
            most_alike(nothing, measure("chrf"))


def test_what_a_search_did_not_find_is_left_out(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", "a", "", "", "", "", "b"), write(tmp_path / "b", "", "", "", "c", "d", "e")
    found = [each.texts for each in read_candidates([a, b], 3)]
    assert found == [["a", "", "", ""], ["", "", "b", "c", "d", "e"]]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_candidates_of_all_files_are_put_together(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", *"abcd"), write(tmp_path / "b", *"ABCD")
    assert list(read_candidates([a, b], 2)) == [(["a", "b", "A", "B"], None), (["c", "d", "C", "D"], None)]
    assert [each.texts for each in read_candidates([a], 1)] == [["a"], ["b"], ["c"], ["d"]]
    assert list(read_candidates([write(tmp_path / "none")], 3)) == []


@pytest.mark.parametrize(
    ("a", "b", "code", "where"),
    [("abcd", "ABC", "D524", ("b", 3)), ("abcd", "AB", "D525", ("a", 3)), ("ab", "ABCD", "D525", ("b", 3))],
)
def test_files_of_other_lengths_are_errors(tmp_path: Path, a: str, b: str, code: str, where: tuple[str, int]) -> None:
    files = [write(tmp_path / "a", *a), write(tmp_path / "b", *b)]
    with pytest.raises(CalqueError) as caught:
        list(read_candidates(files, 2))
    (told,) = caught.value.diagnostics
    assert isinstance(told.where, Place)
    assert (told.code, Path(told.where.file).name, told.where.line) == (code, *where)


def test_scores_become_weights_within_each_file(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", "-1.5\ta", "-2.5\tb"), write(tmp_path / "b", "-700\tc d", "-inf\t")
    (found,) = read_candidates([a, b], 2, scale=2.0)
    first = 1 / (1 + math.exp(-2))
    assert found.texts == ["a", "b", "c d", ""]
    assert found.weights == pytest.approx([first, 1 - first, 1, 0])
    (probable,) = read_candidates([write(tmp_path / "d", "-5\t", "-81\ta b", "-82\ta b c")], 3, scale=1000)
    assert most_alike(probable, measure("chrf")) == Choice("", 100.0)
    (even,) = read_candidates([write(tmp_path / "e", "-inf\tx", "1e308\ta", "-1e308\tb")], 3, scale=0)
    assert even.weights == [0, 0.5, 0.5]
    (first,) = read_candidates([write(tmp_path / "f", "1e308\ta", "-1e308\tb")], 2, scale=1000)
    assert first.weights == [1, 0]
    (nothing,) = read_candidates([write(tmp_path / "c", "-inf\t", "-inf\t")], 2, scale=2.0)
    assert most_alike(nothing, measure("chrf")).text == ""


@pytest.mark.parametrize("line", ["a b", "a\tb", "nan\tb", "inf\ta", "", "\ta"])
def test_a_line_without_a_score_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(CalqueError) as caught:
        list(read_candidates([write(tmp_path / "a", "-1\ta", line)], 1, scale=1.0))
    (told,) = caught.value.diagnostics
    assert (told.code, told.where) == ("D526", Place(str(tmp_path / "a"), 2))
