"""A server under ten times the load that it can carry, and under requests that mean it harm."""

import asyncio
import itertools
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

import pytest
from serving import served
from tiny import experiment

from calque.decode.sentences import sentences_of
from calque.decode.translate import translate_batch
from calque.serve.runs import open_run

BEAM, SECONDS, TIMES = 48, 20.0, 10
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from calque.cli import root

    folder = tmp_path_factory.mktemp("load")
    file = experiment(folder, max_updates=60, validate_every_updates=60, average_count=1)
    root.main(["train", str(file), "--out", str(folder / "en-de")], standalone_mode=False)
    return folder / "en-de"


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    program = [sys.executable, "-m", "calque", "serve", str(run), "--port", "0", "--queue", "100", "--threads", "1"]
    with subprocess.Popen(
        [*program, "--beam", str(BEAM)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()
        assert server.wait(60) == 0


class Load:
    """Connections that send lines at a rate, and what came back."""

    def __init__(self, address: str, best: dict[str, str]):
        where = urlsplit(address)
        self.host, self.port, self.best = where.hostname or "", where.port or 0, best
        self.statuses: Counter[int] = Counter()
        self.wrong: list[object] = []
        self.sent = 0
        self.refused_after: list[float] = []

    async def send(self, connections: int, rate: float, seconds: float) -> None:
        """`rate` requests per second in all, or fewer where answers take longer; 0: as many as there are answers."""
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._send(k, connections / rate if rate else 0.0, end) for k in range(connections)))

    async def _send(self, seed: int, every: float, end: float) -> None:
        draw, lines = random.Random(seed), list(self.best)
        reader, writer = await asyncio.open_connection(self.host, self.port)
        due = time.monotonic() + draw.random() * every
        while (now := time.monotonic()) < end:
            await asyncio.sleep(max(0.0, due - now))
            due = max(due + every, time.monotonic() - every)
            q = draw.choices(lines, k=draw.randint(1, 4))
            began = time.monotonic()
            self.sent += 1
            status, body = await post(reader, writer, json.dumps({"q": q, "source": "en", "target": "de"}).encode())
            self.statuses[status] += 1
            if status == 429:
                self.refused_after.append(time.monotonic() - began)
            elif status != 200 or json.loads(body)["translatedText"] != [self.best[line] for line in q]:
                self.wrong.append((status, body, q))
        writer.close()


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> tuple[int, bytes]:
    head = (
        f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
    return int(answer.split()[1]), await reader.readexactly(length)


async def rss(load: Load) -> float:
    """Megabytes that the server holds."""
    reader, writer = await asyncio.open_connection(load.host, load.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    page = (await reader.read()).decode()
    writer.close()
    return float(page.partition("\nprocess_resident_memory_bytes ")[2].split()[0]) / 2**20


def test_ten_times_the_load_gives_no_wrong_answer_and_flat_memory(address: str, run: Path) -> None:
    from calque.experiment import setting_entry

    draw = random.Random(5)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 30))) for _ in range(80)]
    loaded = open_run(run, [setting_entry("decode", "beam", BEAM)])
    best = {line: translate_batch(loaded, sentences_of(loaded, [line]), 1, 8)[0][0].text for line in lines}

    async def measure() -> tuple[Load, Load, list[float]]:
        first, calm, storm = (Load(address, best) for _ in range(3))
        await first.send(16, 0, 2)
        await calm.send(32, 0, 5)
        memory = [await rss(calm)]
        for _ in range(4):
            await storm.send(256, TIMES * calm.statuses[200] / 5, SECONDS / 4)
            memory.append(await rss(calm))
        return calm, storm, memory

    calm, storm, memory = asyncio.run(measure())
    print(calm.statuses, storm.statuses, [round(one) for one in memory], max(storm.refused_after, default=0))
    assert not calm.wrong
    assert not storm.wrong
    assert set(storm.statuses) == {200, 429}
    assert storm.sent == sum(storm.statuses.values())
    assert storm.sent > TIMES / 2 * storm.statuses[200]
    assert memory[-1] < memory[1] + 16


def hostile(draw: random.Random) -> tuple[bytes, bytes, dict[str, str]]:
    """A method, a target without spaces and a body of which each may be wrong in any way, with headers."""
    values = hostile_values(draw)
    kind = draw.choice(
        ["application/json"] * 12
        + ["application/x-www-form-urlencoded"] * 6
        + [
            "multipart/form-data; boundary=x",
            "multipart/form-data",
            "text/html",
            "",
            "a/b/c;;;=",
            "application/json; charset=utf-16",
        ]
    )
    body = json.dumps(values).encode()
    if "form" in kind:
        body = "&".join(
            f"{quote_plus(str(k))}={quote_plus(str(v), errors='replace')}" for k, v in values.items()
        ).encode()
    if "multipart" in kind:
        body = b"".join(
            b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
            % (k.encode(), str(v).encode(errors="replace"))
            for k, v in values.items()
        ) + draw.choice([b"--x--\r\n", b"--x", b"", b"--x\r\nContent-Disposition: form-data; filename=a\r\n\r\n"])
    body = draw.choice([lambda b: b] * 20 + MANGLES)(body)
    headers = {"Content-Type": kind, **draw.choice(HEADERS)}
    target = draw.choice(["/translate"] * 30 + TARGETS)
    return (
        draw.choice([b"POST"] * 20 + [b"GET", b"PUT", b"HEAD", b"BREW"]),
        target.encode(),
        headers | {"": body.decode("latin-1")},
    )


MANGLES = [
    lambda b: b[: len(b) // 2],
    lambda b: b * 3,
    lambda b: b"\xff\xfe" + b,
    lambda b: b.decode().encode("utf-16"),
    lambda b: b.replace(b'"', b"'"),
    lambda b: b"\x00" * 100,
    lambda b: b"[" * 40_000,
    lambda b: b'{"q":' * 9_000,
    lambda b: b"{" + b'"a":1,' * 9_000 + b'"q":"x"}',
    lambda b: b" " * 200_000,
    lambda b: b"",
    lambda b: b"&" * 40_000,
    lambda b: b"%" * 40_000,
    lambda b: b'{"q": 1e999, "source": NaN, "target": -Infinity}',
]
HEADERS: list[dict[str, str]] = [
    *({} for _ in range(12)),
    {"Content-Encoding": "gzip"},
    {"Transfer-Encoding": "chunked"},
    {"Expect": "100-continue"},
    {"X-Forwarded-For": "' OR 1=1"},
    {"Cookie": "a" * 4000},
    {"Accept-Language": "\x80\xff"},
    {"Origin": "null"},
    {"Range": "bytes=0-"},
    {"Upgrade": "websocket", "Connection": "Upgrade"},
    {"X-Long": "a" * 70_000},
    {"Bad Name": "a"},
    {"Content-Length": "-1"},
]
TARGETS = [
    *(
        "/",
        "/languages",
        "/detect",
        "/health",
        "/metrics",
        "/frontend/settings",
        "/docs",
        "/openapi.json",
        "/page/page.css",
    ),
    *(
        "/translate?q=%ff&source=%00",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/" + "a" * 9000,
        "//x",
        "/translate/",
        "*",
        "http://[::1",
        "/\x01",
    ),
]
NESTED: object = "x"
for _ in range(400):
    NESTED = [NESTED]


def hostile_values(draw: random.Random) -> dict[str, object]:
    texts: list[object] = [
        *(
            "a b",
            "",
            " ",
            "\n" * 300,
            "a " * 700,
            "x" * 1999,
            "x" * 5000,
            "\0",
            "\ud800",
            "\u202e\ufeff a",
            "👩‍👩‍👧" * 50,
            "e" + "\u0301" * 900,
        ),
        *(
            "<b>a</b>",
            "<" * 900,
            "<!--" * 300,
            "<a '" * 300,
            "<script>a",
            "</p></p>",
            "&#x110000; &#0; &bogus;",
            "<p translate=no>a<p>b",
        ),
        *(None, 1, 1.5, True, {}, {"a": "b"}, [], ["a"] * 50, ["a"] * 500, [["a"]], [None], ["a", 1], NESTED, 10**400),
    ]
    codes: list[object] = ["en", "de", "EN", "auto", "", None, 1, [], {}, "en\0", "e" * 9999, "../de", "\ud800", "<b>"]
    values: dict[str, object] = {
        "q": draw.choice(texts if draw.random() < 0.5 else ["a b", "<b>a</b> b", ["a", "b c"]]),
        "source": "en",
        "target": "de",
    }
    if draw.random() < 0.3:
        values[draw.choice(["source", "target"])] = draw.choice(codes)
    if draw.random() < 0.4:
        values["format"] = draw.choice(["html", "html", "text", "xml", None, 1, ["html"], {}])
    if draw.random() < 0.3:
        values["alternatives"] = draw.choice([0, 1, 3, "2", -1, 11, 10**30, 1.5, "x", [], None, True])
    if draw.random() < 0.1:
        values["api_key"] = draw.choice(["", "x", None, [], {}, 1, "\ud800" * 10])
    if draw.random() < 0.1:
        del values[draw.choice(list(values))]
    return values


def test_five_thousand_hostile_requests_are_answered_without_a_fault(run: Path) -> None:
    draw = random.Random(7)
    statuses: Counter[int] = Counter()
    with served([run], page=True, characters=2000, queue=400) as client:
        for _ in range(5000):
            method, target, given = hostile(draw)
            body = given.pop("").encode("latin-1")
            head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % (method, target)
            head += b"".join(b"%s: %s\r\n" % (k.encode(), v.encode("latin-1")) for k, v in given.items())
            if "Content-Length" not in given and "Transfer-Encoding" not in given:
                head += b"Content-Length: %d\r\n" % len(body)
            endless = b"Transfer-Encoding" in head
            answer = exchanged(client.host, client.port, head + b"\r\n" + body, endless)
            assert answer or endless, (head, body)
            status = int(answer.split()[1]) if answer else 0
            statuses[status] += 1
            assert status < 500, (status, head, body, answer)
            assert b"Traceback" not in answer
            assert str(run.parent).encode() not in answer
            if status >= 400 and method != b"HEAD":
                assert list(json.loads(answer.partition(b"\r\n\r\n")[2])) == ["error"], answer
        events = [json.loads(line) for line in client.log.getvalue().splitlines()]
        assert client.translate("a b").status == 200
    print(statuses)
    assert not [one for one in events if one["level"] == "error"]
    assert statuses[200] > 300
    assert statuses[400] > 1000


def exchanged(host: str, port: int, request: bytes, endless: bool) -> bytes:
    """What comes back; nothing where the request is `endless` and the client leaves."""
    with socket.create_connection((host, port), 30) as sock:
        try:
            sock.sendall(request)
            if endless:
                sock.shutdown(socket.SHUT_WR)
        except OSError:  # answered and closed before all was sent
            pass
        parts = []
        try:
            for _ in itertools.count():
                if not (part := sock.recv(65_536)):
                    break
                parts.append(part)
        except ConnectionResetError:
            pass
        answer = b"".join(parts)
        return answer.partition(b"\r\n\r\n")[2] if answer.startswith(b"HTTP/1.1 100 ") else answer
