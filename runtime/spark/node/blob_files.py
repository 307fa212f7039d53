"""Large blobs of packed rows on their way from one worker to another: they go through a file, Spark moves its name.

Under a local master both workers are on this machine. On Spark's own way a blob is copied a dozen times: through two
sockets, Java's memory, the files of the shuffle and the sort below a stateful node. The files lie in Spark's local
directory, which Spark deletes when it ends, and those of a batch are deleted once a later one writes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import uuid
from pathlib import Path
from typing import Final

from aggloom.errors import MissingFileError
from aggloom.runtime.spark.node.batch_context import batch_number, query_id

LARGE_BYTES: Final = 1 << 20
"""The bytes from which a blob goes through a file: a smaller one is copied faster than a file is made."""
_DIRECTORY: Final = "aggloom-packed"
_REFERENCE = struct.Struct("<4sQ")
_MAGIC: Final = b"AGLP"


def put_aside(blob: bytes) -> bytes:
    """Write a blob to a file, and return a reference to it; the blob itself where there can be no file.

    Outside of a streaming query there is none: Spark may read the shuffle of a batch query again at any time.
    """
    # Without its own directory Spark would delete no file when it ends.
    query, batch, local = query_id(), batch_number(), os.environ.get("SPARK_LOCAL_DIRS", "")
    if query is None or batch is None or not local:
        return blob
    # Another attempt at the same task has files of its own.
    path = Path(local.split(",")[0]) / _DIRECTORY / query / str(batch) / uuid.uuid4().hex
    try:
        if not path.parent.exists():
            _delete_earlier(path.parent.parent, batch)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(blob)
    except OSError:
        # A full disk, say. Spark's own way may have room elsewhere, and names the cause if it has none.
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return blob
    return _REFERENCE.pack(_MAGIC, len(blob)) + os.fsencode(path)


def fetch_blob(data: bytes | memoryview) -> tuple[bytes | memoryview, Path | None]:
    """The blob that a packed row has or refers to, and its file, if it has one.

    Raises MissingFileError unless the file is as it was written.
    """
    if len(data) < _REFERENCE.size or bytes(data[: len(_MAGIC)]) != _MAGIC:
        return data, None
    path = Path(os.fsdecode(bytes(data[_REFERENCE.size :])))
    size = _REFERENCE.unpack_from(data)[1]
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise _missing_error(path, error.strerror or str(error)) from error
    if len(blob) != size:
        raise _missing_error(path, f"{len(blob):,} bytes, and {size:,} were written")
    return blob, path


def _delete_earlier(directory: Path, batch: int) -> None:
    """Delete the files of a query's earlier batches, which have ended: batches run one after the other."""
    with contextlib.suppress(OSError):
        for each in directory.iterdir():
            if each.name.isdecimal() and int(each.name) < batch:
                shutil.rmtree(each, ignore_errors=True)


def _missing_error(path: Path, why: str) -> MissingFileError:
    return MissingFileError(
        f"{path}, with rows on their way between two stages of a batch: {why}. Start the query again: the batch is run "
        "anew from its source. Leave Spark's local directory alone while a query runs, or set AGGLOOM_PLATFORM=plain."
    )
