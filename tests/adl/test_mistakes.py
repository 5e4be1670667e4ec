"""What people type in other notations: the help says what to write, and written it works.

`python tests/adl/test_mistakes.py` writes the table of docs/errors.md anew.
"""

import re
from pathlib import Path

import pytest
from adl_corpus import HERE, INVALID, checked, faults, read

from calque import zoo
from calque.ground.diagnostics import Diagnostic, Span, apply_fix, codes, help_of, message, render

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
BEGIN, END = "<!-- mistakes -->\n", "<!-- end of mistakes -->\n"
OTHER = {
    "encoder": "encoder = pos -> repeat(6, tenc) -> norm\n",
    "decoder": "decoder = pos -> repeat(6, tdec) -> norm\n",
}


def texts() -> list[str]:
    lines = (HERE / "mistakes.txt").read_text(encoding="utf-8").split("\n")
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("# ")]


def whole(mistake: str) -> str:
    """A definition with the mistake in it."""
    if "\ndecoder = " in mistake:
        return f"{mistake}\n"
    side = "decoder" if mistake.startswith("decoder") else "encoder"
    other = OTHER["encoder" if side == "decoder" else "decoder"]
    return f"{other}{mistake}\n" if side == "decoder" else f"{mistake}\n{other}"


def mended(body: str) -> tuple[list[Diagnostic], str]:
    """The faults that are met while the help of the first one is followed, until there are none; and the text then."""
    met: list[Diagnostic] = []
    while (left := faults(body)) and len(met) < 4:
        met.append(left[0])
        assert left[0].fix is not None, f"no help for {left[0].code}: {body}"
        body = apply_fix(left[0].fix)
    return met, body


def row(mistake: str) -> str:
    met, body = mended(whole(mistake))
    now = body.replace(OTHER["encoder"], "").replace(OTHER["decoder"], "") or body
    shown = "<br>".join(f"`{line.strip()}`" for line in mistake.split("\n"))
    said = f"{met[0].code}: {message(met[0])}"
    helped = "; then ".join(str(help_of(fault)) for fault in met)
    written = "<br>".join(f"`{line.strip()}`" for line in now.rstrip("\n").split("\n"))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (shown, said, helped, written)) + " |\n"


def table() -> str:
    head = "| written | error | help | after it |\n|---|---|---|---|\n"
    return head + "".join(row(mistake) for mistake in texts())


@pytest.mark.parametrize("mistake", texts())
def test_the_help_is_followed_and_works(mistake: str) -> None:
    body = whole(mistake)
    assert faults(body), "this is no mistake"
    met, after = mended(body)
    assert faults(after) == []
    for fault in met:
        said = help_of(fault)
        assert said is not None
        # What is to be written stands in the sentence.
        new = " ".join(fault.fix.replacement.split()).strip(", ") if fault.fix else ""
        assert new in said or re.match("move `.*` (up, before|down, behind) `.*`$", said)


@pytest.mark.medium
def test_most_mistakes_take_one_edit() -> None:
    assert len(texts()) >= 80
    assert sum(len(mended(whole(mistake))[0]) > 1 for mistake in texts()) <= 2


def test_the_page_has_the_table() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert rest.partition(END)[0] == table(), "python tests/adl/test_mistakes.py writes it anew"


def golden() -> list[str]:
    return [path.read_text(encoding="utf-8").partition("---\n")[0] for path in sorted(HERE.glob("golden/*.txt"))]


@pytest.mark.parametrize("body", [*golden(), *map(read, INVALID)])
def test_every_edit_that_is_offered_works(body: str) -> None:
    """Of errors and of warnings: the fault is gone, and nothing new is wrong where the edit was made."""
    shown = faults(body) or list(checked(body).warnings)
    for fault in shown:
        if fault.fix is None:
            continue
        fixed = apply_fix(fault.fix)
        after = faults(fixed) or list(checked(fixed).warnings)
        kept = fixed[: fault.fix.span.start] + fixed[fault.fix.span.start + len(fault.fix.replacement) :]
        assert kept == body[: fault.fix.span.start] + body[fault.fix.span.end :]
        same = [f for f in after if f.code == fault.code and f.fields == fault.fields]
        before = [f for f in shown if f.code == fault.code and f.fields == fault.fields]
        assert len(same) < len(before)


def test_nearly_every_code_of_the_language_has_an_edit() -> None:
    offered = {f.code for body in (*golden(), *map(read, INVALID)) for f in faults(body) if f.fix is not None}
    language = {code for code in codes() if code[0] in "SC" and code[:2] != "S2"}
    # Too large a text, and warnings, which are not among the faults.
    assert language - offered <= {"C107", "C206", "C401", "C133", "C306"}


def test_pages_show_no_braces() -> None:
    for code in codes().values():
        for part in (code.title, code.page):
            assert not re.search(r"\{[a-z_]+\}", part), code.code


def test_no_alias_is_a_name_of_the_language() -> None:
    """What is right is never read as something else: texts of the zoo have no fault for the advice to touch."""
    for name in zoo.distinct():
        assert faults(zoo.read(name).body) == []


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


@pytest.mark.parametrize("written", ["2**6", "64 % 3", "2^6", "64 // 2 of them", "8 ** (2)", "0x40", "2k", "8²", "½"])
def test_help_for_arithmetic_leaves_no_other_number(written: str) -> None:
    (fault, *_) = faults(f"d = {written}\nencoder = norm\ndecoder = norm\n")
    assert fault.fix is None, apply_fix(fault.fix)


@pytest.mark.parametrize("written", ["64 % the width", "64 // half of it"])
def test_a_remark_behind_a_number_becomes_a_comment(written: str) -> None:
    (fault, *_) = faults(f"d = {written}\nencoder = norm\ndecoder = norm\n")
    assert fault.fix is not None
    assert fault.fix.replacement.strip() == "#"


@pytest.mark.parametrize("name", ["encodr", "Encoder", "ENCODER", "enc"])
def test_a_misspelt_side_is_marked_at_its_name(name: str) -> None:
    (fault,) = faults(f"d = 64\n{name} = norm\ndecoder = norm\n")
    assert isinstance(fault.where, Span)
    place = fault.where.text.line_column(fault.where.start)
    assert (fault.code, place, fault.fix and fault.fix.replacement) == ("C120", (2, 1), "encoder")


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("encoder = dropout(p*2)", "`p` expects whole numbers in arithmetic, found `p`, which is 0.1"),
        ("w = 0.5\nencoder = linear(w*d)", "`width` expects whole numbers in arithmetic, found `w`, which is 0.5"),
        ("b = ff\nencoder = repeat(b, b)", "`n` expects a whole number, found `b`, which stands for layers"),
        ("encoder = linear(sqrt(d))", "`width` expects a whole number, found `sqrt(...)`"),
        ("encoder = mul(linear(256), linear)", "the chains of `mul` return different widths: `256`, `512`"),
        ("encoder =", "expected a value after `=`, found the end of the line"),
    ],
)
def test_a_message_is_true_of_its_text(mistake: str, told: str) -> None:
    assert message(faults(whole(mistake))[0]) == told


@pytest.mark.parametrize("block", ["block = tenc -> block", "block(x = id) = x -> block(x)"])
def test_a_definition_that_uses_itself_is_told_why(block: str) -> None:
    (fault,) = faults(whole(f"{block}\nencoder = pos -> block"))
    assert (fault.code, fault.fix) == ("C101", None)
    assert "= note: a name can be used only after its statement, which stands at model.adl:1:1" in render(fault)


@pytest.mark.parametrize(
    "mistake", ["encoder = pos -> cnn(kernel=(3,3))", "encoder = my-block", "b[f] = ff\nencoder = b"]
)
def test_no_help_makes_one_name_or_number_of_two(mistake: str) -> None:
    for fault in faults(whole(mistake)):
        assert fault.fix is None or fault.fix.replacement.strip() != "", apply_fix(fault.fix)


@pytest.mark.parametrize("first", ["def n = 6", "n = 6, m = 2", "const n = 6 layers"])
def test_a_statement_that_cannot_be_read_is_the_only_fault(first: str) -> None:
    assert [fault.code for fault in faults(whole(f"{first}\nencoder = repeat(n, tenc)"))] == ["S102"]
