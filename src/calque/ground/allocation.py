"""How the process holds memory. For programs: a library leaves its host's allocator alone."""

import ctypes
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
