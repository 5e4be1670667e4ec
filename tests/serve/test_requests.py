"""Requests to a server as values: languages, texts with tags, limits; no model is needed."""

import asyncio
import io
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from calque.ground.diagnostics import CalqueError, Place, help_of
from calque.ground.languages import LanguagePair, languages, written_pair
from calque.serve.app import application
from calque.serve.asked import Refused, asked_of
from calque.serve.guard import SHARE, UNREAD, Guard, refusal
from calque.serve.limits import Keys, Rates
from calque.serve.logs import Log, ServerMessages
from calque.serve.metrics import Metrics
from calque.serve.pairs import folders_by_pair
from calque.serve.settings import ServeSettings, read_keys

PAIRS = {LanguagePair("en", "de"): 0, LanguagePair("de", "en"): 1, LanguagePair("pt-BR", "en"): 2}


def code(fault: CalqueError) -> str:
    return fault.diagnostics[0].code


def test_the_languages_of_a_run_are_those_of_its_name(tmp_path: Path) -> None:
    folders = [tmp_path / "runs" / "en-de", tmp_path / "multi30k_de-en", tmp_path / "fr-en" / "3"]
    assert list(map(str, folders_by_pair(folders, []))) == ["en-de", "de-en", "fr-en"]
    with pytest.raises(CalqueError):
        folders_by_pair([tmp_path / "my-run" / "qx-xq"], [])


def test_the_languages_of_a_run_are_those_of_its_corpus(tmp_path: Path) -> None:
    data = '[data]\ntrain = ["text/train.nds.gz", "text/train.de.gz"]\nvalid = ["a", "b"]\n'
    (tmp_path / "experiment.toml").write_text(data + '[model]\nfile = "a"\n[train]\nmax_updates = 1\n')
    assert list(folders_by_pair([tmp_path], [])) == [("nds", "de")]


@pytest.mark.parametrize(
    ("names", "named", "expected"),
    [
        (["first"], [], "K420"),
        (["a", "b"], ["en-de"], "K422"),
        (["a"], ["english"], "K423"),
        (["a"], ["en-en"], "K423"),
        (["en-de", "x_en-de"], [], "K425"),
    ],
)
def test_languages_that_cannot_be_known(tmp_path: Path, names: list[str], named: list[str], expected: str) -> None:
    with pytest.raises(CalqueError) as fault:
        folders_by_pair([tmp_path / name for name in names], named)
    assert code(fault.value) == expected


def test_codes_with_regions_and_scripts() -> None:
    assert written_pair("pt-BR:zh-Hans") == ("pt-BR", "zh-Hans")
    assert written_pair("en-de") == ("en", "de")
    named = {one["code"]: one["name"] for one in languages(PAIRS)}
    assert named["de"] == "German"
    assert "Portuguese" in str(named["pt-BR"])


def test_languages_name_their_targets() -> None:
    assert {one["code"]: one["targets"] for one in languages(PAIRS)} == {"en": ["de"], "de": ["en"], "pt-BR": ["en"]}


def asked(**values: object) -> object:
    return asked_of({"q": "a", "source": "en", "target": "de", **values}, PAIRS, ServeSettings(characters=20, texts=3))


def test_a_request_is_read() -> None:
    assert asked(q=["a", "b"], format="html", alternatives="2") == (["a", "b"], True, ("en", "de"), True, 2)
    assert asked(source="pt_br", target="EN") == (["a"], False, ("pt-BR", "en"), False, 0)
    assert asked(q="a\ud800b\0") == (["a\ufffdb\ufffd"], False, ("en", "de"), False, 0)


@pytest.mark.parametrize(
    "values",
    [
        {"q": None},
        {"q": []},
        {"q": 3},
        {"q": ["a", 3]},
        {"q": [["a"]]},
        {"q": {"a": "b"}},
        {"q": "a" * 21},
        {"q": ["a"] * 4},
        {"source": None},
        {"source": ["en"]},
        {"source": "auto"},
        {"target": "fr"},
        {"target": "en"},
        {"target": "../../etc"},
        {"format": "xml"},
        {"format": ["html"]},
        {"format": []},
        {"format": 0},
        {"alternatives": -1},
        {"alternatives": 11},
        {"alternatives": True},
        {"alternatives": 1.5},
        {"alternatives": float("nan")},
        {"alternatives": "١"},
        {"alternatives": "9" * 5000},
    ],
    ids=str,
)
def test_a_wrong_request_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(Refused) as fault:
        asked(**values)
    assert fault.value.status == 400
    assert "\ud800" not in fault.value.message


def test_rates_are_per_client_and_bounded() -> None:
    now = [0.0]
    rates = Rates(most=2, clock=lambda: now[0])
    assert [rates.wait("a", 2) for _ in range(3)] == [0, 0, 30]
    assert rates.wait("b", 2) == 0
    now[0] = 30
    assert [rates.wait("a", 2) > 0 for _ in range(2)] == [False, True]
    assert rates.wait("c", 0) == 0
    for name in "xyz":
        rates.wait(name, 2)
    assert len(rates._left) == 2


def test_keys_have_rates_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\nfirst\nsecond 600\n")
    keys = Keys(read_keys(file))
    assert "first" in keys
    assert "third" not in keys
    assert "\ud800" not in keys
    assert [keys.rate(key, 5) for key in ("first", "second")] == [5, 600]


def test_keys_behind_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbf# mine\nkey\n")
    assert read_keys(tmp_path / "keys") == {"key": None}
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbfkey 3\n")
    assert read_keys(tmp_path / "keys") == {"key": 3}


@pytest.mark.parametrize(
    "body",
    [b"", b"# none\n", b"one two\n", b"one 2 3\n", b"\xff\n", b"one 2\none\n", b"one 1000001\n", b"one " + b"9" * 5000],
)
def test_keys_that_cannot_be_read(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "keys").write_bytes(body)
    with pytest.raises(CalqueError) as fault:
        read_keys(tmp_path / "keys")
    assert code(fault.value) == "K424"


def test_a_key_has_one_rate(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("one 2\ntwo\none 2\n# more\none 3\n")
    with pytest.raises(CalqueError) as fault:
        read_keys(tmp_path / "keys")
    (diagnostic,) = fault.value.diagnostics
    assert (diagnostic.code, diagnostic.where) == ("K424", Place(str(tmp_path / "keys"), 5))
    assert help_of(diagnostic) == "leave out this line, or give the key in it the rate of line 1"


@pytest.mark.parametrize(("body", "helped"), [("one two\n", True), ("# none\n", True), (None, False)])
def test_only_lines_are_helped_by_their_form(tmp_path: Path, body: str | None, helped: bool) -> None:
    if body is not None:
        (tmp_path / "keys").write_text(body)
    with pytest.raises(CalqueError) as fault:
        read_keys(tmp_path / "keys")
    assert ("`KEY 600`" in str(fault.value)) == helped


async def slow_body() -> Message:
    return {"type": "http.request", "body": b"x", "more_body": True}


class Answered:
    """An application that reads the body of its request and waits until it may answer."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await read(receive):
            await self.may.wait()
            await refusal(200, "")(scope, receive, send)


async def read(receive: Receive) -> bool:
    """Whether a whole body has come."""
    while (message := await receive()).get("more_body"):
        await asyncio.sleep(0.001)
    return message["type"] == "http.request"


def guarded(app: Answered, most: int) -> Callable[[str, Receive], Coroutine[None, None, list[Message]]]:
    """Sends a request of an address and a body to a guard; what it answers."""
    guard = Guard(app, most, 100, Metrics(), lambda event, **fields: None, frozenset({"/translate"}))

    async def ask(address: str, receive: Receive) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/translate", "client": (address, 1), "headers": []}
        await guard(scope, receive, send)
        return sent

    return ask


def test_an_address_that_sends_slowly_holds_no_places_of_others() -> None:
    async def whole() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def run() -> None:
        app = Answered()
        ask, tasks = guarded(app, 8), set()
        for _ in range(UNREAD // SHARE):
            tasks.add(asyncio.create_task(ask("slow", slow_body)))
        await asyncio.sleep(0.01)
        start, *_ = await ask("slow", whole)
        assert start["status"] == 429
        assert (b"access-control-allow-origin", b"*") in start["headers"]
        for _ in range(8):
            tasks.add(asyncio.create_task(ask("quick", whole)))
            await asyncio.sleep(0.01)
        assert (await ask("quick", whole))[0]["status"] == 429  # as many as may be in progress
        app.may.set()
        await asyncio.sleep(0.01)
        assert (await ask("quick", whole))[0]["status"] == 200
        for task in tasks:
            task.cancel()

    asyncio.run(run())


def test_requests_that_come_together_have_places_beside_a_short_queue() -> None:
    async def run() -> None:
        app, gate = Answered(), asyncio.Event()
        ask = guarded(app, 4)

        async def late() -> Message:
            await gate.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        tasks = [asyncio.create_task(ask("one", late)) for _ in range(4)]
        await asyncio.sleep(0.01)
        gate.set(), app.may.set()
        assert [sent[0]["status"] for sent in await asyncio.gather(*tasks)] == [200] * 4

    asyncio.run(run())


def test_a_fault_of_the_server_is_one_json_answer_and_one_line_of_the_log() -> None:
    class Faulty:
        runs = SimpleNamespace(folders={LanguagePair("en", "de"): Path("en-de")})

        @property
        def alive(self) -> bool:
            raise OverflowError("what nobody must read")

    batcher: Any = Faulty()
    events: list[str] = []
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    _, app = application(batcher, ServeSettings(), Metrics(), lambda event, **fields: events.append(event))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/health",
        "client": ("one", 1),
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(app(scope, receive, send))
    assert [message.get("status") for message in sent] == [500, None]
    assert sent[1]["body"] == b'{"error":"internal error"}'
    assert events == ["fault", "request"]


def test_equal_messages_of_the_server_come_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    written, now = io.StringIO(), [100.0]
    monkeypatch.setattr("calque.serve.logs.time.monotonic", lambda: now[0])
    messages = ServerMessages(Log(written))
    for second in (100.0, 100.1, 100.9, 101.5):
        now[0] = second
        messages.handle(logging.makeLogRecord({"msg": "full", "levelno": logging.ERROR, "levelname": "ERROR"}))
    assert written.getvalue().count("full") == 2


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w", encoding="utf-8") as closed:
        pass
    Log(closed)("event")
