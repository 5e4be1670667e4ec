"""The command that serves runs to other programs."""

import functools
from pathlib import Path

import click

from calque.cli.base import BEAM, FILE, PRECISION, RUNS, SET, THREADS, Number, from_options, loading, root, set_threads
from calque.ground.diagnostics import error


def _many(most: int, least: int = 1) -> click.IntRange:
    return click.IntRange(least, most)


@root.command()
@RUNS
@click.option(
    "--pair",
    "named",
    multiple=True,
    metavar="SOURCE-TARGET[=TAG]",
    help="The languages of each RUN, in order; one RUN may have several, each with a symbol in front of its lines.",
)
@click.option(
    "--terms",
    multiple=True,
    metavar="PAIR=FILE",
    help="A list of terms of a pair of languages, as for `calque translate --terms`.",
)
@click.option(
    "--memory",
    "memories",
    type=(str, FILE, FILE),
    multiple=True,
    metavar="PAIR SOURCE TARGET",
    help="A translation memory of a pair of languages, as for `calque translate --memory`.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0: all.")
@click.option("--port", type=_many(65535, 0), default=5000, show_default=True, help="0: a free one.")
@click.option("--page", is_flag=True, help="With a page to translate in, at the address itself.")
@click.option(
    "--files",
    type=_many(1000, 0),
    default=0,
    help="The largest file that is translated, in megabytes; default: none is.",
)
@click.option("--keys", type=FILE, help="A file of API keys, one per line: requests need one of them.")
@click.option(
    "--rate", type=_many(10**6, 0), default=0, help="Requests per minute of a key or an address; default: any."
)
@click.option(
    "--characters", type=_many(10**6), default=10_000, show_default=True, help="The most characters of one request."
)
@click.option("--texts", type=_many(10**5), default=100, show_default=True, help="The most texts of one request.")
@click.option(
    "--alternatives", type=_many(100, 0), default=10, show_default=True, help="The most alternatives of one text."
)
@click.option(
    "--queue",
    type=_many(10**5),
    default=1000,
    show_default=True,
    help="The most lines that wait; further requests get status 429.",
)
@click.option(
    "--batch", type=_many(256), default=16, show_default=True, help="The most lines that are translated together."
)
@click.option(
    "--wait",
    type=Number(0, 1000),
    default=5,
    show_default=True,
    help="Milliseconds that a line waits for others to be translated with.",
)
@click.option(
    "--in-memory",
    type=_many(1000),
    default=4,
    show_default=True,
    help="The most runs in memory; the one that was used least is closed.",
)
@click.option("--sentences", is_flag=True, help="Translate a line sentence by sentence.")
@click.option("--proxy", is_flag=True, help="Behind a proxy on this machine, which names the addresses of clients.")
@SET
@BEAM
@PRECISION
@THREADS
def serve(
    runs: tuple[Path, ...],
    named: tuple[str, ...],
    terms: tuple[str, ...],
    memories: tuple[tuple[str, Path, Path], ...],
    overrides: tuple[str, ...],
    beam: int | None,
    precision: str | None,
    threads: int | None,
    wait: float,
    **options: object,
) -> None:
    """Serve RUNs to other programs, with LibreTranslate's interface: /translate, /languages and others. See /docs there.

    Prints its address on stdout and a JSON object per request on stderr.
    Ctrl-C and SIGTERM end it once it has answered what it has begun.
    """
    from calque.experiment import override, setting_entry

    given = {"beam": beam, "precision": precision}
    entries = [*map(override, overrides), *(setting_entry("decode", k, v) for k, v in given.items() if v is not None)]
    for entry in entries:
        if entry.section != "decode":
            raise error("X414", entry.section_at, key=f"{entry.section}.{entry.key}", section=entry.section)
    try:
        with loading():
            from calque.serve.runs import open_run
            from calque.serve.server import serve as serve_runs
            from calque.serve.settings import ServeSettings
    except ModuleNotFoundError as missing:
        raise error("X301", None, package=missing.name, extra="serve") from None
    set_threads(threads)
    settings = from_options(ServeSettings, {**options, "window": wait / 1000})
    opened = functools.partial(open_run, entries=entries, most=settings.batch)
    serve_runs(
        *(runs, named, opened, settings, threads),
        ready=lambda address, end: click.echo(address),
        terms=terms,
        memories=memories,
    )
