"""`calque export` and `calque import` as a user runs them."""

import json
import resource
import sys
from pathlib import Path

import pytest
from command import Run
from tiny import experiment

sys.path.insert(0, str(Path(__file__).parents[1] / "exchange"))


def test_export_writes_a_folder_with_a_card_or_nothing(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    from small_runs import PRE, make_run

    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", PRE, updates=0)
    wrong = calque("export", "run", "--to", "ctranslate2", "--precision", "int3")
    assert wrong.status == 2
    assert "X503" in wrong.err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    done = calque("export", "run", "--to", "ctranslate2", "--precision", "int8")
    assert done.status == 0, done.err
    card = (tmp_path / "run-ctranslate2" / "README.md").read_text()
    assert "length_penalty=1.0" in card
    assert "in Calque after 0 times the pieces of the source and 60 more" in card
    assert "mh_dot_self_att" in card
    assert "to fill in" in card
    again = calque("export", "run", "--to", "ctranslate2")
    assert again.status == 2
    assert "X405" in again.err


@pytest.mark.medium
def test_a_page_is_written_with_its_languages_and_options_of_pages_are_for_pages(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript", reason="the package onnxscript is not installed")
    from small_runs import PRE, make_run, piece_codec

    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", PRE, 0, piece_codec())
    languages = ("--source-language", "en", "--target-language", "de")
    wrong = calque("export", "run", "--to", "web", *languages, "--runtime", "absent")
    assert (wrong.status, "X523" in wrong.err, "npm install onnxruntime-web" in wrong.err) == (2, True, True)
    (tmp_path / "dist").mkdir()
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        (tmp_path / "dist" / name).write_text("not run here")
    done = calque("export", "run", "--to", "web", *languages, "--runtime", ".", "--beam", "2")
    assert done.status == 0, done.err
    about = json.loads((tmp_path / "run-web" / "model" / "model.json").read_text())
    assert about["pairs"] == [{"source": "en", "target": "de", "tag": ""}]
    assert about["decode"]["beam"] == 2
    for option, value in (("--pair", "en-de"), ("--runtime", "dist"), ("--beam", "2")):
        wrong = calque("export", "run", "--to", "onnx", option, value)
        assert (wrong.status, f"{option} is for --to web alone" in wrong.err) == (2, True), wrong.err


def test_a_test_text_with_damaged_lines_is_read_and_the_run_is_exported(calque: Run, tmp_path: Path) -> None:
    from small_runs import PRE, make_run

    make_run(tmp_path / "run", PRE, updates=0)
    (tmp_path / "a").write_bytes(b"one\ntw\xff\n")
    (tmp_path / "b").write_text("eins\nzwei\n")
    done = calque("export", tmp_path / "run", "--to", "calque", "--test", tmp_path / "a", tmp_path / "b")
    assert done.status == 1
    assert "D120" in done.err
    assert done.out == f"{tmp_path / 'run-calque'}\n"
    assert "BLEU" in (tmp_path / "run-calque" / "README.md").read_text()


@pytest.mark.medium
@pytest.mark.parametrize(("form", "package"), [("onnx", "onnxscript"), ("hf", "transformers")])
def test_export_says_that_the_system_refuses_to_write(calque: Run, tmp_path: Path, form: str, package: str) -> None:
    pytest.importorskip(package, reason=f"the package {package} is not installed")
    from small_runs import PRE, make_run

    make_run(tmp_path / "run", PRE, updates=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        done = calque("export", tmp_path / "run", "--to", form)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert done.status == 1, done.err
    assert done.err.startswith("error[K301]: cannot write: "), done.err
    assert f" --> {tmp_path / 'run'}-{form}\n" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.medium
def test_an_imported_model_translates_is_explained_and_trained_on(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    from comparisons import build
    from small_models import lines

    monkeypatch.chdir(tmp_path)
    build("marian", tmp_path / "hf", activation_function="relu")
    imported = calque("import", "hf", "--from", "hf", "--out", "my run")
    assert imported.status == 0, imported.err
    assert imported.out == "my run\n"
    assert "next: calque translate 'my run' < input.txt" in imported.err
    translated = calque("translate", "my run", stdin="".join(f"{line}\n" for line in lines(5)).encode())
    assert translated.status == 0, translated.err
    assert translated.out.count("\n") == 5
    assert calque("explain", "my run").status == 0
    for split in ("train", "valid"):
        for side in ("source", "target"):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines(40)))
    files = {f"data__{split}": [f"{split}.source", f"{split}.target"] for split in ("train", "valid")}
    own = experiment(tmp_path, "own", model__text="", data__vocabulary_size=60, max_updates=4, **files)
    trained = calque("train", own, "--from", "my run", "--out", "own")
    assert trained.status == 0, trained.err
    assert "the architecture is that of" in trained.err
    assert "starts anew" not in trained.err
    assert calque("translate", "own", stdin=b"abc\n").status == 0
    resumed = calque("train", "my run")
    assert resumed.status in (1, 2), "an imported run has no training of its own"
    assert "Traceback" not in resumed.err


@pytest.mark.medium
def test_a_model_goes_to_marian_comes_back_and_is_trained_on(
    calque: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("yaml", reason="the package pyyaml is not installed")
    from small_runs import draw_lines, make_run, piece_codec
    from test_marian import STUDENT

    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", STUDENT, 0, piece_codec(), "target")
    exported = calque("export", "run", "--to", "marian", "--source-language", "en", "--target-language", "de")
    assert exported.status == 0, exported.err
    assert "From `en` into `de`" in (tmp_path / "run-marian" / "README.md").read_text()
    imported = calque("import", "run-marian", "--from", "marian", "--out", "again")
    assert imported.status == 0, imported.err
    for split in ("train", "valid"):
        for side in ("source", "target"):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in draw_lines(30)))
    files = {f"data__{split}": [f"{split}.source", f"{split}.target"] for split in ("train", "valid")}
    own = experiment(tmp_path, "own", model__text="", max_updates=2, **files)
    trained = calque("train", own, "--from", "again", "--out", "own")
    assert trained.status == 0, trained.err
    assert "starts anew" not in trained.err
    assert 'tying = "target"' in (tmp_path / "own" / "experiment.toml").read_text()
    translated = calque("translate", "own", stdin=b"w1 w2\n")
    assert translated.status == 0, translated.err
    # The same command again resumes, also where the parent is gone.
    (tmp_path / "again").rename(tmp_path / "elsewhere")
    resumed = calque("train", own, "--from", "again", "--out", "own", "--set", "train.max_updates=3")
    assert resumed.status == 0, resumed.err
    nothing = calque("train", own, "--from", "again", "--out", "other")
    assert nothing.status == 2
    assert "X118" in nothing.err
