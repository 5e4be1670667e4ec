"""Characters beyond matplotlib's own font: other fonts draw them, or a box and one warning."""

import warnings

import pytest

pytest.importorskip("matplotlib")
import torch
from matplotlib.font_manager import FontProperties, findfont

from calque.analyse.matrices import draw
from calque.ground import fonts


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_reported", set())
    fonts.fallbacks.cache_clear()


def test_a_character_of_another_font_is_drawn_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (
        "ground.plot",
        "analyse.canvas",
    ):  # matplotlib's warning of a character without a font is an error here
        monkeypatch.setattr(f"calque.{module}.boxes", warnings.catch_warnings)
    own, other = (fonts._characters(findfont(FontProperties(family=name))) for name in ("DejaVu Sans", "STIXGeneral"))
    character = chr(min(code for code in other - own if chr(code).isalpha()))
    assert len(fonts.families(f"a{character}") or ()) > 1
    assert fonts.families("abc\nä ж") is None
    drawn = draw(torch.eye(2), [character, "b"], ["a", character], "matrix", "A matrix")
    assert drawn.png
    assert capsys.readouterr().err == ""


def test_characters_of_no_font_are_boxes_and_reported_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_installed", list)
    for words in (["彼は", "b"], ["a", "彼の"]):
        assert draw(torch.eye(2), words, words, "matrix", "A matrix").png
    said = capsys.readouterr().err
    assert said.count("X302") == 2
    assert "`は` and 1 more: pictures" in said
    assert "has `の`: pictures" in said
