"""Large corpora: compressed text, several processes, continuation after a kill, what is left out, mixtures and streams."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calque.data import blocks, compiled, split_writer, sums, survey, unsuitable
from calque.data.compiled import open_corpus, prepare
from calque.data.corpus import PreparedCorpus
from calque.data.inputs import digest_of, files_of
from calque.data.lines import Lines, check_corpus
from calque.data.mixture import mixed
from calque.data.scripts import classes, dominant, name_of
from calque.data.stream import PairStream
from calque.data.survey import BLOCK, TextSurvey, look_at
from calque.experiment import DataSettings
from calque.experiment.training_text import TrainingText
from calque.ground.diagnostics import CalqueError
from calque.train.order import Layout, layout_of, updates

SETTINGS = DataSettings(
    train=("train.a", "train.b"), valid=("valid.a", "valid.b"), subwords="words", vocabulary_size=0, max_tokens=20
)


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def sentences(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(["one", "two", "three", "four"]) for _ in range(draw.randint(1, 9))) for _ in range(count)
    ]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name, seed, count in (("train", 1, 400), ("more", 3, 50), ("valid", 5, 9)):
        write(tmp_path / f"{name}.a", sentences(seed, count))
        write(tmp_path / f"{name}.b", sentences(seed + 1, count))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a corpus; of the index, what does not depend on how it was made."""
    held = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}
    about = json.loads(held.pop("corpus.json"))
    return {**held, "about": json.dumps([about["splits"], about["left_out"], about["files"]]).encode()}


def code_of(call) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(CalqueError) as raised:
        call()
    assert "{" not in str(raised.value)
    return raised.value.diagnostics[0].code


def zstandard(text: bytes) -> bytes:
    library = pytest.importorskip("zstandard")
    half = len(text) // 2
    return library.compress(text[:half]) + library.compress(text[half:])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard])
def test_compressed_text_is_read_and_its_damage_seen(base: Path, pack) -> None:  # type: ignore[no-untyped-def]
    want = contents(prepare(SETTINGS, base / "plain", base).folder)
    plain = (base / "train.a").read_bytes()
    packed = pack(plain)
    (base / "train.a").write_bytes(packed)
    assert b"".join(f"{line}\n".encode() for line in Lines(base / "train.a")) == plain
    assert contents(prepare(SETTINGS, base / "packed", base).folder) == want
    for damaged in (packed[: len(packed) // 2], packed[:-3], packed[:20] + b"\0\0\0" + packed[23:]):
        (base / "train.a").write_bytes(damaged)
        assert code_of(lambda: check_corpus(base / "train.a", base / "train.b")) == "D105"
        assert code_of(lambda: prepare(SETTINGS, base / "none", base)) == "D105"


def test_a_missing_library_is_one_error(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "train.a").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert code_of(lambda: list(Lines(base / "train.a"))) == "X301"


def test_the_digest_of_today_is_that_of_before(base: Path) -> None:
    """Computed from the formula that wrote the corpora of older versions."""
    import dataclasses
    import hashlib

    newer = {"leave_out", "learn_pairs", "stream", "stream_window", "byte_fallback", "symbols"}
    keys = {k: v for k, v in dataclasses.asdict(SETTINGS).items() if k not in newer | {"valid_more", "vocabulary"}}
    keys |= {"train": (), "valid": (), "test": (), "codes": "", "source_end": True}
    names = ("train.a", "train.b", "valid.a", "valid.b")
    read = [hashlib.sha256((base / name).read_bytes()).hexdigest() for name in names]
    before = hashlib.sha256(json.dumps([1, keys, ["train", "valid"], read], sort_keys=True).encode()).hexdigest()
    files = files_of(SETTINGS, base)
    assert digest_of(SETTINGS, files, read, None) == before
    assert digest_of(replace(SETTINGS, stream="-"), files, read, None) == before
    assert digest_of(replace(SETTINGS, leave_out=("copies",)), files, read, None) != before
    assert digest_of(replace(SETTINGS, byte_fallback=True), files, read, None) != before


@pytest.mark.medium
def test_several_processes_give_the_same_corpus(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, leave_out=("duplicates",), subwords="bpe", vocabulary_size=40)
    want = contents(prepare(settings, base / "one", base).folder)
    monkeypatch.setattr(compiled, "PARALLEL", 1)
    monkeypatch.setattr(compiled, "usable_cores", lambda: 2)
    monkeypatch.setattr(survey, "BLOCK", 60)
    monkeypatch.setattr(split_writer, "CHUNK", 70)
    assert contents(prepare(settings, base / "two", base).folder) == want
    assert not [path for path in base.iterdir() if path.name.startswith(".")]


KILLED = """
import os, sys
from pathlib import Path
from calque.data import blocks, compiled, split_writer, survey
from test_large import MIXED
compiled.PARALLEL, blocks.COMMIT, blocks.EVERY, split_writer.CHUNK = 1, 0.0, 0.0, 20
compiled.usable_cores = lambda: 1
survey_texts, left = compiled.survey_texts, [int(sys.argv[2])]
compiled.survey_texts = lambda *a: survey_texts(*a, 20)
add = blocks.Pace.add
def count(self, *arguments):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
    add(self, *arguments)
blocks.Pace.add = count
compiled.prepare(MIXED, Path(sys.argv[1]) / "out", Path(sys.argv[1]), lambda line: print(line, flush=True))
"""
MIXED = replace(
    SETTINGS,
    train=(TrainingText("train.a", "train.b", 1.0), TrainingText("more.a", "more.b", 2.0)),
    leave_out=("duplicates",),
)


def test_an_interrupted_call_is_continued(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after 13 more blocks each time, until it is through; what was not secured is done again."""
    want = contents(prepare(MIXED, base / "whole", base).folder)
    monkeypatch.setattr(compiled, "PARALLEL", 1)
    monkeypatch.setattr(compiled, "usable_cores", lambda: 1)
    monkeypatch.setattr(survey, "BLOCK", 30)
    monkeypatch.setattr(split_writer, "CHUNK", 20)
    add, left, secured = blocks.Pace.add, 0, 0

    def count(pace: blocks.Pace, *arguments: float) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        add(pace, *arguments)  # type: ignore[arg-type]

    def due(pace: blocks.Pace) -> bool:
        nonlocal secured
        secured += 1
        return secured % 3 == 0

    monkeypatch.setattr(blocks.Pace, "add", count)
    monkeypatch.setattr(blocks.Pace, "commit_due", due)
    said: list[str] = []
    for _ in range(20):
        left = 13
        try:
            made = prepare(MIXED, base / "out", base, said.append)
            break
        except KeyboardInterrupt:
            assert not (base / "out").exists()
    assert said.count("continuing what an earlier call began") >= 3
    assert said.count("learning words") == 0
    assert sum(line.startswith("learning words from") for line in said) == 1
    assert contents(made.folder) == want
    assert not [path for path in base.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_killed_call_is_continued(base: Path) -> None:
    """Killed after 18 more blocks each time, until it is through; the result is that of one call."""
    want = contents(prepare(MIXED, base / "whole", base).folder)
    paths = [str(Path(__file__).parent), str(Path(compiled.__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    said = []
    for _ in range(12):
        command = [sys.executable, "-c", KILLED, str(base), "18"]
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        said.append(done.stdout)
        if done.returncode != 9:
            break
    assert done.returncode == 0, done.stderr
    assert len(said) > 2
    assert "continuing what an earlier call began" in said[1]
    assert sum("learning words" in text for text in said) == 1
    assert contents(base / "out") == want
    assert not [path for path in base.iterdir() if path.name.startswith(".")]


def test_progress_names_speed_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10_000, 20))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    said: list[str] = []
    pace = blocks.Pace(said.append, "train")
    for k in range(1, 4):
        pace.add(1000, k / 10)
    assert len(said) == 2
    assert said[1].startswith("train: 3,000 pairs, 30%, ")
    assert said[1].endswith(" left")
    continued = blocks.Pace(said.append, "train", 5000)
    for k in range(6, 9):
        continued.add(1000, k / 10)
    assert said[-1].startswith("train: 8,000 pairs, 80%, ")


@pytest.mark.medium
def test_work_for_other_text_is_not_continued(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PARALLEL", 1)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiled, "write_split", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(SETTINGS, base / "out", base)
    assert (base / ".out.part").is_dir()
    write(base / "train.a", sentences(9, 400))
    said: list[str] = []
    made = prepare(SETTINGS, base / "out", base, said.append)
    assert "continuing" not in " ".join(said)
    assert contents(made.folder) == contents(prepare(SETTINGS, base / "new", base).folder)
    assert not (base / ".out.part").exists()


def unsuited(base: Path) -> tuple[list[str], list[str]]:
    source = [
        "the cat sleeps",
        "hello",
        "the cat sleeps",
        "это не по-английски",
        "a dog",
        "12",
        "the cat sleeps",
        "",
        "",
    ]
    target = ["die Katze", "hello", "die Katze", "ein Satz", "собака", "12", "eine Katze", "", ""]
    source, target = source + sentences(1, 30), target + [line.upper() for line in sentences(2, 30)]
    write(base / "train.a", source)
    write(base / "train.b", target)
    return source, target


def test_unsuitable_pairs_are_counted_and_left_out_where_asked(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = unsuited(base)
    seen = Counter(zip(source, target, strict=True))
    expected = {"duplicates": sum(seen.values()) - len(seen), "copies": 1, "script": 2}
    made = prepare(SETTINGS, base / "all", base)
    assert made.about["found"] == expected
    assert made.about["left_out"] == {"blank": 2, "long": 0, "ratio": 0}
    said: list[str] = []
    monkeypatch.setattr(unsuitable, "BUCKET", 5)
    monkeypatch.setattr(unsuitable, "PART", 8)
    settings = replace(SETTINGS, leave_out=("script", "duplicates", "copies"))
    less = prepare(settings, base / "less", base, said.append)
    assert less.about["found"] == expected
    assert less.about["left_out"] == {**expected, "blank": 1, "long": 0, "ratio": 0}
    assert f"{expected['duplicates']:,} exact duplicates" in " ".join(said)
    kept = [pair for pair in seen if pair not in {("hello", "hello"), ("", "")}]
    kept = [pair for pair in kept if "это" not in pair[0] and "собака" not in pair[1]]
    codecs = less.codecs
    pairs = less.split("train")
    decoded = [
        (codecs[0].decode(pairs.source(i).tolist()), codecs[1].decode(pairs.target(i).tolist()))
        for i in range(len(pairs))
    ]
    assert decoded == kept
    only = prepare(replace(SETTINGS, leave_out=("copies",)), base / "only", base)
    assert only.about["left_out"] == {"copies": 1, "blank": 2, "long": 0, "ratio": 0}


def test_scripts_by_line() -> None:
    text = "hello мир привет\n123 ,.\nこれは日本語\nabc\n"
    characters = np.array([ord(c) for c in text], np.uint32)
    number = np.repeat(np.arange(4), [len(line) + 1 for line in text.split("\n")[:-1]])
    assert [name_of(int(k)) for k in dominant(classes(characters), number, 4)] == [
        "Cyrillic",
        "no letters",
        "Cjk",
        "Latin",
    ]


def test_the_survey_finds_what_the_check_of_single_lines_finds(tmp_path: Path) -> None:
    draw = random.Random(1)
    odd = [b"a\r\n", b" \n", b"x" * 10_001 + b"\n", b"y" * 500 + b"\n", b"\0\n", b"\xff\n", "é".encode() + b"\n", b"\n"]
    for case in range(30):
        sides = [[draw.choice(odd if draw.random() < 0.2 else [b"good\n"]) for _ in range(20)] for _ in range(2)]
        if case % 3 == 0:
            sides[case % 2] = sides[case % 2][:-2]
        paths = tmp_path / "a", tmp_path / "b"
        for path, side in zip(paths, sides, strict=True):
            path.write_bytes(b"".join(side).removesuffix(b"\n"))
        found = TextSurvey()
        both = [list(io.BytesIO(path.read_bytes())) for path in paths]
        for block in blocks.blocks(iter(both[0]), iter(both[1]), 7):
            one = look_at(paths, block)
            found.findings.merge(one.kept, one.counts)
        found = TextSurvey.from_json(json.loads(json.dumps(found.to_json())))
        try:
            want = list(check_corpus(*paths).warnings)
        except CalqueError as fault:
            want = [d for d in fault.diagnostics if d.code != "D102"]
        listed = [d for d in found.findings.listed() if d.code != "D106"]
        assert [(d.code, d.where, d.fields) for d in listed] == [(d.code, d.where, d.fields) for d in want]
    assert BLOCK > 1


def test_a_sample_is_evenly_spread_and_said(base: Path) -> None:
    write(base / "train.a", [f"s{k}" for k in range(400)])
    write(base / "train.b", [f"t{k}" for k in range(400)])
    said: list[str] = []
    made = prepare(replace(SETTINGS, learn_pairs=8, joint=False), base / "out", base, said.append)
    assert "learning words from 8 of 400 training pairs, evenly spread" in said
    assert made.about["learned"] == 8
    assert sorted(made.codecs[0].tokens(range(4, 12))) == sorted(f"s{k}" for k in range(49, 400, 50))
    assert "learned" not in prepare(replace(SETTINGS, learn_pairs=400), base / "all", base).about


def test_checksums_of_large_files_are_remembered(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "LARGE", 1)
    prepare(SETTINGS, base / "out", base)
    read: list[str] = []
    plain = sums.checksum
    monkeypatch.setattr(sums, "checksum", lambda path: (read.append(path.name), plain(path))[1])
    prepare(SETTINGS, base / "out", base)
    open_corpus(base / "out", verify=True)
    assert read == []
    path = base / "out" / "train.source.ids"
    damaged = bytearray(path.read_bytes())
    damaged[3] ^= 1
    path.write_bytes(damaged)
    os.utime(path, ns=(0, 0))
    assert code_of(lambda: open_corpus(base / "out", verify=True)) == "D304"
    assert read == ["train.source.ids"]
    (base / "out" / sums.FILE).write_text("[1", encoding="utf-8")
    assert open_corpus(prepare(SETTINGS, base / "out", base).folder, verify=True)


def mixture(base: Path) -> PreparedCorpus:
    return prepare(MIXED, base / "mixture", base)


def test_texts_lie_one_after_the_other(base: Path) -> None:
    made = mixture(base)
    pairs, codec = made.split("train"), made.codecs[0]
    firsts: dict[tuple[str, str], None] = {}
    for name in ("train", "more"):
        for pair in zip(Lines(base / f"{name}.a"), Lines(base / f"{name}.b"), strict=True):
            firsts.setdefault(pair)
    assert [codec.decode(pairs.source(i).tolist()) for i in range(len(pairs))] == [source for source, _ in firsts]
    assert sum(pairs.parts) == len(pairs)
    assert [len(part) for part in np.split(np.arange(len(pairs)), np.cumsum(pairs.parts)[:-1])] == pairs.parts
    assert open_corpus(made.folder).split("train").parts == pairs.parts


def test_weights_are_shares_and_no_pair_comes_twice_before_all_have_come() -> None:
    parts, weights = [70, 30, 9], [2.0, 1.0, 0.1]
    epochs = [mixed(parts, weights, 1, epoch) for epoch in range(40)]
    for rows in epochs:
        assert sorted(rows[rows < 70]) == list(range(70))
    second = np.concatenate([rows[(rows >= 70) & (rows < 100)] for rows in epochs])
    third = np.concatenate([rows[rows >= 100] for rows in epochs])
    assert (len(second), len(third)) == (40 * 35, 40 * 70 // 20)
    for begin, count, rows in ((70, 30, second), (100, 9, third)):
        for at in range(0, len(rows) - count, count):
            assert sorted(rows[at : at + count]) == list(range(begin, begin + count))
    assert (second[:30] != second[30:60]).any()
    assert (mixed(parts, weights, 1, 7) == epochs[7]).all()
    assert (mixed(parts, weights, 2, 7) != epochs[7]).any()
    assert sorted(mixed([0, 5], [3.0, 1.0], 1, 0)) == list(range(5))


def test_updates_mix_the_texts_all_the_time(base: Path) -> None:
    pairs = mixture(base).split("train")
    layout = Layout(0, 20, 1, 1, 0, (1.0, 1.0))
    groups = updates(pairs, 3, layout)
    assert [rows.tolist() for [rows] in groups] == [rows.tolist() for [rows] in updates(pairs, 3, layout)]
    first = [np.concatenate(group) < pairs.parts[0] for group in groups]
    assert sum(map(len, first)) == 2 * pairs.parts[0]
    assert all(0.3 < np.concatenate(first[at : at + 8]).mean() < 0.7 for at in range(len(first) - 8))
    assert sum(0.1 < of.mean() < 0.9 for of in first) > 0.7 * len(first)
    assert [g[0].tolist() for g in updates(pairs, 3, layout._replace(weights=()))] != [g[0].tolist() for g in groups]


@pytest.mark.parametrize("later", [Layout(0, 7, 1, 1, 0, (1.0, 1.0)), Layout(0, 20, 1, 1, 0, (1.0, 3.0))])
def test_a_pair_is_used_as_often_as_its_weight_says_whatever_changes_within_the_epoch(
    base: Path, later: Layout
) -> None:
    pairs = mixture(base).split("train")
    before = Layout(0, 20, 2, 1, 0, (1.0, 1.0))
    done = np.concatenate([np.concatenate(group) for group in updates(pairs, 1, before)[:5]])
    rest = np.concatenate([np.concatenate(group) for group in updates(pairs, 1, later, [(before, 5)])])
    want = np.bincount(
        np.concatenate([np.concatenate(group) for group in updates(pairs, 1, later)]), minlength=len(pairs)
    )
    used = np.bincount(done, minlength=len(pairs))
    assert (np.bincount(rest, minlength=len(pairs)) == np.maximum(want - used, 0)).all()
    assert layout_of(json.loads(json.dumps(later))) == later
    assert layout_of([0, 20, 2, 1, 0]) == Layout(0, 20, 2, 1, 0)


def test_a_stream_is_read_in_windows_and_skipped_to_where_it_stopped(base: Path) -> None:
    made = prepare(SETTINGS, base / "out", base)
    lines = [f"{a}\t{b}" for a, b in zip(sentences(7, 25), sentences(8, 25), strict=True)]
    lines[3], lines[5], lines[6] = "no tab", "one\tone", "one\ttwo\t0-0"
    (base / "stream").write_bytes("\n".join(lines).encode().replace(b"no tab", b"no \xff tab") + b"\nbad\n")
    settings = replace(SETTINGS, stream=str(base / "stream"), stream_window=10, leave_out=("copies",))
    whole = PairStream(settings, made.codecs)
    windows = [whole.window(n) for n in range(4)]
    assert windows[3] is None
    assert [len(window) for window in windows[:3] if window is not None] == [8, 10, 5]
    assert (whole.lines, dict(whole.left_out)) == (
        26,
        {"not UTF-8": 1, "copies": 1, "no tab": 1, "blank": 0, "long": 0, "ratio": 0},
    )
    numbers = PairStream(replace(settings, stream=str(base / "numbers")), made.codecs)
    (base / "numbers").write_bytes(b"12\t12\na 1\ta 1\n")
    numbers.window(0)
    assert numbers.left_out["copies"] == 1  # as in a compiled corpus, numbers alone are no copies
    later = PairStream(settings, made.codecs).window(2)
    assert later is not None
    assert windows[2] is not None
    assert later.sources.ids.tolist() == windows[2].sources.ids.tolist()
    assert windows[0] is not None
    assert made.codecs[1].decode(windows[0].target(4).tolist()) == "two"
    (base / "stream").write_bytes(gzip.compress(b"one\ttwo\n" * 12))
    packed = PairStream(settings, made.codecs)
    assert [len(w) for n in (0, 1) if (w := packed.window(n)) is not None] == [10, 2]
    (base / "stream").write_bytes(b"")
    assert code_of(lambda: PairStream(settings, made.codecs).window(0)) == "D312"
    (base / "stream").write_bytes(b"one\t\n\ttwo\n")
    nothing = PairStream(settings, made.codecs)
    assert (len(nothing.window(0) or ()), nothing.window(1)) == (0, None)
    assert [(d.code, d.fields["reasons"]) for d in nothing.without_pairs().diagnostics] == [("D313", "2 blank")]
    (base / "stream").write_bytes(b"\xef\xbb\xbfone\ttwo\n" + b"one\ttwo\n" * 9 + b"no pairs\n" * 12)
    marked = PairStream(settings, made.codecs)
    first = marked.window(0)
    assert first is not None
    assert first.source(0).tolist() == first.source(1).tolist()  # without the byte order mark
    assert [len(marked.window(n) or ()) for n in (1, 2)] == [0, 0]  # left out, as in a window with a pair
    assert (marked.window(3), marked.left_out["no tab"]) == (None, 12)
    (base / "stream").write_bytes(b"no pairs\n" * 12)
    assert code_of(lambda: PairStream(settings, made.codecs).window(0)) == "D311"
    assert code_of(lambda: PairStream(replace(settings, stream=str(base / "gone")), made.codecs).window(0)) == "D101"
