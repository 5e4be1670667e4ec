"""How the process holds memory. For programs: a library leaves its host's allocator alone."""

import ctypes
import os
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # the numbers of glibc's mallopt(3)
LARGEST = 2**30


def keep_freed_memory() -> bool:
    """Freed blocks stay with the process, up to 1 GB each, and are used again; says whether the system has such a setting.

    As it stands glibc returns every block over 32 MB at once, and takes and clears it anew at the next step, which can cost more
    than the product that fills it.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST) and mallopt(TRIM_THRESHOLD, LARGEST))


SPINS = "1000"
"""How often a waiting thread looks before it sleeps: the number that OpenMP itself takes where threads outnumber processors."""


def let_waiting_threads_sleep() -> None:
    """Makes threads that wait for one another sleep soon; for programs, before torch is imported.

    By default they look for milliseconds. Beside other programs each then waits for a thread that is not running, and training on
    two threads takes several times as long as on one. What the environment says already stays.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = SPINS
