"""Modules under the names that they had before they moved."""

import importlib
import subprocess
import sys

import pytest

import calque

OLD = sorted(calque._MOVED)


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_gives_the_module_and_a_warning(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {calque._MOVED[old]}") as warned:
        module = importlib.import_module(old)
    assert module is importlib.import_module(calque._MOVED[old])
    assert module.__name__ == module.__spec__.name == calque._MOVED[old]
    assert len(warned) == 1


def test_the_warning_names_the_line_of_the_import(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import calque\nfrom calque.diagnostics import CalqueError\nassert CalqueError is calque.CalqueError\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", str(plugin)], capture_output=True, text=True, check=True
    )
    assert f"{plugin}:2: DeprecationWarning: calque.diagnostics is now calque.ground.diagnostics" in done.stderr


def test_from_the_package_works_too():
    program = "from calque import diagnostics; print(diagnostics.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "calque.ground.diagnostics\n"


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("calque.diagnostic")
