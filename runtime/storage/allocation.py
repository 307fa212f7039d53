"""Room for arrays: pages of memory, files that are mapped, and how much there is of both."""

from __future__ import annotations

import errno
import math
import mmap
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggloom.errors import StateRoomError

_OF_FREE_ROOM = 0.9
"""No array takes more of what a file system has left: others live there too."""
_SMALL = 1 << 20
_MEMORY = Path("/proc/meminfo")
_FEW_BYTES = 1 << 28
_ZEROS = memoryview(bytes(1 << 20))
"""The zeros of one write."""
Array = NDArray[Any]


def reserve_pages(size: int) -> mmap.mmap | None:
    """Return `size` zeros on the heap, which take room once they are written; None where the system lacks the room."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        pages = mmap.mmap(-1, size, flags=flags)
    except (OSError, ValueError, OverflowError):
        return None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # As NumPy's own arrays of this size.
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def grow_file(path: Path, old: int, size: int) -> int:
    """Make a file so large, with every block of it there, and say its inode; raises OSError if there is no room.

    old: its size so far; 0 makes it.
    """
    if size - old > _SMALL and size - old > _OF_FREE_ROOM * free_bytes(path.parent):
        raise OSError(errno.ENOSPC, "no room")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (0 if old else os.O_CREAT | os.O_EXCL))
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, old, size - old)
        else:
            os.ftruncate(descriptor, size)
        # Pages of a large write cost the system a seventh of those that are first touched in a mapping.
        for start in range(old, size, len(_ZEROS)):
            os.pwrite(descriptor, _ZEROS[: size - start], start)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def map_file(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The whole of a file as an array."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        pages = mmap.mmap(descriptor, math.prod(shape) * dtype.itemsize)
        # Keys come in any order: where state is larger than memory, reading ahead would be all that the disk does.
        pages.madvise(mmap.MADV_RANDOM)
        return np.ndarray(shape, dtype, pages)
    finally:
        os.close(descriptor)


def free_bytes(directory: Path) -> int:
    """The bytes that a directory's file system has left; 0 if it cannot say."""
    there = next((each for each in (directory, *directory.parents) if each.is_dir()), None)
    return shutil.disk_usage(there).free if there else 0


def available_memory() -> int | None:
    """The bytes that new arrays on the heap can have; None if the system does not say."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def require_memory(size: int, what: str) -> None:
    """Raise StateRoomError where so many bytes do not fit in memory; the system would end the process."""
    if size < _FEW_BYTES:
        return
    memory = available_memory()
    if memory is not None and size > memory:
        raise StateRoomError(
            f"{what} take {size:,} bytes, and {memory:,} are free in memory. Let the query give fewer, or give the "
            "process more memory."
        )
