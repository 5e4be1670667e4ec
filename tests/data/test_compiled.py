"""The prepared corpus: what it holds, when it is made anew, and that it is there whole or not at all."""

import fcntl
import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calque.data import compiled, split_writer
from calque.data.compiled import open_corpus, prepare
from calque.data.subwords import load_codecs
from calque.experiment import DataSettings
from calque.ground.diagnostics import CalqueError

WORDS = [f"w{i}" for i in range(40)]
SETTINGS = DataSettings(
    train=("train.a", "train.b"),
    valid=("valid.a", "valid.b"),
    subwords="words",
    vocabulary_size=0,
    max_tokens=20,
    max_ratio=4,
)


def sentence(seed: int, length: int) -> str:
    return " ".join(WORDS[(seed * 7 + i * i) % 40] for i in range(length))


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def base(tmp_path):
    source = [sentence(i, 3 + i % 9) for i in range(60)]
    target = [sentence(i + 1, 3 + i % 7) for i in range(60)]
    write(tmp_path / "train.a", source)
    write(tmp_path / "train.b", target)
    write(tmp_path / "valid.a", ["w1 w2", "", "w3 strange\u0085word w4 " * 30])
    write(tmp_path / "valid.b", ["w5", "w1 w1", "w9"])
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir()}


def code_of(call) -> str:
    with pytest.raises(CalqueError) as raised:
        call()
    assert "{" not in str(raised.value)
    return raised.value.diagnostics[0].code


def test_ids_are_the_encoded_text_and_validation_is_whole(base):
    made = prepare(SETTINGS, base / "out", base)
    source, target = made.codecs
    for split in ("train", "valid"):
        pairs = made.split(split)
        for side, codec, at, lengths in (
            ("a", source, pairs.source, pairs.source_lengths),
            ("b", target, pairs.target, pairs.target_lengths),
        ):
            lines = (base / f"{split}.{side}").read_text(encoding="utf-8").split("\n")[:-1]
            assert len(pairs) == len(lines)
            assert [at(i).tolist() for i in range(len(pairs))] == codec.encode(lines)
            assert lengths.tolist() == [
                len(line.split()) if split == "train" else len(codec.encode([line])[0]) for line in lines
            ]
    assert made.lines("valid")[0] == ["w1 w2", "", "w3 strange\u0085word w4 " * 30]
    lengths = [len(line.split()) for line in (base / "train.b").read_text(encoding="utf-8").split("\n")[:-1]]
    assert made.target_mean == pytest.approx(sum(lengths) / len(lengths))
    assert made.split("train").source(0).dtype == np.uint16


def test_left_out_of_training_and_counted(base):
    write(base / "train.a", ["w1 w2", "", "w1 " * 21, "w1", "w1 w2 w3 w4", " "])
    write(base / "train.b", ["w1 w2", "w1", "w1 w2", "w1 w2 w3 w4 w5", "w1", "w1 w2 w3 w4 w5 " * 9])
    said = []
    made = prepare(SETTINGS, base / "out", base, said.append)
    assert made.about["left_out"] == {"blank": 2, "long": 1, "ratio": 1}
    assert made.about["warnings"] == {"D112": 3, "D114": 1}
    assert [made.split("train").source_lengths.tolist(), made.split("train").target_lengths.tolist()] == [
        [2, 4],
        [2, 1],
    ]
    assert any("warning[D112]" in line and "train.a:2" in line for line in said)
    unbounded = prepare(replace(SETTINGS, max_tokens=0, max_ratio=0), base / "out", base)
    assert unbounded.about["left_out"] == {"blank": 2, "long": 0, "ratio": 0}


def test_a_pair_at_the_bounds_stays(base):
    write(base / "train.a", ["w1 " * 20, "w1"])
    write(base / "train.b", ["w1 " * 5, "w1 " * 4])
    assert len(prepare(SETTINGS, base / "out", base).split("train")) == 2


def test_chunks_do_not_show(base, monkeypatch):
    whole = prepare(SETTINGS, base / "whole", base)
    monkeypatch.setattr(split_writer, "CHUNK", 7)
    parts = prepare(SETTINGS, base / "parts", base)
    assert whole.about == parts.about


def test_large_vocabularies_take_four_bytes(base):
    many = [f"x{i}" for i in range(1 << 16)]
    write(base / "train.a", [" ".join(many[i : i + 16]) for i in range(0, len(many), 16)])
    write(base / "train.b", ["w1 w2 w3 w4"] * (len(many) // 16))
    pairs = prepare(replace(SETTINGS, joint=False), base / "out", base).split("train")
    assert (pairs.source(0).dtype, pairs.target(0).dtype) == (np.int32, np.uint16)
    assert len({i for n in range(len(pairs)) for i in pairs.source(n).tolist()}) == 1 << 16


def test_reused_until_text_or_settings_change(base):
    first = prepare(SETTINGS, base / "out", base)
    stamp = (base / "out").stat().st_ino
    said = []
    prepare(replace(SETTINGS, source_end=False), base / "out", base, said.append)  # no matter of ids
    assert ((base / "out").stat().st_ino, said[0]) == (stamp, "out: up to date")
    (base / "train.a").rename(base / "moved")
    prepare(replace(SETTINGS, train=("moved", "train.b")), base / "out", base)
    assert (base / "out").stat().st_ino == stamp
    write(base / "valid.b", ["w5", "w1 w1", "w8"])
    second = prepare(replace(SETTINGS, train=("moved", "train.b")), base / "out", base)
    assert second.digest != first.digest
    third = prepare(replace(SETTINGS, train=("moved", "train.b"), max_tokens=5), base / "out", base)
    assert third.digest != second.digest
    assert [f.name for f in base.iterdir() if f.name.startswith(".")] == []


def test_gzip_input_gives_the_same_ids(base):
    plain = prepare(SETTINGS, base / "plain", base)
    for side in "ab":
        (base / f"z.{side}").write_bytes(gzip.compress((base / f"train.{side}").read_bytes()))
    packed = prepare(replace(SETTINGS, train=("z.a", "z.b")), base / "packed", base)
    assert packed.about["files"] == plain.about["files"]


def test_self_contained_and_moved(base):
    (base / "codes").write_text("w 1\n", encoding="utf-8")
    made = prepare(replace(SETTINGS, subwords="codes", codes="codes"), base / "out", base)
    want = made.split("valid").source(0).tolist()
    (base / "out").rename(base / "elsewhere")
    for name in ("codes", "train.a", "train.b", "valid.a", "valid.b"):
        (base / name).unlink()
    again = open_corpus(base / "elsewhere", verify=True)
    assert again.split("valid").source(0).tolist() == want
    assert again.codecs[0].encode([again.lines("valid")[0][0]]) == [want]


def test_every_file_is_guarded_against_truncation_and_change(base):
    folder = base / "out"
    prepare(SETTINGS, folder, base)
    names = sorted(f.name for f in folder.iterdir())
    assert len(names) == 13
    for name in names:
        path = folder / name
        good = path.read_bytes()
        path.write_bytes(good[:-2])
        assert code_of(lambda: open_corpus(folder)) == ("D302" if name == "corpus.json" else "D303")
        for at in (0, len(good) // 2, len(good) - 2):
            bad = bytearray(good)
            bad[at] ^= 1
            path.write_bytes(bad)
            assert code_of(lambda: open_corpus(folder, verify=True)) == ("D302" if name == "corpus.json" else "D304")
        path.unlink()
        assert code_of(lambda: open_corpus(folder)) == ("D301" if name == "corpus.json" else "D303")
        if name.endswith(".ids"):  # found without reading checksums: such an id is in no vocabulary
            path.write_bytes(b"\xff" * len(good))
            assert code_of(lambda: open_corpus(folder)) == "D304"
        path.write_bytes(good)
    open_corpus(folder, verify=True)


@pytest.mark.parametrize("at", [0, 8, -8])
def test_impossible_offsets_are_seen_without_checksums(base, at):
    prepare(SETTINGS, base / "out", base)
    path = base / "out" / "train.source.offsets"
    offsets = np.fromfile(path, "<i8")
    offsets[at // 8] += 1000
    offsets.tofile(path)
    assert code_of(lambda: open_corpus(base / "out")) == "D305"


def test_damaged_corpus_is_made_anew(base):
    want = prepare(SETTINGS, base / "out", base).about
    (base / "out" / "train.target.ids").write_bytes(b"")
    assert prepare(SETTINGS, base / "out", base).about == want
    (base / "out" / "corpus.json").write_text("{}", encoding="utf-8")
    assert prepare(SETTINGS, base / "out", base).about == want


def test_an_index_of_another_format_is_refused(base):
    prepare(SETTINGS, base / "out", base)
    path = base / "out" / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}), encoding="utf-8")
    with pytest.raises(CalqueError, match="expected format 1, found 2"):
        open_corpus(base / "out")


@pytest.mark.parametrize("step", ["save_codecs", "write_split", "seal"])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failure_in_the_middle_leaves_the_old_corpus(base, monkeypatch, step, fault):
    prepare(SETTINGS, base / "out", base)
    before = snapshot(base / "out")
    real = getattr(compiled, step)

    def fail(*args):
        real(*args)
        raise fault

    monkeypatch.setattr(compiled, step, fail)
    with pytest.raises((CalqueError, KeyboardInterrupt)) as raised:
        prepare(replace(SETTINGS, max_tokens=6), base / "out", base)
    if isinstance(fault, OSError):
        assert raised.value.diagnostics[0].code == "D310"
    assert snapshot(base / "out") == before
    assert [f.name for f in base.iterdir() if f.name.startswith(".")] == []
    open_corpus(base / "out", verify=True)


def test_what_a_full_disk_does_not_take_is_deleted_all_the_same(base):
    """Files that are open hold what could not be written, and cannot be closed without a fault."""
    files = []

    def write() -> None:
        with compiled.part_folder(base / ".part", "digest", False, lambda line: None) as part:
            files.extend(part.append(name) for name in ("one", "two"))
            with open("/dev/full", "wb") as full:
                for file in files:
                    os.dup2(full.fileno(), file.fileno())
                    file.write(b"text")
            raise OSError(28, "the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        write()
    assert all(file.closed for file in files)
    assert not (base / ".part").exists()


@pytest.mark.parametrize("which", [1, 2])
def test_failing_renames_put_the_old_corpus_back(base, monkeypatch, which):
    prepare(SETTINGS, base / "out", base)
    before = snapshot(base / "out")
    real, calls = os.rename, []

    def rename(a, b):
        calls.append(a)
        if len(calls) == which:
            raise OSError(5, "Input/output error")
        real(a, b)

    monkeypatch.setattr(os, "rename", rename)
    assert code_of(lambda: prepare(replace(SETTINGS, max_tokens=6), base / "out", base)) == "D310"
    assert snapshot(base / "out") == before


KILLED = """
import os, sys
from dataclasses import replace
from pathlib import Path
from calque.ground import files
from calque.data import compiled, split_writer
from test_compiled import SETTINGS
base = Path(sys.argv[1])
if sys.argv[2] == "renames":
    real = os.rename
    files.os.rename = lambda a, b: (real(a, b), os._exit(9))
    tell = None
else:
    tell = lambda line: os._exit(9) if line.startswith(sys.argv[2]) else None
compiled.prepare(replace(SETTINGS, max_tokens=6), base / "out", base, tell)
"""


@pytest.mark.parametrize("moment", ["train:", "valid:", "renames"])
def test_killed_process_does_no_harm(base, moment):
    old = prepare(SETTINGS, base / "out", base).about
    paths = [str(Path(__file__).parent), str(Path(compiled.__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(base), moment],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    )
    assert done.returncode == 9
    if moment != "renames":
        assert open_corpus(base / "out", verify=True).about == old
    said = []
    assert prepare(SETTINGS, base / "out", base, said.append).about == old
    assert said[0] == "out: up to date"
    prepare(replace(SETTINGS, max_tokens=6), base / "out", base)
    assert [f.name for f in base.iterdir() if f.name.startswith(".")] == []


def test_first_attempt_killed_leaves_nothing(base, monkeypatch):
    monkeypatch.setattr(compiled, "seal", lambda about: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(SETTINGS, base / "out", base)
    assert sorted(f.name for f in base.iterdir()) == ["train.a", "train.b", "valid.a", "valid.b"]
    assert code_of(lambda: open_corpus(base / "out")) == "D301"


def test_a_folder_of_something_else_is_left_alone(base):
    (base / "out").mkdir()
    (base / "out" / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert code_of(lambda: prepare(SETTINGS, base / "out", base)) == "D307"
    assert snapshot(base / "out") == {"thesis.tex": b"years of work"}
    (base / "out" / "thesis.tex").unlink()
    prepare(SETTINGS, base / "out", base)  # an empty folder is free


def test_a_token_may_hold_a_carriage_return(tmp_path):
    for side in "ab":
        text = b"one two\rthree word\r\r\n" + b"word four\r\n" * 9
        (tmp_path / f"text.{side}").write_bytes(text)
    pair = "text.a", "text.b"
    made = prepare(replace(SETTINGS, train=pair, valid=pair, subwords="words"), tmp_path / "out", tmp_path)
    again = load_codecs(tmp_path / "out")
    assert [codec.size for codec in again] == [codec.size for codec in made.codecs]
    assert again[0].encode(["word word\r"]) == made.codecs[0].encode(["word word\r"])
    assert len(set(again[0].encode(["word word\r"])[0])) == 2


def test_settings_and_text_that_cannot_be_used(base):
    assert code_of(lambda: prepare(replace(SETTINGS, train=("train.a",)), base / "out", base)) == "D306"
    assert code_of(lambda: prepare(replace(SETTINGS, train=()), base / "out", base)) == "D306"
    assert code_of(lambda: prepare(replace(SETTINGS, max_tokens=1), base / "out", base)) == "D309"
    copied = replace(SETTINGS, train=("train.a", "train.a"), leave_out=("copies",))
    assert code_of(lambda: prepare(copied, base / "out", base)) == "D309"
    assert code_of(lambda: prepare(SETTINGS, base / "train.a" / "out", base)) == "D310"
    assert not (base / "out").exists()


def test_all_faults_of_all_files_at_once(base):
    (base / "valid.b").write_bytes(b"a\n\xff\nc\n")
    wrong = replace(SETTINGS, train=("none", "train.b"), subwords="codes", test=("valid.a", "train.b"))
    with pytest.raises(CalqueError) as raised:
        prepare(wrong, base / "out", base)
    errors = [d.code for d in raised.value.diagnostics if d.severity == "error"]
    assert errors == ["D203", "D101", "D103", "D102"]


def test_splits_by_name(base):
    made = prepare(SETTINGS, base / "out", base)
    assert list(made.pairs) == ["train", "valid"]
    assert code_of(lambda: made.split("test")) == "D308"
    assert code_of(lambda: made.lines("train")) == "D308"


def test_sides_without_any_token_can_be_mapped(base):
    write(base / "valid.a", ["", ""])
    write(base / "valid.b", ["w1", ""])
    pairs = prepare(SETTINGS, base / "out", base).split("valid")
    assert pairs.source_lengths.tolist() == [0, 0]
    assert pairs.source(1).tolist() == []


def test_waits_for_another_process_and_uses_its_corpus(base):
    handle = os.open(base, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    said = []

    def tell(line: str) -> None:
        said.append(line)
        if line.startswith("waiting"):  # the other one finishes now
            os.close(handle)

    prepare(SETTINGS, base / "out", base, tell)
    assert said[0].startswith("waiting")
    assert open_corpus(base / "out", verify=True).pairs.keys() == {"train", "valid"}
