"""The log of a server: one JSON object per line on stderr, never with texts, keys or addresses of clients."""

import json
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TextIO


class Log:
    """Writes events. A log that cannot be written is no reason to stop."""

    def __init__(self, stream: TextIO | None = None):
        self._stream, self._lock = stream, threading.Lock()

    def __call__(self, event: str, level: str = "info", **fields: object) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "event": event, **fields}, default=str)
        stream = self._stream or sys.stderr
        try:
            with self._lock:
                stream.write(line + "\n")
                stream.flush()
        except (OSError, ValueError):
            return


APART = 1.0
"""Seconds between two equal messages of the server."""


class ServerMessages(logging.Handler):
    """Warnings and errors of uvicorn and asyncio as events, without what they say of requests; equal ones once a second at most."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self._log = log
        self._last: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the message before its values are put in."""
        fault = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        message, now = str(record.msg).split("\n")[0], time.monotonic()
        if now - self._last.get(message, -APART) < APART:
            return
        self._last[message] = now
        self._log("server", record.levelname.lower(), message=message, **({"kind": fault} if fault else {}))
