"""Free memory that our processes retain, within limits, for the next batch.

The arrays and binaries of a batch are tens of megabytes each. The C library requests each of them from the system and
returns it at once, and the system clears each new page: with wide rows that is a third of the processor time of a
worker, of the local engine, and of Java, whose RocksDB has the same rows.
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
"""The free memory that a process retains at most."""
_GROWTH_BYTES: Final = 64 << 20
_VARIABLES: Final = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_TOP_PAD_": str(_GROWTH_BYTES),
    # Only the main arena, which is the process's heap, follows these limits.
    "MALLOC_ARENA_MAX": "1",
}


@contextmanager
def keeping_memory() -> Iterator[None]:
    """Set GNU's variables with the same limits while Java starts, except those that the user has set."""
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
    """Let this process retain free memory at the end of its heap; return False if its C library is not GNU's."""
    if not is_tuned():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    limits = (_MMAP_MAX, 0), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, _GROWTH_BYTES)
    # One arena, so that memory that one thread frees serves the others too.
    options = (*limits, (_ARENA_MAX, 1))
    if not all(mallopt(option, value) for option, value in options):
        return False
    # Arrow's own allocator would return its memory to the system.
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
    return True
