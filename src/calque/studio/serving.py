"""The studio as a program: a port of this machine, the page in a browser, and a folder for what is trained."""

import contextlib
import errno
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.adl.declaration import Library
from calque.ground.diagnostics import Place, error, reason_of

HOST = "127.0.0.1"
PORT = 4157
"""Taken where it is free, so that a link to a text also opens where another studio runs."""


@dataclass(frozen=True)
class StudioSettings:
    """What a studio opens: the runs that its page offers, plugins, a port, a folder for what it trains."""

    runs: tuple[Path, ...] = ()
    plugins: tuple[str, ...] = ()
    port: int | None = None
    folder: Path | None = None
    browser: bool = True


def serve(settings: StudioSettings, tell: Callable[[str], None]) -> None:
    """Serves the page until Ctrl-C, SIGTERM or SIGHUP. `tell` receives the address.

    Raises X301 without the packages of the extra `studio`, K440 where the port is taken, and what plugins raise.
    """
    try:
        import uvicorn

        from calque.studio.application import application
        from calque.studio.jobs import Jobs
        from calque.studio.translating import TrainedRuns
    except ImportError as e:
        if (e.name or "").split(".")[0] not in ("fastapi", "uvicorn", "starlette", "pydantic"):
            raise
        raise error("X301", package=e.name, extra="studio") from None
    plugins = tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in settings.plugins)
    library = _library(plugins)
    with _all_signals_as_interrupts(), _port(settings.port) as listening, _folder(settings.folder) as folder:
        port = listening.getsockname()[1]
        app = application(library, Jobs(folder, plugins), TrainedRuns(settings.runs, folder), port)
        address = f"http://{HOST}:{port}/"
        tell(address)
        if settings.browser:
            # Later, when the page is served; a browser may also take its time.
            threading.Timer(0.5, webbrowser.open, (address,)).start()
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
        )
        with contextlib.suppress(KeyboardInterrupt):  # how a studio is left
            uvicorn.Server(config).run(sockets=[listening])


def _library(plugins: Sequence[str]) -> Library:
    """The layers that texts may name: declarations without torch, unless there are plugins."""
    if not plugins:
        from calque.layers.declared import declared

        return declared()
    from calque.experiment import ModelSettings
    from calque.workflow.plugins import registry_of

    return registry_of(ModelSettings(plugins=tuple(plugins)))


@contextlib.contextmanager
def _all_signals_as_interrupts() -> Iterator[None]:
    """SIGTERM, and the SIGHUP of a terminal that is closed, end the studio as Ctrl-C does, so that its temporary folder goes.

    Uvicorn ends in good order on SIGTERM, and raises it again afterwards; it does not know SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {
        signal.SIGTERM: signal.default_int_handler,
        signal.SIGHUP: lambda *_: signal.raise_signal(signal.SIGTERM),
    }
    # A signal that is ignored, as under `nohup`, stays so.
    handlers = {number: handler for number, handler in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _port(asked: int | None) -> Iterator[socket.socket]:
    """A socket that listens on this machine alone: on the port that is asked for, else on the usual one or any free one."""
    for port in (PORT, 0) if asked is None else (asked,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listening.bind((HOST, port))
                listening.listen(128)
            except OSError as e:
                if asked is None and port and e.errno == errno.EADDRINUSE:
                    continue
                raise error("K440", None, port=port, reason=reason_of(e)) from None
            yield listening
            return


@contextlib.contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    """The folder for what is trained: the one that is asked for, which stays, or a temporary one, which goes at the end."""
    if asked is not None:
        try:
            asked.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise error("X408", Place(str(asked)), reason=reason_of(e)) from None
        yield asked.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="calque-studio-") as name:
        yield Path(name)
