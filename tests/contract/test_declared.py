"""The declarations that are read without torch are those of the layers themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

from calque import zoo
from calque.adl.check import CheckedDefinition, check
from calque.ground.diagnostics import CalqueError, Text, message
from calque.layers.declared import declared
from calque.layers.registry import builtin

INVALID = sorted(Path(__file__).parents[1].glob("adl/conformance/invalid/*.adl"))


def test_the_same_layers_with_the_same_arguments() -> None:
    real, without = builtin(), declared()
    assert list(real) == list(without)
    for name, layer in real.items():
        assert layer.signature() == without[name].signature()
        assert layer.sides == without[name].sides
        assert [(e.text, e.sides) for e in layer.examples] == [(e.text, e.sides) for e in without[name].examples]
        assert without[name] is not layer


def nodes(checked: CheckedDefinition) -> list[tuple[object, ...]]:
    return [
        (n.name, n.path, n.text, n.width_in, n.width_out, n.cost)
        for side in (checked.encoder, checked.decoder)
        for n in side.nodes()
    ]


@pytest.mark.parametrize("name", zoo.distinct())
def test_the_same_tree(name: str) -> None:
    one, two = check(zoo.read(name), builtin()), check(zoo.read(name), declared())
    assert (one.text, one.hash) == (two.text, two.hash)
    assert nodes(one) == nodes(two)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_the_same_faults(path: Path) -> None:
    text = Text("model.adl", path.read_bytes().decode())
    told = []
    for library in (builtin(), declared()):
        with pytest.raises(CalqueError) as caught:
            check(text, library)
        told.append([(f.code, message(f), f.where, f.fix) for f in caught.value.diagnostics])
    assert told[0] == told[1]


COMMANDS = [
    ("check", "domhan2018/transformer"),
    ("check", "--set", "d=0", "domhan2018/transformer"),
    ("layers",),
    ("diff", "domhan2018/transformer", "domhan2018/convs2s"),
    ("explain", "domhan2018/transformer"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=[" ".join(c) for c in COMMANDS])
def test_commands_about_definitions_load_no_torch(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom calque import cli\n"
        f"sys.argv = ['calque', *{arguments!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False", done.stderr
