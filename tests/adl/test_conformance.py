"""The corpus: texts with the parameters they have, texts that mean the same, and texts with the faults they have.

A valid text may state `# parameters: FORMULA`, worked out from the papers' equations, and have a neighbour `NAME.same` that
has to mean the same. An invalid one states every fault, `# expect: CODE at LINE:COLUMN`, in order, and has no other.
"""

import re
from pathlib import Path

import pytest
from adl_corpus import INVALID, VALID, checked, faults, read, where

from calque.ground.diagnostics import apply_fix, codes, message

WARNINGS = {"C133", "C306"}  # no faults: see the tests of their names below


def identity(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", VALID, ids=identity)
def test_valid(path: Path) -> None:
    body = read(path)
    found = checked(body)
    formula = re.search(r"^# parameters: ([0-9+*() ]+)$", body, re.MULTILINE)
    same = path.with_suffix(".same")
    assert formula or same.exists(), "a text of the corpus expects something"
    if formula:
        assert found.encoder.parameters + found.decoder.parameters == eval(formula[1], {"__builtins__": {}})
    if same.exists():
        assert checked(read(same)).text == found.text


@pytest.mark.parametrize("path", VALID, ids=identity)
def test_canonical_text_means_the_same(path: Path) -> None:
    found = checked(read(path))
    again = checked(found.text)
    assert again.text == found.text
    assert again.hash == found.hash
    nodes = [
        [(n.path, n.text, n.label, n.width_in, n.width_out) for n in side.nodes()]
        for side in (found.encoder, found.decoder)
    ]
    assert nodes == [
        [(n.path, n.text, n.label, n.width_in, n.width_out) for n in side.nodes()]
        for side in (again.encoder, again.decoder)
    ]


@pytest.mark.parametrize("path", INVALID, ids=identity)
def test_invalid(path: Path) -> None:
    body = read(path)
    expected = [(c, int(x), int(y)) for c, x, y in re.findall(r"^# expect: (\w+) at (\d+):(\d+)$", body, re.MULTILINE)]
    assert expected
    assert [(fault.code, *where(fault)) for fault in faults(body)] == expected


def test_every_code_of_the_language_is_covered() -> None:
    stated = {code for path in INVALID for code in re.findall(r"^# expect: (\w+)", read(path), re.MULTILINE)}
    language = {code for code in codes() if code[0] in "SC" and code[:2] != "S2"}  # S2: see `test_acl18.py`
    assert language == stated | WARNINGS


def test_a_decoder_without_source_is_a_warning() -> None:
    (warning,) = checked("encoder = id\ndecoder = rnn -> norm\n").warnings
    assert (warning.code, warning.severity, where(warning)) == ("C306", "warning", (2, 11))
    assert checked("encoder = rnn @ e\ndecoder = rnn(start=@e)\n").warnings == ()


def test_a_definition_that_is_not_used_is_a_warning() -> None:
    (warning,) = checked("f = norm\ng = f\nh = g\nencoder = g\ndecoder = mlp_src_att\n").warnings
    assert (warning.code, warning.severity, where(warning)) == ("C133", "warning", (3, 1))
    (hidden,) = checked("f = norm\ng(f) = f\nencoder = g(id)\ndecoder = mlp_src_att\n").warnings
    assert hidden.fields["name"] == "f"
    assert checked("m = @end\nencoder = id\ndecoder = mlp_src_att(from=m)\n").warnings == ()


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_what_help_proposes_works(path: Path) -> None:
    for fault in faults(read(path)):
        if fault.fix is not None:
            after = {(f.code, where(f), message(f)) for f in faults(apply_fix(fault.fix))}
            assert (fault.code, where(fault), message(fault)) not in after


def test_many_faults_have_a_fix() -> None:
    fixed = [path for path in INVALID[::4] if any(fault.fix for fault in faults(read(path)))]
    assert len(fixed) > len(INVALID) / 16
