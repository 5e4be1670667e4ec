"""Memory and threads of the process. For programs only: a library must not change its host's allocator."""

import ctypes
import os
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # the numbers of glibc's mallopt(3)
LARGEST = 2**30


def keep_freed_memory() -> bool:
    """Keeps freed blocks of up to 1 GB in the process for later use; whether the system has such a setting.

    By default glibc returns every block over 32 MB to the system, and requests and clears it again at the next step, which can take
    longer than the product that fills it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST) and mallopt(TRIM_THRESHOLD, LARGEST))


COMPILED = "256"
"""How many compiled products are kept instead of 1,024: each takes up to two megabytes, and training seldom needs an old one."""


def keep_few_compiled_products() -> None:
    """Bounds the memory of compiled bfloat16 products, for programs that train; before torch is imported.

    Batches come in so many sizes that the library's default of 1,024 products fills gigabytes over hours, and saves no time. What
    the environment says already stays.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", COMPILED)


SPINS = "1000"
"""How often a waiting thread checks before it sleeps: OpenMP's own number where there are more threads than processors."""


def let_waiting_threads_sleep() -> None:
    """Makes waiting threads sleep soon; for programs, before torch is imported.

    By default they check for milliseconds. Where other programs run, each then waits for a thread that is not running, and training
    on two threads takes several times as long as on one. Existing environment variables are kept.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS
