"""Delayed garbage collection: checking a text makes thousands of small objects, and nearly all of them are kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """No collection inside the block: the objects of a text are bounded in number, and collecting takes as long as the check."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
