"""Memory that processes of ours no longer need: they keep it, within limits, for the next batch.

The arrays and binaries of a batch are tens of megabytes each. The C library asks the system for each of them anew and
gives it back at once, and each page that comes is cleared first: with wide rows that is a third of a worker's processor
time, of the local engine's, and of what Java takes, whose RocksDB holds them too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from aggloom.platform_switch import is_tuned

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
KEPT_BYTES: Final = 1 << 30
_AHEAD: Final = 64 << 20
_VARIABLES: Final = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_TOP_PAD_": str(_AHEAD),
    # Only the one arena that is the process's heap keeps so much.
    "MALLOC_ARENA_MAX": "1",
}


@contextmanager
def keeping_memory() -> Iterator[None]:
    """While Java starts: GNU's variables tell it the same, but for those that the user has set."""
    variables = _VARIABLES if is_tuned() else {}
    ours = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@cache
def keep_memory() -> bool:
    """Let this process keep up to so many bytes at the end of its heap; whether its C library can (it is GNU's)."""
    if not is_tuned():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    limits = (_MMAP_MAX, 0), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, _AHEAD)
    # What one thread gave back serves the others, too: an arena for each would keep its own.
    options = (*limits, (_ARENA_MAX, 1))
    if not all(mallopt(option, value) for option, value in options):
        return False
    # Arrow's own allocator gives back what it has, too.
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
    return True
