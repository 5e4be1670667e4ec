"""Where two systems differ, against counting by hand and sacrebleu's own sentence scores."""

import csv
import io
import math
import random
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from calque.evaluate.compare import (
    LENGTHS,
    ComparisonResult,
    Systems,
    by_frequency,
    by_length,
    by_order,
    compare_systems,
    differences,
    sentence_scores,
)
from calque.evaluate.compare_report import data, files, text
from calque.evaluate.statistics import Measure, measure
from calque.evaluate.word_matches import (
    FREQUENCIES,
    Overlap,
    bucket_name,
    count_words,
    frequency_bucket,
    grams,
    matches,
    overlaps,
    salient,
    tokeniser,
)
from calque.ground.table import Table

WORDS = ["the", "cat", "dog", "sat", "on", "a", "mat", ".", "red", "|"]
Sentence = tuple[str, ...]


def lines(seed: int, count: int = 40, most: int = 25) -> list[str]:
    rng = random.Random(seed)
    weights = range(len(WORDS), 0, -1)
    return [" ".join(rng.choices(WORDS, weights, k=rng.randint(1, most))) for _ in range(count)]


def worse(reference: list[str], seed: int) -> list[str]:
    """Translations that share words with their references; some are empty, some right."""
    rng = random.Random(seed)
    found = []
    for line in reference:
        words = [w for w in line.split() if rng.random() < 0.8]
        if rng.random() < 0.5:
            rng.shuffle(words)
        found.append(line if rng.random() < 0.1 else "" if rng.random() < 0.05 else " ".join(words))
    return found


REFERENCES = lines(1)
A, B = worse(REFERENCES, 2), worse(REFERENCES, 3)
SYSTEMS = Systems([A], [B], REFERENCES, tokenize="none")


def cut(run: list[str]) -> list[Sentence]:
    return [tuple(line.split()) for line in run]


@pytest.fixture(scope="module")
def found() -> ComparisonResult:
    return compare_systems(SYSTEMS, [measure(m, tokenize="none") for m in ("bleu", "ter")], trials=100, examples=4)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("metric", "official"),
    [
        (measure("bleu", tokenize="none"), BLEU(tokenize="none", force=True, effective_order=True)),
        (measure("bleu", lowercase=True), BLEU(lowercase=True, effective_order=True)),
        (measure("chrf"), CHRF()),
        (measure("ter"), TER(case_sensitive=True)),
    ],
    ids=["bleu", "bleu of 13a", "chrf", "ter"],
)
def test_sentence_scores_are_sacrebleus(metric: Measure, official: BLEU | CHRF | TER) -> None:
    short = ["the cat", ".", "a", "", "the the the cat sat on"]
    references = [*REFERENCES, "the cat sat", "red", "a", "a mat", "the mat"]
    runs = [[*A, *short], [*B, *short[::-1]]]
    ours = sentence_scores(metric, np.stack([metric.statistics(run, references) for run in runs]))
    for k, reference in enumerate(references):
        scores = [official.sentence_score(run[k], [reference]).score for run in runs]
        assert ours[k] == pytest.approx(sum(scores) / 2, abs=1e-9), (k, reference)


def naive_overlap(hypothesis: Sentence, reference: Sentence, n: int) -> tuple[int, int, int]:
    """Crosses matches off a list, one by one."""
    ours = [hypothesis[k : k + n] for k in range(len(hypothesis) - n + 1)]
    theirs = [reference[k : k + n] for k in range(len(reference) - n + 1)]
    left, matched = list(theirs), 0
    for gram in ours:
        if gram in left:
            left.remove(gram)
            matched += 1
    return matched, len(ours), len(theirs)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_overlaps_of_an_order(n: int) -> None:
    pairs = list(zip(cut(A), cut(REFERENCES), strict=True))
    sums = [sum(part) for part in zip(*(naive_overlap(h, r, n) for h, r in pairs), strict=True)]
    overlap = overlaps(pairs, n, len)[n]
    assert [overlap.matched, overlap.hypothesis, overlap.reference] == sums
    assert overlap.precision == pytest.approx(
        BLEU(tokenize="none", force=True).corpus_score(A, [REFERENCES]).precisions[n - 1]
    )
    p, r = sums[0] / sums[1], sums[0] / sums[2]
    assert overlap.recall == pytest.approx(100 * r)
    assert overlap.f1 == pytest.approx(100 * 2 * p * r / (p + r))


def test_there_is_no_figure_of_nothing() -> None:
    assert (Overlap().precision, Overlap().recall, Overlap().f1) == (None, None, None)
    assert Overlap(0, 1, 0).recall is None
    assert Overlap(0, 1, 0).f1 == 0


def test_orders_take_the_runs_of_a_system_as_one_corpus() -> None:
    table = by_order([cut(A), cut(B)], [cut(B)], cut(REFERENCES))
    both = BLEU(tokenize="none", force=True).corpus_score([*A, *B], [[*REFERENCES, *REFERENCES]])
    assert [row["A precision"] for row in table.records()] == pytest.approx(both.precisions)
    for row in table.records():
        assert row["A - B F1"] == pytest.approx(float(row["A F1"] or 0) - float(row["B F1"] or 0))


@pytest.mark.parametrize("seen", [None, {"the": 1000, "cat": 999, "dog": 5, "sat": 9, "on": 4, "a": 10, "mat": 1}])
def test_words_by_frequency(seen: dict[str, int] | None) -> None:
    known = Counter(w for line in REFERENCES for w in line.split()) if seen is None else seen
    table = by_frequency([cut(A)], [cut(B)], cut(REFERENCES), seen)
    assert ("training" in table.title) == (seen is not None)
    edges = [*FREQUENCIES, math.inf]
    named = {}
    for low, high in zip([0, *FREQUENCIES], edges, strict=True):
        name = f"{low}+" if high == math.inf else str(low) if high - low == 1 else f"{low}-{high - 1}"
        named[name] = [w for w in WORDS if low <= known.get(w, 0) < high]
    for row in table.records():
        chosen = named.pop(str(row["seen"]))
        count = sum(line.split().count(w) for line in REFERENCES for w in chosen)
        assert row["words"] == count
        for system, run in (("A", A), ("B", B)):
            matched = sum(
                min(h.split().count(w), r.split().count(w))
                for h, r in zip(run, REFERENCES, strict=True)
                for w in chosen
            )
            mine = sum(h.split().count(w) for h in run for w in chosen)
            assert row[f"{system} recall"] == pytest.approx(100 * matched / count)
            assert row[f"{system} precision"] == pytest.approx(100 * matched / mine)
    assert not any(w in line.split() for chosen in named.values() for w in chosen for line in REFERENCES)


def test_buckets_are_whole() -> None:
    assert [bucket_name(FREQUENCIES, frequency_bucket(n)) for n in (0, 1, 4, 5, 9, 10, 99, 100, 1000, 10**6)] == [
        *("0", "1", "4", "5-9", "5-9", "10-99", "10-99", "100-999", "1000+", "1000+")
    ]
    assert bucket_name(LENGTHS, 0) == "0-9"
    assert bucket_name(LENGTHS, len(LENGTHS)) == "60+"


@pytest.mark.medium
@pytest.mark.parametrize("name", ["bleu", "ter"])
def test_scores_by_length(name: str) -> None:
    metric = measure(name, tokenize="none")
    official: BLEU | TER = BLEU(tokenize="none", force=True) if name == "bleu" else TER(case_sensitive=True)
    statistics = [np.stack([metric.statistics(run, REFERENCES)]) for run in (A, B)]
    table = by_length(metric, *statistics, [len(r.split()) for r in REFERENCES])
    buckets = {"0-9": (0, 10), "10-19": (10, 20), "20-29": (20, 30)}
    assert [row["words"] for row in table.records()] == list(buckets)
    for row in table.records():
        low, high = buckets[str(row["words"])]
        there = [k for k, r in enumerate(REFERENCES) if low <= len(r.split()) < high]
        scores = [
            official.corpus_score([run[k] for k in there], [[REFERENCES[k] for k in there]]).score for run in (A, B)
        ]
        assert row["sentences"] == len(there)
        assert [row["A"], row["B"]] == pytest.approx(scores)
        assert row["A - B"] == pytest.approx(scores[0] - scores[1])


def test_every_sentence_is_in_one_bucket_of_differences() -> None:
    gains = np.array([0.0, 1e-12, 0.1, 5.0, 5.1, 10.0, 40.0, 40.1, 100.0, -0.1, -5.0, -39.0, -50.0])
    table = differences("BLEU", gains)
    assert {row["difference"]: row["sentences"] for row in table.records() if row["sentences"]} == {
        "A better by more than 40": 2,
        "A better by 20 to 40": 1,
        "A better by 5 to 10": 2,
        "A better by up to 5": 2,
        "equal": 2,
        "B better by up to 5": 2,
        "B better by 20 to 40": 1,
        "B better by more than 40": 1,
    }
    assert sum(float(row["%"] or 0) for row in table.records()) == pytest.approx(100)


def test_ngrams_that_one_has_and_the_other_lacks() -> None:
    references = cut(["a b c", "a b d", "e f", "a a"])
    one = [cut(["a b c", "a b x", "f e", "a"]), cut(["a b c", "d", "f e", "a a"])]
    two = [cut(["c b a", "x", "e f", "a a a"])]
    ours, theirs = matches(one, references, 4), matches(two, references, 4)
    assert ours[("a", "b")] == 1.5  # two in the first run, one in the second
    assert ours[("a", "b", "c")] == 1
    assert ours[("a",)] == (1 + 1 + 1 + 1 + 0 + 2) / 2
    assert theirs[("a",)] == 1 + 2
    better, worse_ = salient(ours, theirs, 3)
    assert [s.gram for s in better] == [("a", "b"), ("a", "b", "c"), ("b", "c")]
    assert better[0].share == pytest.approx(2.5 / 3.5)
    assert [s.gram for s in worse_] == [("e", "f"), ("a", "a")]
    assert worse_[1].share == pytest.approx((0.5 + 1) / (0.5 + 1 + 2))
    assert salient(ours, ours, 5) == ([], [])


def test_ngrams_are_as_counted_one_by_one() -> None:
    found = matches([cut(A)], cut(REFERENCES), 3)
    for gram, count in found.items():
        n = len(gram)
        pairs = zip(cut(A), cut(REFERENCES), strict=True)
        assert count == sum(min(grams(h, n)[gram], grams(r, n)[gram]) for h, r in pairs)


def test_words_are_cut_as_for_bleu() -> None:
    assert tokeniser()("A cat, it's.") == ("A", "cat", ",", "it's", ".")
    assert tokeniser("none", lowercase=True)("A cat, \n") == ("a", "cat,")
    assert count_words([("a", "b"), ("a",)]) == {"a": 2, "b": 1}


def test_examples_are_sorted_by_gain(found: ComparisonResult) -> None:
    official = BLEU(tokenize="none", force=True, effective_order=True)
    gains = [
        official.sentence_score(a, [r]).score - official.sentence_score(b, [r]).score
        for a, b, r in zip(A, B, REFERENCES, strict=True)
    ]
    order = sorted(range(len(gains)), key=lambda k: (-gains[k], k))
    assert [e.line - 1 for e in found.better_a] == order[:4]
    assert [e.line - 1 for e in found.better_b] == sorted(range(len(gains)), key=lambda k: (gains[k], k))[:4]
    for e in (*found.better_a, *found.better_b):
        assert (e.reference, e.a, e.b) == (REFERENCES[e.line - 1], A[e.line - 1], B[e.line - 1])
        assert e.gain == pytest.approx(gains[e.line - 1])
        assert e.source is None


def test_less_is_better_where_it_is() -> None:
    systems = Systems([REFERENCES], [B], REFERENCES, tokenize="none")
    one = compare_systems(systems, [measure("ter")], trials=100)
    assert one.better_a
    assert not one.better_b
    shown = {row["difference"]: row["sentences"] for row in one.tables[0].records()}
    assert not any(count for name, count in shown.items() if str(name).startswith("B"))


def test_equal_systems_differ_nowhere() -> None:
    one = compare_systems(Systems([A], [A], REFERENCES, tokenize="none"), [measure("chrf")], trials=100)
    assert (one.better_a, one.better_b) == ((), ())
    assert {t.name: len(t.rows) for t in one.tables if not t.rows} == {"ngrams-a": 0, "ngrams-b": 0}
    assert "N-grams of the references that" not in text(one)


def test_a_text_a_page_and_files(found: ComparisonResult) -> None:
    shown = text(found)
    assert shown.startswith("BLEU nrefs:1|")
    made = files(found, "one and two", "calque compare a b")
    assert {t.name for t in found.tables} <= {name.removesuffix(".csv") for name in made}
    rows = list(csv.DictReader(io.StringIO(made["sentences.csv"])))
    assert len(rows) == len(REFERENCES)
    assert [int(row["line"]) for row in rows] == list(range(1, len(REFERENCES) + 1))
    assert float(rows[3]["A BLEU"]) == pytest.approx(float(found.sentences.records()[3]["A BLEU"] or 0), rel=1e-5)
    for table in found.tables:
        assert table.title in shown
    page = made["compare.md"]
    assert page.startswith("# one and two\n")
    assert "calque compare a b" in page
    for table in [block.split("\n") for block in page.split("\n\n") if block.startswith("|")]:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1, table
    assert set(data(found)) == {"comparisons", "tables", "examples"}
    assert len(data(found)["examples"]["a"]) == 4


def test_a_table_in_three_forms() -> None:
    table = Table(("x", "y"), (("a|b", 1234), ("*c*", None), ("d", 0.5)), "t", "title")
    assert table.text().splitlines() == ["x        y", "a|b  1,234", "*c*", "d     0.50"]
    assert table.markdown().splitlines()[2:4] == ["| a\\|b | 1,234 |", "| \\*c\\* |  |"]
    assert list(csv.reader(io.StringIO(table.csv()))) == [["x", "y"], ["a|b", "1234"], ["*c*", ""], ["d", "0.5"]]
