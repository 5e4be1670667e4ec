"""Texts with and without markup as lines to translate, and put together again; no model is needed."""

import html
import random
import re
import time

import pytest

from calque.workflow.document.layout import Lines
from calque.workflow.document.markup import html_layout


def test_lines_keep_their_white_space() -> None:
    lines = Lines()
    text = "  One line. Two.\r\n\n\t three\u2028four  "
    layout = lines.plain(text)
    assert lines.lines == ["One line. Two.", "three", "four"]
    assert layout.fill(lines.lines) == text
    assert layout.fill(["1", "2", "3"]) == "  1\r\n\n\t 2\u20283  "


def test_lines_are_cut_at_the_ends_of_sentences() -> None:
    lines = Lines(by_sentence=True)
    text = 'He said "no." Then J. Smith left!  Why? 3.5 km. 好。再见。'
    layout = lines.plain(text)
    assert lines.lines == ['He said "no."', "Then J. Smith left!", "Why?", "3.5 km.", "好。", "再见。"]
    assert layout.fill(lines.lines) == text


WESTERN = {"好。": "Good.", "再见。": "Bye.", "好": "Good", "再见": "Bye", "说": "Say", "一。": "One", "B 。": "B !"}
CHINESE = {"One.": "一。", "Two.": "二。", "Three.": "三"}


@pytest.mark.parametrize(
    ("text", "known", "filled"),
    [
        ("好。再见。", WESTERN, "Good. Bye."),
        ("好。  再见。\n好。", WESTERN, "Good.  Bye.\nGood."),
        ("One. Two.  Three.", CHINESE, "一。二。  三"),
        ("<b>好。再见。</b>好。", WESTERN, "<b>Good. Bye.</b>Good."),
        ("<p>好。</p><p>再见。</p>", WESTERN, "<p>Good.</p><p>Bye.</p>"),
        ("<p>一。<i>B</i> 。好。</p>", WESTERN, "<p>One <i>B</i> ! Good.</p>"),
        ("<p>One. Two. <b>Three.</b></p>", CHINESE, "<p>一。二。<b>三</b></p>"),
    ],
)
def test_white_space_between_sentences_is_that_of_the_script(text: str, known: dict[str, str], filled: str) -> None:
    lines = Lines(by_sentence=True)
    layout = html_layout(text, lines, True) if "<" in text else lines.plain(text)
    assert layout.fill(lines.lines) == text
    assert layout.fill([known[line] for line in lines.lines]) == filled


def test_tags_stay_and_text_is_translated() -> None:
    lines = Lines()
    text = (
        '<!doctype html><p class="a > b">A <b>dog</b> &amp; a\n cat</p><br/><script>if (a < b) go()</script><!-- no <b> -->'
        "<span translate=\"no\">Calque <span>x</span></span> 1 < 2 <code>x = 1</code><a href='?a=1&b=2'>here</a>"
    )
    layout = html_layout(text, lines)
    assert lines.lines == ["A", "dog", "& a cat", "1 < 2", "here"]
    filled = layout.fill(["E", "<i>", "& K", "1 < 2", "hier"])
    assert filled == (
        '<!doctype html><p class="a > b">E <b>&lt;i&gt;</b> &amp; K</p><br/><script>if (a < b) go()</script><!-- no <b> -->'
        "<span translate=\"no\">Calque <span>x</span></span> 1 &lt; 2 <code>x = 1</code><a href='?a=1&b=2'>hier</a>"
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<p>a</p><script>for(i=0;i<n;i++){f()}</script><p>b</p>", ["a", "b"]),
        ("<script>write('<script src=x><\\/script>')</script><p>a</p>", ["a"]),
        ("<style>a<b{}</STYLE >b", ["b"]),
        ("<script>if (a <", []),
        ("<code>if a<b</code><p>c</p>", ["c"]),
        ("<pre>a\n  b <i>c</i>\r\nd</pre> e\nf", ["a", "b", "c", "d", "e f"]),
        ('<a"b">c</a>', ["c"]),
        # Each `<` may begin a tag that does not end: tried once, in linear time.
        ("<a" + '"<a"b' * 2000, ["<a" + '"<a"b' * 2000]),
        ("<a " + 'x="<' * 2001, ["<a " + 'x="<' * 2001]),
    ],
)
def test_where_text_is(text: str, lines: list[str]) -> None:
    for inline in (False, True):
        found = Lines()
        layout = html_layout(text, found, inline)
        assert found.lines == lines
        assert layout.fill(found.lines).replace("&lt;", "<") == text.replace("e\nf", "e f")


def test_any_text_keeps_its_tags() -> None:
    """Texts of random parts: what is translated comes back as data, and everything else as it was."""
    draw = random.Random(1)
    parts = [
        "<",
        ">",
        "<b>",
        "</b>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "a ",
        "b\n",
        '"',
        "'",
        "<a x='",
        "&lt;",
        "&",
        "]]>",
        "<![CDATA[",
    ]
    for _ in range(3000):
        text = "".join(draw.choices(parts, k=draw.randint(0, 12)))
        lines = Lines()
        layout = html_layout(text, lines)
        filled = layout.fill(["<x>"] * len(lines.lines))
        kept = [part for part in layout.parts if isinstance(part, str)]
        assert "<x>" not in filled.replace("&lt;x&gt;", "")
        assert [part for part in kept if part.startswith("<")] == [
            part for part in kept if part.startswith("<") and part in text
        ]
        plain = Lines()
        assert plain.plain(text).fill(plain.lines) == text


@pytest.mark.parametrize("part", ["<a ", "<!--", '<a "', "<a '\"", "<![CDATA[", "</", "<script>", "&#", "<a b=", "<!x"])
def test_texts_of_half_tags_take_no_time(part: str) -> None:
    lines = Lines()
    html_layout(part * 20_000, lines)  # quadratic time would be minutes


def diagonal(line: str, translation: str) -> list[list[float]]:
    """Shares of a translation word by word."""
    count = len(line.split(" "))
    return [[float(k == s) for s in range(count)] for k in range(len(translation.split()))]


@pytest.mark.parametrize(
    ("text", "line", "filled"),
    [
        ("a <b>b</b> c", "a b c", "A <b>B</b> C"),
        (" <p>a <b>b</b></p> c <i>d</i>e", "a b", " <p>A <b>B</b></p> C <i>DE</i>"),
        ("a<b> b </b>c &amp; d", "a b c & d", "A <b>B</b> C &amp; D"),
        ("<a href='x > y'>a <b>b</b></a> c", "a b c", "<a href='x > y'>A <b>B</b></a> C"),
        ("a <img src=x> b", "a b", "A <img src=x> B"),
        ("a<wbr>b <x id=1/>c", "ab c", "AB<wbr> <x id=1/>C"),
        ("<b>a b</b>\n", "a b", "<b>A B</b>\n"),
        ("a <b></b><i><u></u></i> b", "a b", "A <b></b> <i><u></u></i> B"),
        ("a\n<em>b\r\nc</em>", "a b c", "A <em>B C</em>"),
        # Punctuation stands outside where it does in the source.
        ("a <b>b c</b>.", "a b c.", "A <b>B C</b>."),
        ("a <b>b c.</b>", "a b c.", "A <b>B C.</b>"),
        ("a (<b>b</b>), (<i>c</i>", "a (b), (c", "A (<b>B</b>), (<i>C</i>"),
        ("a <b>b <i>c</i></b>!?", "a b c!?", "A <b>B <i>C</i></b>!?"),
        ("a <b>b <i>c</i>.</b>", "a b c.", "A <b>B <i>C</i>.</b>"),
        ("(<b><i>a</i> b</b>) c", "(a b) c", "(<b><i>A</i> B</b>) C"),
        ("a <b>b</b>&quot; c", 'a b" c', 'A <b>B</b>" C'),
        ("a <b>.</b> c", "a . c", "A <b>.</b> C"),
        # Numbers of notes, and powers, are no words, and stand before the punctuation before which they stood.
        ("a b<sup>2</sup>, c", "a b, c", "A B<sup>2</sup>, C"),
        ("a 5 0<sup>2</sup>.", "a 5 0.", "A 5 0<sup>2</sup>."),
        ("a b.<sup><a href='#n'>[3]</a></sup>", "a b.", "A B.<sup><a href='#n'>[3]</a></sup>"),
        ("a <b>3</b> b", "a 3 b", "A <b>3</b> B"),
        ("a 1<b>0</b> b", "a 10 b", "A 1<b>0</b> B"),
        ("1<sup>2</sup>+3<sup>4</sup> b", "12+3 b", "1<sup>2</sup>+3<sup>4</sup> B"),
        ('"<b>7</b> men', '"7 men', '"<b>7</b> MEN'),
        ("at 3:<b>2</b> b", "at 3:2 b", "AT 3:<b>2</b> B"),
        ("a (<b>f(x)</b>).", "a (f(x)).", "A (<b>F(X)</b>)."),
        # White space stays on its side of what stands before or behind all words.
        ("<i class='x'></i> a b", "a b", "<i class='x'></i> A B"),
        ("a b <img>", "a b", "A B <img>"),
        (" <img> a b", "a b", " <img> A B"),
        ("a b <img>\n", "a b", "A B <img>\n"),
        ("a<b> b </b>c", "a b c", "A <b>B</b> C"),
        # Formulas and comments stand between words.
        ("a <math><mi>x</mi></math> b", "a b", "A <math><mi>x</mi></math> B"),
        ("a <!-- c --> b", "a b", "A <!-- c --> B"),
        # Words that are not translated stand where the words do that they would become.
        ("a <code>b &lt; c</code> d", "a b < c d", "A <code>b &lt; c</code> D"),
        ("a (<kbd>b</kbd>), c", "a (b), c", "A (<kbd>b</kbd>), C"),
        ("<code>b</code> a", "b a", "<code>b</code> A"),
        ("a <b>b <samp>c <i>d</i></samp></b>.", "a b c d.", "A <b>B <samp>c <i>d</i></samp></b>."),
        ("a <span translate=no>b</span> c", "a b c", "A <span translate=no>b</span> C"),
        ("7 <code>7</code> a <code>7</code>", "7 7 a 7", "7 <code>7</code> A <code>7</code>"),
        ("a “<b>b <code>7</code>”</b>.", "a “b 7”.", "A “<b>B <code>7</code>”</b>."),
        ("a <code>?</code>, (<code>()</code>).", "a ?, (()).", "A <code>?</code>, (<code>()</code>)."),
        ("a <code>1 {}</code>.", "a 1 {}.", "A <code>1 {}</code>."),
        # What stands inside a word stays there where the word stays.
        ("a 10<sub>2</sub>3, b", "a 1023, b", "A 10<sub>2</sub>3, B"),
        ("a (1<sub>2</sub>3<sub><i>4</i></sub>5) b", "a (12345) b", "A (1<sub>2</sub>3<sub><i>4</i></sub>5) B"),
        ("<b>a 1<i>2</i></b> b", "a 12 b", "<b>A 1<i>2</i></b> B"),
        ("a<sup>b</sup> c", "ab c", "<sup>AB</sup> C"),
        ("a 1<img>2 b", "a 12 b", "A 12<img> B"),
    ],
)
def test_tags_inside_a_sentence_stand_around_the_words_that_theirs_have_become(
    text: str, line: str, filled: str
) -> None:
    lines = Lines()
    layout = html_layout(text, lines, True)
    assert lines.lines[0] == line
    whole = [one.upper() for one in lines.lines]
    shares = {k: diagonal(lines.lines[k], whole[k]) for k in lines.aligned}
    assert layout.fill(whole, shares) == filled


@pytest.mark.parametrize(
    ("text", "translation", "filled"),
    [
        ("a <b>b</b>.", "B", "A <b>B</b>"),  # there is no punctuation to stay outside
        ("a <b>b</b>", "B.", "A <b>B.</b>"),
        ("a <b>b</b>, c", "B», C", "A <b>B</b>», C"),
        ("a <b>b</b>.", "...", "A <b>.</b>.."),
    ],
)
def test_punctuation_of_the_translation_is_its_own(text: str, translation: str, filled: str) -> None:
    lines = Lines()
    layout = html_layout(text, lines, True)
    whole = f"A {translation}"
    assert layout.fill([whole], {0: diagonal(lines.lines[0], whole)}) == filled


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a <!-- b", ["a"]),
        ("<!-- b", []),
        ("a <b", ["a"]),
        ("a</b", ["a"]),
        ('a <a href="x y', ["a"]),
        ("a <a href=x", ["a"]),
        ("a <b and c", ["a <b and c"]),
        ("a < b", ["a < b"]),
        ("a <? b", ["a <? b"]),
    ],
)
def test_markup_that_is_cut_off_stays(text: str, lines: list[str]) -> None:
    found = Lines()
    layout = html_layout(text, found, True)
    assert found.lines == lines
    if lines != [text]:
        assert layout.fill(found.lines) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<p><code>b</code></p> a", ["a"]),
        ("<p>a</p><p><code>b</code>, <code>c</code></p>", ["a"]),
        ("<pre>a <code>b</code></pre>", ["a"]),
        ("a <script>b</script> c", ["a", "c"]),
        ("a <code>b<p>c</p></code> d", ["a", "d"]),
        (f"a <code>{'b ' * 40}</code> c", ["a", "c"]),
        ("a <code></code> c", ["a", "c"]),
        ("a <code>b", ["a"]),
        ("a <code>b</code>c <i>d</i>", ["a", "c", "d"]),
        ("<kbd>A</kbd>+<kbd>B</kbd> is it", ["is it"]),
        ("a (<code>f(x)</code>), <code>g()</code>.", ["a (f(x)), g()."]),
        ('a <code>"b"</code>.', ['a "b".']),
        ("a <code>b.c()</code> dd. E", ["a b.c() dd.", "E"]),
        ("a <code>b</code>.json c", ["a", ".json c"]),
        ("a <code>b</code>,<i>d</i> c", ["a", "d", "c"]),
    ],
)
def test_code_is_part_of_a_sentence_where_there_is_one(text: str, lines: list[str]) -> None:
    found = Lines(by_sentence=True, letters=True)
    layout = html_layout(text, found, True)
    assert found.lines == lines
    assert layout.fill(found.lines) == text


def test_code_is_where_its_words_are_or_takes_the_place_of_what_they_became() -> None:
    lines = Lines()
    layout = html_layout("Run <code>make it</code> now", lines, True)
    even = [[0.25, 0.25, 0.25, 0.25]] * 4
    assert layout.fill(["Jetzt make it rufen"], {0: even}) == "Jetzt <code>make it</code> rufen"
    wrong = [[0, 0, 0, 1], [0, 0.6, 0.4, 0], [1, 0, 0, 0]]
    assert layout.fill(["Jetzt mache! rufen"], {0: wrong}) == "Jetzt <code>make it</code> rufen"
    lost = [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert layout.fill(["Rufe jetzt"], {0: lost}) == "Rufe <code>make it</code> jetzt"
    assert layout.fill(["Los!"], {0: [[0, 1, 0, 0]]}) == "<code>make it</code> Los!"
    last = html_layout("Call <code>it</code>", Lines(), True)
    assert last.fill(["Rufe"], {0: [[1, 0]]}) == "Rufe <code>it</code>"
    assert layout.fill([""], {0: []}).split() == ["<code>make", "it</code>"]


def test_tags_follow_their_words() -> None:
    lines = Lines()
    layout = html_layout("<i>a</i> <b>b c</b> d <u>e</u>", lines, True)
    shares = [[0, 0, 0, 0, 1], [0, 0.9, 0.1, 0, 0], [0.2, 0.1, 0.7, 0, 0], [0.8, 0.2, 0, 0, 0], [0, 0, 0.1, 0.9, 0]]
    assert layout.fill(["E B C A D"], {0: shares}) == "<u>E</u> <b>B C</b> <i>A</i> D"
    assert layout.fill(["E B C A D"], {0: None}) == "<i>E</i> <b>B C</b> A <u>D</u>"  # in proportion


@pytest.mark.parametrize("text", ["a <b>b", "a</b> b", "a <b>b <i>c</b> d</i> e", "a <code>b\nc</code> d", "a <br> b"])
def test_tags_that_are_no_elements_of_a_sentence_divide_it(text: str) -> None:
    lines = Lines()
    layout = html_layout(text, lines, True)
    assert all(len(one) == 1 for one in lines.lines)
    assert layout.fill(lines.lines) == text


def test_sentences_are_cut_around_tags() -> None:
    lines = Lines(by_sentence=True)
    html_layout("One <b>two</b>. Three <i>four</i>! <u>Five. Six.</u> End", lines, True)
    assert lines.lines == ["One two.", "Three four!", "Five.", "Six.", "End"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<b>Two dogs. </b>The <i>red</i> car.", ["Two dogs.", "The red car."]),
        ("A man rides<ins> a horse. He likes</ins> it. So it is.", ["A man rides a horse. He likes it.", "So it is."]),
        ("He is happy.<sup><a href='#n'>3</a></sup> Two dogs play.", ["He is happy.", "Two dogs play."]),
    ],
)
def test_sentences_end_beside_and_inside_tags(text: str, lines: list[str]) -> None:
    found = Lines(by_sentence=True)
    layout = html_layout(text, found, True)
    assert found.lines == lines
    shares = {k: diagonal(found.lines[k], found.lines[k]) for k in found.aligned}
    assert layout.fill(found.lines, shares).replace(" ", "") == text.replace(" ", "")


def test_a_mark_whose_words_are_taken_has_none() -> None:
    lines = Lines()
    layout = html_layout("A <a>boy</a>/<b>girl</b> is <i>here</i>", lines, True)
    shares = [[0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.1, 0.9]]
    filled = layout.fill(["Ein Junge ist hier"], {0: shares})
    assert "<i>hier</i>" in filled
    assert sorted([filled.count(">Junge</"), filled.count("></")]) == [1, 1], filled


@pytest.mark.medium
def test_notes_take_no_time() -> None:
    began = time.monotonic()
    html_layout("a dog<sup>1</sup> " * 20_000, Lines(by_sentence=True), True)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("first", [True, False])
def test_a_point_before_all_words_stays_there(first: bool) -> None:
    lines = Lines()
    layout = html_layout("<x/>a <b>b</b> c" if first else "a <b>b</b> c<x/>", lines, True)
    shares = [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert layout.fill(["C B A"], {0: shares}) == ("<x/>C <b>B</b> A" if first else "C <b>B</b> A<x/>")


@pytest.mark.parametrize("part", ["." * 40_000 + "x", "(" * 40_000, "x" + "." * 40_000])
def test_long_words_take_no_time(part: str) -> None:
    lines = Lines()
    began = time.monotonic()
    layout = html_layout(f"a <b>{part}</b> b<sup>x</sup> c", lines, True)
    layout.fill(lines.lines, {0: diagonal(lines.lines[0], lines.lines[0])})
    assert time.monotonic() - began < 2


def test_no_tag_and_no_word_is_lost_wherever_tags_stand() -> None:
    draw = random.Random(3)
    tags = ["<b>", "</b>", "<i x='<'>", "</i>", "<img>", "<p>", "</p>", "<x/>", "<sup>", "</sup>"]
    parts = ["a", "b c", " ", "&lt;", "\n", ". D"]
    for _ in range(400):
        text = "".join(draw.choice(tags if draw.random() < 0.5 else parts) for _ in range(draw.randint(1, 14)))
        lines = Lines(draw.random() < 0.3)
        layout = html_layout(text, lines, True)
        shares = {}
        for k in lines.aligned:
            count = len(lines.lines[k].split(" "))
            rows = [[draw.random() for _ in range(count)] for _ in range(count)]
            shares[k] = [[x / sum(row) for x in row] for row in rows]
        filled = layout.fill(lines.lines, shares)
        for tag in tags:
            assert filled.count(tag) == text.count(tag), (text, filled)
        stripped = [re.sub(r"<(?:[^>']|'[^']*')*>", "", one) for one in (text, filled)]
        assert "".join(stripped[0].split()) == "".join(stripped[1].split()), (text, filled)


@pytest.mark.parametrize("part", ["<b>", "<b>a</b> ", "a <b>", "<i><b>x</b>", "</b>", "<b a='"])
def test_many_tags_inside_a_sentence_take_no_time(part: str) -> None:
    lines = Lines()
    began = time.monotonic()
    layout = html_layout(part * 3000, lines, True)
    assert html.unescape(layout.fill(lines.lines)) == part * 3000
    assert time.monotonic() - began < 2
