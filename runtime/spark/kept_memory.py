"""What a worker of Spark's does with memory that it no longer needs: it keeps it, within limits, for the next batch.

The binaries of a batch are tens of megabytes each. The C library asks the system for each of them anew and gives it
back at once, and each page that comes is cleared first: with wide rows that is a third of a worker's processor time.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Final

import pyarrow as pa

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
KEPT_BYTES: Final = 1 << 30
_AHEAD: Final = 64 << 20


@cache
def keep_memory() -> bool:
    """Let this process keep up to so many bytes at the end of its heap; whether its C library can (it is GNU's)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, _AHEAD))
    if not all(mallopt(option, value) for option, value in wanted):
        return False
    # Arrow's own allocator gives back what it has, too.
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    return True
