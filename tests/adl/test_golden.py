"""Whole messages as a person sees them. Each file holds a text, a line `---`, and what is printed for it."""

import pytest
from adl_corpus import HERE, checked, faults

from calque.ground.diagnostics import codes, render_all

OTHER_SIDE = {"encoder": "rnn @ e", "decoder": "mlp_src_att"}
GOLDEN = sorted(HERE.glob("golden/*.txt"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_message(path) -> None:
    body, _, expected = path.read_text(encoding="utf-8").partition("---\n")
    shown = faults(body) or checked(body).warnings
    assert render_all(shown) + "\n" == expected


def test_every_code_has_a_message() -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in GOLDEN)
    language = [code for code in codes() if code[0] in "SC" and code[:2] != "S2"]  # S2: see `test_acl18.py`
    assert [code for code in language if f"[{code}]" not in shown] == []


def test_sentences() -> None:
    for code in codes().values():
        if code.code[0] in "SC":
            for sentence in (code.message, *code.help):
                assert sentence[0] in "`{@" or sentence[0].islower(), code
                assert not sentence.endswith("."), code


def test_examples_of_pages_show_their_code() -> None:
    """A line of a page that names the code in a comment has that fault, once the text has two sides."""
    seen = 0
    for code in codes().values():
        if code.code[0] not in "SC" or code.code[:2] == "S2":
            continue
        block = [line.strip() for line in code.page.split("\n") if line.startswith("    ")]
        for k, line in enumerate(block):
            if f"# {code.code}" in line:
                body = "\n".join([*(b for b in block[:k] if b.split()[0] != line.split()[0]), line]) + "\n"
                if code.code != "C120":
                    body += "".join(
                        f"{side} = {chain}\n" for side, chain in OTHER_SIDE.items() if f"{side} =" not in body
                    )
                names = {d.code for d in faults(body)}
                assert code.code in names, (code.code, body, names)
                seen += 1
    assert seen > 15
