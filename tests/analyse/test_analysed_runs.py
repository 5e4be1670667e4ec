"""What is asked of runs, held against their models; pictures; the mapping of the papers' figures."""

import re
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from calque.adl.check import check
from calque.align.links import Gold
from calque.analyse import contrast, matrices, sides
from calque.analyse.layer_names import layers_in_words
from calque.analyse.pieces import PIECES
from calque.analyse.runs import DECODER, ENCODER, SOURCE, names_of, open_subjects, spread_over, stem
from calque.data.vocabulary import BOS, EOS
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.papers.drawing import chosen
from calque.papers.figures import OWN, markdown, paper_figures
from calque.workflow import api

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.medium
def test_every_kind_of_attention_is_found(runs: dict[str, Path]) -> None:
    subjects = {s.name: s for s in open_subjects(list(runs.values()), None, 5)}
    kinds = {name: sorted(s.kind(path) for path in s.attentions) for name, s in subjects.items()}
    assert kinds == {
        "transformer": sorted([ENCODER, DECODER, SOURCE, DECODER, SOURCE]),
        "rnn-feed": [SOURCE],
        "hard-coded": [ENCODER],
    }
    assert subjects["hard-coded"].fixed == set(subjects["hard-coded"].attentions)
    assert subjects["transformer"].fixed == set()
    weights = subjects["rnn-feed"].weights(2)
    (path,) = subjects["rnn-feed"].attentions
    lengths = [
        len(text[2].split()) + 1 for text in (subjects["rnn-feed"].text.references, subjects["rnn-feed"].text.sources)
    ]
    assert list(weights[path].shape) == [1, *lengths]


def test_contrastive_pairs_are_decided_by_mean_cross_entropy(runs: dict[str, Path]) -> None:
    run = api.load(runs["transformer"])
    pairs = [
        contrast.ContrastivePair("k", "a b c", "c b a", "c b a a"),
        contrast.ContrastivePair("k", "a b c", "c b a", "c b"),
        contrast.ContrastivePair("k", "d e f g h", "h g f e d", "a a"),
        contrast.ContrastivePair("k", "h", "h", "g g g g g g g g"),
    ]

    def cross_entropy(source: str, target: str) -> float:
        ids = [torch.tensor([run.loaded.source.encode([source])[0] + [EOS]])]
        words = run.loaded.target.encode([target])[0]
        with torch.no_grad():
            logits = run.model(ids[0], torch.tensor([[BOS, *words]]))[0]
        return float(F.cross_entropy(logits, torch.tensor([*words, EOS])))

    expected = [cross_entropy(p.source, p.correct) < cross_entropy(p.source, p.contrastive) for p in pairs]
    assert contrast.decide(run, pairs) == expected
    # The sum would decide otherwise: the settings of the run's search do not matter.
    assert contrast.decide(api.load(runs["transformer"], normalise="none"), pairs) == expected


def test_lines_are_chosen_from_worst_to_best() -> None:
    assert sides.chosen([5.0, 1.0, 3.0], 10) == [1, 2, 0]
    assert sides.chosen([], 10) == []
    found = sides.chosen([float(99 - k) for k in range(100)], 10)
    assert found == [94, 84, 74, 64, 54, 44, 34, 24, 14, 4]
    assert sides.chosen([0.0] * 4, 2) == [1, 3]


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("a b c", "a b c", [("a b c", "same")]),
        ("a b c", "a x c", [("a", "same"), ("x", "other"), ("c", "same")]),
        ("a b c", "a c", [("a", "same"), ("b", "missing"), ("c", "same")]),
        ("a c", "a b b c", [("a", "same"), ("b b", "other"), ("c", "same")]),
        ("a b", "", [("a b", "missing")]),
        ("", "a", [("a", "other")]),
        ("你好吗", "你很好吗", [("你", "same"), ("很", "other"), ("好吗", "same")]),
    ],
)
def test_differences_from_the_reference(reference: str, hypothesis: str, expected: list[tuple[str, str]]) -> None:
    assert list(sides.differences(reference, hypothesis)) == expected


def test_layers_are_named_in_words() -> None:
    text = """\
d = 16
heads = 2
encoder = repeat(2, repeat(2, mh_dot_self_att))
decoder = mh_dot_self_att -> repeat(2, mh_dot_src_att -> mh_dot_src_att)
"""
    found = layers_in_words(check(Text("t", text), builtin()))
    assert found["encoder.0[2].0[1].0"] == "encoder.0[2].0[1].0 — mh_dot_self_att, block 2.1"
    assert found["decoder.0"] == "decoder.0 — mh_dot_self_att"
    assert found["decoder.1[2].0"] == "decoder.1[2].0 — mh_dot_src_att, block 2, 1 of 2"
    assert found["decoder.1[2].1"] == "decoder.1[2].1 — mh_dot_src_att, block 2, 2 of 2"


def test_contrastive_sets_of_both_forms(tmp_path: Path) -> None:
    for part, lines in {"src.en": "s\nt\nu\n", "correct.de": "a\nb\nc\n", "incorrect.de": "x\ny\nz\n"}.items():
        (tmp_path / f"kind.mt.{part}").write_text(lines)
    found = contrast.read_set(tmp_path)
    assert found == [contrast.ContrastivePair("kind.mt", *line) for line in ("sax", "tby", "ucz")]
    assert contrast.read_set(tmp_path, 2) == found[:2]
    file = tmp_path / "lingeval.json"
    file.write_text(
        '[{"source": "s", "reference": "r", "origin": "o", "errors": [{"type": "a", "contrastive": "x", "distance": 2},'
        ' {"type": "b", "contrastive": "y"}]}, {"source": "t", "reference": "q", "errors": []}]'
    )
    assert contrast.read_set(file) == [
        contrast.ContrastivePair("a", "s", "r", "x", 2),
        contrast.ContrastivePair("b", "s", "r", "y"),
    ]


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("rnn/1", "cnn/1", "cnn/2", "base")]
    assert names_of(folders) == ["rnn/1", "cnn/1", "cnn/2", "base"]
    assert names_of([tmp_path / f"{name}/1" for name in ("rnn", "cnn")]) == ["rnn", "cnn"]
    assert names_of([tmp_path / "rnn/1"]) == ["rnn"]
    assert names_of([tmp_path / "a/x/run", tmp_path / "b/x/run"]) == ["a/x/run", "b/x/run"]
    alike = names_of([tmp_path / name for name in ("a b", "a-b", "a&b", "a-b-3")])
    assert alike == ["a b", "a-b (2)", "a&b (3)", "a-b-3 (2)"]
    assert len(set(map(stem, alike))) == 4
    assert list(spread_over(10, 4)) == [0, 2, 5, 7]
    assert list(spread_over(3, 9)) == [0, 1, 2]
    assert list(spread_over(0, 9)) == []


@pytest.mark.medium
def test_a_matrix_is_drawn_with_its_links() -> None:
    gold = Gold(frozenset({(0, 1)}), frozenset({(0, 1), (1, 0)}))
    source, target = ["$x$", "_a^", "</s>"], ["y", "\x07", "</s>"]
    weights = torch.rand(3, 3).softmax(1)
    drawn = matrices.draw(weights, source, target, "m", "t", "c", (gold, [0, 1], [0, 1]))
    assert drawn.png.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"<svg" in drawn.svg
    assert len(drawn.table.rows) == 9
    assert drawn.table.rows[5][-1] == pytest.approx(float(weights[1, 2]))
    again = matrices.draw(weights, source, target, "m", "t", "c", (gold, [0, 1], [0, 1]))
    assert (again.svg, again.png) == (drawn.svg, drawn.png)
    grid = matrices.gold_weights(gold, [0, 0, 1], [0, 1], torch.zeros(2, 4))
    assert grid.tolist() == [[0, 0, 0.5, 0], [1, 1, 0, 0]]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(CalqueError, match=r"calque\[plot\]"):
        matrices.draw(torch.ones(1, 1), ["a"], ["b"], "x", "x")


def test_addresses_of_layers_and_heads() -> None:
    assert matrices.address("decoder.1[2].0") == ("decoder.1[2].0", None)
    assert matrices.address("decoder.1[2].0#3") == ("decoder.1[2].0", 3)


def test_every_figure_of_the_papers_is_drawn() -> None:
    figures = paper_figures()
    # As captioned in the papers; Domhan 2018 has tables alone.
    for paper, count in {"luong2015": 7, "gehring2017": 5, "zhang2018": 7, "you2020": 8}.items():
        numbers = [int(m[1]) for name in figures if (m := re.fullmatch(rf"{paper}/figure(\d+)", name))]
        assert numbers == list(range(1, count + 1))
    for name, figure in figures.items():
        assert figure.piece in {*PIECES, *OWN}, name
        assert figure.tables or figure.piece in OWN or "table" in name, name
        assert figure.equal in (None, "size", "width")


def test_figures_know_the_rows_whose_models_they_show() -> None:
    figures = paper_figures()
    assert [row.key for row in figures["you2020/figure4"].tables["table2"]] == ["base", "hc-sa", "hc-all"]
    (rows,) = figures["luong2015/figure5"].tables.values()  # neither the ensemble nor unknown words replaced
    assert [row.key for row in rows] == [
        "base",
        "base+reverse",
        "base+dropout",
        "global",
        "global+feed",
        "local-p+feed",
    ]
    assert figures["luong2015/figure1"].tables == {}
    assert not figures["luong2015/figure1"].needs_runs


def test_figures_are_chosen_by_name() -> None:
    found = chosen(["curves", "gehring2017/figure3"])
    assert list(found) == ["curves", "gehring2017/figure3"]
    assert found["curves"] is PIECES["curves"]
    assert found["gehring2017/figure3"].title.startswith("Gehring 2017, figure 3: BLEU")


def test_the_page_has_the_table_of_figures_and_all_pieces() -> None:
    page = (DOCS / "analysis.md").read_text(encoding="utf-8")
    assert markdown() in page
    for name in PIECES:
        assert f"`{name}`" in page
