"""The table that a changelog describes, kept in a file under the checkpoint: sink `table`."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.durable_files import open_whole
from aggloom.errors import CheckpointError, StateCorruptError
from aggloom.runtime.connectors.files.discovery import suggest_sibling
from aggloom.runtime.hosting.arguments import check_checkpoint
from aggloom.runtime.hosting.checkpoint_paths import batches
from aggloom.runtime.sinks.net import has_old_rows
from aggloom.runtime.values.changelog import ChangelogLawError, Kinds, is_retraction, same_value
from aggloom.runtime.values.row_difference import comparable_values
from aggloom.runtime.values.row_groups import first_places, row_groups
from aggloom.runtime.values.scalars import buffer_of, from_places, truths

TABLE_FILE = "aggloom-table.arrow"
_WEIGHT = "weight"
_BATCH_ID, _CHECKSUM = b"aggloom.batch_id", b"aggloom.checksum"


class TableFile:
    """Keeps the table that the changelog describes, in a file under the checkpoint.

    The file is replaced by a rename and names the batch it includes, so a batch that is repeated changes nothing.
    in_order: whether a row of a key comes after the one that it replaces. If not, each row is retracted as it arrived.
    has_before: whether each row that is replaced is in the changelog, perhaps in an earlier batch (None: unknown).
    """

    def __init__(
        self,
        checkpoint: Path,
        key_columns: Sequence[str] | None = None,
        in_order: bool = True,
        has_before: bool | None = None,
    ) -> None:
        self.file, self._in_order = checkpoint / TABLE_FILE, in_order
        self._has_before = has_before
        self._keys = list(key_columns) if key_columns is not None else None

    def write(self, rows: pa.Table, kinds: Kinds, batch: int, before: int) -> bool:
        """Fold one batch into the table; False if it was there.

        before: the number of the batch before it. Raises CheckpointError if the table lacks that one.
        """
        old = read_table_file(self.file) if batch or self.file.exists() else None
        if old is not None:
            last = int(old.schema.metadata[_BATCH_ID])
            if batch <= last:
                return False
            self._check_order(last, batch, before)
        # The number of the batch and the rows are one file and one rename: a kill leaves both of before or both of
        # after.
        new = self._fold(old, rows, kinds)
        about = {_BATCH_ID: str(batch).encode()}
        new = new.combine_chunks().replace_schema_metadata(about)
        new = new.replace_schema_metadata({**about, _CHECKSUM: _checksum(new)})
        _write(new, self.file)
        return True

    def _check_order(self, last: int, batch: int, before: int) -> None:
        """Raise CheckpointError if the table lacks a batch before this one."""
        if last < before:
            raise CheckpointError(
                f"table sink: {self.file} has batch {last}, and the checkpoint's next batch is {batch}: the "
                "changes between are missing, as after the file was restored from an older copy. Restore the whole "
                "checkpoint from one copy, or start over with an empty checkpoint directory."
            )

    def _fold(self, old: pa.Table | None, rows: pa.Table, kinds: Kinds) -> pa.Table:
        """The table, with each row's weight as the last column, after some changes."""
        # An update may be cut by the end of a batch: a batch need not have as many -U rows as +U rows.
        if self._keys is None and not self._has_before and not has_old_rows(kinds):
            raise ChangelogLawError(
                "table sink: +U rows come without -U rows; a changelog without -U rows needs key_columns"
            )
        # Columns are numbered: a user's name must not meet the weight's.
        names = rows.column_names
        weights = pa.array([-1 if retracts else 1 for retracts in is_retraction(kinds)], pa.int64())
        delta = rows.rename_columns([f"c{place}" for place in range(len(names))])
        delta = delta.append_column(_WEIGHT, weights)
        if old is not None:
            # Old rows precede new ones: the order decides which row of a key is the last.
            before = _by_name(old, rows.schema).rename_columns(delta.column_names)
            before = before.replace_schema_metadata(None)
            delta = pa.concat_tables([before, delta.replace_schema_metadata(None)])
        # Without an order a retraction may come after the row that takes its place: only whole rows cancel then.
        by_row = self._keys is None or not self._in_order
        folded = _net(delta) if by_row else self._by_key(delta, names)
        return folded.rename_columns([*names, _WEIGHT])

    def _by_key(self, rows: pa.Table, names: list[str]) -> pa.Table:
        """The last row of each key, unless that was a retraction."""
        places = [names.index(name) for name in self._keys or []]
        last: dict[tuple[Any, ...], int] = {}
        columns = [rows.column(place).to_pylist() for place in places]
        keys = zip(*columns, strict=True) if columns else [()] * rows.num_rows
        for position, (key, weight) in enumerate(
            zip(keys, rows.column(_WEIGHT).to_pylist(), strict=True)
        ):
            identity = tuple(map(same_value, key))
            if weight > 0:
                last[identity] = position
            else:
                last.pop(identity, None)
        # By position: rows keep the order in which they arrived, whichever key was written over.
        return rows.take(pa.array(sorted(last.values()), pa.int64()))


def _by_name(old: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the columns that the query has now: what it had under their names and types, else NULL."""
    columns_without_last = old.schema.remove(old.num_columns - 1)
    if columns_without_last.equals(schema):
        return old
    # A column of the same name and another type is another column: its old values would be no values of it.
    places = {(field.name, field.type): place for place, field in enumerate(columns_without_last)}
    columns = [
        (
            old.column(places[field.name, field.type])
            if (field.name, field.type) in places
            else pa.nulls(old.num_rows, field.type)
        )
        for field in schema
    ]
    weights = old.column(old.num_columns - 1)
    return pa.table([*columns, weights], names=[*schema.names, _WEIGHT])


def _net(rows: pa.Table) -> pa.Table:
    """The rows whose weights do not cancel out."""
    width = rows.num_columns - 1
    groups = row_groups(
        [comparable_values(column) for column in rows.columns[:width]], rows.num_rows
    )
    firsts = first_places(groups)
    sums = np.zeros(len(firsts), np.int64)
    # add.at and not +=, which would count a group once however often it is named.
    np.add.at(sums, groups, buffer_of(rows.column(width).combine_chunks(), np.int64))
    stays = sums != 0
    net = rows.take(from_places(firsts[stays]))
    net = net.set_column(width, _WEIGHT, pa.array(sums[stays]))
    if net.num_rows and pc.min(net.column(_WEIGHT)).as_py() < 0:
        worst = net.filter(pc.less(net.column(_WEIGHT), 0)).slice(0, 1).to_pylist()[0]
        raise ChangelogLawError(
            f"table sink: a row is retracted that is not there: {tuple(worst.values())[:-1]!r}; "
            "was the checkpoint, or the table in it, replaced?"
        )
    return net


def _write(table: pa.Table, file: Path) -> None:
    """Replace a file by one of the table, in one step; what does not get so far leaves nothing behind."""
    # The checkpoint is committed next; a table that is behind it could not follow.
    with open_whole(file) as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def read_table_file(file: Path) -> pa.Table:
    """The file's table, in memory; raises StateCorruptError if it is not what was written."""
    try:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        about = dict(table.schema.metadata or {})
        whole = about.pop(_CHECKSUM, b"") == _checksum(table.replace_schema_metadata(about))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        whole = False
    if not whole:
        raise StateCorruptError(
            f"table sink: {file.name} is {'damaged' if file.exists() else 'missing'}. "
            "Restore the checkpoint from a copy, or start over with an empty checkpoint directory."
        )
    return table


def drop_rows(file: Path, values: Mapping[str, pa.Scalar]) -> int:
    """Drop the rows of a table's file that have these values, without a batch; how many there were, each once.

    Columns that the table lacks are an error of the caller. Raises StateCorruptError.
    """
    stored, batch = read_stored_table(file)
    fits = np.ones(stored.num_rows, np.bool_)
    for name, value in values.items():
        column = stored.column(name).combine_chunks()
        same = pc.equal(column, value.cast(column.type)) if value.is_valid else pc.is_null(column)
        fits &= truths(same)
    if not fits.any():
        return 0
    about = {_BATCH_ID: str(batch).encode()}
    rest = stored.filter(pa.array(~fits)).combine_chunks().replace_schema_metadata(about)
    _write(rest.replace_schema_metadata({**about, _CHECKSUM: _checksum(rest)}), file)
    return int(fits.sum())


def table_batch(file: Path) -> int | None:
    """The batch up to which a table's file has come; None if it is not there. Raises StateCorruptError."""
    return read_stored_table(file)[1] if file.exists() else None


def _checksum(table: pa.Table) -> bytes:
    """Return the checksum that distinguishes the contents of a table, and its metadata, from any other."""
    # The schema as well: the number of the batch is in its metadata.
    checksum = zlib.crc32(table.schema.serialize())
    for batch in table.to_batches():
        checksum = zlib.crc32(batch.serialize(), checksum)
    return str(checksum).encode()


def read_table(checkpoint: str | Path) -> pa.Table:
    """The table that a `table` sink keeps under a checkpoint; a row that is there n times comes n times.

    checkpoint: the directory. Raises CheckpointError if there is no such directory, or if no batch has run;
    StateCorruptError if the file is damaged or missing.

    Example:
        >>> import aggloom as al
        >>> from aggloom import local
        >>> orders = local.from_rows([("+I", "Ada", 30), ("+I", "Ada", 12)], "customer STRING, amount INT")
        >>> totals = local.sql("SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer", orders=orders,
        ...                    backend="python")
        >>> local.await_end(local.write_changes(totals, "table", "state/"))
        >>> al.read_table("state/").to_pylist()
        [{'customer': 'Ada', 's': 42}]
    """
    check_checkpoint("read_table", checkpoint)
    file = Path(checkpoint) / TABLE_FILE
    if not file.parent.is_dir():
        is_file = file.parent.exists()
        where = " That is a file." if is_file else suggest_sibling(file.parent)
        raise CheckpointError(f"read_table: there is no directory {str(checkpoint)!r}.{where}")
    if not file.exists() and not batches(file.with_name("commits")):
        raise CheckpointError(f"{checkpoint}: no batch has run yet, so that there is no table.")
    return expand_rows(read_table_file(file))


def read_stored_table(file: Path) -> tuple[pa.Table, int]:
    """The table of a file with each row's weight as the last column, and its batch; raises StateCorruptError."""
    stored = read_table_file(file)
    return stored, int(stored.schema.metadata[_BATCH_ID])


def expand_rows(stored: pa.Table) -> pa.Table:
    """The rows of a stored table without their weights, each as often as its weight says."""
    weights = buffer_of(stored.column(stored.num_columns - 1).combine_chunks(), np.int64)
    rows = stored.drop_columns([stored.column_names[-1]])
    if (weights == 1).all():
        return rows
    return rows.take(from_places(np.repeat(np.arange(len(weights)), weights)))
