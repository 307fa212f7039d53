"""The arena: one bucket's state as named NumPy arrays, on the heap or memory-mapped in a directory.

Everything an operator remembers is in these arrays, so a snapshot is their bytes and a mapped directory is a
live state that the next process can go on with. Files get their room before they are mapped: writing to a mapped page
that a full disk has no block for would kill the process.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import mmap
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.errors import StateCorruptError, StateRoomError
from aggloom.runtime.storage.checked import (
    checksum_of,
    with_checksum,
    without_checksum,
    write_anew,
)

Array = NDArray[Any]
FIRST_SLOTS = 16
"""How many slots a state begins with."""
_ROOMY = 1 << 12
_HEADER = struct.Struct("<4sIQ")
MAGIC = b"AGLA"
_CODEC = "lz4"
_LISTING = "arrays"
OWN_FILE = 1 << 16
"""An array of so many bytes has a file of its own; smaller ones are on the heap, and written down with the listing."""
_OF_FREE_ROOM = 0.9
"""No array takes more of what a file system has left: others live there too."""
_SMALL = 1 << 20
_GROWING = 1 << 22
_AHEAD = 4
"""An array on the heap of `_GROWING` bytes or more has addresses for so many times as many: it grows in place."""
_MEMORY = Path("/proc/meminfo")

_log = logging.getLogger("aggloom")
_warned: set[int | None] = set()


class Identity(NamedTuple):
    """By what a file is known again: one that was replaced, cut or written to is another."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Identity:
        """The identity of a file; raises OSError if there is none."""
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


class _File(NamedTuple):
    """The file of a mapped array; a small one has none."""

    name: str
    inode: int


def airy(live: int, high: int) -> bool:
    """Whether so few of the places handed out so far are in use that copying what is left is worth its time."""
    return high > _ROOMY and 16 * live < high


class Arena:
    """Named arrays that grow; with a `directory` each large one is a memory-mapped file in it.

    A file costs a tenth of a millisecond to make, and as much to open and to delete, however small it is: small arrays
    lie in one, which is read and written whole.

    Where files cannot be had, the arena goes on without its directory, and says so once: arrays are on the heap from
    then on, and `listing` stays None. Raises StateCorruptError if what a directory holds is not what was flushed, and
    StateRoomError where there is no room on the heap either.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.listing: tuple[Path, Identity] | None = None
        self.reopened = False
        """Whether it goes on with what a directory held."""
        self._arrays: dict[str, Array] = {}
        self._files: dict[str, _File | None] = {}
        self._reserved: dict[str, mmap.mmap] = {}
        self._made = 0
        if directory is None:
            return
        if (directory / _LISTING).exists():
            self._reopen(directory)
            self.reopened = True
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            self._leave(e, 0)

    def array(self, name: str, rows: int, dtype: str, columns: int = 0) -> Array:
        """The array `name`, created with `rows` zeroed rows if the arena does not have it yet."""
        if name not in self._arrays:
            self._arrays[name] = self._create(name, rows, dtype, columns)
        return self._arrays[name]

    def resize(self, name: str, rows: int) -> Array:
        """Replace `name` by an array of `rows` rows that keeps the common prefix; new rows are zero."""
        old = self._arrays[name]
        extended = self._extend(name, rows)
        if extended is not None:
            self._arrays[name] = extended
            return extended
        columns = old.shape[1] if old.ndim == 2 else 0
        new = self._create(name, rows, old.dtype.str, columns)
        kept = min(rows, len(old))
        new[:kept] = old[:kept]
        self._arrays[name] = new
        return new

    def roomier(self, rows: int, need: int) -> int:
        """How many rows to have where `rows` were too few for `need`; files grow in place, so they grow by less."""
        copied = self.directory is None or rows < _ROOMY
        return max(need, 2 * rows if copied else rows + (rows >> 2))

    def replace(self, name: str, rows: int) -> Array:
        """Replace `name` by a zeroed array of `rows` rows."""
        old = self._arrays[name]
        columns = old.shape[1] if old.ndim == 2 else 0
        self._arrays[name] = self._create(name, rows, old.dtype.str, columns)
        return self._arrays[name]

    def adopt(self, other: Arena) -> None:
        """Replace the arena's contents by another's."""
        for name, source in other:
            columns = source.shape[1] if source.ndim == 2 else 0
            target = self._create(name, len(source), source.dtype.str, columns)
            target[:] = source
            self._arrays[name] = target

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[tuple[str, Array]]:
        return iter(sorted(self._arrays.items()))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def snapshot(self) -> bytes:
        """All arrays as one block of bytes: header, directory as JSON, LZ4-compressed contents."""
        listing = [{"name": name, "dtype": a.dtype.str, "shape": list(a.shape)} for name, a in self]
        body = b"".join(np.ascontiguousarray(a).reshape(-1).view("u1").data for _, a in self)
        head = json.dumps(listing, separators=(",", ":")).encode()
        packed = pa.compress(body, codec=_CODEC, asbytes=True) if body else b""
        return _HEADER.pack(MAGIC, len(head), len(body)) + head + packed

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the arena's contents by a snapshot.

        Raises StateCorruptError if the bytes are not a whole snapshot.
        """
        try:
            magic, head_size, body_size = _HEADER.unpack_from(data)
            if magic != MAGIC:
                raise ValueError("wrong magic number")
            start = _HEADER.size
            listing = json.loads(bytes(data[start : start + head_size]))
            packed = bytes(data[start + head_size :])
            body = pa.decompress(packed, body_size, codec=_CODEC, asbytes=True) if packed else b""
            whole = Arena()
            offset = 0
            for entry in listing:
                dtype = np.dtype(entry["dtype"])
                count = math.prod(entry["shape"])
                flat = np.frombuffer(body, dtype, count, offset)
                whole._arrays[entry["name"]] = flat.reshape(entry["shape"])
                offset += flat.nbytes
        except (ValueError, KeyError, TypeError, struct.error, OSError, pa.ArrowException) as e:
            raise StateCorruptError(
                f"state snapshot cannot be read: {e}. Restart from an older checkpoint or replay the source."
            ) from e
        self.adopt(whole)

    def flush(self) -> None:
        """Write down what the files hold, so that another process can open them.

        Mapped pages need no writing through: they outlive the process, and after a crash of the host nobody opens them.
        """
        self.listing = None
        if self.directory is None:
            return
        path = self.directory / _LISTING
        try:
            write_anew(path, self._listed(self.directory))
            self.listing = path, Identity.of(path)
        except OSError as e:
            self._leave(e, 0)

    def _listed(self, directory: Path) -> bytes:
        """A line about the arrays, then the bytes of those without a file; raises OSError if a file is gone."""
        arrays, small = [], []
        for name, array in self:
            file = self._files[name]
            identity, checksum = None, 0
            if file is None:
                small.append(array.tobytes())
            else:
                checksum = checksum_of(array)
                identity = Identity.of(directory / file.name)
                if identity.inode != file.inode:
                    raise FileNotFoundError(errno.ENOENT, "was replaced", file.name)
            kept = file and file.name, identity, checksum
            arrays.append([name, array.dtype.str, array.shape, *kept])
        rest = b"".join(small)
        about = {"made": self._made, "arrays": arrays, "rest": zlib.crc32(rest)}
        return with_checksum(json.dumps(about)).encode() + rest

    def _reopen(self, directory: Path) -> None:
        """Map the files of a flushed arena, and read what has none."""
        try:
            line, _, rest = (directory / _LISTING).read_bytes().partition(b"\n")
            listed = json.loads(without_checksum(line))
            if zlib.crc32(rest) != listed["rest"]:
                raise ValueError("its checksum does not match")
            self._made, offset = listed["made"], 0
            for name, dtype, shape, file, identity, checksum in listed["arrays"]:
                if file is None:
                    array = np.zeros(shape, dtype)
                    array.reshape(-1).view("u1")[:] = np.frombuffer(
                        rest, "u1", array.nbytes, offset
                    )
                    offset += array.nbytes
                    self._files[name], self._arrays[name] = None, array
                    continue
                if Identity.of(directory / file) != Identity(*identity):
                    raise ValueError(f"{file} was changed")
                self._files[name] = _File(file, identity[0])
                self._arrays[name] = _mapped(directory / file, np.dtype(dtype), tuple(shape))
                if checksum_of(self._arrays[name]) != checksum:
                    raise ValueError(f"{file} was changed")
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise StateCorruptError(
                f"live state in {directory} cannot be opened: {e}. Delete the directory; it is made again."
            ) from e

    def _create(self, name: str, rows: int, dtype: str, columns: int) -> Array:
        """A zeroed array, in a new file if there is a directory and it is large."""
        shape, kind = ((rows, columns) if columns else (rows,)), np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if self.directory is not None and size >= OWN_FILE:
            path = self.directory / f"{name.replace('/', '_')}.{self._made}.bin"
            self._made += 1
            try:
                inode = _grown(path, 0, size)
                array = _mapped(path, kind, shape)
                self._drop(name)
                self._files[name] = _File(path.name, inode)
                return array
            except OSError as e:
                self._leave(e, size)
        self._drop(name)
        pages = _reserved(_AHEAD * size) if size >= _GROWING else None
        if pages is None:
            return np.zeros(shape, kind)
        self._reserved[name] = pages
        return np.ndarray(shape, kind, pages)

    def _extend(self, name: str, rows: int) -> Array | None:
        """The array with more rows, in place: its file grows, or what it has of the heap; None if that cannot be."""
        old, file = self._arrays[name], self._files.get(name)
        if rows <= len(old):
            return None
        shape = (rows, *old.shape[1:])
        size = math.prod(shape) * old.itemsize
        if name in self._reserved and size <= len(self._reserved[name]):
            return np.ndarray(shape, old.dtype, self._reserved[name])
        if self.directory is None or file is None:
            return None
        path = self.directory / file.name
        try:
            if _grown(path, old.nbytes, size) != file.inode:
                raise FileNotFoundError(errno.ENOENT, "was replaced", str(path))
            return _mapped(path, old.dtype, shape)
        except OSError as e:
            self._leave(e, size - old.nbytes)
            return None

    def _drop(self, name: str) -> None:
        """Delete the file that an array had."""
        file = self._files.get(name)
        self._files[name] = None
        self._reserved.pop(name, None)
        if file is not None and self.directory is not None:
            (self.directory / file.name).unlink(missing_ok=True)

    def _leave(self, error: OSError, more: int) -> None:
        """Go on without the directory; raises StateRoomError if `more` bytes do not fit in memory."""
        directory = self.directory
        assert directory is not None
        memory = _available_memory()
        message = f"live state in {directory}: {error.strerror or error} ({more:,} bytes are needed"
        message += f", {_free(directory):,} are free there"
        fix = "Set AGGLOOM_STATE_DIR to a directory with more room, or free some."
        if memory is not None and more > memory:
            raise StateRoomError(f"{message}, and {memory:,} in memory). {fix}") from error
        self.directory = self.listing = None
        if error.errno not in _warned:
            _warned.add(error.errno)
            _log.warning("%s); it stays in memory, and is rebuilt for each batch. %s", message, fix)


def _reserved(size: int) -> mmap.mmap | None:
    """So many zeros on the heap, which take room once they are written to; None where the system has not so many."""
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


def _grown(path: Path, old: int, size: int) -> int:
    """Make a file so large, with every block of it there, and say its inode; raises OSError if there is no room.

    old: its size so far; 0 makes it.
    """
    if size - old > _SMALL and size - old > _OF_FREE_ROOM * _free(path.parent):
        raise OSError(errno.ENOSPC, "no room")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (0 if old else os.O_CREAT | os.O_EXCL))
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, old, size - old)
        else:
            os.ftruncate(descriptor, size)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The whole of a file as an array."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        pages = mmap.mmap(descriptor, math.prod(shape) * dtype.itemsize)
        # Keys come in any order: where state is larger than memory, reading ahead would be all that the disk does.
        pages.madvise(mmap.MADV_RANDOM)
        return np.ndarray(shape, dtype, pages)
    finally:
        os.close(descriptor)


def _free(directory: Path) -> int:
    """The bytes that a directory's file system has left; 0 if it cannot say."""
    there = next((each for each in (directory, *directory.parents) if each.is_dir()), None)
    return shutil.disk_usage(there).free if there else 0


def _available_memory() -> int | None:
    """The bytes that new arrays on the heap can have; None if the system does not say."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None
