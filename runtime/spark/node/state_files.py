"""Large rows of a bucket's state: they lie in files of the checkpoint, and Spark's store has a reference to each.

Spark's store copies a row a dozen times and writes it three times: into its log of changes, into a table of RocksDB,
and once more when tables are merged. A file is written once. It outlives the row for as long as Spark keeps a version
of the state that has the row.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from aggloom.checkpoint_file import LARGEST, read_file
from aggloom.runtime.hosting.bucket_store import Blob
from aggloom.runtime.hosting.checkpoint_paths import STATE_FILES, corrupt
from aggloom.runtime.hosting.framing import MAGIC, OVERHEAD
from aggloom.runtime.spark.node.batch_context import batch_number, batches_kept, checkpoint_root
from aggloom.runtime.spark.node.list_state import BlobList, Row

REFERENCE_BYTES: Final = OVERHEAD + 8
"""The bytes of a reference before the name of its file: the header of the frame, then the number of bytes there."""
REFERENCE_MAGIC: Final = b"AGLF"
"""The first bytes of a reference, in the place of a frame's."""
_SIZE = struct.Struct(">Q")
_NAME = re.compile(r"\d+\.\d+/\d+-[0-9a-f]{32}")
_FILE = re.compile(r"(\d+)-[0-9a-f]{32}")
_MARK = re.compile(r"(\d+)\.snapshot(?:-(\w+))?")


class StateFiles:
    """The list of a bucket's rows. Its large rows lie in files, if it knows the checkpoint and may write there.

    place, bucket: the number of the stateful node, and of the bucket in it. least: the bytes from which a row goes to a
    file; None: none does. blobs: those of the batch, some of which lie in files already.
    """

    def __init__(
        self,
        rows: BlobList,
        place: int,
        bucket: int,
        least: int | None,
        blobs: Sequence[Blob] = (),
    ) -> None:
        self._rows, self._root = rows, checkpoint_root()
        self._name, self._least, self._batch = f"{place}.{bucket}", least, batch_number() or 0
        self._blobs = [blob for blob in blobs if blob.path]
        self._has_snapshot = False

    def get(self) -> Iterator[Row]:
        """The rows, one after the other; raises StateCorruptError where the file of one is missing."""
        for row in self._rows.get():
            yield (fetch_row(bytes(row[0]), self._root),)

    def put(self, rows: Sequence[Row]) -> None:
        """Have these rows, which are a snapshot, in place of those that there are."""
        self._has_snapshot = True
        self._rows.put([self._put_aside(row) for row in rows])

    def appendList(self, rows: Sequence[Row]) -> None:
        """Have these rows after those that there are."""
        self._rows.appendList([self._put_aside(row) for row in rows])

    def delete_superseded(self, before: str, after: str) -> None:
        """Delete the files that no version of the state refers to which Spark keeps.

        before: the token of the bucket's last commit. after: that of this batch's. A snapshot replaces all rows, so
        files of earlier batches are needed only for versions before it. Spark decides which attempt at a batch counts:
        a snapshot is known to count once the next commit finds its token.
        """
        directory = self._directory()
        if self._least is None or directory is None or not directory.is_dir():
            return
        # What cannot be deleted now is deleted another time.
        with contextlib.suppress(OSError):
            self._confirm(directory, before)
            if self._has_snapshot:
                (directory / f"{self._batch}.snapshot-{after}").touch()
            self._delete_old(directory, self._batch - batches_kept())

    def _confirm(self, directory: Path, before: str) -> None:
        """Mark the snapshot of an earlier batch as one that counts, or drop the mark of an attempt that does not."""
        for path, batch, token in _list_marks(directory):
            if token and batch < self._batch:
                if token == before:
                    path.rename(directory / f"{batch}.snapshot")
                else:
                    path.unlink()

    def _delete_old(self, directory: Path, oldest: int) -> None:
        """Delete what lies before the last snapshot that all versions have which Spark keeps: those since a batch."""
        counted = [batch for _, batch, token in _list_marks(directory) if not token]
        last = max((batch for batch in counted if batch < oldest), default=-1)
        old = [path for path in directory.iterdir() if _batch_of(path) < last]
        if not old:
            return
        # A checkpoint may be put together from copies of different times: what it refers to now, it needs.
        needed = {_name_of(bytes(row[0])).rpartition("/")[2] for row in self._rows.get()}
        for path in old:
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _directory(self) -> Path | None:
        return None if self._root is None else self._root / STATE_FILES / self._name

    def _put_aside(self, row: Row) -> Row:
        """Write a large row to a file, and return its reference; the row itself where there can be no file."""
        frame, directory = row[0], self._directory()
        if self._least is None or len(frame) < self._least or directory is None:
            return row
        # Another attempt at the same task has files of its own.
        path = directory / f"{self._batch}-{uuid.uuid4().hex}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._write(path, memoryview(frame)[OVERHEAD:])
        except OSError:
            # A full disk, say. Spark's own way names the cause if it has no room either.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return row
        name = f"{self._name}/{path.name}".encode()
        size = _SIZE.pack(len(frame) - OVERHEAD)
        return (REFERENCE_MAGIC + frame[len(MAGIC) : OVERHEAD] + size + name,)

    def _write(self, path: Path, payload: memoryview) -> None:
        """Write a file, or make it a second name of one that has the same bytes."""
        # Views are compared byte by byte, and buffers of Arrow at once.
        buffer = pa.py_buffer(payload)
        for blob in self._blobs:
            if blob.path and buffer.equals(pa.py_buffer(blob.data)):
                # The other file may be on another disk, or gone.
                with contextlib.suppress(OSError):
                    os.link(blob.path, path)
                    return
        path.write_bytes(payload)


def fetch_row(row: bytes, root: Path | None) -> bytes:
    """A row as it was written: the frame itself, or what a reference leads to in the checkpoint `root`.

    Raises StateCorruptError where there is no such file. That it is the right one, the checksum of the frame says.
    """
    if not _is_reference(row):
        return row
    name = _name_of(row)
    # A checkpoint may come from others: no name leads out of it.
    if not _NAME.fullmatch(name):
        raise corrupt(f"a row of the state refers to {name[:80]!r}, which is no file of a state")
    if root is None:
        raise corrupt(
            f"a row of the state lies in the file {STATE_FILES}/{name} of the checkpoint, which this worker does not "
            "see. Start the query where the checkpoint is on a local disk, in a session that is not of Spark Connect"
        )
    path = root / STATE_FILES / name
    try:
        payload = read_file(root, path, max(LARGEST, _SIZE.unpack_from(row, OVERHEAD)[0]))
    except OSError as error:
        raise corrupt(f"{path}, with rows of the state: {error.strerror or error}") from error
    return b"".join((MAGIC, row[len(MAGIC) : OVERHEAD], payload))


def _is_reference(row: bytes) -> bool:
    return len(row) >= REFERENCE_BYTES and row[: len(MAGIC)] == REFERENCE_MAGIC


def _name_of(row: bytes) -> str:
    """The name of the file that a row refers to; "" where it refers to none."""
    return row[REFERENCE_BYTES:].decode("utf-8", "replace") if _is_reference(row) else ""


def _list_marks(directory: Path) -> Iterator[tuple[Path, int, str]]:
    """The marks of snapshots: path, batch, and the token, "" once the snapshot is known to count."""
    for path in list(directory.iterdir()):
        if mark := _MARK.fullmatch(path.name):
            yield path, int(mark[1]), mark[2] or ""


def _batch_of(path: Path) -> int | float:
    """The batch that has written a file; infinity for one that is not ours."""
    match = _FILE.fullmatch(path.name) or _MARK.fullmatch(path.name)
    return int(match[1]) if match else float("inf")
