"""Lexical tables: which words they offer, and what is wrong with a bad one."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from decode_oracle import varied

from calque.data.codecs import WordCodec
from calque.data.vocabulary import Vocabulary
from calque.decode.select import load_selection
from calque.decode.translate import Translator, translate_lines
from calque.experiment import DecodeSettings
from calque.ground.diagnostics import CalqueError, Place

SOURCE, TARGET = WordCodec(Vocabulary("abcdefghi")), WordCodec(Vocabulary("ABCDEFGHI"))
TABLE = "a A 0.5\na\tB  0.25\na C 0.25\nb I 1\nc D 1e-3\n<unk> E 0.1\na D 0.1\n"
LINES = ["a b c", "", "d", "a a b i h g", "c never-seen", "e f g h i a b", "b", "h h"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.txt"
    path.write_text(TABLE)
    return path


def words(candidates, b: int) -> str:
    """The words that sentence b may have, special symbols left out."""
    ids = torch.arange(13) if candidates.ids is None else candidates.ids
    if candidates.forbidden is not None:
        ids = ids[~candidates.forbidden[b]]
    assert ids[:4].tolist() == [0, 1, 2, 3]
    return "".join(TARGET.tokens(ids[4:].tolist()))


@pytest.mark.parametrize(
    ("per_word", "frequent", "expected"),
    [
        (9, 0, ["ABCDI", "E", ""]),
        (2, 0, ["ABI", "E", ""]),  # of equals the lower id
        (1, 2, ["ABI", "ABE", "AB"]),
        (0, 9, ["ABCDEFGHI"] * 3),
    ],
)
def test_the_words_that_a_table_offers(table: Path, per_word: int, frequent: int, expected: list[str]) -> None:
    selection = load_selection(table, SOURCE, TARGET, per_word, frequent)
    source = torch.tensor([[4, 5, 2], [3, 2, 0], [2, 0, 0]])  # "a b", an unknown word, nothing
    for whole in (False, True):
        found = selection.candidates(source, whole=whole)
        assert [words(found, b) for b in range(3)] == expected
        assert not whole or found.ids is None
    union = "".join(sorted(set("".join(expected))))
    shared = replace(selection, by_sentence=False).candidates(source)
    assert [words(shared, b) for b in range(3)] == [union] * 3
    prefixed = selection.candidates(source, [[], [12], []])
    assert words(prefixed, 1) == "".join(sorted({*expected[1], "I"}))


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("a B", ["D601"]),
        ("", ["D601"]),
        ("a B 0.5 7", ["D601"]),
        ("b B 0", ["D602"]),
        ("b B 1.5", ["D602"]),
        ("b B nan", ["D602"]),
        ("b B much", ["D602"]),
        ("x B 0.5", ["D603"]),
        ("b b 0.5", ["D603"]),
        ("b </s> 0.5", ["D603"]),
        ("<pad> B 0.5", ["D603"]),
        ("a A 0.5", ["D604"]),
        ("a B\n" * 7, ["D601"] * 5 + ["D110"]),
    ],
)
def test_each_bad_line_is_one_error(tmp_path: Path, line: str, codes: list[str]) -> None:
    path = tmp_path / "table.txt"
    path.write_text(f"a A 0.5\n{line}\n" if not line.endswith("\n") else line)
    with pytest.raises(CalqueError) as caught:
        load_selection(path, SOURCE, TARGET, 10, 0)
    assert [d.code for d in caught.value.diagnostics] == codes
    if len(codes) == 1:
        assert f"{path}:2" in str(caught.value)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CalqueError) as caught:
        load_selection(tmp_path / "gone", SOURCE, TARGET, 10, 0)
    assert caught.value.diagnostics[0].code == "D101"


@pytest.mark.parametrize("body", [b"", gzip.compress(b"", mtime=0)])
def test_a_table_without_pairs(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "table").write_bytes(body)
    with pytest.raises(CalqueError) as caught:
        load_selection(tmp_path / "table", SOURCE, TARGET, 10, 10)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.where) == ("D106", Place(str(tmp_path / "table")))


def test_settings_that_offer_no_word(table: Path) -> None:
    with pytest.raises(CalqueError, match="help: leave out `--select`, or offer words: `--set decode") as caught:
        load_selection(table, SOURCE, TARGET, 0, 0)
    assert caught.value.diagnostics[0].code == "X806"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("decode", [{"beam": 1}, {"beam": 3}, {"sample": True, "top_p": 0.9}])
def test_lines_with_selected_words(table: Path, decode: dict[str, object], invariant: bool) -> None:
    plain = Translator(varied("transformer"), SOURCE, TARGET, DecodeSettings(batch_tokens=60, **decode))
    every = replace(plain, selection=load_selection(table, SOURCE, TARGET, 9, 9))
    assert translate_lines(every, LINES, 2, invariant) == translate_lines(plain, LINES, 2, invariant)
    some = replace(plain, selection=load_selection(table, SOURCE, TARGET, 9, 1))
    together = translate_lines(some, LINES, 2, invariant)
    shared = translate_lines(replace(some, decode=replace(some.decode, batch_tokens=1)), LINES, 2, invariant)
    assert [[t.text for t in found] for found in together] == [[t.text for t in found] for found in shared]
    assert set(together[6][0].text) <= set("AI <unk>")
