"""Markdown: which of it is text, and where its markup stands in a translation."""

import html
import random
import re
import time

import pytest
from markdown_it import MarkdownIt
from packed_files import read, shouted

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.mark.parametrize(
    ("text", "lines", "filled"),
    [
        ("# a b #\n\na\n===\n", ["a b", "a"], "# A B #\n\nA\n===\n"),
        ("---\ntitle: a\n---\nb\n", ["b"], "---\ntitle: a\n---\nB\n"),
        ("a\nb\r\nc\n", ["a b c"], "A B C\n"),
        ("> a\n> b  \n> c\\\n> d\n", ["a b", "c", "d"], "> A B  \n> C\\\n> D\n"),
        ("> a `1\n> 2`\n> b  \n> c\n", ["a 1 2 b", "c"], "> A `1 2` B  \n> C\n"),
        ("- a\n\n  b\n  1. c\n- [x] d\n", ["a", "b", "c", "d"], "- A\n\n  B\n  1. C\n- [x] D\n"),
        ("```sh\na b\n```\n\n    c d\n\ne\n", ["e"], "```sh\na b\n```\n\n    c d\n\nE\n"),
        (
            "| a | `b` c |\n|---|:-:|\n| d \\| e | `f\\|g` h |\n",
            ["a", "b c", "d | e", "f|g h"],
            "| A | `b` C |\n|---|:-:|\n| D \\| E | `f\\|g` H |\n",
        ),
        ("<p>a <b>b</b></p>\n\n<!-- c -->\n", ["a b"], "<p>A <b>B</b></p>\n\n<!-- c -->\n"),
        ('[r]: http://x "a"\n\n[a b][r]\n', ["a b"], '[r]: http://x "a"\n\n[A B][r]\n'),
        ("a[^1] b\n\n[^1]: c e\n[^2]: d\n", ["a b", "c e", "d"], "A[^1] B\n\n[^1]: C E\n[^2]: D\n"),
        ("+++\ntitle = 1\n+++\na\n", ["a"], "+++\ntitle = 1\n+++\nA\n"),
        ("---\nt: x\n---", [], "---\nt: x\n---"),
        ("---\n\na\n\n---\n", ["a"], "---\n\nA\n\n---\n"),
        ('a\n!!! note "T"\n    b.\n', ["a", "b."], 'A\n!!! note "T"\n    B.\n'),
        (":::note\na\n:::\nb\n", ["a", "b"], ":::note\nA\n:::\nB\n"),
        ("> [!NOTE]\n> a\n> b\n", ["a b"], "> [!NOTE]\n> A B\n"),
        ("a\n:   b c\n    d\n:   e\n", ["a", "b c d", "e"], "A\n:   B C D\n:   E\n"),
        ("a\n{: .c }\n", ["a"], "A\n{: .c }\n"),
        ("a\n$$\nx = b\n$$\nc\n\n\\[ d \\]\n", ["a", "c"], "A\n$$\nx = b\n$$\nC\n\n\\[ d \\]\n"),
        ("[TOC]\n\n{% x a %}\n\n{{< b c >}}\n\n\\newpage\n", [], "[TOC]\n\n{% x a %}\n\n{{< b c >}}\n\n\\newpage\n"),
        ("a[^1]\n\n[^1]: https://b.c\n", ["a"], "A[^1]\n\n[^1]: https://b.c\n"),
        ("## a {#id}\n\n[a](b){ .c } d\n", ["a", "a d"], "## A {#id}\n\n[A](b){ .c } D\n"),
    ],
)
def test_blocks(text: str, lines: list[str], filled: str) -> None:
    found = read("a.md", text.encode())[1]
    assert found.lines[: len(lines)] == lines
    assert shouted("a.md", text.encode()).decode() == filled


@pytest.mark.parametrize(
    ("text", "line", "filled"),
    [
        ("a **b** _c d_ ~~e~~", "a b c d e", "A **B** _C D_ ~~E~~"),
        ("a ***b* c** d", "a b c d", "A ***B* C** D"),
        ("a `b_c` and ``d ` e``.", "a b_c and d ` e.", "A `b_c` AND ``d ` e``."),
        ("a `b` c `b` d", "a b c b d", "A `b` C `b` D"),
        ("“a [b `7`”](d).", "“a b 7”.", "“A [B `7`”](d)."),
        ("[a b](<c d> 'e (f)') g", "a b g", "[A B](<c d> 'e (f)') G"),
        ("[a](b(c)d) [e][] [f]", "a [e][] [f]", "[A](b(c)d) [E][] [F]"),
        ('a ![b [c] `]`](d "e") f', "a f", 'A ![b [c] `]`](d "e") F'),
        ("[![a](b)](c) d", "d", "[![a](b)](c) D"),
        ("a <http://b.c> d <b>e</b> <br> f", "a http://b.c d e", "A <http://b.c> D <b>E</b> <br> F"),
        ("a <!-- b --> c", "a c", "A <!-- b --> C"),
        ("a <code>b c</code> <kbd>7</kbd>.", "a b c 7.", "A <code>b c</code> <kbd>7</kbd>."),
        ("a {{ b }} c {% d %} e", "a {{ b }} c {% d %} e", "A {{ b }} C {% d %} E"),
        ("[a](b){target=_blank} `7`{.c} d", "a 7 d", "[A](b){target=_blank} `7`{.c} D"),
        ("a $\\alpha_i\\{$ \\(7\\) b", "a \\alpha_i\\{ 7 b", "A $\\alpha_i\\{$ \\(7\\) B"),
        ("a\\\n1\\. b \\!", "a", "A\\\n1\\. B \\!"),
        ("Is `''`, (`\" \"`).", "Is '', (\" \").", "IS `''`, (`\" \"`)."),
        ("a very `7` b[^1] c", "a very 7 b c", "A VERY `7` B[^1] C"),
        ("[a](b)<!-- c -->, d", "a, d", "[A](b)<!-- c -->, D"),
        ("a \\*b\\* c * d", "a *b* c * d", "A \\*B\\* C \\* D"),
        ("a &lt;b&gt; &amp; c", "a <b> & c", "A \\<B\\> &amp; C"),
        ("a < b & c_d", "a < b & c_d", "A < B & C_D"),
        ("a $x_1$ b, $5 and $6", "a x_1 b, $5 and $6", "A $x_1$ B, $5 AND $6"),
    ],
)
def test_markup_inside_a_sentence(text: str, line: str, filled: str) -> None:
    found = read("a.md", text.encode())[1]
    assert found.lines[0] == line
    assert shouted("a.md", text.encode()).decode() == filled


@pytest.mark.parametrize(
    ("translation", "filled"),
    [
        ("1986. b", "1986\\. b"),
        ("- b", "\\- b"),
        ("# b", "\\# b"),
        ("a * b_c <d> [e]", "a \\* b\\_c \\<d> \\[e]"),
        ("*", "\\*"),
    ],
)
def test_a_translation_makes_no_markup(translation: str, filled: str) -> None:
    document, lines = read("a.md", b"a\n")
    assert lines.lines == ["a"]
    made = document.fill([translation]).decode()
    assert made == f"{filled}\n"
    assert PARSER.render(made).count("<") == 2  # those of the paragraph


def test_a_link_keeps_its_target_where_its_text_is_its_name() -> None:
    text = "See [the bike] and [a man][].\n\n[the bike]: u\n[a man]: v\n"
    document, _ = read("a.md", text.encode())
    shares = [[float(i == j) for j in range(6)] for i in range(6)]
    made = document.fill(["Siehe das Rad und ein Mann."], {0: shares}).decode()
    assert made == "Siehe [das Rad][the bike] und [ein Mann][a man].\n\n[the bike]: u\n[a man]: v\n"


def test_emphasis_without_words_goes() -> None:
    document, _ = read("a.md", b"a **b *c* d** e ~~f g~~\n")
    assert document.fill(["A"], {0: [[0, 0, 0, 0, 0, 1, 0]]}).decode() == "~~A~~\n"


def test_where_nothing_attends_markup_divides() -> None:
    assert read("a.md", b"a **b** `c` [d](e)\n", False)[1].lines == ["a", "b", "d"]
    assert shouted("a.md", b"a **b** `c` [d](e)\n", False) == b"A **B** `c` [D](e)\n"


PARTS = [
    *"ab *_`[]()<>!\\\n#->|~&;1.$^:{",
    "](",
    "**",
    "](b)",
    "&lt;",
    "a<b>",
    "</b>a",
    "\n\n",
    "    ",
    "| - |\n",
    "[^1]",
    "```",
    "a b c",
]


@pytest.mark.parametrize("seed", range(3))
def test_random_texts_are_read_and_what_is_put_back_says_the_same(seed: int) -> None:
    """Of each text the same blocks are there again, and its words in their order."""
    draw = random.Random(seed)
    for _ in range(300):
        text = "".join(draw.choices(PARTS, k=draw.randrange(1, 60)))
        made = shouted("a.md", text.encode(), as_said=str).decode()
        blocks = [[t.type for t in PARSER.parse(one) if t.block and t.type != "inline"] for one in (text, made)]
        assert blocks[0] == blocks[1], (text, made)
        assert letters(text) == letters(made)


def letters(text: str) -> list[str]:
    """Those of a text, without escapes."""
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", lambda found: "&amp;" if found[1] == "&" else found[1], text)
    return sorted(filter(str.isalnum, html.unescape(plain)))


@pytest.mark.medium
@pytest.mark.parametrize(
    "some",
    [
        "[^a",
        "<!-- ",
        "a\n",
        "{{",
        "$a$",
        "<code>",
        "*a ",
        "[",
        "![",
        "`a",
        "<a ",
        "a_b_",
        "[a](",
        "{.a",
        "$a",
        "> ",
        "- ",
    ],
)
def test_hostile_texts_take_no_time(some: str) -> None:
    begun = time.perf_counter()
    read("a.md", (some * 2000).encode())
    assert time.perf_counter() - begun < 20
