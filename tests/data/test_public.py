"""Public corpora, fetched from addresses of files: what is built, what is kept, and what goes wrong."""

import errno
import gzip
import hashlib
import http.server
import io
import re
import shlex
import struct
import tarfile
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from click.testing import CliRunner

import calque.data.public as public
import calque.data.public_fetch as public_fetch
from calque.cli import root as cli
from calque.data.lines import Lines
from calque.data.public import NAMES, Input, Output, PublicCorpus, corpus, data_root
from calque.data.public_builders import BUILDERS
from calque.data.public_fetch import build
from calque.ground.diagnostics import CalqueError


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def published(folder: Path, files: dict[str, bytes]) -> dict[str, Input]:
    folder.mkdir(exist_ok=True)
    for name, body in files.items():
        (folder / name).write_bytes(body)
    return {name: Input((folder / name).as_uri(), sha(body)) for name, body in files.items()}


TEXT, OTHER = "ein Hund\nzwei Hunde\u2028\n".encode(), b"a dog\n"


@pytest.fixture
def small(tmp_path: Path) -> PublicCorpus:
    inputs = published(tmp_path / "published", {"raw.de.gz": gzip.compress(TEXT), "raw.en": OTHER})
    outputs = {
        "small/train.de.gz": Output("raw.de.gz", sha(TEXT)),
        "small/tok/dev.de": Output("raw.de.gz", sha(TEXT)),
        "small/train.en": Output("raw.en", sha(OTHER)),
    }
    return PublicCorpus("small", "A small corpus", "Licence: of nobody.", "copy", inputs, outputs)


def fault(what: PublicCorpus, root: Path, source: Path | None = None) -> CalqueError:
    with pytest.raises(CalqueError) as caught:
        build(what, root, source, lambda line: None)
    assert len(caught.value.diagnostics) == 1
    assert str(caught.value)
    return caught.value


def files_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) if folder.exists() else []


def test_a_corpus_is_fetched_checked_and_built(small: PublicCorpus, tmp_path: Path) -> None:
    told: list[str] = []
    root = tmp_path / "new" / "root"
    made = build(small, root, None, told.append)
    assert made == [root / name for name in small.outputs]
    assert gzip.decompress(made[0].read_bytes()) == TEXT
    assert made[1].read_bytes() == TEXT
    assert made[2].read_bytes() == OTHER
    assert "Licence: of nobody." in told[0]
    assert files_in(root) == sorted(small.outputs)  # nothing that was fetched is left
    # A second call needs neither network nor files, and leaves all as it is.
    (tmp_path / "published" / "raw.en").unlink()
    before = [path.stat().st_mtime_ns for path in made]
    build(small, root, None, told.append)
    assert told[-1] == "all 3 files are there"
    assert [path.stat().st_mtime_ns for path in made] == before


def test_what_was_cut_off_goes_on(small: PublicCorpus, tmp_path: Path) -> None:
    root, lost = tmp_path / "root", tmp_path / "published" / "raw.en"
    lost.unlink()
    assert fault(small, root).diagnostics[0].code == "D530"
    assert "small/train.de.gz" in files_in(root)
    assert ".small.fetched/raw.de.gz" in files_in(root)
    # The first input is not fetched again, nor is its file built again; a damaged file is.
    lost.write_bytes(OTHER)
    (tmp_path / "published" / "raw.de.gz").unlink()
    (root / "small" / "tok" / "dev.de").write_bytes(TEXT[:5])
    told: list[str] = []
    build(small, root, None, told.append)
    assert [line for line in told if line.startswith("fetching")] == [f"fetching {lost.as_uri()}"]
    assert (root / "small" / "tok" / "dev.de").read_bytes() == TEXT
    (root / "small" / "train.de.gz").write_bytes(gzip.compress(TEXT)[:-3])
    assert fault(small, root, tmp_path / "nowhere").diagnostics[0].code == "D532"


def test_a_folder_instead_of_the_network(small: PublicCorpus, tmp_path: Path) -> None:
    away = {name: replace(x, url="https://calque.invalid/x") for name, x in small.inputs.items()}
    source = tmp_path / "published"
    build(replace(small, inputs=away), tmp_path / "root", source, lambda line: None)
    assert files_in(tmp_path / "root") == sorted(small.outputs)
    assert files_in(source) == ["raw.de.gz", "raw.en"]
    (source / "raw.en").unlink()
    found = fault(small, tmp_path / "other", source)
    assert found.diagnostics[0].code == "D532"
    assert found.exit_code == 1


def test_a_wrong_sum_builds_nothing(small: PublicCorpus, tmp_path: Path) -> None:
    (tmp_path / "published" / "raw.de.gz").write_bytes(b"<html>please log in</html>")
    for source in (None, tmp_path / "published"):
        found = fault(small, tmp_path / "root", source)
        assert found.diagnostics[0].code == "D531"
        assert found.diagnostics[0].fields["size"] == 26
        assert files_in(tmp_path / "root") == []


def test_a_file_with_another_sum_is_not_written(small: PublicCorpus, tmp_path: Path) -> None:
    wrong = {**small.outputs, "small/train.en": Output("raw.en", "0" * 64)}
    found = fault(replace(small, outputs=wrong), tmp_path / "root")
    assert found.diagnostics[0].code == "D533"
    assert not (tmp_path / "root" / "small" / "train.en").exists()


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES])
def test_no_room_is_told(small: PublicCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int) -> None:
    def full(path: Path, body: bytes) -> None:
        raise OSError(reason, "No space left on device", str(path))

    monkeypatch.setattr(public_fetch, "write_whole", full)
    assert fault(small, tmp_path / "root").diagnostics[0].code == "K301"
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    assert fault(small, tmp_path / "file").diagnostics[0].code == "K301"


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"cut off")
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_network_at_fault(small: PublicCorpus, tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    for url, said in (
        (f"{server}/short", "incomplete"),
        (f"{server}/gone", "404"),
        ("http://127.0.0.1:1/x", "refused"),
    ):
        inputs = {**small.inputs, "raw.de.gz": replace(small.inputs["raw.de.gz"], url=url)}
        found = fault(replace(small, inputs=inputs), tmp_path / "root")
        assert found.diagnostics[0].code == "D530", url
        assert said in str(found).lower()
        assert files_in(tmp_path / "root") == []


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def message(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def record(**features: list[int]) -> bytes:
    """A TFRecord of one Example with lists of integers."""
    body = b""
    for name, values in features.items():
        packed = message(1, b"".join(map(varint, values)))
        body += message(1, message(1, name.encode()) + message(2, message(3, packed)))
    example = message(1, body)
    return struct.pack("<Q", len(example)) + b"crc1" + example + b"crc2"


def archive(name: str, body: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(body)
        tar.addfile(info, io.BytesIO(body))
    return made.getvalue()


def test_training_text_is_decoded_from_shards(tmp_path: Path) -> None:
    pieces = ["<pad>_", "<EOS>_", "the_", "do", "g_", " , _", "a\\u\\\\\\233;_", "!_", "Hund_", "...\u2028_"]
    vocabulary = "".join(f"'{piece}'\n" for piece in pieces).encode()
    xml = b'<doc><seg id="1"> a &amp; b </seg>\n<seg id="2">c\n</seg></doc>'
    files = {
        "vocabulary": vocabulary,
        "train-1": record(inputs=[8, 1], targets=[4, 1]),
        "train-0": record(inputs=[2, 3, 4, 5, 2, 7, 1], targets=[8, 1])
        + record(inputs=[6, 9, 1], targets=[2] * 200 + [1]),
        "dev.tgz": archive("tst.en", b"one\n"),
        "raw.xml": xml,
    }
    english = "the dog , the!\na_\\\u00e9...\u2028\nHund\n".encode()
    german = "Hund\n{}\ng\n".format(" ".join(["the"] * 200)).encode()
    outputs = {
        "x/train.en.gz": Output("train-*", sha(english), "inputs"),
        "x/train.vi.gz": Output("train-*", sha(german), "targets"),
        "x/tst.en": Output("dev.tgz", sha(b"one\n"), "tst.en"),
        "x/tst.raw.en": Output("raw.xml", sha(b"a &amp; b\nc\n")),
    }
    what = PublicCorpus("x", "", "", "envi", published(tmp_path / "published", files), outputs)
    made = build(what, tmp_path / "root", None, lambda line: None)
    assert gzip.decompress(made[0].read_bytes()) == english


def test_pairs_are_split_by_number(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as z:
        z.writestr("deu.txt", "Hi.\tHallo.\nGo!\tGeh!\nNine  o'clock\t9\u00a0Uhr\ncafe\u0301\tx\nRun\tLauf\n")
    sides = {"train": ("Hi.\ncafé\n", "Hallo.\nx\n"), "dev": ("Run\n", "Lauf\n"), "test": ("Nine o'clock\n", "9 Uhr\n")}
    outputs = {
        f"t/{name}.{language}": Output("z.zip", sha(text.encode()), f"{name}.{language}")
        for name, texts in sides.items()
        for language, text in zip(("en", "de"), texts, strict=True)
    }
    split = {"dev": [4], "test": [2], "left_out": [1]}
    inputs = published(tmp_path / "published", {"z.zip": made.getvalue()})
    assert (
        len(build(PublicCorpus("t", "", "", "tatoeba", inputs, outputs, split), tmp_path, None, lambda line: None)) == 6
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_corpora_are_described_whole(name: str) -> None:
    what = corpus(name)
    assert what.name == name
    assert what.licence.startswith("Licence:")
    assert what.build in BUILDERS
    for entry in (*what.inputs.values(), *what.outputs.values()):
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
    for one in what.inputs.values():  # of one commit each: what is published there cannot change
        assert re.fullmatch(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/\S+", one.url)
    used = {n for out in what.outputs.values() for n in what.inputs if re.fullmatch(out.source.replace("*", ".*"), n)}
    assert set(what.inputs) - used <= {"vocabulary"}
    for out in what.outputs.values():
        assert any(re.fullmatch(out.source.replace("*", ".*"), n) for n in what.inputs), out


def test_the_split_of_tatoeba_is_disjoint() -> None:
    split = corpus("tatoeba").split
    numbers = [n for part in split.values() for n in part]
    assert len(numbers) == len(set(numbers))
    assert (len(split["dev"]), len(split["test"])) == (2000, 2000)


def test_a_missing_file_of_a_corpus_names_the_command_that_brings_it(
    small: PublicCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the help proposes works: the command is run as it stands, and the file is there."""
    monkeypatch.setattr(public, "NAMES", ("small",))
    monkeypatch.setattr(public, "corpus", lambda name: small)
    monkeypatch.chdir(tmp_path)
    for root in ("my corpora", str(tmp_path / "elsewhere"), "."):
        missing = Path(root, "small", "tok", "dev.de")
        with pytest.raises(CalqueError) as caught:
            list(Lines(missing))
        found = re.search("`(calque data .*)` fetches it", str(caught.value))
        assert found is not None, str(caught.value)
        _, command, name, *options = shlex.split(found[1])
        assert name == "small"
        done = CliRunner().invoke(cli, [command, "multi30k", *options])  # the choice of names was made at import
        assert done.exit_code == 0, done.output
        assert list(Lines(missing)) == TEXT.decode().split("\n")[:-1]
    for other in (tmp_path / "small" / "dev.de", tmp_path / "dev.de", tmp_path / "tok" / "dev.de"):
        with pytest.raises(CalqueError) as caught:
            list(Lines(other))
        assert "help" not in str(caught.value)
    with pytest.raises(CalqueError) as caught:  # which is there
        list(Lines(tmp_path / "small" / "tok"))
    assert "help" not in str(caught.value)


@pytest.mark.parametrize("name", ["multi30k", "multi30k-tiny"])
def test_the_example_names_files_of_its_corpus_and_how_to_get_them(name: str) -> None:
    file = Path(__file__).parents[2] / "examples" / f"{name}.toml"
    data = tomllib.loads(file.read_text(encoding="utf-8"))["data"]
    named = [*data["train"], *data["valid"], *data["test"], data["codes"]]
    assert set(named) <= set(corpus("multi30k").outputs)
    assert "calque data multi30k --root examples" in file.read_text(encoding="utf-8")


def test_the_names_are_the_files() -> None:
    there = {f.name.removesuffix(".toml") for f in resources.files("calque.data").joinpath("corpora").iterdir()}
    assert there == set(NAMES)


def test_the_root_is_given_or_in_the_environment_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_DATA", "/somewhere")
    assert data_root(Path("x")) == Path("x")
    assert data_root() == Path("/somewhere")
    monkeypatch.setenv("CALQUE_DATA", "")
    assert data_root() == Path("data")


def test_the_command(small: PublicCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "corpus", lambda name: small)
    done = CliRunner().invoke(cli, ["data", "multi30k", "--root", str(tmp_path / "root")])
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'root'}\n")
    assert "Licence: of nobody." in done.stderr
    assert files_in(tmp_path / "root") == sorted(small.outputs)
    monkeypatch.undo()
    done = CliRunner().invoke(cli, ["data", "meteor", "--from", str(tmp_path), "--root", str(tmp_path / "root")])
    assert isinstance(done.exception, CalqueError)
    assert done.exception.diagnostics[0].code == "D532"
    assert CliRunner().invoke(cli, ["data", "wmt"]).exit_code == 2
