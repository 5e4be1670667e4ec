"""A run of two texts with tags: training, translation, scores, fine-tuning, export and a server, by its symbols."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command import Outcome, Run
from serving import served
from test_parent import child, done
from test_serve import until
from tiny import experiment, text

import calque as package
from calque.data.corpus import open_corpus
from calque.data.subwords import load_codecs
from calque.run.model_file import load_model
from calque.workflow.validation import validation_translator

TAGS = ("<2x>", "<2y>")
LINES = ["a b c", "", "d h e", "never-seen a"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on letters backwards under one tag, and on their capitals under another."""
    import sys

    from calque import cli

    folder = tmp_path_factory.mktemp("tags")
    for name in (*text(folder, "train"), *text(folder, "valid", 15)):
        (folder / name).with_suffix(".capitals").write_text((folder / name).read_text().upper())
    x = {"source": "train.source", "target": "train.target", "tag": TAGS[0]}
    y = {
        "source": "train.source",
        "target": "train.capitals",
        "tag": TAGS[1],
        "valid": ["valid.source", "valid.capitals"],
    }
    path = experiment(folder, data__train=[], max_updates=100, validate_every_updates=50)
    tables = ", ".join("{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in one.items()) + " }" for one in (x, y))
    path.write_text(path.read_text().replace("train = []", f"train = [ {tables} ]"))
    with pytest.MonkeyPatch.context() as m:
        m.setattr(sys, "argv", ["calque", "train", str(path), "--out", str(folder / "run")])
        cli.main()
    return folder / "run"


def stdin(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def out(found: Outcome) -> list[str]:
    assert found.status == 0, found.err
    return found.out.splitlines()


def written(tag: str) -> list[str]:
    """The lines with a tag written into them."""
    return [f"{tag} {line}" if line else "" for line in LINES]


@pytest.mark.medium
def test_a_tag_is_the_same_as_its_symbol_in_every_line(calque: Run, run: Path) -> None:
    plain = out(calque("translate", run, stdin=stdin(LINES)))
    found = {tag: out(calque("translate", run, "--tag", tag, stdin=stdin(LINES))) for tag in TAGS}
    for tag, lines in found.items():
        assert lines == out(calque("translate", run, stdin=stdin(written(tag))))
        assert lines == out(calque("translate", run, "--set", f"decode.tag={tag}", stdin=stdin(LINES)))
        assert lines == package.load(run, tag=tag).translate(LINES)
        assert lines == out(calque("translate", run, "--tag", tag, "--workers", 2, stdin=stdin(LINES)))
        assert lines[1] == ""
    lower, upper = ("".join(found[tag]) for tag in TAGS)
    assert lower.islower()
    assert upper.isupper()
    assert len(plain) == len(LINES)


@pytest.mark.medium
def test_a_line_that_begins_with_a_symbol_keeps_it(calque: Run, run: Path) -> None:
    found = package.load(run, tag=TAGS[0]).translate([f"{TAGS[1]} a b c", "a b c"])
    assert found == [package.load(run, tag=tag).translate("a b c") for tag in TAGS[::-1]]
    assert found[0].isupper()


def test_a_default_tag_is_that_of_tuning_too(calque: Run, run: Path, tmp_path: Path) -> None:
    """The validation text of the run has no symbols: its translations then begin with one as those of users do."""
    own = tmp_path / "own"
    shutil.copytree(run, own)
    file = own / "experiment.toml"
    file.write_text(file.read_text().replace('tag = ""', f'tag = "{TAGS[0]}"'))
    lines = (run.parent / "valid.source").read_text()
    plain = out(calque("translate", own, stdin=lines.encode()))
    assert "".join(plain).islower()
    marked = "".join(f"{TAGS[0]} {line}\n" for line in lines.splitlines())
    assert plain == out(calque("translate", own, stdin=marked.encode()))
    (tmp_path / "marked").write_text(marked)
    settings = ("tune", own, "--beam", 1, "--word-penalty", 0)
    tuned = out(calque(*settings))
    assert tuned == out(calque(*settings, "--valid", tmp_path / "marked", run.parent / "valid.target"))
    # BLEU of the untouched run, which translates the same lines without a symbol, is another one.
    assert tuned != out(calque("tune", run, *settings[2:]))


def test_validation_translates_with_the_default_tag(run: Path) -> None:
    trained, corpus = load_model(run), open_corpus(run / "data")
    for tag, is_as_wanted in zip(TAGS, (str.islower, str.isupper), strict=True):
        wanted = replace(trained.experiment, decode=replace(trained.experiment.decode, tag=tag))
        samples = validation_translator(corpus, wanted)(trained.model).samples
        assert samples
        assert is_as_wanted("".join(sample.translation for sample in samples))


def test_a_default_tag_is_one_of_the_symbols(calque: Run, run: Path, tmp_path: Path) -> None:
    path = experiment(tmp_path, data__symbols=["<2y>"], decode__tag="<2z>")
    for command in (("check", path), ("train", path, "--out", tmp_path / "run")):
        found = calque(*command)
        assert found.status == 2, found
        assert "X234" in found.err
        assert "<2y>" in found.err
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())
    own = child(tmp_path / "child", decode__tag="<2z>")
    told = done(calque, "train", own, "--from", run, "--out", tmp_path / "other", status=1)
    assert "D209" in told
    assert str(run) in told


def test_a_changed_tag_is_told(calque: Run, run: Path, tmp_path: Path) -> None:
    changed = tmp_path / "experiment.toml"
    shutil.copytree(run, tmp_path / "copy")
    changed.write_text(
        (run.parent / "tiny.toml")
        .read_text()
        .replace("<2y>", "<2q>")
        .replace('"train.', f'"{run.parent}/train.')
        .replace('"valid.', f'"{run.parent}/valid.')
    )
    found = calque("train", changed, "--out", tmp_path / "copy")
    assert "K201" in found.err
    assert "<2y>" in found.err
    assert "<2q>" in found.err


def test_a_stream_has_its_symbols_in_its_lines(calque: Run, tmp_path: Path) -> None:
    path = experiment(tmp_path, data__stream="-")
    body = path.read_text()
    path.write_text(
        body.replace(
            'train = ["train.source", "train.target"]',
            'train = [{ source = "train.source", target = "train.target", tag = "<x>" }]',
        )
    )
    assert path.read_text() != body
    assert "X235" in calque("check", path).err


def test_scores_have_the_tag_too(calque: Run, run: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("source", "written", "target")}
    for name, lines in (("source", LINES), ("written", written(TAGS[1])), ("target", ["x", "a", "E H D", "a"])):
        files[name].write_bytes(stdin(lines))
    given = out(calque("score", run, files["source"], files["target"], "--tag", TAGS[1]))
    assert given == out(calque("score", run, files["written"], files["target"]))
    assert given != out(calque("score", run, files["source"], files["target"]))


@pytest.mark.parametrize("command", ["translate", "score"])
def test_another_word_is_no_tag(calque: Run, run: Path, tmp_path: Path, command: str) -> None:
    files = () if command == "translate" else (tmp_path / "one", tmp_path / "one")
    (tmp_path / "one").write_text("a\n")
    found = calque(command, run, *files, "--tag", "<2z>", stdin=b"a\n")
    assert (found.status, found.out) == (1, "")
    assert "D209" in found.err
    assert "did you mean `<2y>`?" in found.err
    found = calque(command, run, *files, "--tag", "two words", stdin=b"a\n")
    assert (found.status, found.out) == (2, "")
    assert "X233" in found.err


def test_a_child_has_the_symbols_of_its_parent(calque: Run, run: Path, tmp_path: Path) -> None:
    own = child(tmp_path, data__symbols=[TAGS[0]])
    done(calque, "train", own, "--from", run, "--out", tmp_path / "child")
    assert load_codecs(tmp_path / "child" / "codecs")[0].symbols == TAGS
    assert package.load(tmp_path / "child", tag=TAGS[1]).translate("a b")
    done(calque, "train", tmp_path / "child", "--set", "train.max_updates=9")  # goes on, by its own experiment
    other = child(tmp_path, data__symbols=["<2z>"])
    told = done(calque, "train", other, "--from", run, "--out", tmp_path / "other", status=1)
    assert "D209" in told
    assert not (tmp_path / "other" / "model.safetensors").exists()


def test_a_run_to_give_away_keeps_its_symbols(calque: Run, run: Path, tmp_path: Path) -> None:
    done(calque, "export", run, "--to", "calque", "--out", tmp_path / "given")
    found = package.load(tmp_path / "given", tag=TAGS[0], precision="float32")
    assert found.loaded.source.symbols == TAGS
    assert len(found.translate(LINES)) == len(LINES)
    assert "`<2x>`, `<2y>`" in (tmp_path / "given" / "README.md").read_text()


def test_one_run_serves_several_languages(run: Path) -> None:
    named = [f"en-de={TAGS[0]}", f"en-fr={TAGS[1]}"]
    with served([run], named=named) as client:
        assert {one["code"]: one["targets"] for one in client.get("/languages").json}["en"] == ["de", "fr"]
        for tag, code in zip(TAGS, ("de", "fr"), strict=True):
            answers = client.translate(LINES, target=code).json["translatedText"]
            assert answers == package.load(run, tag=tag).translate(LINES)


def test_pairs_of_one_run_are_reloaded_together_or_not_at_all(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.serve.runs.EVERY", 0.05)
    folder = tmp_path / "own"
    shutil.copytree(run, folder)
    named = [f"en-de={TAGS[0]}", f"en-fr={TAGS[1]}"]
    with served([folder], named=named) as client:
        before = {code: client.translate("a b", target=code).json for code in ("de", "fr")}
        weights = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(b"\0" * len(weights))
        until(lambda: client.log.getvalue().count("reload_failed") == 2)
        assert "run_reloaded" not in client.log.getvalue()
        assert {code: client.translate("a b", target=code).json for code in ("de", "fr")} == before
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "experiment.toml").write_text((folder / "experiment.toml").read_text() + "\n")
        until(lambda: client.log.getvalue().count("run_reloaded") == 2)


def test_a_server_refuses_a_tag_that_its_run_lacks(calque: Run, run: Path) -> None:
    found = calque("serve", run, "--pair", "en-de=<2z>", "--port", 0)
    assert found.status == 1
    assert "D209" in found.err
    found = calque("serve", run, "--pair", "en-de=<2x>", "--pair", "en-fr", "--port", 0)
    assert "K422" in found.err
    found = calque("serve", run, "--pair", "en-de=<2x>", "--pair", "en-de=<2y>", "--port", 0)
    assert "K425" in found.err
    moved = run.parent / "en-de"
    shutil.copytree(run, moved)
    found = calque("serve", moved, "--set", "decode.tag=<2z>", "--port", 0)
    assert "D209" in found.err


def test_a_pair_of_a_server_has_terms_of_its_own(calque: Run, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("a\th g\nd h\tb b\n")
    named = [f"en-{code}={tag}" for code, tag in zip(("de", "fr"), TAGS, strict=True)]
    with served([run], named=named, terms=[f"en-de={file}"]) as client:
        found = client.translate(LINES, target="de").json["translatedText"]
        assert found == package.load(run, tag=TAGS[0], terms=file).translate(LINES)
        assert found != package.load(run, tag=TAGS[0]).translate(LINES)
        assert "h g" in found[0]
        assert "b b" in found[2]
        several = client.translate(LINES[0], target="de", alternatives=2).json
        assert all("h g" in text for text in [several["translatedText"], *several["alternatives"]])
        free = client.translate(LINES, target="fr").json["translatedText"]
        assert free == package.load(run, tag=TAGS[1]).translate(LINES)


def test_a_server_reads_a_list_again_once_it_is_right(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.serve.runs.EVERY", 0.05)
    file = tmp_path / "terms.tsv"
    file.write_text("a\th g\n")
    named = [f"en-{code}={tag}" for code, tag in zip(("de", "fr"), TAGS, strict=True)]
    with served([run], named=named, terms=[f"en-de={file}"]) as client:
        assert "h g" in client.translate("a b").json["translatedText"]
        file.write_text("a b\n")
        until(lambda: client.log.getvalue().count("reload_failed") == 1)
        assert "D608" in client.log.getvalue()
        assert "h g" in client.translate("a b").json["translatedText"]
        file.write_text("a\td d d\n")
        until(lambda: client.log.getvalue().count("run_reloaded") == 1)
        assert "d d d" in client.translate("a b").json["translatedText"]


@pytest.mark.medium
def test_each_pair_of_a_server_has_its_own_memory(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.serve.runs.EVERY", 0.05)
    source, target = tmp_path / "m.en", tmp_path / "m.de"
    sources = ["a b c", "d e", "f g h a", "b d", "h h e"]
    source.write_text("".join(f"{line}\n" for line in sources))
    target.write_text("g g g\n" * 5)
    named = [f"en-{code}={tag}" for code, tag in zip(("de", "fr"), TAGS, strict=True)]
    asked = ["a b c", "d e", "h a b", "e e"]
    with served([run], named=named, memories=[("en-de", source, target)]) as client:
        found = client.translate(asked).json["translatedText"]
        with_memory = package.load(run, tag=TAGS[0], memory=(source, target)).translate(asked)
        assert found == with_memory
        assert [client.translate(line).json["translatedText"] for line in asked[::-1]] == found[::-1]
        assert found != package.load(run, tag=TAGS[0]).translate(asked)
        assert client.translate(asked, target="fr").json["translatedText"] == package.load(run, tag=TAGS[1]).translate(
            asked
        )
        target.write_text("a\n")
        until(lambda: client.log.getvalue().count("reload_failed") == 1)
        assert "D102" in client.log.getvalue()
        assert client.translate(asked).json["translatedText"] == found
        target.write_text("b a b a\n" * 5)
        until(lambda: client.log.getvalue().count("run_reloaded") == 1)
        assert client.translate(asked).json["translatedText"] != found


def test_a_server_refuses_a_wrong_memory(calque: Run, run: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "m.en", tmp_path / "m.de"
    source.write_text("a\n")
    target.write_text("a\nb\n")
    for pair, code in (("en-de", "D102"), ("en-it", "K426"), ("x", "K423"), ("en-de=<2x>", "K423")):
        found = calque("serve", run, "--pair", "en-de", "--memory", pair, source, target, "--port", 0)
        assert found.status == 1
        assert code in found.err


@pytest.mark.parametrize("wrong", ["en-it=terms.tsv", "en-de", "en-de=", "terms.tsv"])
def test_a_server_refuses_terms_of_no_pair(calque: Run, run: Path, wrong: str) -> None:
    found = calque("serve", run, "--pair", "en-de", "--terms", wrong, "--port", 0)
    assert found.status == 1
    assert ("K423" if wrong == "terms.tsv" else "K426") in found.err


def test_a_server_refuses_a_wrong_list_of_terms(calque: Run, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("a b\n")
    found = calque("serve", run, "--pair", "en-de", "--terms", f"en-de={file}", "--port", 0)
    assert found.status == 1
    assert "D608" in found.err
    again = ("--terms", f"en-de={file}") * 2
    assert "K426" in calque("serve", run, "--pair", "en-de", *again, "--port", 0).err
