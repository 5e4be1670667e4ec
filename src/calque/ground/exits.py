"""`SystemExit`, which a layer of a user's may raise, in a program that goes on without it."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raises RuntimeError for SystemExit, which would end a thread or a server in silence."""
    try:
        yield
    except SystemExit as fault:
        raise RuntimeError(f"SystemExit: {fault}") from fault
