"""The changes of the last batches, which a query leaves in its checkpoint for those who watch it.

Nothing that runs reads them, and a disk that fails raises nothing: without them a query continues as ever. Readers do
not trust them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.checkpoint_file import read_file
from aggloom.errors import CheckpointError
from aggloom.runtime.hosting.checkpoint_paths import batches
from aggloom.runtime.values.changelog import Kinds
from aggloom.runtime.values.scalars import buffer_of

CHANGES_DIRECTORY = "aggloom-changes"
KEPT = 20
"""The number of batches with changes that are kept."""

ROWS = 1000
"""The number of changes of a batch that are kept, its first."""

_BYTES = 1 << 20
_LARGEST = 4 << 20
_TOTAL = b"aggloom.changes"


@dataclass(frozen=True)
class BatchChanges:
    """The first changes of a batch, with their kinds; total: how many it had."""

    batch: int
    total: int
    rows: pa.Table
    kinds: Kinds


def note_changes(checkpoint: Path, rows: pa.Table, kinds: Kinds, batch: int) -> None:
    """Keep the first changes of a batch, and drop those of the oldest; a batch without changes leaves nothing."""
    if not rows.num_rows:
        return
    directory = checkpoint / CHANGES_DIRECTORY
    head = rows.slice(0, ROWS)
    while head.nbytes > _BYTES and head.num_rows > 1:
        head = head.slice(0, head.num_rows // 2)
    if head.nbytes > _BYTES:
        head = head.slice(0, 0)
    kind_column = pa.array(np.asarray(kinds[: head.num_rows], np.int8))
    noted = head.combine_chunks().append_column("kind", kind_column)
    noted = noted.replace_schema_metadata({_TOTAL: str(rows.num_rows).encode()})
    with suppress(OSError):
        directory.mkdir(exist_ok=True)
        draft = directory / f"{batch}.new"
        with pa.ipc.new_file(str(draft), noted.schema) as writer:
            writer.write_table(noted)
        draft.replace(directory / str(batch))
        for old in batches(directory)[:-KEPT]:
            (directory / str(old)).unlink(missing_ok=True)


def read_changes(checkpoint: Path) -> Iterator[BatchChanges]:
    """Yield what is kept of the batches with changes, the last first; what cannot be read is left out."""
    directory = checkpoint / CHANGES_DIRECTORY
    for number in reversed(batches(directory)):
        batch_changes = _read_batch(checkpoint, directory / str(number), number)
        if batch_changes is not None:
            yield batch_changes


def drop_changes(checkpoint: Path) -> None:
    """Delete the changes of all batches."""
    directory = checkpoint / CHANGES_DIRECTORY
    if directory.is_dir() and not directory.is_symlink():
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()


def _read_batch(checkpoint: Path, file: Path, number: int) -> BatchChanges | None:
    try:
        table = pa.ipc.open_file(pa.py_buffer(read_file(checkpoint, file, _LARGEST))).read_all()
        table.validate(full=True)
        total = int((table.schema.metadata or {})[_TOTAL])
        column = table.column(table.num_columns - 1).combine_chunks()
        kinds = buffer_of(
            column.fill_null(-1) if column.type == pa.int8() else pa.array([-1]), np.int8
        )
        if ((kinds < 0) | (kinds > 3)).any():
            return None
        rows = table.select(range(table.num_columns - 1)).replace_schema_metadata(None)
    except (pa.ArrowException, OSError, CheckpointError, ValueError, KeyError, IndexError):
        return None
    return BatchChanges(number, total, rows, kinds)
