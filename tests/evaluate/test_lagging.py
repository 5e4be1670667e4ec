"""How far simultaneous translations lag behind: values that follow from the definitions, and files."""

import json
from pathlib import Path

import pytest

from calque.evaluate import evaluate_files
from calque.evaluate.lagging import Delays, lagging
from calque.ground.diagnostics import CalqueError


def waiting(k: int, source: int, target: int) -> Delays:
    return Delays(tuple(float(min(k + t, source)) for t in range(target)), source)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_waiting_for_k_words_lags_k_words_behind(k: int) -> None:
    """Ma et al. 2019, section 4.2: where both sides are as long, AL of wait-k is k; DAL is, too."""
    one = waiting(k, 10, 10)
    assert one.average_lagging(10) == pytest.approx(k)
    assert one.differentiable_lagging() == pytest.approx(k)


def test_a_whole_sentence_that_is_read_first() -> None:
    one = Delays((6.0,) * 4, 6)
    assert one.average_proportion() == 1
    assert one.average_lagging(4) == 6
    assert one.differentiable_lagging() == pytest.approx(6)  # each word takes its time


def test_each_formula_by_hand() -> None:
    one = Delays((2.0, 2.0, 4.0), 4)
    assert one.average_proportion() == pytest.approx(8 / 12)
    assert one.average_lagging(3) == pytest.approx((2 + (2 - 4 / 3) + (4 - 8 / 3)) / 3)
    assert one.differentiable_lagging() == pytest.approx((2 + (10 / 3 - 4 / 3) + (14 / 3 - 8 / 3)) / 3)
    # What is written behind the end of the source does not count.
    assert Delays((1.0, 4.0, 4.0, 4.0), 4).average_lagging(4) == pytest.approx((1 + 3) / 2)


def test_a_translation_that_is_too_long_is_no_faster_one() -> None:
    long, reference = Delays((1.0, 1.0, 2.0, 2.0, 3.0, 3.0), 3), ["a b c"]
    laal, al, *_ = lagging([long], reference)
    assert (laal.name, al.name) == ("LAAL", "AL")
    assert al.value < laal.value


def test_sentences_without_words_do_not_count() -> None:
    empty = Delays((), 0)
    assert lagging([empty], [""]) == []
    one, two = lagging([waiting(2, 5, 5)], ["a b c d e"]), lagging([waiting(2, 5, 5), empty], ["a b c d e", ""])
    assert one == two
    assert lagging([waiting(2, 5, 5)], [""])[1].value == pytest.approx(
        2
    )  # a reference without words: as long as the translation


def files(folder: Path, rows: list[object]) -> tuple[Path, Path, Path]:
    text, reference, delays = (folder / name for name in ("out", "ref", "delays"))
    text.write_text("a b\nc d\n")
    reference.write_text("a b\nc d\n")
    delays.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return text, reference, delays


def test_scores_of_files(tmp_path: Path) -> None:
    row = {"delays": [1, 2], "source_length": 2, "prediction": "a b"}
    text, reference, delays = files(tmp_path, [row, row])
    scores = evaluate_files(text, reference, ("chrf",), delays=delays)
    assert [score.name for score in scores] == ["chrF2", "LAAL", "AL", "AP", "DAL"]
    assert str(scores[1]) == "LAAL 1.00 unit:word|lines:2"
    assert scores[3].value == pytest.approx(0.75)


@pytest.mark.parametrize(
    "bad",
    [
        *("", "[]", "1", '{"delays": [1]}'),
        *({"delays": delays, "source_length": 2} for delays in ([3, 3], [-1, 1], ["1", "2"], "12", [2, 1], 1)),
        {"delays": [1, 1], "source_length": "2"},
        {"delays": [1], "source_length": None},
    ],
)
def test_what_is_no_delay_is_told_with_its_line(tmp_path: Path, bad: object) -> None:
    text, reference, delays = files(tmp_path, [{"delays": [1, 2], "source_length": 2}, bad])
    with pytest.raises(CalqueError) as caught:
        evaluate_files(text, reference, delays=delays)
    (found,) = caught.value.diagnostics
    assert (found.code, found.where.line) == ("D522", 2)


def test_delays_of_another_translation_are_told(tmp_path: Path) -> None:
    text, reference, delays = files(
        tmp_path, [{"delays": [1, 1], "source_length": 2}, {"delays": [1], "source_length": 2}]
    )
    with pytest.raises(CalqueError) as caught:
        evaluate_files(text, reference, delays=delays)
    (found,) = caught.value.diagnostics
    assert (found.code, found.where.line, found.fields) == ("D523", 2, {"expected": 2, "found": 1})


def test_as_many_lines_as_sentences(tmp_path: Path) -> None:
    text, reference, delays = files(tmp_path, [{"delays": [1], "source_length": 2}])
    with pytest.raises(CalqueError) as caught:
        evaluate_files(text, reference, delays=delays)
    assert [one.code for one in caught.value.diagnostics] == ["D501"]
