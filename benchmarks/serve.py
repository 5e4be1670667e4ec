"""Latency and throughput of `calque serve`, and of CTranslate2 in a plain server, for the same model; prints JSON.

    python benchmarks/serve.py RUN SOURCE [--clients 1 8 32] [--seconds 10] [--threads 1] [--plain FOLDER] [--precision int8]

Clients on this machine each send one line of SOURCE after the other, over a connection of their own. FOLDER is what
`calque export RUN --to ctranslate2 --out FOLDER` has written: its server gives every request to CTranslate2 in a thread of its
own, as small servers do, with the beam and the length normalisation of RUN. `like the first` is the share of lines that a server
translates as the first one does.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import calque
from calque.data.lines import Lines
from calque.ground.version import VERSION


def main() -> None:
    """Start each server in turn, load it, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, nargs="+", default=[16])
    parser.add_argument("--precision", default="float32", help="of both servers: float32 or int8")
    parser.add_argument("--plain", type=Path, metavar="FOLDER", help="the same model for CTranslate2")
    parser.add_argument("--only-serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_serve is not None:
        serve_plainly(given.run, given.plain, given.threads, given.only_serve, given.precision)
        return
    lines = list(Lines(given.source))
    servers = {
        f"calque, batches of {batch}": [
            *("-m", "calque", "serve", str(given.run), "--pair", "xx:yy", "--port", "0"),
            *("--threads", str(given.threads), "--batch", str(batch), "--precision", given.precision),
        ]
        for batch in given.batch
    }
    if given.plain is not None:
        own = [__file__, str(given.run), str(given.source), "--plain", str(given.plain)]
        own += ["--threads", str(given.threads), "--precision", given.precision]
        servers["ctranslate2, plain server"] = [*own, "--only-serve", "0"]
    figures, first = [], None
    for name, program in servers.items():
        with started(program) as address:
            texts = asyncio.run(translations(address, lines[:200]))
            first = first or texts
            alike = sum(a == b for a, b in zip(first, texts, strict=True)) / len(texts)
            for clients in given.clients:
                measured = asyncio.run(measure(address, lines, clients, given.seconds))
                figures.append({"server": name, "clients": clients, **measured, "like the first": round(alike, 3)})
    print(json.dumps({"version": VERSION, "threads": given.threads, "figures": figures}, indent=1))


@contextmanager
def started(program: list[str]) -> Iterator[str]:
    """A server, and its address, which it prints first."""
    with subprocess.Popen(
        [sys.executable, *program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


class Connection:
    """A connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def translate(self, line: str) -> str:
        """The translation of a line."""
        body = json.dumps({"q": line, "source": "xx", "target": "yy"}).encode()
        head = (
            f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        self.writer.write(head.encode() + b"\r\n" + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        found = json.loads(await self.reader.readexactly(length))
        return str(found["translatedText"])


async def connected(address: str) -> Connection:
    """A new connection."""
    where = urlsplit(address)
    return Connection(*await asyncio.open_connection(where.hostname, where.port))


async def translations(address: str, lines: list[str]) -> list[str]:
    """The translations of lines, one after the other."""
    connection = await connected(address)
    return [await connection.translate(line) for line in lines]


async def measure(address: str, lines: list[str], clients: int, seconds: float) -> dict[str, float]:
    """Lines per second and the time to an answer, with so many clients."""
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

    began = time.monotonic()
    await asyncio.gather(*map(ask, range(clients)))
    took = time.monotonic() - began
    cuts = statistics.quantiles(times, n=100)
    milliseconds = {
        f"ms, {name}": round(1000 * cuts[k - 1], 1) for name, k in (("median", 50), ("95 %", 95), ("99 %", 99))
    }
    return {"lines per second": round(len(times) / took, 1), **milliseconds}


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
