"""Lines cut into sentences, and put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calque.decode.divided import DividedLines, between, sentences_in
from calque.ground.diagnostics import Diagnostic, Place

SENTENCES = 'He said "no." Then J. Smith left!  Why? 3.5 km. 好。再见。'


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("Dr. Smith met Mrs. Jones. They left.", ["Dr. Smith met Mrs. Jones.", "They left."]),
        ("Am 3. Mai kam Hr. Maier. Er ging.", ["Am 3. Mai kam Hr. Maier.", "Er ging."]),
        ("It was 2003. The BBC. He watched TV. Then.", ["It was 2003.", "The BBC.", "He watched TV.", "Then."]),
        ("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("هل هذا سؤال؟ نعم.", ["هل هذا سؤال؟", "نعم."]),
        ("یہ جملہ ہے۔ دوسرا", ["یہ جملہ ہے۔", "دوسرا"]),
    ],
)
def test_titles_and_days_are_within_sentences(line: str, sentences: list[str]) -> None:
    assert [sentence for sentence, _ in sentences_in(line)] == sentences


def test_sentences_end_where_the_next_begins() -> None:
    assert [sentence for sentence, _ in sentences_in(SENTENCES)] == [
        *('He said "no."', "Then J. Smith left!", "Why?", "3.5 km.", "好。", "再见。"),
    ]


@pytest.mark.parametrize(
    ("sentence", "space", "translation", "expected"),
    [
        *(
            ("好。", "", "Good.", " "),
            ("好。", "  ", "Good.", "  "),
            ("好。”", "", "“Good.”", " "),
            ("好", "", "Good", " "),
        ),
        *(
            ("Good.", " ", "好。", ""),
            ("Good.", "\t", "好。", "\t"),
            ("“Good.”", " ", "“好。”", ""),
            ("Good", " ", "良い", ""),
        ),
        *(("Gut.", " ", "Good.", " "), ("好。", "", "良い。", ""), ("好。", " ", "良い。", " "), ("好。", "", "", "")),
        *(("Good.", " ", "좋다", " "), ("Good.", " ", "ดี", " "), ("好。", "", "좋다", " "), ("?!", " ", "好", "")),
        *(
            ("Hello.", " ", "😀", " "),
            ("Hello 👍.", " ", "Hallo 👍", " "),
            ("Hello.", " ", "你好.", ""),
            ("好｡", "", "Good.", " "),
        ),
    ],
)
def test_white_space_between_sentences(sentence: str, space: str, translation: str, expected: str) -> None:
    assert between(sentence, space, translation) == expected


def test_sentences_without_spaces_are_put_together_with_some() -> None:
    divided, english = DividedLines(["好。再见。", "好。"]), {"好。": "Good.", "再见。": "Bye."}
    assert list(divided.together(english[sentence] for sentence in divided)) == ["Good. Bye.", "Good."]


lines = st.lists(
    st.lists(st.sampled_from([*"aB. !?", "。", "J. ", "\t", " 3.5 "]), max_size=12).map("".join), max_size=8
)


@given(lines)
def test_lines_are_what_they_were(given_lines: list[str]) -> None:
    divided = DividedLines(given_lines)
    assert list(divided.together(iter(divided))) == given_lines


@given(lines, st.integers(1, 5))
def test_lines_are_put_together_while_others_are_read(given_lines: list[str], ahead: int) -> None:
    divided = DividedLines(given_lines)
    read = iter(divided)

    def some_ahead() -> object:
        held = []
        for sentence in read:
            held.append(sentence)
            if len(held) >= ahead:
                yield from held
                held = []
        yield from held

    assert list(divided.together(some_ahead())) == given_lines  # type: ignore[arg-type]  # text


def test_a_warning_names_the_line_of_its_sentence() -> None:
    divided, found = DividedLines(["One. Two.", "", "Three. Four. Five."]), list[Diagnostic]()
    warn = divided.warnings_of_lines(found.append)
    for number, _ in enumerate(divided, 1):
        warn(Diagnostic("D606", Place("stdin", number)))
    assert [d.where.line for d in found if isinstance(d.where, Place)] == [1, 1, 2, 3, 3, 3]
    warn(Diagnostic("D606"))
    assert found[-1].where is None
