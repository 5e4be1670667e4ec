"""The order of rooms, and the sizes of files and functions: read from the source as it is, nothing imported."""

import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import calque.ground.diagnostics

ROOT = Path(calque.ground.diagnostics.__file__).parents[1]
FILES = sorted(ROOT.rglob("*.py"))

# Every room may import those before it, and no others. Imports inside functions and for type checking count.
ORDER = (
    "ground",
    "adl",
    "experiment",
    "data",
    "native",
    "layers",
    "model",
    "zoo",
    "ledger",
    "align",
    "decode",
    "run",
    "explain",
    "diagram",
    "prove",
    "train",
    "evaluate",
    "exchange",
    "workflow",
    "bench",
    "analyse",
    "demo",
    "papers",
    "serve",
    "studio",
    "cli",
)
MOST_ENTRIES = 30
"""At the top of the package, `py.typed`, `__init__` and `__main__` included."""
MOST_ARROWS = 169
LONGEST_FILE, MEDIAN_FILE = 350, 120
LONGEST_FUNCTION, MOST_BRANCHES = 40, 12
# What a layer's own file may import of its package: the shared parts, never another layer.
SHARED = {
    *("contract", "state", "history", "stepping", "scan", "banded", "cost"),
    *(
        "dot",
        "source",
        "local",
        "activations",
        "drop",
        "linears",
        "fixed",
        "gated",
        "elementwise",
        "rows",
        "projections",
    ),
    *("relative", "rotary", "sliding", "matrix_scan", "gated_scan"),
}
# The files of the package that hold no layer but put layers together or find them.
ASSEMBLY = {"build", "registry", "chain", "__init__"}
# What layers take from other rooms: how the language lets them declare arguments, the values that both exchange, kernels.
FOR_LAYERS = {
    *("calque.adl.signature", "calque.adl.declaration"),
    *("calque.native.accelerator", "calque.native.kernels", "calque.native.program", "calque.native.training"),
}


def room(file: Path) -> str:
    """The package or module directly below `calque` that a file belongs to."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports(file: Path) -> frozenset[str]:
    """Every module that a file imports, wherever the import stands; for `from calque import x`, `calque.x`."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            module = node.module or ""
            modules |= {f"calque.{a.name}" for a in node.names} if module == "calque" else {module}
    return frozenset(modules)


def arrows() -> dict[tuple[str, str], list[str]]:
    """The imports between rooms: (importing room, imported room) -> the files that import."""
    between: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in FILES:
        for module in imports(file):
            if module.startswith("calque.") and (other := module.split(".")[1]) != room(file):
                between[room(file), other].append(str(file.relative_to(ROOT)))
    return between


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file.relative_to(ROOT)}:{node.name}", node


def branches(function: ast.AST) -> int:
    """Statements and expressions that decide or repeat; `and` and `or` count once for each further operand."""
    deciding = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)
    nodes = list(ast.walk(function))
    operands = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    return operands + sum(isinstance(node, deciding) for node in nodes)


def test_every_room_has_a_place_in_the_order() -> None:
    assert {room(file) for file in FILES} - {"__init__", "__main__"} == set(ORDER)
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_rooms_import_only_rooms_before_them() -> None:
    between = arrows()
    level = {name: k for k, name in enumerate(ORDER)}
    wrong = {f"{a} -> {b}": files for (a, b), files in between.items() if a in level and level[b] >= level[a]}
    assert not wrong
    assert len(between) <= MOST_ARROWS, len(between)


def test_no_files_import_each_other_in_a_circle() -> None:
    names = {file: ".".join(("calque", *file.relative_to(ROOT).with_suffix("").parts)) for file in FILES}
    left = {names[file].removesuffix(".__init__"): imports(file) for file in FILES if room(file) != "__init__"}
    while left:
        free = [name for name, below in left.items() if not (below - {name}) & set(left)]
        assert free, f"a circle of imports among {sorted(left)}"
        for name in free:
            del left[name]


def test_the_language_imports_no_third_party_package() -> None:
    for file in FILES:
        if room(file) == "adl":
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
        allowed = {"calque.layers", "calque.adl.tree", "calque.adl.answers", "calque.native.program"} | {
            f"calque.layers.{n}" for n in SHARED | ASSEMBLY
        }
        assert below <= allowed, f"{name}.py imports {sorted(below - allowed)}"


def test_files_are_small() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    long = {str(f.relative_to(ROOT)): n for f, n in lengths.items() if n > LONGEST_FILE}
    assert not long
    assert statistics.median(n for n in lengths.values() if n > 5) <= MEDIAN_FILE


def test_functions_are_short_and_decide_little() -> None:
    over = {
        name
        for name, node in functions()
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION or branches(node) > MOST_BRANCHES
    }
    assert not over


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
