"""The arena: one bucket's state as named NumPy arrays, on the heap or memory-mapped in a directory.

Everything an operator remembers is in these arrays, so a snapshot is their bytes and a mapped directory is a
live state that the next process can continue with. Files get their room before they are mapped: writing to a page
that a full disk has no block for would kill the process.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.errors import StateCorruptError, StateRoomError
from aggloom.runtime.storage.allocation import (
    available_memory,
    free_bytes,
    grow_file,
    map_file,
    reserve_pages,
)
from aggloom.runtime.storage.checksums import (
    checksum_of,
    with_checksum,
    without_checksum,
    write_anew,
)

Array = NDArray[Any]
SlotArray = NDArray[np.int64]  # int64[n]: the slot of each row or key
RowIdArray = NDArray[np.int64]  # int64[n]: ids of stored rows
NumberArray = NDArray[np.int64]  # int64[n]: places, counts, positions, times
FlagArray = NDArray[np.bool_]  # bool[n]
FloatArray = NDArray[np.float64]  # float64[n]
ByteArray = NDArray[np.uint8]  # uint8[n]
SelectionArray = NDArray[Any]  # int64[n], or bool[n] to select the marked ones
WordArray = NDArray[np.int64]  # int64[n]: encoded values, or ids in the pool
KeyArray = NDArray[np.int64]  # int64[n, columns]: a row of encoded values a key
NullArray = NDArray[Any]  # uint8[n], or uint64[n] for more than eight columns: a bit a column
ValueArray = NDArray[Any]  # any[n]
FIRST_SLOTS = 16
"""Number of slots with which a state begins."""
_ROOMY = 1 << 12
_HEADER = struct.Struct("<4sIQ")
MAGIC = b"AGLA"
_CODEC = "lz4"
_MOST_PACKED = 256
"""The greatest factor by which the codec can have made bytes fewer."""
_LISTING = "arrays"
OWN_FILE = 1 << 16
"""The bytes from which an array has a file of its own; smaller ones are on the heap, and written with the listing."""
_GROWING = 1 << 22
_AHEAD = 32
"""An array on the heap of `_GROWING` bytes or more has addresses for so many times as many: it grows in place."""

_log = logging.getLogger("aggloom")
_warned: set[int | None] = set()


class Identity(NamedTuple):
    """Marks by which a file is known again: one that was replaced, cut or written to is another."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Identity:
        """The identity of a file; raises OSError if there is none."""
        status = path.stat()
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class _File(NamedTuple):
    """The file of a mapped array; a small one has none."""

    name: str
    inode: int


def airy(live: int, high: int) -> bool:
    """Tell whether so few of the places handed out so far are in use that copying the rest is worth its time."""
    return high > _ROOMY and 16 * live < high


class Arena:
    """Named arrays that grow; with a `directory` each large one is a memory-mapped file in it.

    A file costs a tenth of a millisecond to make, and as much to open and to delete, however small it is: small arrays
    lie in one, which is read and written whole.

    Where files cannot be had, the arena continues without its directory, and says so once: arrays are on the heap from
    then on, and `listing` stays None. Raises StateCorruptError if what a directory holds is not what was flushed, and
    StateRoomError where there is no room on the heap either.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.listing: tuple[Path, Identity] | None = None
        self.reopened = False
        """True if it continues with the arrays of a directory."""
        self._arrays: dict[str, Array] = {}
        self._files: dict[str, _File | None] = {}
        self._reserved: dict[str, mmap.mmap] = {}
        self._file_number = 0
        self._unchecked: set[str] = set()
        """The arrays that were read from outside, and have not been asked for by type yet."""
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
        """The array `name`, created with `rows` zeroed rows if the arena does not have it yet.

        Raises StateCorruptError where it was read from a snapshot and is of another type.
        """
        if name not in self._arrays:
            self._arrays[name] = self._create(name, rows, dtype, columns)
        elif name in self._unchecked:
            self._check_type(name, np.dtype(dtype), columns)
        return self._arrays[name]

    def resize(self, name: str, rows: int) -> Array:
        """Replace `name` by an array of `rows` rows that keeps the common prefix; new rows are zero."""
        old = self._arrays[name]
        # In place where that can be: what lies in files or in reserved addresses is not copied.
        extended = self._extend(name, rows)
        if extended is not None:
            self._arrays[name] = extended
            return extended
        columns = old.shape[1] if old.ndim == 2 else 0
        new = self._create(name, rows, old.dtype.str, columns)
        copied = min(rows, len(old))
        new[:copied] = old[:copied]
        self._arrays[name] = new
        return new

    def roomier(self, rows: int, need: int) -> int:
        """Return the number of rows to have where `rows` are too few for `need`; files grow in place, so by less."""
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
            # Otherwise a damaged size would ask for any amount of memory.
            if body_size > _MOST_PACKED * len(packed):
                raise ValueError(f"{len(packed)} bytes cannot stand for {body_size}")
            body = pa.decompress(packed, body_size, codec=_CODEC, asbytes=True) if packed else b""
            # Read aside: the arena changes only where all of the snapshot is right.
            whole = Arena()
            offset = 0
            for entry in listing:
                name, dtype, shape = _read_entry(entry)
                flat = np.frombuffer(body, dtype, math.prod(shape), offset)
                if name in whole:
                    raise ValueError(f"array {name} is there twice")
                whole._arrays[name] = flat.reshape(shape)
                offset += flat.nbytes
            if offset != body_size:
                raise ValueError("its arrays are not as long as what they lie in")
        except (
            *(ValueError, KeyError, TypeError, struct.error, OSError, pa.ArrowException),
            *(RecursionError, MemoryError, OverflowError),
        ) as e:
            raise StateCorruptError(
                f"state snapshot cannot be read: {e}. Restart from an older checkpoint or replay the source."
            ) from e
        for name in self._arrays.keys() - whole._arrays.keys():
            self._drop(name)
            del self._arrays[name], self._files[name]
        self.adopt(whole)
        # Only who asks for an array knows its type: it is compared then.
        self._unchecked = set(whole._arrays)

    def _check_type(self, name: str, dtype: np.dtype[Any], columns: int) -> None:
        """Raise StateCorruptError unless an array that was read from outside is of a type, with so many columns."""
        array = self._arrays[name]
        there = array.shape[1] if array.ndim == 2 else 0
        if array.dtype != dtype or there != columns:
            raise StateCorruptError(
                f"state snapshot cannot be used: array {name} is {array.dtype} with {there} columns, not {dtype} "
                f"with {columns}. Restart from an older checkpoint or replay the source."
            )
        self._unchecked.discard(name)

    def flush(self) -> None:
        """Write down what the files hold, so that another process can open them.

        Mapped pages need no writing through: they outlive the process, and after a crash of the host nobody opens them.
        """
        self.listing = None
        if self.directory is None:
            return
        path = self.directory / _LISTING
        try:
            write_anew(path, self._list_arrays(self.directory))
            self.listing = path, Identity.of(path)
        except OSError as e:
            self._leave(e, 0)

    def _list_arrays(self, directory: Path) -> bytes:
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
                # Somebody put another file in its place: a reader would open that one, not what is mapped here.
                if identity.inode != file.inode:
                    raise FileNotFoundError(errno.ENOENT, "was replaced", file.name)
            file_words = file and file.name, identity, checksum
            arrays.append([name, array.dtype.str, array.shape, *file_words])
        rest = b"".join(small)
        about = {"made": self._file_number, "arrays": arrays, "rest": zlib.crc32(rest)}
        return with_checksum(json.dumps(about)).encode() + rest

    def _reopen(self, directory: Path) -> None:
        """Map the files of a flushed arena, and read what has none."""
        try:
            line, _, rest = (directory / _LISTING).read_bytes().partition(b"\n")
            listed = json.loads(without_checksum(line))
            if zlib.crc32(rest) != listed["rest"]:
                raise ValueError("its checksum does not match")
            self._file_number, offset = listed["made"], 0
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
                self._arrays[name] = map_file(directory / file, np.dtype(dtype), tuple(shape))
                if checksum_of(self._arrays[name]) != checksum:
                    raise ValueError(f"{file} was changed")
            self._unchecked = set(self._arrays)
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise StateCorruptError(
                f"live state in {directory} cannot be opened: {e}. Delete the directory; it is made again."
            ) from e

    def _create(self, name: str, rows: int, dtype: str, columns: int) -> Array:
        """A zeroed array, in a new file if there is a directory and it is large."""
        shape, kind = ((rows, columns) if columns else (rows,)), np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if self.directory is not None and size >= OWN_FILE:
            path = self.directory / f"{name.replace('/', '_')}.{self._file_number}.bin"
            # A name of its own: the old file goes only when the new one is there.
            self._file_number += 1
            try:
                inode = grow_file(path, 0, size)
                array = map_file(path, kind, shape)
                self._drop(name)
                self._files[name] = _File(path.name, inode)
                return array
            except OSError as e:
                self._leave(e, size)
        self._drop(name)
        pages = reserve_pages(_AHEAD * size) if size >= _GROWING else None
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
            if grow_file(path, old.nbytes, size) != file.inode:
                raise FileNotFoundError(errno.ENOENT, "was replaced", str(path))
            return map_file(path, old.dtype, shape)
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
        memory = available_memory()
        message = f"live state in {directory}: {error.strerror or error} ({more:,} bytes are needed"
        message += f", {free_bytes(directory):,} are free there"
        fix = "Set AGGLOOM_STATE_DIR to a directory with more room, or free some."
        if memory is not None and more > memory:
            raise StateRoomError(f"{message}, and {memory:,} in memory). {fix}") from error
        self.directory = self.listing = None
        if error.errno not in _warned:
            _warned.add(error.errno)
            _log.warning("%s); it stays in memory, and is rebuilt for each batch. %s", message, fix)


def _read_entry(entry: dict[str, Any]) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """The name, type and shape of an array as a listing has them; raises ValueError, KeyError or TypeError."""
    name, dtype, shape = entry["name"], np.dtype(entry["dtype"]), entry["shape"]
    if not isinstance(name, str) or not name.isprintable():
        raise ValueError(f"{name!r} is no name of an array")
    if dtype.kind not in "iufb" or not dtype.isnative:
        raise ValueError(f"array {name} is of type {dtype}")
    sizes = [size for size in shape if type(size) is int and 0 <= size < 1 << 40]
    if len(sizes) != len(shape) or len(shape) not in (1, 2):
        raise ValueError(f"array {name} has the shape {shape}")
    return name, dtype, tuple(sizes)
