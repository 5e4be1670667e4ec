"""Connections of the server whose clients take their answers slowly, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from calque.serve.server import _Protocol


class Loop:
    """Keeps what is to be called later."""

    def __init__(self) -> None:
        self.later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def call_later(self, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        self.later.append((function, arguments))


class Transport:
    """A connection with so many bytes that its client has not taken, each time it is asked."""

    def __init__(self, left: list[int]):
        self.left, self.ended = left, False

    def get_write_buffer_size(self) -> int:
        return self.left.pop(0)

    def abort(self) -> None:
        self.ended = True


def test_a_client_that_takes_some_of_its_answer_has_more_time() -> None:
    protocol, loop, transport = object.__new__(_Protocol), Loop(), Transport([900, 400, 400, 300, 300, 300])
    for name, value in (("loop", loop), ("transport", transport)):
        setattr(protocol, name, value)
    protocol._wait()
    ended = []
    while loop.later:
        function, arguments = loop.later.pop()
        function(*arguments)
        ended.append(transport.ended)
    assert ended == [False, False, True]
