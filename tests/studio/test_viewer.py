"""The viewer of the documentation as files."""

import json
import re
from pathlib import Path

import pytest

from calque import zoo
from calque.layers.declared import declared
from calque.studio.viewer import FIRST, MODULES, bundle, viewer_files, viewer_html, viewer_json


def test_the_bundle_has_every_module_and_imports_nothing() -> None:
    script = bundle()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert [f"const of_{name} =" in script for name in MODULES] == [True] * len(MODULES)
    for named, module in re.findall(r"^const (\{.*?\}|\w+) = of_(\w+);$", script, re.MULTILINE):
        if named.startswith("{"):
            given = re.search(rf"const of_{module} = .*?return \{{ (.*?) \}};", script, re.DOTALL)
            assert given is not None
            assert {n.strip() for n in named.strip("{} ").split(",")} <= {n.strip() for n in given[1].split(",")}


def test_there_is_a_picture_for_every_way_to_fold() -> None:
    found = viewer_json(zoo.read(FIRST).body, declared())
    pictures = found["pictures"]
    assert isinstance(pictures, dict)
    assert set(pictures) == {"00", "01", "10", "11"}
    boxes = {key: len(picture["boxes"]) for key, picture in pictures.items()}
    assert boxes["11"] < min(boxes["01"], boxes["10"]) < boxes["00"]


def test_a_file_of_an_architecture_is_one_call_with_its_figures() -> None:
    files = dict(viewer_files((FIRST,)))
    assert set(files) == {"viewer.js", "viewer.css", f"{FIRST}.js"}
    called = re.fullmatch(r'calqueViewer\("([^"]+)", (.*)\);\n', files[f"{FIRST}.js"], re.DOTALL)
    assert called is not None
    assert called[1] == FIRST
    assert json.loads(called[2])["text"] == zoo.read(FIRST).body


def test_the_page_offers_every_architecture(tmp_path: Path) -> None:
    page = viewer_html("x")
    assert re.findall(r'<option value="(\w+/[^"]+)">', page) == zoo.distinct()
    assert "http" not in page


@pytest.mark.parametrize("name", ["viewer.js", "viewer.css"])
def test_nothing_is_asked_of_another_host(name: str) -> None:
    assert "http" not in dict(viewer_files((FIRST,)))[name].replace("http://www.w3.org/2000/svg", "")
