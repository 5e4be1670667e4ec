"""`calque evaluate` and `calque compare` as commands."""

import csv
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calque.cli import root
from calque.ground.diagnostics import CalqueError

LINES = [
    "the cat sat on the mat .",
    "a dog barks at the cat .",
    "nobody sleeps here tonight .",
    "we go home now , all of us .",
] * 10


def run(*arguments: object) -> Result:
    return CliRunner().invoke(root, [str(a) for a in arguments])


def code(found: Result) -> str:
    assert isinstance(found.exception, CalqueError), found
    assert str(found.exception)
    return found.exception.diagnostics[0].code


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for name, words in (("good", {"mat": "rug"}), ("bad", {"the": "an", "all": "a", "home": "out", "sleeps": "x"})):
        (tmp_path / name).mkdir()
        for seed in range(3):
            lines = [
                " ".join(words.get(w, w) if k % 3 != seed else w for w in line.split()) for k, line in enumerate(LINES)
            ]
            (tmp_path / name / f"{seed}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "good" / ".hidden").write_bytes(b"\xff")
    return tmp_path


def test_two_files(files: Path) -> None:
    done = run("compare", files / "good" / "0", files / "bad" / "0", "--references", files / "ref", "--trials", 200)
    assert done.exit_code == 0, done
    lines = done.output.splitlines()
    assert lines[0].startswith("BLEU nrefs:1|")
    assert lines[3].strip().startswith("A - B +")
    assert "95 % interval" in lines[3]
    assert "approximate randomisation" in lines[4]
    assert "paired bootstrap" in lines[4]


def test_further_references_count_for_scores_alone(files: Path) -> None:
    a, b = files / "good" / "0", files / "bad" / "0"
    options = ["--trials", 200, "--json"]
    one = json.loads(run("compare", a, b, "--references", files / "ref", *options).output)
    done = run("compare", a, b, "--references", files / "ref", "--references", a, "--source", b, *options)
    both = json.loads(done.output)
    assert both["comparisons"][0]["signature"].startswith("nrefs:2|")
    assert both["comparisons"][0]["a"][0] == pytest.approx(100)
    (scores,) = (
        score for score in run("evaluate", b, files / "ref", a, "--json").output.splitlines() if "value" in score
    )
    assert f"{both['comparisons'][0]['b'][0]:.6f}" in scores
    assert one["tables"].keys() == both["tables"].keys()
    assert one["tables"]["orders"] == both["tables"]["orders"]  # of the first
    assert {e["source"] for e in both["examples"]["a"]} <= set(b.read_text().splitlines())


def test_folders_of_runs_as_json(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = files / "data" / "meteor"
    lists.mkdir(parents=True)
    (lists / "english.words").write_text("the\na\n.\n")
    monkeypatch.setenv("CALQUE_DATA", str(files / "data"))
    options = ["--tokenize", "none", "--language", "en", "--meteor-version", "1.4", "--trials", 200, "--json"]
    metrics = [x for m in ("bleu", "chrf", "ter", "meteor") for x in ("--metric", m)]
    done = run("compare", files / "good", files / "bad", "--references", files / "ref", *metrics, *options)
    assert done.exit_code == 0, done
    found = json.loads(done.output)["comparisons"]
    assert [one["metric"] for one in found] == ["BLEU", "chrF2", "TER", "METEOR"]
    for one in found:
        assert (len(one["a"]), len(one["b"])) == (3, 3)
        assert (one["delta"] > 0) == one["higher_is_better"]
        assert one["p"] < 0.05
        assert one["interval"][0] <= one["delta"] <= one["interval"][1]
        assert "version:" in one["signature"]
    assert "version:1.4" in found[3]["signature"]
    text = run("compare", files / "good", files / "bad", "--references", files / "ref", "--trials", 200).output
    assert "3 runs" in text
    # The scores are those of `evaluate`.
    one = run(
        "evaluate", files / "good" / "1", files / "ref", "--tokenize", "none", "--metric", "meteor", "--language", "en"
    )
    assert one.output.startswith("METEOR ")
    assert "version:1.5" in one.output


def test_bad_input(files: Path) -> None:
    good, reference = files / "good" / "0", files / "ref"
    short, empty, latin, folder = (files / n for n in ("short", "empty", "latin", "folder"))
    short.write_text("one line\n")
    empty.write_text("")
    latin.write_bytes(b"caf\xe9\n" * len(LINES))
    folder.mkdir()
    for a, b, r, expected in [
        (short, good, reference, "D501"),
        (good, short, reference, "D501"),
        (good, good, short, "D501"),
        (empty, empty, empty, "D502"),
        (latin, good, reference, "D103"),
        (good, good, latin, "D103"),
        (good, files / "missing", reference, "D101"),
        (good, good, files / "missing", "D101"),
        (folder, good, reference, "D521"),
    ]:
        assert code(run("compare", a, b, "--references", r)) == expected, (a, b, r)
    assert code(run("compare", good, good, "--references", reference, "--metric", "meteor")) == "X322"
    assert code(run("evaluate", good, reference, "--metric", "meteor", "--language", "ed")) == "X320"
    assert code(run("evaluate", good, reference, "--metric", "meteor", "--language", "sv")) == "X321"
    assert code(run("compare", good, good, "--references", reference, "--source", short)) == "D501"
    assert code(run("compare", good, good, "--references", reference, "--train-text", empty)) == "D502"
    assert code(run("compare", good, good, "--references", reference, "--trials", 100, "--out", short)) == "X408"
    assert run("compare", good, good).exit_code == 2
    assert run("compare", good, good, "--references", reference, "--metric", "rouge").exit_code == 2


def test_a_folder_holds_the_tables_of_the_last_call_alone(files: Path) -> None:
    given, out = ["compare", files / "good" / "0", files / "bad" / "0", "--references", files / "ref"], files / "out"
    given += ["--trials", 100, "--out", out]
    first = files / "first"
    assert run(*given[:-1], first).exit_code == 0
    alone = {file.name for file in first.iterdir()}
    assert run(*given, "--metric", "bleu", "--metric", "chrf", "--metric", "ter").exit_code == 0
    more = {f"{kind}-{metric}.csv" for kind in ("differences", "lengths") for metric in ("chrf2", "ter")}
    assert {file.name for file in out.iterdir()} == alone | more
    others = {"lengths-meteor.csv", "differences-mine.csv", "chrf2.csv"}
    for name in others:
        (out / name).write_text("of the user\n")
    (out / "lengths-ter.csv").unlink()
    assert run(*given, "--metric", "bleu").exit_code == 0
    assert {file.name for file in out.iterdir()} == alone | others


@pytest.mark.parametrize("tests", ["metric,mine\nchrF2,1\n", "", "\xff"])
def test_a_file_of_the_user_is_no_trace_of_an_earlier_call(files: Path, tests: str) -> None:
    out = files / "out"
    out.mkdir()
    (out / "tests.csv").write_bytes(tests.encode("latin-1"))
    (out / "lengths-chrf2.csv").write_text("of the user\n")
    given = ["compare", files / "good" / "0", files / "bad" / "0", "--references", files / "ref", "--trials", 100]
    assert run(*given, "--out", out).exit_code == 0
    assert (out / "lengths-chrf2.csv").read_text() == "of the user\n"


def test_a_folder_of_tables_and_examples(files: Path) -> None:
    (files / "source").write_text("".join(f"source {k}\n" for k in range(len(LINES))), encoding="utf-8")
    (files / "train.gz").write_bytes(gzip.compress(b"the the the cat\n"))
    options = ["--references", files / "ref", "--source", files / "source", "--train-text", files / "train.gz"]
    options += ["--trials", 100, "--metric", "ter", "--samples", 1, "--out", files / "new" / "out"]
    done = run("compare", files / "good", files / "bad", *options)
    assert done.exit_code == 0, done
    assert "Words, by their frequency in the training text" in done.output
    assert "Sentences in which A is better most, by TER" in done.output
    line = next(line for line in done.output.splitlines() if line.startswith("source"))
    names = sorted(file.name for file in (files / "new" / "out").iterdir())
    assert {"compare.md", "examples.csv", "sentences.csv", "tests.csv", "frequencies.csv"} <= set(names)
    with open(files / "new" / "out" / "examples.csv", encoding="utf-8") as file:
        (example, *_) = csv.DictReader(file)
    assert example["source"] == line.split("  ")[-1].strip()
    assert example["reference"] == LINES[int(example["line"]) - 1]
    assert run("compare", files / "good", files / "bad", *options).exit_code == 0  # writes over its own files
    found = json.loads(run("compare", files / "good", files / "bad", *options, "--json").stdout)
    assert found["examples"]["a"][0]["source"] == example["source"]
    assert {row["seen"] for row in found["tables"]["frequencies"]} == {"0", "1", "3"}
