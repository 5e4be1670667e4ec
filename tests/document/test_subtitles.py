"""Subtitles: what belongs to one sentence is translated together, and shown when it was shown."""

import random
import re

import pytest
from packed_files import read, shouted

from calque.workflow.document.layout import Lines
from calque.workflow.document.subtitles import read_subtitles


def cue(number: int, text: str, begins: float = 0.0) -> str:
    start = begins or 2 * number
    times = f"00:00:{start:06.3f} --> 00:00:{start + 1.9:06.3f}".replace(".", ",")
    return f"{number}\n{times}\n{text}\n"


def shown(*texts: str) -> str:
    return "\n".join(cue(k, text) for k, text in enumerate(texts, 1))


@pytest.mark.parametrize(
    ("texts", "lines", "upper"),
    [
        (["a b"], ["a b"], ["A B"]),
        (["a b", "c d."], ["a b c d."], ["A B", "C D."]),
        (["a b.", "c d."], ["a b.", "c d."], ["A B.", "C D."]),
        (["a\nb c", "dd. E f", "g."], ["a b c dd.", "E f g."], ["A B\nC", "DD. E F", "G."]),
        (["<i>a b</i>", "<i>c</i> d"], ["a b c d"], ["<i>A B</i>", "<i>C</i> D"]),
        (["- a b?\n- c d", "e."], ["a b?", "c d", "e."], ["- A B?\n- C D", "E."]),
        (["a & b < c"], ["a & b < c"], ["A & B < C"]),
        (["<i>a b</i>", "<i>c d</i>"], ["a b c d"], ["<i>A B</i>", "<i>C D</i>"]),
        (["a b\n\nc d"], ["a b", "c d"], ["A B\n\nC D"]),
        (["{\\an8}a b", "{\\an8}c"], ["a b", "c"], ["{\\an8}A B", "{\\an8}C"]),
        (["a", "♪ b ♪"], ["a", "♪ b ♪"], ["A", "♪ B ♪"]),
        (["a", "", "b"], ["a", "b"], ["A", "", "B"]),
        (["1 2", "..."], [], ["1 2", "..."]),
        (["a", "b", "c", "d", "e", "f"], ["a b c d", "e f"], list("ABCDEF")),
    ],
)  # fmt: skip
def test_sentences_go_on_from_one_to_the_next(texts: list[str], lines: list[str], upper: list[str]) -> None:
    body = shown(*texts).encode()
    assert (read("a.srt", body)[1].lines, shouted("a.srt", body).decode()) == (lines, shown(*upper))


@pytest.mark.parametrize("space", ["", "\n", " \n", "\n\n"])
def test_blank_lines_between_may_be_missing(space: str) -> None:
    body = cue(1, "a b") + space + cue(2, "c d.") + space + cue(3, "e")
    assert read("a.srt", body.encode())[1].lines == ["a b c d.", "e"]
    assert shouted("a.srt", body.encode()).decode() == cue(1, "A B") + space + cue(2, "C D.") + space + cue(3, "E")


@pytest.mark.parametrize("times", ["0:0:1,5 --> 0:0:2", "00:00:01,000-->00:00:02,000", "01:00.000 -->  01:02.000 X1:5"])
def test_times_are_written_in_many_ways(times: str) -> None:
    for number in ("1\n", ""):
        assert shouted("a.srt", f"{number}{times}\na\n".encode()).decode() == f"{number}{times}\nA\n"


def test_blank_lines_between_everything() -> None:
    body = "\n\n".join(
        ["1", "00:00:01,000 --> 00:00:02,000", "a b.", "\ufeff2", "00:00:03:000 -> 00:00:04:000", "c d", ""]
    )
    assert read("a.srt", body.encode())[1].lines == ["a b.", "c d"]
    assert shouted("a.srt", body.encode()).decode() == body.replace("a b", "A B").replace("c d", "C D")


def test_a_row_of_white_space_ends_no_subtitle_of_vtt() -> None:
    found = shouted("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\na b:\n \nc d\n").decode()
    assert "\n\n" not in found.removeprefix("WEBVTT\n\n")
    assert found.split()[-4:] == ["A", "B:", "C", "D"]


def test_what_looks_like_a_mark_of_ours_is_text() -> None:
    assert shouted("a.srt", cue(1, "a <x 1> b").encode()).decode() == cue(1, "A <X 1> B")


def test_italics_are_where_they_were_whatever_the_order() -> None:
    assert put(["<i>aa bb</i>", "<i>cc</i>"], "x y z") == ["<i>x y</i>", "<i>z</i>"]
    assert put(["<i>aa</i>", "<i>bb</i>"], "x") == ["<i>x</i>", "<i></i>"]


def test_a_pause_ends_a_sentence() -> None:
    body = cue(1, "a b", 1) + "\n" + cue(2, "c d", 9)
    assert read("a.srt", body.encode())[1].lines == ["a b", "c d"]


def test_vtt_is_escaped_and_has_notes() -> None:
    text = (
        "WEBVTT - title\n\nNOTE a b\nc\n\nSTYLE\n::cue { color: red }\n\nfirst\n00:01.000 --> 00:02.000 align:start\n"
        "<v Bob>a &amp; b <00:01.500><c.red>c</c>\n\nNOTE x\n\n00:02.000 --> 00:03.000\nd &lt;3\n"
    )
    assert shouted("a.vtt", text.encode()).decode() == text.replace(
        "a &amp; b <00:01.500><c.red>c", "A &amp; B <c.red>C"
    ).replace("d &lt;3", "D &lt;3")


def test_line_ends_and_byte_order_marks_stay() -> None:
    body = b"\xef\xbb\xbf" + shown("a\nb", "c").replace("\n", "\r\n").encode()
    assert shouted("a.srt", body) == body.replace(b"a\r\nb", b"A\r\nB").replace(b"\nc\r", b"\nC\r")


def put(texts: list[str], *translations: str) -> list[str]:
    """The subtitles with these translations, of which nobody knows where their words come from."""
    lines = Lines(by_sentence=True, letters=True)
    document = read_subtitles(shown(*texts), lines, False)
    assert len(lines.lines) == len(translations)
    return [text.strip("\n") for text in re.split(r"\d+\n00:[^\n]*\n", document.fill(translations))[1:]]


def test_rows_are_about_equal_and_as_few_as_fit() -> None:
    assert put(["aaaa bbbb\ncccc"], "x y z") == ["x y z"]
    assert put(["aaaa bbbb\ncccc"], "xxxx yyyy zzzz wwww") == ["xxxx yyyy\nzzzz wwww"]
    assert put(["aaaa bbbb cccc"], " ".join(["xxxxxxxxx"] * 8)) == ["\n".join([" ".join(["xxxxxxxxx"] * 4)] * 2)]
    assert put(["a"], "x" * 100) == ["x" * 100]
    assert put(["aa\nbb"], "<i>xx yy</i>") == ["<i>xx\nyy</i>"]


def test_no_subtitle_stays_empty_where_words_are_enough() -> None:
    assert put(["aa", "bb", "cc"], "x y z") == ["x", "y", "z"]
    assert put(["aa", "bbbb bbbb"], "x") == ["x", ""]
    assert put(["aa", "bbbb"], "好好好好好好") == ["好好", "好好好好"]


def test_no_time_and_no_word_is_lost() -> None:
    draw = random.Random(5)
    parts = ["a", "b c", "d.", "<i>e</i>", "<b>", "- f", "\n", "&", "{\\an8}", "12", "g, h", "<i>", "</i>"]
    for _ in range(400):
        texts = [" ".join(draw.choices(parts, k=draw.randint(0, 5))) for _ in range(draw.randint(1, 5))]
        text = shown(*texts)
        for name in ("a.srt", "a.vtt"):
            document, lines = read(name, text.encode())
            words = [line.split(" ") for line in lines.lines]
            shares = {}
            for k in lines.aligned:
                rows = [[draw.random() for _ in words[k]] for _ in words[k]]
                shares[k] = [[x / sum(row) for x in row] for row in rows]
            found = document.fill(lines.lines, shares).decode()
            times = [line for line in text.split("\n") if "-->" in line]
            assert [line for line in found.split("\n") if "-->" in line] == times
            if "&" not in text or name == "a.srt":
                assert sorted("".join(found.split())) == sorted("".join(text.split())), (text, found)
