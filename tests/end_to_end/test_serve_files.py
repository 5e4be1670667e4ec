"""`calque serve --files`: documents that are sent, translated in parts, and fetched."""

import contextlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Answer, Client, served
from test_serve import trained

import calque as package
from calque.serve.asked import Refused
from calque.serve.files import AT_ONCE, KEPT, TOGETHER, Files

LINES = ["a b c", "h g f e d c b a", "d", "e a e a e a", "b b b b"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("serve"), "en-de", 3)


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[Client]:
    with served([run], page=True, files=1, queue=8) as one:
        yield one


def send(client: Client, name: str, body: bytes, **fields: str) -> Answer:
    parts = [f'Content-Disposition: form-data; name="{k}"\r\n\r\n{v}'.encode() for k, v in fields.items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + body)
    whole = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"
    return client.send("POST", "/translate_file", whole, {"Content-Type": "multipart/form-data; boundary=x"})


def test_a_file_is_translated_and_fetched(client: Client, run: Path) -> None:
    """More sentences than may wait at once go through the queue in parts."""
    lines = [f"{line} {more}" for line in LINES for more in "abcdefgh"]
    body = "".join(f"<p>{line}</p>" for line in [*lines, *lines]).encode()
    answer = send(client, "päge.html", body, source="en", target="de")
    assert answer.status == 200, answer.body
    address = answer.json["translatedFileUrl"]
    assert address.startswith(client.address)
    found = client.get(address.removeprefix(client.address))
    best = package.load(run).translate(lines)
    assert found.body.decode() == "".join(f"<p>{one}</p>" for one in [*best, *best])
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A4ge.de.html"
    assert found.headers["content-type"] == "application/octet-stream"
    noted = [json.loads(line) for line in client.log.getvalue().splitlines() if "translate_file" in line]
    assert (noted[-1]["lines"], noted[-1]["files"], noted[-1]["status"]) == (len(lines), 1, 200)


def test_formats_stand_around_their_words(client: Client, run: Path) -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    bold = "<w:r><w:rPr><w:b/></w:rPr><w:t>d c b a</w:t></w:r>"
    text = f'<w:d xmlns:w="{space}"><w:p><w:r><w:t xml:space="preserve">h g f e </w:t></w:r>{bold}</w:p></w:d>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("word/document.xml", text)
    address = send(client, "a.docx", made.getvalue(), source="en", target="de").json["translatedFileUrl"]
    with zipfile.ZipFile(io.BytesIO(client.get(address.removeprefix(client.address)).body)) as packed:
        filled = packed.read("word/document.xml").decode()
    assert filled.count("<w:b/>") == 1
    plain = "".join(part.partition("</w:t>")[0] for part in filled.split('preserve">')[1:])
    assert plain == package.load(run).translate("h g f e d c b a")


def test_what_is_wrong_is_one_clean_answer(client: Client) -> None:
    both = {"source": "en", "target": "de"}
    for answer, status, words in [
        (send(client, "a.rtf", b"a", **both), 400, "not translated: `rtf`"),
        (send(client, "a.docx", b"a", **both), 400, "cannot be read"),
        (send(client, "a.html", b"a", source="en"), 400, "`target`"),
        (send(client, "a.html", b"a", source="de", target="en"), 400, "one of"),
        (send(client, "a.html", b"a b " * 400, **both), 400, "sentence that begins with"),
        (send(client, "a.html", b"a" * (10**6 + 1), **both), 413, "at most 1000000 bytes"),
        (send(client, "a.html", b"a" * (2 * 10**6), **both), 413, "at most"),
        (client.send("POST", "/translate_file", b"{}", {"Content-Type": "application/json"}), 415, "multipart"),
        (client.translate("a", file="x"), 200, ""),
        (client.get("/download_file/none.html"), 404, "not there"),
    ]:
        assert answer.status == status, answer.body
        assert words in answer.json.get("error", ""), answer.body
    assert 'route="/download_file/{number}",status="404"' in client.get("/metrics").body.decode()
    empty = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\na\r\n--x--\r\n'
    answer = client.send("POST", "/translate_file", empty, {"Content-Type": "multipart/form-data; boundary=x"})
    assert (answer.status, "`file`" in answer.json["error"]) == (400, True)


def test_pages_and_programs_know_whether_files_are_translated(client: Client, run: Path) -> None:
    settings = client.get("/frontend/settings").json
    assert settings["filesTranslation"] is True
    assert {".docx", ".srt", ".epub"} <= {*settings["supportedFilesFormat"]}
    assert "/translate_file" in client.get("/openapi.json").json["paths"]
    with served([run]) as other:
        assert other.get("/frontend/settings").json["supportedFilesFormat"] == []
        assert send(other, "a.html", b"a", source="en", target="de").status == 404


def test_files_leave_after_a_time_and_for_newer_ones() -> None:
    now = [0.0]
    files = Files(10, lambda: now[0])
    first = files.keep("../a/b c.DOCX", "de", b"x" * 10)
    assert first.endswith(".docx")
    found = files.fetch(first)
    assert found is not None
    assert (found.name, found.body) == ("b c.de.DOCX", b"x" * 10)
    others = [files.keep("a.html", "de", b"x" * 10) for _ in range(TOGETHER)]
    assert [files.fetch(one) is None for one in (first, *others)] == [True] + [False] * TOGETHER
    now[0] = KEPT + 1
    assert files.fetch(others[0]) is None
    large = files.keep("a.html", "de", b"x" * 1000)
    assert files.fetch(large) is not None


def test_places_are_few_and_free_again() -> None:
    files = Files(10)
    with contextlib.ExitStack() as held:
        for _ in range(AT_ONCE):
            held.enter_context(files.place())
        with pytest.raises(Refused, match="try again"), files.place():
            pass
    with files.place():
        pass
