"""Links: their files, two directions made one, and the alignment error rate."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import calque.align.links as module
from calque.align.links import SYMMETRISE, Gold, check_inside, read_gold, read_links, written
from calque.evaluate.aer import alignment_error_rate
from calque.ground.diagnostics import CalqueError


def links(text: str) -> frozenset[tuple[int, int]]:
    return frozenset(tuple(map(int, link.split("-"))) for link in text.split())


def naive(forward, backward, both: bool, final: bool = True):
    """Koehn's published program, on a matrix: `e` target words, `f` source words."""
    size_e = size_f = 8
    a = [[(f, e) in forward & backward for f in range(size_f)] for e in range(size_e)]
    union = forward | backward
    neighbouring = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

    def e_free(e):
        return not any(a[e])

    def f_free(f):
        return not any(row[f] for row in a)

    added = True
    while added:
        added = False
        for e in range(size_e):
            for f in range(size_f):
                if a[e][f]:
                    for df, de in neighbouring:
                        e_new, f_new = e + de, f + df
                        if (f_new, e_new) in union and (e_free(e_new) or f_free(f_new)):
                            a[e_new][f_new] = added = True
    for direction in (forward, backward) if final else ():
        for e in range(size_e):
            for f in range(size_f):
                free = (e_free(e), f_free(f))
                if (f, e) in direction and (all(free) if both else any(free)):
                    a[e][f] = True
    return frozenset((f, e) for e in range(size_e) for f in range(size_f) if a[e][f])


def test_grown_links_are_those_of_the_published_program() -> None:
    draw = random.Random(3)
    seen = set()
    for _ in range(300):
        forward = frozenset((draw.randrange(8), t) for t in range(8) if draw.random() < 0.8)
        backward = frozenset((s, draw.randrange(8)) for s in range(8) if draw.random() < 0.8)
        grown = [SYMMETRISE[way](forward, backward) for way in ("grow-diag", "grow-diag-final", "grow-diag-final-and")]
        assert grown[0] == naive(forward, backward, both=False, final=False)
        assert grown[1] == naive(forward, backward, both=False)
        assert grown[2] == naive(forward, backward, both=True)
        assert forward & backward <= grown[0] <= grown[2] <= grown[1] | grown[2] <= forward | backward
        seen.add(tuple(map(len, grown)))
    assert len(seen) > 30


def test_ways_on_an_example_worked_by_hand() -> None:
    forward, backward = links("0-0 1-1 2-1 4-4"), links("0-0 1-1 1-2 3-5")
    expected = {
        "forward": forward,
        "backward": backward,
        "intersection": links("0-0 1-1"),
        "union": links("0-0 1-1 1-2 2-1 3-5 4-4"),
        "grow-diag": links("0-0 1-1 1-2 2-1"),
        "grow-diag-final": links("0-0 1-1 1-2 2-1 4-4 3-5"),
        "grow-diag-final-and": links("0-0 1-1 1-2 2-1 4-4 3-5"),
    }
    assert {way: make(forward, backward) for way, make in SYMMETRISE.items()} == expected
    assert all(make(frozenset(), frozenset()) == frozenset() for make in SYMMETRISE.values())


def test_files_of_links(tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text("1-0 0-0 12-3\n\n2-2\n")
    assert read_links(path) == [links("0-0 1-0 12-3"), frozenset(), links("2-2")]
    assert written(links("10-3 2-7 2-5")) == "2-5 2-7 10-3"
    path.write_text("1-1 2p3\n\n")
    assert read_gold(path) == [Gold(links("0-0"), links("0-0 1-2")), Gold(frozenset(), frozenset())]
    assert read_gold(path, 0)[0] == Gold(links("1-1"), links("1-1 2-3"))


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("0-0\n1p1\n", ["D701"]),
        ("0-0 1\n", ["D701"]),
        ("a-0\n", ["D701"]),
        ("-1-0\n", ["D701"]),
        ("1-1-1\n", ["D701"]),
        ("٣-1\n", ["D701"]),
        ("1 - 1\n" * 9, ["D701"] * 5),
        ("9999999999-0\n", ["D701"]),
    ],
)
def test_what_is_no_link_is_an_error_with_its_line(tmp_path: Path, body: str, codes: list[str]) -> None:
    path = tmp_path / "links"
    path.write_text(body)
    with pytest.raises(CalqueError) as caught:
        read_links(path)
    assert [d.code for d in caught.value.diagnostics] == codes
    assert f"{path}:" in str(caught.value)


def test_a_number_that_is_too_large_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text("9999999999-0 x\n")
    with pytest.raises(CalqueError) as caught:
        read_links(path)
    one, other = caught.value.diagnostics
    assert one.fields["expected"] == "`s-t` with numbers of at most 9 digits"
    assert other.fields["expected"] == "`s-t`"


def test_a_word_before_the_first_and_one_behind_the_last(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1\n0-1 2p0\n")
    with pytest.raises(CalqueError) as caught:
        read_gold(path)
    assert [d.code for d in caught.value.diagnostics] == ["D702", "D702"]
    with pytest.raises(CalqueError, match="D703"):
        check_inside(path, [links("0-0 2-1")], [(2, 2)])
    with pytest.raises(CalqueError, match="D704"):
        check_inside(path, [links("0-0")], [(2, 2), (1, 1)])
    check_inside(path, [links("1-1")], [(2, 2)])


def test_the_error_rate_of_the_worked_example() -> None:
    # 1 - (|{00}| + |{00, 11}|) / (3 + 2) = 0.40
    score = alignment_error_rate([links("0-0 1-1 2-2")], [Gold(links("0-0 1-2"), links("0-0 1-2 1-1"))])
    assert score.value == pytest.approx(40)
    assert score.detail["precision"] == pytest.approx(200 / 3)
    assert score.detail["recall"] == pytest.approx(50)
    assert score.signature.startswith("sentences:1|sure:2|possible:3|")


def test_the_ends_of_the_error_rate() -> None:
    gold = [Gold(links("0-0"), links("0-0 1-1")), Gold(links("2-2"), links("2-2"))]
    assert alignment_error_rate([g.sure for g in gold], gold).value == 0
    assert alignment_error_rate([g.possible for g in gold], gold).value == 0
    assert alignment_error_rate([links("0-1"), frozenset()], gold).value == 100
    assert alignment_error_rate([frozenset()], [Gold(frozenset(), frozenset())]).value == 0
    with pytest.raises(ValueError):
        alignment_error_rate([], gold)


def test_every_link_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over all links for each one that joins took minutes for a line of thousands of words."""
    visits = 0

    class Counted(tuple[tuple[int, int], ...]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            nonlocal visits
            visits += 1
            return super().__iter__()

    monkeypatch.setattr(module, "_NEIGHBOURS", Counted(module._NEIGHBOURS))
    count = 500
    forward, backward = frozenset({(count - 1, 0)}), frozenset((s, 0) for s in range(count))
    assert len(SYMMETRISE["grow-diag"](forward, backward)) == visits == count
