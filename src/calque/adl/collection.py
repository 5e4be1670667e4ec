"""Delayed garbage collection: checking a text creates thousands of small objects, nearly all of which are kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """No collection inside the block: the number of objects is bounded, and collecting would take as long as the check."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
