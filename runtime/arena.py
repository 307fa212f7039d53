"""The arena: one bucket's state as named NumPy arrays, on the heap or memory-mapped in a directory.

Everything an operator remembers is in these arrays, so a snapshot is their bytes and a mapped directory is a
live state that the next process can go on with.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggloom.errors import StateCorruptError

Array = NDArray[Any]
_ROOMY = 1 << 12
_HEADER = struct.Struct("<4sIQ")
MAGIC = b"AGLA"
_CODEC = "lz4"
_NOTE = ".array.json"


def airy(live: int, high: int) -> bool:
    """Whether so few of the places handed out so far are in use that copying what is left is worth its time."""
    return high > _ROOMY and 16 * live < high


class Arena:
    """Named arrays that grow by doubling; with a `directory` each is a memory-mapped file in it."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._arrays: dict[str, Array] = {}
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(directory.glob(f"*{_NOTE}")):
                meta = json.loads(path.read_text())
                self._arrays[meta["name"]] = self._map(meta["file"], meta["dtype"], meta["shape"])

    def array(self, name: str, rows: int, dtype: str, columns: int = 0) -> Array:
        """The array `name`, created with `rows` zeroed rows if the arena does not have it yet."""
        if name not in self._arrays:
            self._arrays[name] = self._create(name, rows, dtype, columns)
        return self._arrays[name]

    def resize(self, name: str, rows: int) -> Array:
        """Replace `name` by an array of `rows` rows that keeps the common prefix; new rows are zero."""
        old = self._arrays[name]
        if self.directory is not None and rows > len(old) > 0:
            self._arrays[name] = self._extend(name, rows)
            return self._arrays[name]
        columns = old.shape[1] if old.ndim == 2 else 0
        new = self._create(name, rows, old.dtype.str, columns)
        kept = min(rows, len(old))
        new[:kept] = old[:kept]
        self._arrays[name] = new
        return new

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
        body = b"".join(np.ascontiguousarray(a).tobytes() for _, a in self)
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
        """Write mapped arrays through to their files."""
        for array in self._arrays.values():
            base = array.base
            if isinstance(base, np.memmap):
                base.flush()

    def _create(self, name: str, rows: int, dtype: str, columns: int) -> Array:
        shape = (rows, columns) if columns else (rows,)
        if self.directory is None:
            return np.zeros(shape, dtype)
        note = self._note(name)
        generation = json.loads(note.read_text())["generation"] + 1 if note.exists() else 0
        meta: dict[str, Any] = {
            "name": name,
            "file": f"{note.name.removesuffix(_NOTE)}.{generation}.bin",
            "dtype": np.dtype(dtype).str,
            "shape": list(shape),
            "generation": generation,
        }
        (self.directory / meta["file"]).unlink(missing_ok=True)
        array = self._sized(note, meta)
        if generation:
            former = f"{note.name.removesuffix(_NOTE)}.{generation - 1}.bin"
            (self.directory / former).unlink(missing_ok=True)
        return array

    def _extend(self, name: str, rows: int) -> Array:
        """The mapped array with more rows: its file grows, nothing is copied."""
        note = self._note(name)
        meta = json.loads(note.read_text())
        meta["shape"][0] = rows
        return self._sized(note, meta)

    def _note(self, name: str) -> Path:
        """The file that describes an array's file."""
        assert self.directory is not None
        return self.directory / (name.replace("/", "_") + _NOTE)

    def _sized(self, note: Path, meta: dict[str, Any]) -> Array:
        """Give an array's file the size that its description says, and map it."""
        size = math.prod(meta["shape"]) * np.dtype(meta["dtype"]).itemsize
        with (note.parent / meta["file"]).open("ab") as f:
            f.truncate(max(1, size))
        array = self._map(meta["file"], meta["dtype"], meta["shape"])
        draft = note.with_suffix(".tmp")
        draft.write_text(json.dumps(meta))
        draft.replace(note)
        return array

    def _map(self, file: str, dtype: str, shape: list[int]) -> Array:
        assert self.directory is not None
        if math.prod(shape) == 0:
            return np.zeros(tuple(shape), dtype)
        mapped = np.memmap(self.directory / file, np.dtype(dtype), "r+", shape=tuple(shape))
        return np.asarray(mapped)
