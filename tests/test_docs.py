"""The documents cannot go stale: their Python runs, their commands exist, their links lead somewhere."""

import re
import shlex
from pathlib import Path
from string import Formatter
from types import ModuleType
from typing import Any

import click
import pytest

from calque import cli
from calque.experiment import Experiment, to_toml
from calque.experiment.load import ReadExperiment
from calque.ground.diagnostics import CalqueError, Diagnostic, codes, help_of
from calque.layers.registry import layers_in
from calque.prove import prove_module

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_readme_steps_as_it_says() -> None:
    names: dict[str, Any] = {}
    exec(python_blocks(README)[0], names)
    z, z_t, t = names["z"], names["z_t"], names["t"]
    assert (z[:, t] - z_t[:, 0]).abs().max() < 1e-5


def test_each_python_example_of_the_readme_is_under_ten_lines_and_compiles() -> None:
    for block in python_blocks(README):
        compile(block, "README.md", "exec")
        assert block.count("\n") <= 12


def test_the_layer_of_the_readme_keeps_the_contract() -> None:
    block = next(b for b in python_blocks(README) if "class Square" in b)
    module = ModuleType("square")
    exec(block, vars(module))
    for layer in list(vars(module).values()):
        if isinstance(layer, type) and layer.__module__ == "builtins":
            layer.__module__ = "square"
    assert [layer.name for layer in layers_in(module)] == ["square"]
    reports = prove_module(module)
    assert reports
    assert all(report.passed for report in reports)


def commands(page: str) -> list[str]:
    """Lines of code blocks that call calque."""
    return [
        line.strip().removeprefix("$ ") for line in page.split("\n") if re.match(r"\s*(#\s+)?(\$ )?calque [a-z]", line)
    ]


def command_of(words: list[str]) -> click.Command | None:
    """The command that a line calls, inside a group too."""
    command = cli.root.commands.get(words[1])
    return command.commands.get(words[2]) if isinstance(command, click.Group) else command


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "examples").glob("*.toml"))], ids=lambda p: p.name)
def test_commands_exist_with_their_options(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(re.sub(r"\[[^]]*\]", "", line.strip("# ")), comments=True)
        command = command_of(words)
        assert command is not None, line
        known = {option for p in command.params if isinstance(p, click.Option) for option in p.opts}
        for word in words[2:]:
            assert not word.startswith("--") or word in known, line


def test_every_command_stands_in_the_readme_or_its_help() -> None:
    groups = [c for c in cli.root.commands.values() if isinstance(c, click.Group)]
    for name, command in [*cli.root.commands.items(), *(pair for g in groups for pair in g.commands.items())]:
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name not in ("as_json", "overrides"):
                assert parameter.help or parameter.name in ("metrics", "tokenize"), (name, parameter.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_every_code_has_a_sentence_without_full_stop_and_a_page() -> None:
    for code in codes().values():
        assert not code.message.endswith("."), code.code
        assert code.message[0].islower() or not code.message[0].isalpha(), code.code
        assert len(code.page) > 30, code.code


def test_sentences_hold_names_of_values_alone() -> None:
    """Values are words when a sentence is made: a format such as `{count:,}` would raise there, and show on a page."""
    for code in codes().values():
        for template in (code.message, *code.help):
            parts = [part for part in Formatter().parse(template) if part[1] is not None]
            assert all(re.fullmatch("[a-z_]+", name or "") for _, name, _, _ in parts), (code.code, template)
            assert not any(form or conversion for _, _, form, conversion in parts), (code.code, template)
            assert template.format_map({name: "word" for _, name, _, _ in parts})


def test_commands_in_helps_can_be_typed_whatever_the_names_of_files_are() -> None:
    shown = 0
    for code in codes().values():
        for template in code.help:
            fields = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
            told = help_of(Diagnostic(code.code, None, dict.fromkeys(fields, "it's mine"))) or ""
            for command in re.findall("`((?:calque|cut) [^`]*)`", told):
                if "mine" in command:
                    shown += 1
                    assert all("it's mine" in word for word in shlex.split(command) if "mine" in word), told
    assert shown > 5


def test_each_code_is_in_one_file() -> None:
    files = sorted((ROOT / "src" / "calque" / "codes").glob("*.toml"))
    names = [
        name for file in files for name in re.findall(r"^\[(\w+)\]$", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(names) == len(set(names))
    assert set(names) == set(codes())


def test_codes_that_are_raised_and_codes_that_are_explained_are_the_same() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    raised = set(re.findall(r"\"([SCXDK]\d{3})\"", source))
    assert raised == set(codes())


def test_the_table_of_mistakes_names_codes_with_their_status() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+ \| ([A-Z0-9, ]+) \| (\d) \|$", page, re.MULTILINE)
    assert len(rows) > 20
    for names, status in rows:
        for name in names.split(", "):
            assert name in codes(), name
            assert CalqueError(Diagnostic(name)).exit_code == int(status), name


def test_experiments_of_the_pages_lack_nothing_but_the_architecture_of_a_parent(tmp_path: Path) -> None:
    whole = 0
    for page in PAGES:
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            if "[model]" in block or "[train]" in block:  # others are parts of an experiment
                whole += 1
                (tmp_path / "experiment.toml").write_text(block, encoding="utf-8")
                assert {fault.code for fault in ReadExperiment(tmp_path / "experiment.toml").faults} <= {"X202"}, block
    assert whole > 2


def test_every_key_of_an_experiment_is_explained() -> None:
    written = to_toml(Experiment(), comments=True).split("\n")
    for k, line in enumerate(written):
        if re.match(r"[a-z_0-9]+ = ", line):
            assert written[k - 1].startswith("#"), line
