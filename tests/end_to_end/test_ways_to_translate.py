"""`calque translate` with its ways to search, on tiny runs that were never trained."""

import math
from pathlib import Path

import pytest
import torch
from command import Run

import calque as package
from calque.adl.check import check
from calque.data.codecs import Codec, WordCodec
from calque.data.vocabulary import Vocabulary
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.ground.diagnostics import CalqueError, Text
from calque.layers.registry import builtin
from calque.model import Model as Network
from calque.model import Shape
from calque.run.folder import start_run
from calque.run.model_file import load_model, save_model, weights_of

TEXTS = {
    "one": "d = 8\nheads = 2\nencoder = pos -> tenc -> norm\ndecoder = pos -> tdec -> norm\n",
    "two": "d = 6\nencoder = birnn\ndecoder = rnn -> concat(id, mlp_src_att) -> linear(6)\n",
    "strange": "d = 6\nencoder = birnn\ndecoder = rnn -> concat(id, mlp_src_att) -> linear(6)\n",
}
LINES = ["a b c", "", "d", "a a b i h g", "c never-seen", "e f g h i a b", "b", "h h"]
STDIN = "".join(f"{line}\n" for line in LINES).encode()


def make_run(folder: Path, name: str, seed: int) -> Path:
    """A run folder with random weights."""
    checked = check(Text("model.adl", TEXTS[name]), builtin())
    codecs: tuple[Codec, Codec] = (
        WordCodec(Vocabulary("abcdefghi" if name == "one" else "ihgfedcb")),
        WordCodec(Vocabulary("ABCDEFGHI" if name != "strange" else "ABCDEFGHJ")),
    )
    experiment = Experiment(
        DataSettings(train=("x", "y"), valid=("x", "y"), subwords="words", joint=False),
        ModelSettings(text=checked.text, tying="target"),
        TrainSettings(max_updates=1, threads=1),
        DecodeSettings(beam=2, max_length_factor=1.0, max_length_offset=3),
    )
    torch.manual_seed(seed)
    network = Network(checked, Shape(codecs[0].size, codecs[1].size, "target"))
    with torch.no_grad():
        network.output.weight.mul_(3)
    start_run(folder / name, experiment, checked, codecs)
    save_model(folder / name, network, weights_of(network), experiment, "none", {})
    return folder / name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: make_run(folder, name, seed) for seed, name in enumerate(TEXTS, 1)}


def lines(done) -> list[str]:
    assert done.status == 0, done.err
    return done.out.split("\n")[:-1]


WAYS = [[], ["--beam", 1], ["--sample", "--seed", 4], ["--invariant"], ["--beam", 3]]
FAST_WAYS = ([], ["--sample", "--seed", 4])
"""Starting workers takes seconds, so the other ways are compared with them among the slow tests."""


@pytest.mark.parametrize("options", WAYS)
def test_every_way_gives_as_many_lines_as_asked(calque: Run, runs: dict[str, Path], options: list[object]) -> None:
    found = lines(calque("translate", runs["one"], "--n-best", 2, "--scores", *options, stdin=STDIN))
    assert len(found) == 2 * len(LINES)
    assert all(math.isfinite(float(line.split("\t")[0])) or line == "-inf\t" for line in found)


@pytest.mark.medium
@pytest.mark.parametrize(
    "options", [pytest.param(way, marks=() if way in FAST_WAYS else pytest.mark.slow) for way in WAYS]
)
def test_every_way_gives_the_same_with_workers(calque: Run, runs: dict[str, Path], options: list[object]) -> None:
    found = lines(calque("translate", runs["one"], "--n-best", 2, "--scores", *options, stdin=STDIN))
    workers = ["--workers", 2, "--threads", 1]
    assert lines(calque("translate", runs["one"], "--n-best", 2, "--scores", *options, *workers, stdin=STDIN)) == found


def test_samples_differ_by_seed_and_by_line(calque: Run, runs: dict[str, Path]) -> None:
    def drawn(*options: object, stdin: bytes = b"a b c\n" * 8) -> list[str]:
        return lines(
            calque("translate", runs["one"], "--sample", "--set", "decode.temperature=5", *options, stdin=stdin)
        )

    assert drawn() == drawn() == drawn("--seed", 1)
    assert drawn() != drawn("--seed", 2)
    assert len(set(drawn())) > 3
    assert set(drawn("--set", "decode.top_k=1")) == set(
        lines(calque("translate", runs["one"], "--beam", 1, stdin=b"a b c\n"))
    )
    assert calque("translate", runs["one"], "--set", "decode.top_p=1.5").err.count("error[X108]") == 1


def test_a_seed_without_samples_is_refused(calque: Run, runs: dict[str, Path]) -> None:
    done = calque("translate", runs["one"], "--seed", 2, stdin=STDIN)
    assert (done.status, done.out) == (2, "")
    assert "--seed needs --sample" in done.err
    by_key = calque("translate", runs["one"], "--seed", 2, "--set", "decode.sample=true", stdin=STDIN)
    by_option = calque("translate", runs["one"], "--seed", 2, "--sample", stdin=STDIN)
    assert (by_key.status, by_key.out) == (0, by_option.out)


def test_prefixes_stand_beside_the_lines(calque: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "prefixes"
    path.write_text("C A\n\n" * 4)
    found = lines(calque("translate", runs["one"], "--prefix", path, stdin=STDIN))
    plain = lines(calque("translate", runs["one"], stdin=STDIN))
    assert found[1::2] == plain[1::2]
    assert all(line.startswith("C A") for line in found[::2])
    for count, ended in ((7, "prefixes ended after 7"), (9, "input ended after 8")):
        path.write_text("C\n" * count)
        done = calque("translate", runs["one"], "--prefix", path, stdin=STDIN)
        assert done.status == 1
        assert done.err.count("error[D605]") == 1
        assert ended in done.err


@pytest.fixture
def memory(tmp_path: Path) -> tuple[Path, Path]:
    """Lines and translations that the models would not write."""
    sources, targets = tmp_path / "memory.source", tmp_path / "memory.target"
    known = [line for line in LINES if line]
    sources.write_text("".join(f"{line}\n" for line in [*known, *(f"{line} g" for line in known)]))
    targets.write_text("".join(f"{'A B C D E F G'[: 2 * k + 1]}\n" for k in range(7)) * 2)
    return sources, targets


@pytest.mark.medium
def test_a_memory_changes_translations_in_every_way(
    calque: Run, runs: dict[str, Path], memory: tuple[Path, Path]
) -> None:
    ways = ([], ["--workers", 2], ["--beam", 1], ["--invariant"], ["--precision", "int8"], ["--sample"], [runs["two"]])
    for way in ways:
        plain = lines(calque("translate", runs["one"], *way, stdin=STDIN))
        found = lines(calque("translate", runs["one"], *way, "--memory", *memory, stdin=STDIN))
        assert len(found) == len(LINES)
        assert sum(a != b for a, b in zip(found, plain, strict=True)) > 3, way
        assert found[1] == ""
        if way in ([], ["--workers", 2]):
            loaded = package.load(runs["one"], memory=memory)
            assert loaded.translate(LINES) == found
            assert [loaded.translate(line) for line in LINES] == found


def test_a_bad_memory_is_one_error(calque: Run, runs: dict[str, Path], memory: tuple[Path, Path]) -> None:
    source, target = memory
    for text, code in ((b"A\n", "D102"), (b"\n" * 14, "D612"), (b"\xff\n" * 14, "D103"), (None, "D101")):
        target.write_bytes(text) if text is not None else target.unlink()
        done = calque("translate", runs["one"], "--memory", source, target, stdin=STDIN)
        assert (done.status, done.out) == (1, "")
        assert done.err.count(f"error[{code}]") == 1, done.err
    assert calque("translate", runs["one"], "--memory", source, stdin=STDIN).status == 2
    for wrong in ("mm", ("a",), 5, (source, 5), {"a": 1, "b": 2}):
        with pytest.raises(TypeError, match="expected two files"):
            package.load(runs["one"], memory=wrong)


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_text("a b\tI H I\tH H\nd\tG G\tF F\n")
    return path


def has_terms(line: str, translation: str) -> bool:
    forms = {"a b": ("I H I", "H H"), "d": ("G G", "F F")}
    return all(any(form in translation for form in forms[term]) for term in forms if f" {term} " in f" {line} ")


@pytest.mark.medium
def test_lines_with_a_term_have_it_in_their_translations(calque: Run, runs: dict[str, Path], terms: Path) -> None:
    plain = lines(calque("translate", runs["one"], stdin=STDIN))
    assert not all(map(has_terms, LINES, plain))
    ways = ([], ["--workers", 2], ["--beam", 1], ["--invariant"], ["--precision", "int8"])
    for way in ways:
        found = lines(calque("translate", runs["one"], "--terms", terms, *way, stdin=STDIN))
        assert len(found) == len(LINES)
        assert all(map(has_terms, LINES, found))
        if way == ["--workers", 2]:
            assert found == lines(calque("translate", runs["one"], "--terms", terms, stdin=STDIN))
    best = lines(calque("translate", runs["one"], "--terms", terms, "--n-best", 2, "--scores", stdin=STDIN))
    for k, line in enumerate(best):
        assert not line.split("\t")[1] or has_terms(LINES[k // 2], line.split("\t")[1])
    both = lines(calque("translate", runs["one"], runs["two"], "--terms", terms, stdin=STDIN))
    assert all(map(has_terms, LINES, both))
    at_once = calque("translate", runs["one"], "--terms", terms, "--sentences", stdin=STDIN)
    assert all(map(has_terms, LINES, lines(at_once)))


@pytest.mark.medium
def test_terms_that_cannot_be_used_are_one_error(calque: Run, runs: dict[str, Path], terms: Path) -> None:
    done = calque("translate", runs["one"], "--terms", terms, "--sample", stdin=STDIN)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("error[X807]") == 1
    terms.write_text("a\tA\nb B\n")
    done = calque("translate", runs["one"], "--terms", terms, "--workers", 2, stdin=STDIN)
    assert (done.status, done.out) == (1, "")
    assert f"{terms}:2" in done.err
    assert done.err.count("error[") == done.err.count("error[D608]") == 1


def test_phrases_are_required_from_python(runs: dict[str, Path], terms: Path) -> None:
    run = package.load(runs["one"])
    assert "I H" in run.translate("a b", required=["I H"])
    either = run.translate("a", required=[["C C", "D D"]])
    assert "C C" in either or "D D" in either
    first, second = run.translate(["a", "b"], required=[["I H"], []])
    assert "I H" in first
    assert second == run.translate("b")
    for one in run.candidates("a b", n_best=2, prefixes="C", required=["I H"]):
        assert one.text.startswith("C")
        assert "I H" in one.text
    found = package.load(runs["one"], terms=terms).translate(LINES)
    assert all(map(has_terms, LINES, found))
    with pytest.raises(ValueError, match="as many lists of phrases as sentences: 1 and 2"):
        run.translate(["a", "b"], required=[["I"]])
    for wrong in ("I", 3, [3], [None], [["I"], 5]):
        with pytest.raises(TypeError):
            run.translate("a", required=wrong)
    for empty in ([""], [[]], [["I", " "]]):
        with pytest.raises(ValueError, match="expected phrases with a word each"):
            run.translate("a", required=empty)
    with pytest.raises(CalqueError, match="D610"):
        run.translate("a", required=["never-seen"])


def test_several_runs_are_one_ensemble(calque: Run, runs: dict[str, Path]) -> None:
    both = [runs["one"], runs["two"]]
    found = {
        way: lines(calque("translate", *both, "--combine", way, "--scores", stdin=STDIN))
        for way in ("probs", "logits", "logprobs")
    }
    assert len({str(lines) for lines in found.values()}) == 3
    twice = lines(calque("translate", runs["one"], runs["one"], "--scores", stdin=STDIN))
    assert [line.split("\t")[1] for line in twice] == lines(calque("translate", runs["one"], stdin=STDIN))
    done = calque("translate", runs["one"], runs["strange"], stdin=STDIN)
    assert done.status == 2
    assert done.err.count("error[X415]") == 1
    assert "`I`" in done.err
    assert "`J`" in done.err
    run = package.load(both, combine="logits")
    pairs = [(line, t) for line, t in zip(LINES, run.translate(LINES), strict=True) if line]
    said = [found[0].score for line, found in zip(LINES, run.candidates(LINES), strict=True) if line]
    torch.testing.assert_close(run.score(pairs), said, rtol=1e-4, atol=1e-4)
    assert run.candidates(["a b"], prefixes=["C"])[0][0].text.startswith("C")


@pytest.mark.medium
def test_only_words_of_the_table_are_chosen(calque: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("a A 0.5\nb B 0.5\n")
    for way in ([], ["--set", "decode.selection='batch'"], ["--sample"], ["--workers", 2]):
        found = lines(
            calque("translate", runs["one"], "--select", table, "--set", "decode.select_frequent=0", *way, stdin=STDIN)
        )
        assert set("".join(found)) <= set("AB <unk>")
    every = calque("translate", runs["one"], "--select", table, "--scores", stdin=STDIN)
    assert lines(every) == lines(calque("translate", runs["one"], "--scores", stdin=STDIN))
    table.write_text("a A\n")
    done = calque("translate", runs["one"], "--select", table, stdin=STDIN)
    assert (done.status, done.err.count("error[D601]")) == (1, 1)


def test_other_settings_than_those_of_decode_are_an_error(calque: Run, runs: dict[str, Path]) -> None:
    done = calque("translate", runs["one"], "--set", "train.seed=3", stdin=STDIN)
    assert (done.status, done.err.count("error[X414]")) == (2, 1)
    assert calque("translate", runs["one"], "--set", "decode.bean=3", stdin=STDIN).err.count("error[X105]") == 1
    with pytest.raises(CalqueError, match="X108"):
        package.load(runs["one"], beam=0)
    with pytest.raises(ValueError, match="probs"):
        package.load(runs["one"], combine="sum")
    for missing, code in ((runs["one"].with_name("none"), "X118"), ("domhan2018/transformer", "X115")):
        with pytest.raises(CalqueError, match=code):
            package.load([runs["one"], missing])


def test_a_line_that_is_too_long_is_cut_with_a_warning(calque: Run, runs: dict[str, Path]) -> None:
    done = calque("translate", runs["one"], stdin=b"a\n" + b"a b c " * 1000 + b"\n")
    assert len(lines(done)) == 2
    assert done.err.count("warning[D606]") == 1
    assert "stdin:2" in done.err
    with pytest.warns(UserWarning, match="D606"):
        package.load(runs["one"], max_source_tokens=2).translate(["a b c"])


@pytest.mark.medium
@pytest.mark.parametrize("options", [[], ["--workers", 2]])
def test_a_run_that_is_not_whole_is_one_error(calque: Run, tmp_path: Path, options: list[object]) -> None:
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / "codecs").mkdir()
    done = calque("translate", tmp_path, *options, stdin=STDIN)
    assert done.status == 1
    assert done.err.count("error[K") == done.err.count("error[") == 1
    assert "Traceback" not in done.err


def test_the_weights_of_a_loaded_run_are_its_file(runs: dict[str, Path]) -> None:
    held = load_model(runs["one"])
    weights = Path("/proc/self/maps")
    if not weights.exists():
        pytest.skip("no list of what is mapped here")
    assert str(runs["one"] / "model.safetensors") in weights.read_text()
    lines = [line.split(" ", 1)[0].split("-") for line in weights.read_text().split("\n") if str(runs["one"]) in line]
    mapped = [range(int(first, 16), int(last, 16)) for first, last in lines]
    assert all(any(p.data_ptr() in one for one in mapped) for p in held.model.parameters())


@pytest.mark.medium
@pytest.mark.parametrize("options", [(), ("--workers", 2), ("--buffer-size", 1), ("--beam", 1)])
def test_lines_of_several_sentences(calque: Run, runs: dict[str, Path], options: tuple[object, ...]) -> None:
    text = ["a be. C d!  E f", "", "ab. Be. Cd."]
    found = lines(calque("translate", runs["one"], "--sentences", *options, stdin="\n".join(text).encode()))
    parts = lines(calque("translate", runs["one"], *options, stdin=b"a be.\nC d!\nE f\nab.\nBe.\nCd.\n"))
    assert found == [f"{parts[0]} {parts[1]}  {parts[2]}", "", " ".join(parts[3:])]


@pytest.mark.parametrize("options", [("--scores",), ("--n-best", 2), ("--prefix", "x")])
def test_what_sentences_cannot_have(calque: Run, runs: dict[str, Path], options: tuple[object, ...]) -> None:
    found = calque("translate", runs["one"], "--sentences", *options, stdin=b"a\n")
    assert (found.status, found.out) == (2, "")
    assert "--sentences" in found.err


def test_a_cut_sentence_is_told_with_its_line(calque: Run, runs: dict[str, Path]) -> None:
    words = " ".join("a" * 600)
    found = calque("translate", runs["one"], "--sentences", stdin=f"ab. Be. Cd.\nBe. {words}\n".encode())
    assert "stdin:2" in found.err.replace("<stdin>", "stdin")
