"""Imports go one way and files stay small: read from the source as it is, nothing imported."""

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import calque.diagnostics

ROOT = Path(calque.diagnostics.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# What each part may import of the package, besides itself. What is not named here is a tool on top: see `TOOLS`.
PARTS: dict[str, set[str]] = {
    "diagnostics": set(),
    "whole": {"diagnostics"},
    "adl": {"diagnostics"},
    "layers": {"diagnostics", "adl"},
    "model": {"diagnostics", "adl", "layers"},
    "experiment": {"diagnostics", "whole", "experiment_io", "experiment_keys"},
    "experiment_keys": set(),
    "experiment_io": {"diagnostics", "experiment"},
    "prove": {"diagnostics", "adl", "layers", "model"},
    "data": {"diagnostics", "whole", "experiment"},
    "align": {"diagnostics", "data"},
}
BELOW = {*PARTS, "__init__"}
PACKAGES = {"train", "decode", "evaluate", "analyse", "bench"}
CLI = "cli"
# What a layer's own file may import of its package: the shared parts, never another layer.
SHARED = {
    *("contract", "state", "history", "stepping", "scan", "banded", "cost"),
    *("dot", "source", "local", "activations", "drop", "linears", "fixed"),
}
# The files of the package that hold no layer but put layers together or find them.
ASSEMBLY = {"build", "registry", "chain", "__init__"}
# What the language offers to layers: how arguments are declared; to `build`, the checked tree.
FOR_LAYERS = {"calque.adl.signature"}


def part(file: Path) -> str:
    """The package or module directly below `calque` that a file belongs to."""
    first = file.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports(file: Path, top_only: bool = False) -> set[str]:
    """Every module a file imports; for `from calque import x`, `calque.x`. With `top_only`, those at import time."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = _at_import(tree) if top_only else ast.walk(tree)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            module = node.module or ""
            found |= {f"calque.{a.name}" for a in node.names} if module == "calque" else {module}
    return found


def _at_import(tree: ast.AST) -> list[ast.AST]:
    """The nodes that run when a module is imported: no bodies of functions, no `if TYPE_CHECKING`."""
    found: list[ast.AST] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        found += [node, *_at_import(node)]
    return found


def parts_of(modules: set[str]) -> set[str]:
    return {m.split(".")[1] for m in modules if m.startswith("calque.")}


@pytest.mark.parametrize("name", sorted(PARTS))
def test_the_lower_parts_import_only_what_is_below_them(name: str) -> None:
    files = [f for f in FILES if part(f) == name]
    assert files, f"no such part: {name}"
    for file in files:
        above = parts_of(imports(file)) - PARTS[name] - {name}
        assert not above, f"{file.relative_to(ROOT)} imports {sorted(above)}"


def test_the_command_line_is_on_top() -> None:
    for file in FILES:
        if part(file) != CLI:
            assert CLI not in parts_of(imports(file)), f"{file.relative_to(ROOT)} imports the command line"


def test_no_modules_import_each_other_in_a_ring() -> None:
    names = {file: ".".join(("calque", *file.relative_to(ROOT).with_suffix("").parts)) for file in FILES}
    left = {names[file].removesuffix(".__init__"): imports(file, top_only=True) for file in FILES}
    while left:
        free = [name for name, below in left.items() if not (below - {name}) & set(left)]
        assert free, f"a ring of imports among {sorted(left)}"
        for name in free:
            del left[name]


def test_the_language_knows_no_torch_and_no_layer() -> None:
    for file in FILES:
        if part(file) == "adl":
            heavy = {m.split(".")[0] for m in imports(file)} - {"calque"} - set(sys.stdlib_module_names)
            assert not heavy, f"{file.relative_to(ROOT)} imports {sorted(heavy)}"


def test_layers_import_neither_the_parser_nor_each_other() -> None:
    for file in (ROOT / "layers").glob("*.py"):
        if file.stem in ASSEMBLY:
            continue
        below = {m for m in imports(file) if m.startswith("calque.")}
        allowed = FOR_LAYERS | {f"calque.layers.{name}" for name in SHARED}
        assert below <= allowed, f"{file.name} imports {sorted(below - allowed)}"


def test_what_layers_share_is_not_a_layer() -> None:
    for name in SHARED:
        tree = ast.parse((ROOT / "layers" / f"{name}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                named = {
                    t.id for a in node.body if isinstance(a, ast.Assign) for t in a.targets if isinstance(t, ast.Name)
                }
                assert "name" not in named, f"{name}.py holds the layer {node.name}"


def test_the_assembly_imports_no_layer_and_no_text() -> None:
    for name in ASSEMBLY - {"__init__"}:
        below = {m for m in imports(ROOT / "layers" / f"{name}.py") if m.startswith("calque.")}
        allowed = {"calque.layers", "calque.adl.tree"} | {f"calque.layers.{n}" for n in SHARED | ASSEMBLY}
        assert below <= allowed, f"{name}.py imports {sorted(below - allowed)}"


def test_files_are_small() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    long = {str(f.relative_to(ROOT)): n for f, n in lengths.items() if n > 400}
    assert not long
    assert statistics.median(lengths.values()) < 150


@pytest.mark.parametrize(
    "module",
    ["calque", "calque.cli.using", "calque.cli.training", "calque.adl.parser", "calque.adl.check", "calque.experiment"],
)
def test_torch_is_not_imported_until_it_is_needed(module: str) -> None:
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0, (
        f"`import {module}` loads torch"
    )


def test_the_command_line_begins_without_imports() -> None:
    """Ctrl-C while something is imported is one line only where the handler for it is there already."""
    program = "import sys, signal; before = set(sys.modules); import calque.cli; print(*set(sys.modules) - before)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert set(found) == {"calque", "calque.cli"}


def test_files_of_tests_have_names_of_their_own() -> None:
    """They are imported by their bare names: of two alike the second would not be collected."""
    names = [
        path.name for path in Path(__file__).parent.rglob("*.py") if path.name not in ("conftest.py", "__init__.py")
    ]
    assert not {name for name in names if names.count(name) > 1}
