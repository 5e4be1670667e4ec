"""The ledger: what is published is what the files say."""

import dataclasses
import getpass
import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from calque.cli.process import run
from calque.ground.diagnostics import CalqueError
from calque.ledger.entry import CONDITIONS, KINDS, Entry, _processor, conditions, read, record
from calque.ledger.theme_pages import theme_page
from calque.papers.commands import request_of
from calque.papers.results import pages

ROOT = Path(__file__).parent.parent


def entry(name: str = "multi30k-transformer", **changed: Any) -> Entry:
    held = {"machine": "Some CPU", "cores": 2, "threads": 2, "torch": "2.13.0", "python": "3.11.7"}
    held |= {"precision": "float32", "commit": "abc1234"}
    given: dict[str, Any] = {
        "id": name,
        "title": "Multi30k, Transformer",
        "kind": "quality",
        "command": "calque train examples/multi30k.toml",
        "date": "2025-06-30",
        "conditions": held,
        "figures": {"BLEU": 38.25, "updates": 12000},
        "architecture_hash": "0123456789ab",
        "data_hash": "ba9876543210",
        "seed": 1,
        "notes": "tokenised",
    }
    return Entry(**{**given, **changed})


def tables(folder: Path) -> str:
    """All pages of a ledger but the index, joined."""
    made = pages(read(folder))
    return "\n".join(body for name, body in made.items() if name != "results.md")


def test_an_empty_ledger_is_a_header(tmp_path: Path) -> None:
    assert pages(read(tmp_path)) == pages(read(tmp_path / "none"))
    ((name, page),) = pages(read(tmp_path)).items()
    assert name == "results.md"
    assert page.startswith("# Results\n")
    assert "|" not in page


def test_recorded_and_read_again_is_equal(tmp_path: Path) -> None:
    for made in (entry(), entry("no-seed", seed=None, architecture_hash=None), entry("seeds", seed=[1, 2, 3])):
        path = record(tmp_path / "results", made)
        assert path == tmp_path / "results" / f"{made.id}.json"
        assert made in read(path.parent)
    assert json.loads(path.read_text())["figures"] == {"BLEU": 38.25, "updates": 12000}


def test_figures_stand_with_command_and_conditions(tmp_path: Path) -> None:
    record(tmp_path, entry("b", title="ConvS2S", figures={"BLEU": 30.5, "updates": 7}))
    record(tmp_path, entry("a", title="RNMT | fed", seed=[1, 2]))
    record(tmp_path, entry("speed", kind="speed", figures={"tokens/s": 1645.0}, command="a `b`"))
    record(tmp_path, entry("wide", kind="speed", figures={f"f{n}": n * 1000 for n in range(9)}))
    lines = tables(tmp_path).split("\n")
    at = lines.index("|  | BLEU | updates |")
    assert lines[at : at + 4] == [
        "|  | BLEU | updates |",
        "| --- | ---: | ---: |",
        "| RNMT \\| fed | 38.25 | 12,000 |",
        "| ConvS2S | 30.5 | 7 |",
    ]
    command = "`calque train examples/multi30k.toml`"
    assert lines[at + 5 : at + 8] == [
        "- All: 2025-06-30; machine Some CPU; cores 2; threads 2; precision float32; tokenised.",
        f"- [RNMT | fed](a.json): {command}.",
        f"- [ConvS2S](b.json): {command}.",
    ]
    assert lines.index(f"# {KINDS['speed']}") > at
    assert any("`` a `b` ``" in line for line in lines)
    assert "| f8 | 8,000 |" in lines


def test_names_of_two_dimensions_are_a_grid(tmp_path: Path) -> None:
    """Systems stand side by side, with the lowest and the highest behind a figure; what all names share is said once."""
    figures: dict[str, float] = {"lines": 7}
    for system in ("ours", "cnn(glu, 3)"):
        for metric, value in (("tokens/s", 10.5), ("ms, total", 2.0), ("bytes", 64)):
            figures[f"{system}: beam 5, {metric}"] = value
        figures |= {
            f"{system}: beam 5, tokens/s, {word}": value for word, value in (("slowest", 9.0), ("fastest", 12.0))
        }
    record(tmp_path, entry(kind="speed", figures=figures))
    single = {f"system a, beam 5, f{n}": n for n in range(8)}
    record(tmp_path, entry("single", title="One", kind="speed", figures=single))
    page = tables(tmp_path)
    assert (
        "| beam 5 | ours | cnn(glu, 3) |\n"
        "| --- | ---: | ---: |\n"
        "| tokens/s | 10.5 (9.0 to 12.0) | 10.5 (9.0 to 12.0) |\n"
        "| ms, total | 2.0 | 2.0 |\n"
        "| bytes | 64 | 64 |\n"
    ) in page
    assert "| lines | 7 |\n" in page
    assert "| One, system a, beam 5 |  |\n| --- | ---: |\n| f0 | 0 |\n" in page


def test_no_figure_is_left_out() -> None:
    """Of entries that belong to no paper's table; `tests/papers` holds the pages of papers against theirs."""
    entries = [e for e in read(ROOT / "docs" / "results") if request_of(e.command) is None]
    for entry in entries:
        lines = " ".join(line for line in theme_page(entry.kind, [entry]).split("\n") if line.startswith("|"))
        for name, value in entry.figures.items():
            assert f"{value:,}" in lines, (entry.id, name)


def test_order_does_not_depend_on_writing(tmp_path: Path) -> None:
    made = [entry(f"e{n}", kind=kind) for n, kind in enumerate([*KINDS, *reversed(KINDS)])]
    for name, order in (("one", made), ("other", made[::-1])):
        for e in order:
            record(tmp_path / name, e)
    assert pages(read(tmp_path / "one")) == pages(read(tmp_path / "other"))


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"id": "Upper"}, "id"),
        ({"id": "../up"}, "id"),
        ({"title": " "}, "title"),
        ({"kind": "beauty"}, "kind"),
        ({"kind": ["quality"]}, "kind"),
        ({"date": "30.6.2025"}, "date"),
        ({"date": "20250630"}, "date"),
        ({"figures": {}}, "figures"),
        ({"figures": {"BLEU": "38"}}, "figures"),
        ({"figures": {"BLEU": float("nan")}}, "figures"),
        ({"figures": {"BLEU": True}}, "figures"),
        ({"conditions": {"machine": "Some CPU"}}, "conditions"),
        ({"seed": 1.5}, "seed"),
        ({"seed": []}, "seed"),
        ({"notes": None}, "notes"),
        ({"command": "calque train /home/somebody/x.toml"}, "entry"),
        ({"notes": "from ~/data/x"}, "entry"),
        ({"figures": {"BLEU of /data/a": 1}}, "entry"),
    ],
)
def test_faulty_entries_are_refused(tmp_path: Path, changed: dict[str, Any], key: str) -> None:
    with pytest.raises(CalqueError) as caught:
        record(tmp_path, entry(**changed))
    assert {(d.code, d.fields["key"]) for d in caught.value.diagnostics} == {("D504", key)}
    assert not list(tmp_path.iterdir())


def test_harmless_slashes_are_none_of_a_path(tmp_path: Path) -> None:
    record(tmp_path, entry(notes="tokens/s, see https://example.org/a/b and examples/a/b.toml; 2/3 of 4 / 5"))


def test_faulty_files_are_told_together(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = dataclasses.asdict(entry("good"))
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "good.json").write_text(json.dumps(good))
    (folder / "cut.json").write_text(json.dumps(good)[:-3])
    (folder / "deep.json").write_text("[" * 90000)
    (folder / "latin.json").write_bytes(b'"\xe9"')
    (folder / "list.json").write_text("[]")
    (folder / "other.json").write_text(json.dumps(good))
    (folder / "more.json").write_text(json.dumps({**good, "id": "more", "figure": 1}))
    (folder / "less.json").write_text(json.dumps({k: v for k, v in good.items() if k != "command"} | {"id": "less"}))
    assert run(["reproduce", "report", "--all", "--docs", str(tmp_path)], False) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("error[") == 7
    for name, code in (("cut", "D503"), ("deep", "D503"), ("latin", "D503"), ("list", "D504"), ("other", "D504")):
        assert any(f"[{code}]" in part and f"{name}.json" in part for part in err.split("\n\n"))
    assert run(["reproduce", "report", "--all", "--docs", str(tmp_path / "none")], False) == 2
    assert run(["reproduce", "report", "--all", "you2020"], False) == 2


def test_conditions_name_the_machine_and_nobody(tmp_path: Path) -> None:
    found = conditions("bfloat16")
    assert set(CONDITIONS) <= set(found)
    assert found["torch"] == torch.__version__
    assert found["python"] == platform.python_version()
    assert found["threads"] == torch.get_num_threads()
    assert found["precision"] == "bfloat16"
    told = json.dumps(found)
    for name in (socket.gethostname(), getpass.getuser(), str(Path.home()), os.getcwd()):
        assert len(name) < 5 or name not in told
    record(tmp_path, entry(conditions=found))


@pytest.mark.medium
def test_as_a_program(tmp_path: Path) -> None:
    record(tmp_path / "results", entry())
    command = [sys.executable, "-m", "calque", "reproduce", "report", "--all", "--docs", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True)
    for name, body in pages(read(tmp_path / "results")).items():
        assert (tmp_path / name).read_text(encoding="utf-8") == body


def test_a_commit_is_dirty_by_changes_of_code_not_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, entry = tmp_path / "src" / "entry.py", tmp_path / "docs" / "results" / "one.json"
    for file in (code, entry):
        file.parent.mkdir(parents=True)
        file.write_text("1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr("calque.ledger.entry.__file__", str(code))
    entry.write_text("2")
    assert not str(conditions()["commit"]).endswith("-dirty")
    code.write_text("2")
    assert str(conditions()["commit"]).endswith("-dirty")


@pytest.mark.parametrize(
    ("described", "named"),
    [
        (
            "cpu family\t: 26\nmodel\t\t: 17\nmodel name\t: AMD  EPYC\n\nmodel name\t: other",
            "AMD EPYC, family 26 model 17",
        ),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "aarch64, implementer 0x41 part 0xd0c"),
        ("", "aarch64"),
    ],
)
def test_a_processor_is_named_as_its_system_describes_it(
    monkeypatch: pytest.MonkeyPatch, described: str, named: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: described)
    assert _processor() == named
