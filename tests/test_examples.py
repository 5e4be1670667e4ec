"""The four experiments of `examples/decoders` differ in their texts alone, and have as many parameters."""

from dataclasses import replace
from pathlib import Path

import pytest

from calque.adl.check import check
from calque.experiment import load
from calque.explain.totals import Surroundings, whole
from calque.layers.declared import declared
from calque.workflow.definitions import definition

FOLDER = Path(__file__).parent.parent / "examples" / "decoders"
FILES = sorted(FOLDER.glob("*.toml"))


def test_only_the_text_differs() -> None:
    experiments = [load(file) for file in FILES]
    assert len(experiments) == 4
    assert len({replace(one, model=replace(one.model, text="")) for one in experiments}) == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_first_line_says_how_many_parameters_there_are(file: Path) -> None:
    checked = check(definition(load(file)), declared())
    parameters = whole(checked, Surroundings(0, 0, "three-way", False)).parameters
    assert f"{parameters:,} parameters" in file.read_text(encoding="utf-8").splitlines()[0]
    assert parameters == pytest.approx(5_521_408, rel=0.0021)
