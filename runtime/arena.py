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
_HEADER = struct.Struct("<4sIQ")
_MAGIC = b"AGLA"
_CODEC = "lz4"


class Arena:
    """Named arrays that grow by doubling; with a `directory` each is a memory-mapped file in it."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self._arrays: dict[str, Array] = {}
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            for path in sorted(directory.glob("*.array.json")):
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
        return _HEADER.pack(_MAGIC, len(head), len(body)) + head + packed

    def restore(self, data: bytes | memoryview) -> None:
        """Replace the arena's contents by a snapshot.

        Raises StateCorruptError if the bytes are not a whole snapshot.
        """
        try:
            magic, head_size, body_size = _HEADER.unpack_from(data)
            if magic != _MAGIC:
                raise ValueError("wrong magic number")
            start = _HEADER.size
            listing = json.loads(bytes(data[start : start + head_size]))
            packed = bytes(data[start + head_size :])
            body = pa.decompress(packed, body_size, codec=_CODEC, asbytes=True) if packed else b""
            arrays = {}
            offset = 0
            for entry in listing:
                dtype = np.dtype(entry["dtype"])
                count = math.prod(entry["shape"])
                flat = np.frombuffer(body, dtype, count, offset)
                arrays[entry["name"]] = flat.reshape(entry["shape"])
                offset += flat.nbytes
        except (ValueError, KeyError, TypeError, struct.error, OSError, pa.ArrowException) as e:
            raise StateCorruptError(
                f"state snapshot cannot be read: {e}. Restart from an older checkpoint or replay the source."
            ) from e
        for name, source in arrays.items():
            columns = source.shape[1] if source.ndim == 2 else 0
            target = self._create(name, len(source), source.dtype.str, columns)
            target[:] = source
            self._arrays[name] = target

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
        stem = name.replace("/", "_")
        current = self.directory / f"{stem}.array.json"
        generation = json.loads(current.read_text())["generation"] + 1 if current.exists() else 0
        file = f"{stem}.{generation}.bin"
        (self.directory / file).unlink(missing_ok=True)
        with (self.directory / file).open("wb") as f:
            f.truncate(max(1, math.prod(shape) * np.dtype(dtype).itemsize))
        array = self._map(file, dtype, list(shape))
        meta = {
            "name": name,
            "file": file,
            "dtype": np.dtype(dtype).str,
            "shape": list(shape),
            "generation": generation,
        }
        draft = current.with_suffix(".tmp")
        draft.write_text(json.dumps(meta))
        draft.replace(current)
        if generation:
            (self.directory / f"{stem}.{generation - 1}.bin").unlink(missing_ok=True)
        return array

    def _map(self, file: str, dtype: str, shape: list[int]) -> Array:
        assert self.directory is not None
        if math.prod(shape) == 0:
            return np.zeros(tuple(shape), dtype)
        mapped = np.memmap(self.directory / file, np.dtype(dtype), "r+", shape=tuple(shape))
        return np.asarray(mapped)
