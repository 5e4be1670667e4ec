"""The order of rooms, and the sizes of files and functions: read from the source as it is, nothing imported."""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import calque.ground.diagnostics

ROOT = Path(calque.ground.diagnostics.__file__).parents[1]
FILES = sorted(ROOT.rglob("*.py"))

# Every room may import those before it, and no others. Imports inside functions and for type checking count.
ORDER = (
    "ground",
    "adl",
    "experiment",
    "data",
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
    "workflow",
    "bench",
    "analyse",
    "demo",
    "papers",
    "cli",
)
MOST_ENTRIES = 25
"""At the top of the package, `py.typed` included."""
MOST_ARROWS = 160
LONGEST_FILE, MEDIAN_FILE = 350, 120
LONGEST_FUNCTION, MOST_BRANCHES = 40, 12
# What a layer's own file may import of its package: the shared parts, never another layer.
SHARED = {
    *("contract", "state", "history", "stepping", "scan", "banded", "cost"),
    *("dot", "source", "local", "activations", "drop", "linears", "fixed"),
}
# The files of the package that hold no layer but put layers together or find them.
ASSEMBLY = {"build", "registry", "chain", "__init__"}
# What the language offers to layers: how arguments are declared, and the values that both exchange; to `build`, the checked tree.
FOR_LAYERS = {"calque.adl.signature", "calque.adl.declaration"}


def room(file: Path) -> str:
    """The package or module directly below `calque` that a file belongs to."""
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(file: Path) -> set[str]:
    """Every module that a file imports, wherever the import stands; for `from calque import x`, `calque.x`."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            module = node.module or ""
            modules |= {f"calque.{a.name}" for a in node.names} if module == "calque" else {module}
    return modules


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
    assert {room(file) for file in FILES} - {"__init__"} == set(ORDER)
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
