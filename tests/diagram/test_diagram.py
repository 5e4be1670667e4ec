"""Pictures of definitions: nothing overlaps, nothing is left out, arrows end where they should."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.adl.tree import CheckedChain, Node
from calque.diagram import diagram, picture
from calque.diagram.shapes import Drawing, Ending, Rectangle, Route, TextLine
from calque.ground.diagnostics import Text
from calque.layers.registry import builtin
from calque.prove.compose import random_program

DOCS = Path(__file__).parents[2] / "docs"
DRAWN = sorted((DOCS / "diagrams").rglob("*.svg"))
PAGE = 900
"""Across, in 1/96 inch: on a page of 7.5 inches the smallest words are 6 points high."""
TEXTS = {
    "copied states": """
d = 512
encoder = reverse(repeat(4, dropout -> rnn(bias=no) @ enc))
decoder = feed(repeat(4, dropout -> rnn(bias=no, start=@enc[i])) -> concat(dot_src_att(s=1), id) -> linear -> tanh)
""",
    "keys and values": """
d = 256
h = 512
conv(n, w) = repeat(n-1, res(cnn(id, width=w)) -> tanh) -> cnn(tanh, width=w)
encoder = learn_pos(1024) -> dropout @ e -> concat(linear(h) -> conv(6, h) -> linear @ a, conv(3, d) @ c)
cond(k, v) = feed(concat(take(h, d), add(take(0, h) -> linear, take(h, d)) -> dot_src_att(keys=k, values=v, s=1))
             -> rnn(h, bias=no), width=h)
decoder = dropout -> cond(@a, @c) -> linear -> dropout
""",
    "readers and points side by side": """
d = 64
heads = 4
encoder = repeat(3, repeat(i, res(norm @ n -> linear(16*i) -> linear)) -> linear) @ r -> linear
  -> concat(norm @ x -> linear, norm -> linear, id, id) -> highway(ff -> linear(256)) @ h @ g -> linear
decoder = gate(concat(id, hc_self_att(-1, 0, 0, -3, -5, -7, -8, -2)) -> linear)
  -> repeat(3, add(id, mh_dot_src_att(from=@n[7-2*i] -> linear -> norm), mlp_src_att(from=@x) -> linear))
  -> repeat(2, add(id, norm, mlp_src_att(from=@h) -> linear)) -> mh_dot_src_att(keys=@g -> linear(5), values=@r)
""",
    "no layer at all": "encoder = id\ndecoder = id\n",
    "branches in branches": """
d = 8
encoder = add(concat(id, add(id, norm)) -> linear, repeat(2, id @ a) -> norm)
decoder = add(add(mlp_src_att(from=@a[1]), mlp_src_att(from=@a[2])), add(norm, id, mlp_src_att), add(id, id))
""",
}
TEXTS |= {f"random {seed}": random_program(seed) for seed in range(30)}
CASES = [*zoo.distinct(), *TEXTS]


def read(name: str) -> CheckedDefinition:
    return check(Text(name, TEXTS[name]) if name in TEXTS else zoo.read(name), builtin())


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[CheckedDefinition, Drawing]:
    checked = read(request.param)
    return checked, picture(checked, request.param)


def rooms(on: Drawing) -> Iterator[tuple[str, Rectangle]]:
    """Everything that may not touch anything else: boxes, and the words outside of them."""
    for box in on.boxes:
        yield box.about or box.kind, box.room
    for words in free(on):
        yield words.text, words.room


def free(on: Drawing) -> list[TextLine]:
    return [*on.words, *(frame.title for frame in on.frames)]


def nodes(checked: CheckedDefinition, sources: bool = False) -> Iterator[Node]:
    """The layers of the first copies; with `sources`, those behind sources too."""

    def below(chain: CheckedChain) -> Iterator[Node]:
        for name, item in chain.items.items():
            if isinstance(item, CheckedChain):
                if name.endswith("[1]"):
                    yield from below(item)
                continue
            yield item
            for name, part in item.parts.items():
                if (sources or part.side == item.side) and (name.endswith("[1]") or not name.endswith("]")):
                    yield from below(part)

    yield from below(checked.encoder)
    yield from below(checked.decoder)


def crosses(line: Route, room: Rectangle) -> bool:
    """Does a line pass through a rectangle? Its own end may touch it."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line.corners):
        way = Rectangle(min(x0, x1), min(y0, y1) - 0.1, abs(x1 - x0), abs(y1 - y0) + 0.2)
        if way.overlaps(room, 0.05):
            return True
    return False


def test_nothing_overlaps(case: tuple[CheckedDefinition, Drawing]) -> None:
    _, on = case
    for (a, one), (b, two) in itertools.combinations(rooms(on), 2):
        assert not one.overlaps(two), (a, b)


def test_words_fit_their_boxes_and_all_fits_the_page(case: tuple[CheckedDefinition, Drawing]) -> None:
    _, on = case
    for box in on.boxes:
        for words in box.words:
            assert box.room.holds(words.room), words.text
    page = Rectangle(0, 0, on.width, on.height)
    for name, room in [*rooms(on), *((f.kind, f.room) for f in on.frames)]:
        assert page.holds(room), name
    for line in on.lines:
        assert all(0 <= x <= on.width and 0 <= y <= on.height for x, y in line.corners)


@pytest.mark.parametrize("name", zoo.distinct())
def test_architectures_of_the_papers_fit_a_page(name: str) -> None:
    assert picture(read(name), name).width <= PAGE


def test_frames_hold_or_are_apart(case: tuple[CheckedDefinition, Drawing]) -> None:
    _, on = case
    for frame in on.frames:
        assert frame.room.holds(frame.title.room)
        for name, room in [*rooms(on), *((f.kind, f.room) for f in on.frames if f is not frame)]:
            assert frame.room.holds(room) or room.holds(frame.room) or not frame.room.overlaps(room), (frame, name)


def test_arrows_pass_through_no_box_and_no_words(case: tuple[CheckedDefinition, Drawing]) -> None:
    _, on = case
    for line in on.lines:
        for box in on.boxes:
            assert not crosses(line, box.room), (line, box)
        for words in free(on):
            assert not crosses(line, words.room), (line, words)


def test_every_layer_is_drawn_once(case: tuple[CheckedDefinition, Drawing]) -> None:
    checked, on = case
    told = [box.about.split("\n")[0] for box in on.boxes]
    for node in nodes(checked):
        if not node.parts or any(part.side != node.side for part in node.parts.values()):
            assert told.count(node.path) == (node.name != "id"), node.path


def sources(node: Node) -> Iterator[tuple[str, Any]]:
    for name, value in vars(node.args).items():
        if hasattr(value, "key"):
            yield name.rstrip("_"), value


def test_every_source_has_its_arrow_and_every_label_its_point(case: tuple[CheckedDefinition, Drawing]) -> None:
    checked, on = case
    labels = {re.sub(r"\[.*", "", n.label) for n in checked.encoder.nodes() if n.label}
    points = {dot.label: (dot.x, dot.y) for dot in on.dots}
    assert len(points) == len(on.dots)
    assert labels | {"end"} <= set(points)
    expected = {(n.path, re.sub(r"\[.*", "", s.key)) for n in nodes(checked) for _, s in sources(n)}
    assert {(end.path, end.label) for end in on.endings} == expected
    arrows = {(line.corners[0], line.corners[-1]) for line in on.lines if line.kind == "source" and line.head}
    for end in on.endings:
        assert (points[end.label], (end.x, end.y)) in arrows
        assert reached(on, end)
    assert sum(len(list(sources(n))) for n in nodes(checked)) == len(on.endings)


def reached(on: Drawing, end: Ending) -> bool:
    """Does the arrow end at its reader, or at a chain from which an arrow goes on to it?"""
    touched = next(b for b in on.boxes if b.room.x == end.x and b.room.y <= end.y <= b.room.y + b.room.h)
    if touched.kind != "source":
        return touched.about.startswith(end.path)
    onward = next(ln for ln in on.lines if ln.corners[0] == (touched.room.x + touched.room.w, end.y))
    x, y = onward.corners[-1]
    return any(
        b.about.startswith(end.path) and b.room.x == x and b.room.y <= y <= b.room.y + b.room.h for b in on.boxes
    )


@pytest.mark.parametrize("name", CASES)
def test_the_document_is_whole_and_the_same_each_time(name: str) -> None:
    checked = read(name)
    text = diagram(checked, "<&>" + name)
    assert text == diagram(read(name), "<&>" + name)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    title, description = root[0], root[1]
    assert (title.tag, description.tag) == (f"{space}title", f"{space}desc")
    assert title.text == f"<&>{name} {checked.hash}"
    assert description.text == checked.text
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    shown = [e.text for e in root.iter(f"{space}text")]
    assert "<&>" + name in shown
    assert any(checked.hash in str(t) for t in shown)


def words(name: str) -> list[str]:
    on = picture(read(name), name)
    return [w.text for w in [*free(on), *(w for box in on.boxes for w in box.words)]]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("domhan2018/table2/increasing", {"copy i reads", "@block[i]", "norm", "6 ×"}),
        ("domhan2018/table2/decreasing-raw", {"copy i reads", "@block[7-i]"}),
        ("domhan2018/table2/upper-raw", {"@block[6]"}),
        ("domhan2018/rnmt-feed", {"feed", "reverse", "[y(t-1); x(t)]", "1024", "concat", "5 ×"}),
        ("zhang2018/aan", {"gate", "+", "average"}),
        ("you2020/hc-sa", {"-1, 1", "-1, 0", "288"}),
        ("copied states", {"start: copy i reads", "@enc[i]"}),
        ("keys and values", {"keys: @a", "values: @c", "768"}),
        ("readers and points side by side", {"@n[5, 3, 1]", "1, 2, 3 ×", "highway", "linear", "16, 16, …, 48"}),
    ],
)
def test_what_is_said(name: str, told: set[str]) -> None:
    assert told <= set(words(name))


def test_an_arc_goes_around_each_residual() -> None:
    on = picture(read("domhan2018/transformer"), "")
    sums = [box for box in on.boxes if [w.text for w in box.words] == ["+"]]
    arcs = [line for line in on.lines if line.kind == "arc"]
    assert len(sums) == len(arcs) == 5
    middle = on.width / 2
    for box, arc in zip(sums, arcs, strict=True):
        (x, _), (end, y) = arc.corners[0], arc.corners[-1]
        assert box.room.y < y < box.room.y + box.room.h
        assert end in (box.room.x, box.room.x + box.room.w)
        assert (arc.corners[1][0] < x) == (x < middle)  # outside: left of the encoder, right of the decoder


def test_a_feed_loops_back() -> None:
    on = picture(read("domhan2018/rnmt-feed"), "")
    (entry,) = [box for box in on.boxes if box.words and box.words[0].text == "[y(t-1); x(t)]"]
    (loop,) = [line for line in on.lines if line.kind == "arc" and line.corners[0][1] > line.corners[-1][1]]
    assert loop.head
    assert loop.corners[-1] == (entry.room.x + entry.room.w, entry.room.y + entry.room.h / 2)


@pytest.mark.parametrize("file", DRAWN, ids=lambda f: f.stem)
def test_drawings_of_the_documents_are_those_of_today(file: Path) -> None:
    name = str(file.relative_to(DOCS / "diagrams").with_suffix(""))
    assert file.read_bytes() == diagram(read(name), name).encode(), "run `make diagrams`"
    assert f"diagrams/{name}.svg" in (DOCS / "zoo.md").read_text(encoding="utf-8")


def test_the_documents_show_a_handful() -> None:
    assert len(DRAWN) >= 7
