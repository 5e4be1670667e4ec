"""Latency and throughput of `calque serve`, and of CTranslate2 in a plain server, for the same model; prints JSON.

    python benchmarks/serve.py RUN SOURCE [--clients 1 8 32] [--seconds 10] [--rounds 3] [--threads 1] \\
        [--plain FOLDER] [--precision int8] [--overload 60] [--record ID]

Clients on this machine each send one line of SOURCE after the other, over a connection of their own. FOLDER is what
`calque export RUN --to ctranslate2 --out FOLDER` has written: its server gives every request to CTranslate2 in a thread of its own,
as small servers do, with the beam and the length normalisation of RUN. The servers take turns; the best round of each counts, since
other work on the machine only takes time. With `--overload` Calque's server gets ten times the load that it has just carried, for
so many seconds: what is counted are answers, those that are not what a line gets alone, and memory.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import calque
from calque.data.lines import Lines
from calque.ground.version import VERSION
from calque.ledger.entry import conditions, publish

LEDGER = Path(__file__).parent.parent / "docs" / "results"
LINES = 200
"""Lines whose translations are compared."""
TIMES, STORMING, MOST, QUEUE = 10, 256, 9, 200
"""Of the overload: times the load that the server can carry, connections, lines of a request at most, lines that may wait."""


def main() -> None:
    """Start the servers, load them in turn, print or record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3, help="the servers take turns; the best counts")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, nargs="+", default=[16])
    parser.add_argument("--precision", default="float32", help="of both servers: float32 or int8")
    parser.add_argument("--plain", type=Path, metavar="FOLDER", help="the same model for CTranslate2")
    parser.add_argument("--overload", type=float, default=0, metavar="SECONDS", help="of ten times the load")
    parser.add_argument("--record", metavar="ID", help="write an entry of the ledger")
    parser.add_argument("--note", default="", help="what the run is, for the ledger")
    parser.add_argument("--only-serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_serve is not None:
        serve_plainly(given.run, given.plain, given.threads, given.only_serve, given.precision)
        return
    lines = list(Lines(given.source))
    figures: dict[str, int | float] = {}
    with ExitStack() as running:
        began = {name: running.enter_context(started(program)) for name, program in servers(given).items()}
        addresses = {name: address for name, (address, _) in began.items()}
        texts = {name: asyncio.run(translations(address, lines[:LINES])) for name, address in addresses.items()}
        first = next(iter(texts.values()))
        for name, found in texts.items():
            alike = sum(a == b for a, b in zip(first, found, strict=True)) / len(found)
            figures[f"{name}: share of lines like the first server's"] = round(alike, 3)
        for clients in given.clients:
            turns = [
                (name, asyncio.run(measure(address, lines, clients, given.seconds, pid)))
                for _ in range(given.rounds)
                for name, (address, pid) in began.items()
            ]
            for name in addresses:
                best = max((one for who, one in turns if who == name), key=lambda one: one["lines per second"])
                named = f"{name}, {clients} client{'s' * (clients > 1)}"
                figures |= {f"{named}: {what}": value for what, value in best.items()}
        name, address = next(iter(addresses.items()))
        if given.overload:
            stormed = asyncio.run(storm(address, dict(zip(lines, texts[name], strict=False)), given.overload))
            figures |= {f"{name}, {TIMES} times the load: {what}": value for what, value in stormed.items()}
    where = {
        **conditions(given.precision),
        "threads": given.threads,
        "clients on the same cores": "yes",
        "rounds": given.rounds,
    }
    if given.record:
        command = f"python benchmarks/serve.py RUN {given.source.name} --precision {given.precision}"
        command += (
            f" --seconds {given.seconds:g} --rounds {given.rounds} --plain FOLDER"
            + f" --overload {given.overload:g}" * bool(given.overload)
        )
        title = f"A server of translations under load, {given.precision}"
        publish(LEDGER, given.record, title, "speed", command, figures, where, notes=given.note)
    print(json.dumps({"version": VERSION, "figures": figures, "conditions": where}, indent=1))


def servers(given: argparse.Namespace) -> dict[str, list[str]]:
    """The arguments of Python that start each server."""
    threads = ["--threads", str(given.threads), "--precision", given.precision]
    found = {
        f"calque, batches of {batch}": [
            *("-m", "calque", "serve", str(given.run), "--pair", "xx:yy", "--port", "0", "--batch", str(batch)),
            *("--queue", str(QUEUE), *threads),
        ]
        for batch in given.batch
    }
    if given.plain is not None:
        own = [__file__, str(given.run), str(given.source), "--plain", str(given.plain), "--only-serve", "0"]
        found["ctranslate2, plain server"] = [*own, *threads]
    return found


@contextmanager
def started(program: list[str]) -> Iterator[tuple[str, int]]:
    """A server: its address, which it prints first, and the number of its process."""
    with subprocess.Popen(
        [sys.executable, *program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip(), server.pid
        finally:
            server.terminate()


class Connection:
    """A connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def translate(self, line: str) -> str:
        """The translation of a line."""
        body = json.dumps({"q": line, "source": "xx", "target": "yy"}).encode()
        _, found = await self.send(b"POST /translate", body)
        return str(json.loads(found)["translatedText"])

    async def send(self, what: bytes, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body of an answer."""
        head = b"%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.writer.write(head % (what, len(body)) + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        return int(answer.split()[1]), await self.reader.readexactly(length)


async def connected(address: str) -> Connection:
    """A new connection."""
    where = urlsplit(address)
    return Connection(*await asyncio.open_connection(where.hostname, where.port))


async def translations(address: str, lines: list[str]) -> list[str]:
    """The translations of lines, one after the other."""
    connection = await connected(address)
    return [await connection.translate(line) for line in lines]


async def measure(address: str, lines: list[str], clients: int, seconds: float, pid: int = 0) -> dict[str, float]:
    """Lines per second and the time to an answer, with so many clients; the processor time of a line in the server's process."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def ask(first: int) -> None:
        connection = await connected(address)
        for k in count(first, clients):
            if time.monotonic() > end:
                return
            began = time.monotonic()
            await connection.translate(lines[k % len(lines)])
            times.append(time.monotonic() - began)

    began, used = time.monotonic(), processor_seconds(pid)
    await asyncio.gather(*map(ask, range(clients)))
    took, used = time.monotonic() - began, processor_seconds(pid) - used
    cuts = statistics.quantiles(times, n=100)
    milliseconds = {
        f"ms, {name}": round(1000 * cuts[k - 1], 1) for name, k in (("median", 50), ("95 %", 95), ("99 %", 99))
    }
    worked = {"ms of processor time per line": round(1000 * used / len(times), 1)} if used else {}
    return {"lines per second": round(len(times) / took, 1), **milliseconds, **worked}


def processor_seconds(pid: int) -> float:
    """What a process has used; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def storm(address: str, best: dict[str, str], seconds: float) -> dict[str, float]:
    """Answers and memory under ten times the load. `best`: lines and what each gets alone."""
    lines, statuses, wrong, refused = list(best), Counter[int](), 0, [0.0]
    watch = await connected(address)
    measured = await measure(address, lines, 32, 5)
    every, end = STORMING * (1 + MOST) / 2 / (TIMES * measured["lines per second"]), 0.0
    asked = 0

    async def ask(k: int) -> None:
        nonlocal wrong, asked
        connection, draw = await connected(address), random.Random(k)
        due = time.monotonic() + draw.random() * every
        while (now := time.monotonic()) < end:
            await asyncio.sleep(max(0.0, due - now))
            due = max(due + every, time.monotonic() - every)
            some, began = draw.choices(lines, k=draw.randint(1, MOST)), time.monotonic()
            asked += len(some)
            body = json.dumps({"q": some, "source": "xx", "target": "yy"}).encode()
            status, answer = await connection.send(b"POST /translate", body)
            statuses[status] += 1
            if status == 429:
                refused.append(time.monotonic() - began)
            elif status != 200 or json.loads(answer)["translatedText"] != [best[line] for line in some]:
                wrong += 1

    memory = []
    for _ in range(6):
        end = time.monotonic() + seconds / 6
        await asyncio.gather(*map(ask, range(STORMING)))
        memory.append(await resident(watch))
    return {
        "seconds": seconds,
        "lines asked for per second": round(asked / seconds, 1),
        "answers with a translation": statuses[200],
        "answers 429": statuses[429],
        "other answers": sum(statuses.values()) - statuses[200] - statuses[429],
        "wrong translations": wrong,
        "ms to a 429, 99 %": round(1000 * statistics.quantiles(refused, n=100)[98], 1) if len(refused) > 1 else 0,
        "MB resident after a sixth": round(memory[0]),
        "MB resident at the end": round(memory[-1]),
    }


async def resident(connection: Connection) -> float:
    """Megabytes that the server holds."""
    _, page = await connection.send(b"GET /metrics")
    return float(page.partition(b"\nprocess_resident_memory_bytes ")[2].split()[0]) / 2**20


def serve_plainly(run: Path, folder: Path, threads: int, port: int, precision: str) -> None:
    """CTranslate2 behind one route."""
    import ctranslate2
    import uvicorn
    from fastapi import FastAPI

    from calque.exchange.card import length_penalty
    from calque.serve.server import address_of, listening
    from calque.serve.settings import ServeSettings

    loaded = calque.load(run).loaded
    decode, size = loaded.decode, loaded.target.size
    numbers = {token: k for k, token in enumerate(loaded.target.tokens(range(size)))}
    model = ctranslate2.Translator(
        str(folder), device="cpu", inter_threads=1, intra_threads=threads, compute_type=precision
    )
    penalty = length_penalty(decode)
    options = {"beam_size": decode.beam, "length_penalty": 1.0 if penalty is None else penalty}
    app = FastAPI()

    @app.post("/translate")
    def translate(body: dict[str, str]) -> dict[str, str]:
        tokens = loaded.source.tokens(loaded.source.encode([body["q"]])[0])
        most = int(decode.max_length_factor * len(tokens)) + decode.max_length_offset + 1
        found = model.translate_batch(
            [tokens], min_decoding_length=0, max_decoding_length=most, return_end_token=True, **options
        )
        words = [word for word in found[0].hypotheses[0] if word != "</s>"]
        return {"translatedText": loaded.target.decode([numbers[word] for word in words])}

    with listening(ServeSettings(port=port)) as sock:
        print(address_of(sock, "127.0.0.1"), flush=True)
        uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="error")).run([sock])


if __name__ == "__main__":
    main()
