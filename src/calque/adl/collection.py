"""Garbage collection put off for a while: a text makes thousands of small objects, and nearly all of them are kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Nothing is collected meanwhile; what a text can make is bounded, and each pass over it would cost as much as the check."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
