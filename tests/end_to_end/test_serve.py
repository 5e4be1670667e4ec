"""`calque serve`: a server in this process, and clients that speak HTTP to it."""

import contextlib
import json
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from command import Run
from libretranslatepy import LibreTranslateAPI
from serving import Client, served
from tiny import experiment
from torch import Tensor

from calque.decode.sentences import sentences_of
from calque.decode.translate import translate_batch, translate_lines
from calque.native.kernels import kernels, without_kernels
from calque.serve import runs
from calque.serve.apart import FIXED, ServedRun, rows_keep_apart, sizes
from calque.serve.runs import open_run as opened

LINES = ["a b c", "h g f e d c b a", "d", "e a e a e a", "b b b b", "c d e f g h a b c d e f g h a b c d"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("serve"), "en-de", 3)


def trained(folder: Path, name: str, seed: int) -> Path:
    from calque.cli import root

    file = experiment(folder / name, name, seed=seed, max_updates=30, validate_every_updates=30, average_count=1)
    root.main(["train", str(file), "--out", str(folder / "runs" / name)], standalone_mode=False)
    return folder / "runs" / name


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[Client]:
    with served([run], page=True, characters=2000, queue=200) as one:
        yield one


def alone(run: Path, lines: list[str], n_best: int = 1) -> list[list[str]]:
    """What each line gets in a batch of its own, as `--invariant` computes it, but with the rows of the server."""
    loaded = opened(run)
    each = [translate_batch(loaded, [sentence], n_best, 8)[0] for sentence in sentences_of(loaded, lines)]
    return [[one.text for one in some] for some in each]


@pytest.mark.medium
def test_texts_lists_and_forms(client: Client, run: Path) -> None:
    best = [some[0] for some in alone(run, LINES)]
    assert best == [some[0].text for some in translate_lines(opened(run), LINES, invariant=True)]
    assert client.translate(LINES[0]).json == {"translatedText": best[0]}
    assert client.translate(LINES).json == {"translatedText": best}
    assert client.translate([LINES[1]]).json == {"translatedText": [best[1]]}
    assert client.translate(f" {LINES[0]}\n\n{LINES[1]} ").json == {"translatedText": f" {best[0]}\n\n{best[1]} "}
    assert client.translate(LINES[1].upper()).json == {"translatedText": best[1].upper()}
    assert client.translate(["", " \n"]).json == {"translatedText": ["", " \n"]}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.send("POST", "/translate", b"q=a+b+c&source=en&target=de", form).json["translatedText"] == best[0]
    several = b"q=a+b+c&q=d&source=en&target=de"
    assert client.send("POST", "/translate", several, form).json["translatedText"] == [best[0], best[2]]
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'
        for k, v in {"q": "a b c", "source": "en", "target": "de"}.items()
    )
    sent = client.send(
        "POST", "/translate", f"{parts}--x--\r\n".encode(), {"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert sent.json["translatedText"] == best[0]


def test_alternatives_are_the_next_best(client: Client, run: Path) -> None:
    first, *others = alone(run, LINES[:1], 4)[0]
    kept = [text for k, text in enumerate(others) if text != first and text not in others[:k]]
    assert client.translate(LINES[0], alternatives=3).json == {"translatedText": first, "alternatives": kept}
    assert client.translate(LINES[:1], alternatives=3).json == {"translatedText": [first], "alternatives": [kept]}


def test_html_keeps_its_tags(client: Client, run: Path) -> None:
    best = [some[0] for some in alone(run, LINES[:2])]
    text = f"<p id='1'>{LINES[0]}</p><script>a</script><b>{LINES[1]}</b>"
    answer = client.translate(text, format="html").json["translatedText"]
    assert answer == f"<p id='1'>{best[0]}</p><script>a</script><b>{best[1]}</b>"


def test_html_keeps_tags_inside_a_sentence_around_its_words(client: Client, run: Path) -> None:
    first, *others = (text.split() for text in alone(run, LINES[1:2], 3)[0])
    answer = client.translate("<p>h g <b>f e</b> d c <i>b</i> a</p>", format="html", alternatives=2).json
    for words, text in zip([first, *others], [answer["translatedText"], *answer["alternatives"]], strict=True):
        assert re.sub("<[^>]*>", "", text).split() == words
        assert re.findall("<[^>]*>", text) in (
            ["<p>", "<b>", "</b>", "<i>", "</i>", "</p>"],
            ["<p>", "<i>", "</i>", "<b>", "</b>", "</p>"],
        )


def test_the_client_of_libretranslate(client: Client, run: Path) -> None:
    library = LibreTranslateAPI(client.address)
    assert library.languages() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    assert library.translate(LINES[0], "en", "de") == alone(run, LINES[:1])[0][0]


def test_the_other_addresses(client: Client) -> None:
    assert client.get("/health").json == {"status": "ok"}
    settings = client.get("/frontend/settings").json
    assert (settings["charLimit"], settings["keyRequired"]) == (2000, False)
    described = client.get("/openapi.json").json
    assert set(described["paths"]["/translate"]["post"]["requestBody"]["content"]) >= {"application/json"}
    figures = client.get("/metrics").body.decode()
    assert 'calque_run_in_memory{pair="en-de"} 1.0' in figures
    assert client.send("POST", "/detect", b"").status == 404


@pytest.mark.parametrize("path", ["/", "/docs", "/page/page.js", "/page/engine.js", "/page/page.css", "/page/docs.js"])
def test_pages_ask_no_other_host(client: Client, path: str) -> None:
    page = client.get(path)
    assert page.status == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert b"http://" not in page.body
    assert b"https://" not in page.body
    assert b"innerHTML" not in page.body


def test_every_refusal_is_one_clean_answer(client: Client) -> None:
    kind = {"Content-Type": "application/json"}
    sent = {
        400: [
            client.send("POST", "/translate", body, kind)
            for body in (b"", b"{", b"[]", b"\xff", b"[" * 80_000, b'{"q":' * 15_000, b'{"q":1' + b"0" * 9000 + b"}")
        ],
        404: [client.get("/nothing"), client.get("/../../etc/passwd"), client.get("/page/%2e%2e/page.css")],
        405: [client.get("/translate"), client.send("PUT", "/translate", b"x"), client.send("POST", "/health", b"")],
        # The second is more than a socket holds: the client reads when it has sent everything.
        413: [client.send("POST", "/translate", b" " * size, kind) for size in (300_000, 20_000_000)],
        415: [
            client.send("POST", "/translate", b"{}"),
            client.send("POST", "/translate", b"{}", {**kind, "Content-Encoding": "gzip"}),
        ],
    }
    for status, answers in sent.items():
        for answer in answers:
            assert answer.status == status, answer
            assert list(answer.json) == ["error"]
            assert b"/" not in answer.body.replace(b"application/", b"").replace(b"multipart/", b"")


def test_what_is_no_http_gets_json_too(client: Client) -> None:
    with socket.create_connection((client.host, client.port), 10) as sock:
        sock.sendall(b"\x16\x03\x01\x00 garbage\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'{"error":' in answer


def test_a_line_that_is_too_long_is_refused(client: Client) -> None:
    long = "b " * 600
    size = f'begins with "{long[:40]}" has 600 subwords, and at most 500 are translated'
    answer = client.translate(f"a\n\n{long}")
    assert (answer.status, answer.json) == (400, {"error": f"the line that {size}"})
    assert client.translate(["a", "", "c\nd", long, "a"]).json == {"error": f"in text 4, the line that {size}"}


@pytest.mark.medium
def test_a_connection_without_a_request_is_closed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.serve.server.PATIENCE", 0.3)
    with served([run]) as client:
        whole = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        for sent, begun in ((b"", b""), (b"", whole[:10]), (whole, whole[:10])):
            with socket.create_connection((client.host, client.port), 10) as sock:
                sock.sendall(sent)
                assert not sent or sock.recv(4096).startswith(b"HTTP/1.1 200")
                sock.sendall(begun)
                while sock.recv(4096):
                    pass  # until it ends
        monkeypatch.setattr("calque.serve.server._most_connections", lambda: 2)
        held = [socket.create_connection((client.host, client.port), 10) for _ in range(2)]
        with socket.create_connection((client.host, client.port), 10) as sock, contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b""
        for sock in held:
            sock.close()
        until(lambda: client.get("/health").status == 200)


@pytest.mark.medium
def test_a_client_that_takes_no_answer_is_left(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.serve.server.PATIENCE", 0.5)
    with served([run]) as client, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((client.host, client.port))
        sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        until(lambda: client.log.getvalue().count("/openapi.json") > 10)
        sock.settimeout(10)
        time.sleep(2)
        with contextlib.suppress(ConnectionError):
            while sock.recv(65_536):
                pass  # until it ends
        assert client.log.getvalue().count("/openapi.json") < 2000


def test_a_look_at_the_files_that_fails_ends_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.serve.runs.EVERY", 0.05)
    plain = runs.run_stamp

    def without_descriptors(folder: Path) -> runs.Stamp:
        raise OSError(24, "too many open files")

    with served([run]) as client:
        monkeypatch.setattr(runs, "run_stamp", without_descriptors)
        until(lambda: client.log.getvalue().count("look_failed") > 1)
        assert client.get("/health").status == 200
        monkeypatch.setattr(runs, "run_stamp", plain)
        (run / "model.safetensors").touch()
        until(lambda: "run_reloaded" in client.log.getvalue())


@pytest.mark.parametrize("function", ["translate_batch", "sentences_of"])
def test_a_layer_that_ends_the_process_fails_one_request(
    run: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def ending(*_: object, **__: object) -> None:
        raise SystemExit(0)

    with served([run]) as client:
        before = client.translate("a b c").json
        with monkeypatch.context() as faulty:
            faulty.setattr(f"calque.serve.batches.{function}", ending)
            assert client.translate("a b c").status == 500
        assert client.translate("a b c").json == before


def test_a_server_that_cannot_open_runs_is_not_well(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served([run]) as client:
        monkeypatch.setattr(runs.OpenRuns, "alive", False)
        answer = client.get("/health")
        assert (answer.status, answer.json) == (503, {"status": "failed"})


def test_head_is_answered_as_get_without_a_body(client: Client) -> None:
    for path in ("/health", "/languages", "/metrics", "/docs", "/"):
        asked, whole = client.send("HEAD", path), client.get(path)
        assert (asked.status, asked.body, asked.headers["content-type"]) == (200, b"", whole.headers["content-type"])
    assert client.send("HEAD", "/translate").status == 405


def test_the_log_holds_no_text(client: Client) -> None:
    client.translate("a h a h a h secret")
    client.send("POST", "/translate?q=secret", b"secret")
    lines = [json.loads(line) for line in client.log.getvalue().splitlines()]
    assert {"event", "time", "level"} <= set(lines[0])
    assert any(line.get("characters") == 18 for line in lines)
    assert "secret" not in client.log.getvalue()


def test_many_clients_get_what_each_line_gets_alone(client: Client, run: Path) -> None:
    best = dict(zip(LINES, (some[0] for some in alone(run, LINES)), strict=True))
    asked = [LINES[k * 7 % len(LINES)] for k in range(96)]
    with ThreadPoolExecutor(16) as crew:
        answers = list(crew.map(client.translate, asked))
    assert [a.json["translatedText"] for a in answers] == [best[line] for line in asked]
    figures = client.get("/metrics").body.decode()
    rows = float(next(x for x in figures.splitlines() if x.startswith("calque_batch_rows_sum")).split()[1])
    batches = float(next(x for x in figures.splitlines() if x.startswith("calque_batch_rows_count")).split()[1])
    assert rows > batches  # some were put together


def test_batches_of_any_size_need_rows_that_keep_apart(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = opened(run)
    assert (loaded.rows == 0) == (kernels() is not None)
    if kernels() is None:
        return
    lines = sentences_of(loaded, [*LINES, *LINES[::-1], *LINES])
    scored = replace(loaded, scores=True)
    whole = translate_batch(scored, lines[:16], 4, 16)
    assert [translate_batch(scored, lines[:rows], 4, rows) for rows in sizes(16)] == [
        whole[:rows] for rows in sizes(16)
    ]
    encode = loaded.model.encode

    def crowded(source: Tensor, mask: Tensor | None = None) -> object:
        """An encoder whose results depend a little on the number of sentences."""
        points = encode(source, mask)
        return {key: point._replace(value=point.value * (1 + 1e-6 * len(source))) for key, point in points.items()}

    monkeypatch.setattr(loaded.model, "encode", crowded)
    assert not rows_keep_apart(loaded, 16)
    monkeypatch.undo()
    assert rows_keep_apart(loaded, 16)
    with without_kernels():
        assert opened(run).rows == FIXED


def test_a_client_alone_waits_for_nobody(run: Path) -> None:
    with served([run], window=2.0) as client:
        client.translate("a b c")
        began = time.monotonic()
        client.translate("a b c")
        assert time.monotonic() - began < 1


class Gate:
    """Opens a run whose encoder waits: `held` is how many batches have begun."""

    def __init__(self) -> None:
        self.free, self.began = threading.Event(), threading.Event()

    def __call__(self, folder: Path) -> ServedRun:
        loaded = opened(folder)
        forward = loaded.model.encode

        def wait(*given: object, **named: object) -> object:
            self.began.set()
            assert self.free.wait(60)
            return forward(*given, **named)

        loaded.model.encode = wait  # type: ignore[method-assign]
        return loaded


def waiting(client: Client) -> int:
    line = next(x for x in client.get("/metrics").body.decode().splitlines() if x.startswith("calque_waiting_lines "))
    return int(float(line.split()[1]))


def until(true: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


def reached(client: Client) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((client.host, client.port), 10):
        return True
    return False


def test_overload_is_refused_at_once_and_a_client_that_leaves_frees_its_place(run: Path) -> None:
    gate = Gate()
    with served([run], gate, queue=4, batch=1) as client, ThreadPoolExecutor(8) as crew:
        first = crew.submit(client.translate, "a b c")
        assert gate.began.wait(20)
        others = [crew.submit(client.translate, "d") for _ in range(2)]
        until(lambda: waiting(client) == 2)
        body = json.dumps({"q": ["a", "b"], "source": "en", "target": "de"}).encode()
        leaver = socket.create_connection((client.host, client.port))
        leaver.sendall(
            b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        until(lambda: waiting(client) == 4)
        refused = client.translate("a")
        assert (refused.status, list(refused.json)) == (429, ["error"])
        assert int(refused.headers["retry-after"]) >= 1
        leaver.close()
        until(lambda: waiting(client) == 2)
        last = crew.submit(client.translate, ["a", "b"])
        until(lambda: waiting(client) == 4)
        client.end()  # what was begun is answered
        until(lambda: not reached(client))
        gate.free.set()
        answers = [one.result(30) for one in [first, *others, last]]
        assert [(one.status, one.headers["connection"]) for one in answers] == [(200, "close")] * 4


def test_keys_and_rates(run: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("ours 3\nother\n")
    with served([run], keys=tmp_path / "keys", rate=600) as client:
        assert [client.translate("a").status, client.translate("a", api_key="none").status] == [403, 403]
        assert [client.translate("a", api_key="ours").status for _ in range(4)] == [200, 200, 200, 429]
        assert client.translate("a", api_key="other").status == 200
        assert client.translate("a", api_key=["other"]).status == 403
        assert client.get("/languages").status == 200
        assert "ours" not in client.log.getvalue()


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("another"), "de-en", 4)


@pytest.mark.medium
def test_a_replaced_run_is_reloaded_whole_or_not_at_all(
    run: Path, another: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calque.serve.runs.EVERY", 0.05)
    folder = tmp_path / "en-de"
    shutil.copytree(run, folder)
    old, new = ([some[0] for some in alone(path, LINES)] for path in (run, another))
    assert old != new
    with served([folder]) as client:
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(
            b"\0" * len(whole)
        )  # in place: the weights were mapped from this file
        until(lambda: "reload_failed" in client.log.getvalue())
        assert client.translate(LINES).json["translatedText"] == old
        shutil.copytree(another, folder, dirs_exist_ok=True)
        until(lambda: "run_reloaded" in client.log.getvalue())
        assert client.translate(LINES).json["translatedText"] == new


@pytest.mark.medium
def test_several_runs_and_the_least_used_leaves_memory(run: Path, another: Path, tmp_path: Path) -> None:
    shutil.copytree(another, tmp_path / "de-en")
    with served([run, tmp_path / "de-en"], in_memory=1) as client:
        best = alone(run, LINES[:1])[0][0], alone(another, LINES[:1])[0][0]
        for _ in range(2):
            assert client.translate(LINES[0]).json["translatedText"] == best[0]
            assert client.translate(LINES[0], source="de", target="en").json["translatedText"] == best[1]
            held = client.get("/metrics").body.decode()
            assert 'calque_run_in_memory{pair="en-de"} 0.0' in held
            assert 'calque_run_in_memory{pair="de-en"} 1.0' in held
        assert client.translate(LINES[0], source="de", target="de").status == 400
        client.translate(LINES[0])
        shutil.rmtree(tmp_path / "de-en")
        gone = client.translate(LINES[0], source="de", target="en")
        assert (gone.status, str(tmp_path) in gone.body.decode()) == (503, False)
        assert client.translate(LINES[0]).json["translatedText"] == best[0]


def test_faults_of_the_start_are_diagnostics(calque: Run, run: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        outcome = calque("serve", run, "--port", taken.getsockname()[1])
    assert (outcome.status, outcome.out) == (1, "")
    assert "K421" in outcome.err
    assert "`--port 0` takes a free one" in outcome.err
    for host in ("fe80::1%missing", "192.0.2.1", "a" * 300):
        outcome = calque("serve", run, "--host", host, "--port", 0)
        assert (outcome.status, outcome.out) == (1, "")
        assert "K421" in outcome.err
        assert "help: name an address of this machine: `--host 127.0.0.1`" in outcome.err
    assert "K425" in calque("serve", run, run, "--port", 0).err
    assert "K424" in calque("serve", run, "--keys", tmp_path / "none", "--port", 0).err
    (tmp_path / "de-en").mkdir()
    assert "X113" in calque("serve", tmp_path / "de-en", "--port", 0).err
    assert "X118" in calque("serve", tmp_path / "missing").err
    assert "Traceback" not in outcome.err


def test_a_missing_package_is_one_error(calque: Run, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "calque.serve.server")
    outcome = calque("serve", run)
    assert (outcome.status, "pip install 'calque[serve]'" in outcome.err) == (2, True)
    assert "X414" in calque("serve", run, "--set", "train.seed=1").err
