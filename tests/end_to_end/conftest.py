"""Commands, run in this process as a user runs them."""

import io
import sys

import pytest
from command import Outcome, Run

from calque import cli


class _Stdin:
    def __init__(self, body: bytes):
        self.buffer = io.BytesIO(body)

    def isatty(self) -> bool:
        return False


@pytest.fixture
def calque(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command in this process and gives its status and what it printed."""

    def run(*arguments: object, stdin: bytes | None = b"") -> Outcome:
        capfdbinary.readouterr()
        with monkeypatch.context() as m:
            m.setattr(sys, "argv", ["calque", *map(str, arguments)])
            m.setattr(sys, "stdin", None if stdin is None else _Stdin(stdin))
            try:
                cli.main()
                status = 0
            except SystemExit as e:
                status = int(e.code or 0)
        out, err = capfdbinary.readouterr()
        return Outcome(status, out.decode(), err.decode())

    return run
