"""Words of a text: between spaces, and characters where a script has no spaces."""

import pytest

from calque.data.scripts import split_words, words_in


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" a  b\tc\n", ["a", "b", "c"]),
        ("Hund, der", ["Hund,", "der"]),
        ("你好，世界。", ["你", "好，", "世", "界。"]),  # punctuation marks belong to the character before them
        ("GPU机器 cat", ["GPU", "机", "器", "cat"]),
        ("3月5日", ["3", "月", "5", "日"]),
        ("“你”", ["“", "你”"]),
        ("ที่นี่", ["ที่", "นี่"]),  # vowels and tones belong to their letters
        ("किताब कि", ["किताब", "कि"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert all(end <= begin for (_, end), (begin, _) in zip(words_in(text), words_in(text)[1:], strict=False))
