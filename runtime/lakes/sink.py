"""The base of sinks into tables of files, Delta's and Iceberg's, each commit of which is one transaction.

The rows of a batch and its number are in one commit: the table has both or neither. A batch that runs again after a
kill is recognised by its number, under the id of the checkpoint, and skipped.
"""

from __future__ import annotations

import hashlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.lakes.fit import cast_rows, check_nulls, fit_columns
from aggloom.runtime.lakes.types import CHANGE, stored_schema
from aggloom.runtime.sinks.net import has_old_rows, net_by_key
from aggloom.runtime.values.changelog import Kinds, kinds_to_arrow

_LONGEST_WAIT = 5.0
AGAIN = "If the batch was written, the next run finds it and passes over it."
_ANEW = "Start with an empty checkpoint and existing=replace."


class LastBatch(NamedTuple):
    """The batch that a checkpoint wrote last into a table."""

    batch: int
    digest: int


class TableChange(NamedTuple):
    """The change of a batch. rows: to upsert, or to append to a changelog. gone: the keys of rows to delete."""

    rows: pa.Table
    gone: pa.Table
    digest: int


class CommitNote(NamedTuple):
    """The note that is committed with a batch. anew: the batch replaces all rows of the table."""

    checkpoint: str
    batch: int
    digest: int
    anew: bool


class Conflict(Exception):
    """Raised if another writer has committed to the table since it was opened."""


@dataclass
class LakeSink(ABC):
    """Writes the batches of a result into a table of files.

    key: the columns that identify a row; a changelog needs none. has_old_rows: True if updates come with the row
    before; None: decided for each batch. pause: sleeps for so many seconds. added: columns to add to the table.
    """

    options: Any
    key: Sequence[str] | None
    has_old_rows: bool | None
    pause: Callable[[float], None] = time.sleep
    added: Set[str] = frozenset()
    kind: ClassVar[str]

    @property
    @abstractmethod
    def where(self) -> str:
        """Name of the table, for messages."""

    @abstractmethod
    def _exists(self) -> bool:
        """Tell whether the table exists."""

    def check_start(self, schema: pa.Schema) -> None:
        """Raise SinkError where an existing table does not take the result's columns in its types."""
        columns = stored_schema(schema, self.where)
        if self.options.form == "changelog" and CHANGE not in columns.names:
            columns = columns.append(pa.field(CHANGE, pa.string()))
        if self._exists():
            table = self._open_table(columns)
            missing = {field.name for field in self._find_missing(table, columns)}
            self._fit_columns(table, pa.schema([f for f in columns if f.name not in missing]))

    @abstractmethod
    def _open_table(self, schema: pa.Schema) -> Any:
        """The current table, created if it is missing; raises SinkError where it cannot have these columns."""

    @abstractmethod
    def _schema_of(self, table: Any) -> pa.Schema:
        """The columns of the table."""

    @abstractmethod
    def _add_column(self, column: pa.Field) -> str:
        """Return the statement that adds a column to the table, for messages."""

    @abstractmethod
    def _gain_columns(self, table: Any, columns: Sequence[pa.Field]) -> None:
        """Add columns to the table, in a commit of their own; raises Conflict if another commit was first."""

    def _find_missing(self, table: Any, schema: pa.Schema) -> list[pa.Field]:
        """The columns of `added` that the result has and the table lacks."""
        names = self._schema_of(table).names
        return [each for each in schema if each.name in self.added and each.name not in names]

    @abstractmethod
    def _last(self, table: Any, checkpoint: str) -> LastBatch | None:
        """The batch that the checkpoint wrote last; None: none, or another checkpoint has replaced the table since."""

    @abstractmethod
    def _has_rows(self, table: Any) -> bool:
        """Tell whether the table has rows, whoever wrote them."""

    @abstractmethod
    def _commit(self, table: Any, change: TableChange, note: CommitNote) -> None:
        """Write a batch and its note in one commit; raises Conflict if another commit was first."""

    def last_batch(self, checkpoint: str) -> int | None:
        """The number of the batch that a checkpoint wrote last; None without one, and without a table."""
        if not self._exists():
            return None
        last = self._last(self._open_table(pa.schema([])), checkpoint)
        return None if last is None else last.batch

    def _check_partitioning(self, schema: pa.Schema) -> None:
        """Raise SpecError where partition_by names a column that the result does not have."""
        for name in self.options.partition_by:
            if name not in schema.names:
                raise SpecError(
                    f"{self.where}: partition_by names {name!r}, which the result does not have"
                )

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Write a batch; False if the table has it already.

        checkpoint: its id. before: the number of the batch before this one, if not the next lower one.
        Raises SinkError for values that the table does not take, CheckpointError for a checkpoint that does not fit.
        """
        change = self._change(rows, kinds)
        before = batch - 1 if before is None else before
        for attempt in range(self.options.attempts):
            if attempt:
                self.pause(random.uniform(0.5, 1) * min(_LONGEST_WAIT, 0.1 * 2**attempt))
            try:
                table = self._open_table(change.rows.schema)
                missing = self._find_missing(table, change.rows.schema)
                if missing:
                    # Before the batch: a kill in between leaves a table that has the columns already.
                    self._gain_columns(table, missing)
                    table = self._open_table(change.rows.schema)
            except Conflict as error:
                message = str(error)
                continue
            # Checked in each attempt: the commit in between may be one of another run of this checkpoint.
            last = self._last(table, checkpoint)
            if last == (batch, change.digest):
                return False
            self._check(last, batch, before, lambda table=table: self._has_rows(table))  # type: ignore[misc]
            anew = last is None and self.options.existing == "replace"
            columns = self._fit_columns(table, change.rows.schema)
            note = CommitNote(checkpoint, batch, change.digest, anew)
            try:
                self._commit(table, self._cast_change(change, columns), note)
            except Conflict as error:
                message = str(error)
                continue
            return True
        raise SinkError(
            f"{self.where}: {self.options.attempts} times others have committed to the table while batch {batch} was "
            f"written, which was not ({message}). "
            "Let them write at other times, or give more attempts=; then start again"
        )

    def _check(
        self, last: LastBatch | None, batch: int, before: int, has_rows: Callable[[], bool]
    ) -> None:
        """Raise SinkError or CheckpointError for a batch that does not follow the table's last one."""
        existing = self.options.existing
        if last is None:
            # The table may have been dropped and created again; it would then have the last batches only.
            if batch and existing != "keep":
                raise CheckpointError(
                    f"{self.where}: it has no batch of this checkpoint, and batch {batch} is next, so the rows of "
                    f"earlier batches would be missing. {_ANEW} existing=keep continues with the rows that are there"
                )
            if existing == "error" and has_rows():
                raise SinkError(
                    f"{self.where}: it has rows that this checkpoint did not write. existing=replace deletes them with "
                    "the first batch, existing=keep leaves them where they are"
                )
        # The checkpoint committed batches that are not in the table.
        elif last.batch < before:
            raise CheckpointError(
                f"{self.where}: it has batch {last.batch} of this checkpoint, and batch {batch} is next: those in "
                f"between were written elsewhere, or its directory was restored from an older copy. {_ANEW}"
            )
        elif batch < last.batch and not self.options.replay:
            raise CheckpointError(
                f"{self.where}: it has batch {last.batch} of this checkpoint, which runs batch {batch} again, as after "
                "it was restored from an older copy. replay=true writes its batches again, over the rows of the "
                f"table. For another history: {_ANEW}"
            )
        elif batch == last.batch and self.options.form == "changelog" and not self.options.replay:
            raise CheckpointError(
                f"{self.where}: it has batch {batch} of this checkpoint, which runs this batch again with other rows; "
                "those of the first run cannot be removed from a changelog. replay=true writes it again, after them. "
                + _ANEW
            )

    def _fit_columns(self, table: Any, schema: pa.Schema) -> pa.Schema:
        """The result's columns in the types of the table; raises SinkError where it does not take them."""
        key = self.key if self.options.form == "table" and self.key else ()
        table_columns, cast = self._schema_of(table), self.options.cast
        return fit_columns(schema, table_columns, key, cast, self.where, self._add_column)

    def _cast_change(self, change: TableChange, columns: pa.Schema) -> TableChange:
        """The change in the types of the table; raises SinkError for a value out of their range."""
        check_nulls(change.rows, columns, self.where)
        rows = cast_rows(change.rows, columns, self.where)
        # Without a key `gone` has no columns, only a number of rows.
        gone = cast_rows(change.gone, columns, self.where) if self.key else change.gone
        return change._replace(rows=rows, gone=gone)

    def _change(self, rows: pa.Table, kinds: Kinds) -> TableChange:
        """Return the change of a batch: its rows by key, or as a changelog."""
        rows = to_stored_types(rows, self.where)
        none = rows.schema.empty_table()
        if self.options.form == "changelog":
            if CHANGE in rows.column_names:
                raise SpecError(
                    f"{self.where}: the result has a column {CHANGE!r}, as the changelog's own is called; give it "
                    "another name in the query"
                )
            with_kinds = rows.append_column(CHANGE, kinds_to_arrow(kinds))
            columns = [column.to_pylist() for column in with_kinds.columns]
            lines = sorted(map(repr, zip(*columns, strict=True)))
            return TableChange(with_kinds, none, _digest(with_kinds.schema.names, lines))
        assert self.key is not None
        before = has_old_rows(kinds) if self.has_old_rows is None else self.has_old_rows
        net = net_by_key(rows, kinds, self.key, before, self.where)
        upserts = [each.row for each in net if each.row is not None]
        gone = [each.key for each in net if each.row is None]
        key_schema = pa.schema([rows.schema.field(name) for name in self.key])
        digest = _digest(rows.schema.names, [repr(tuple(each)) for each in net])
        return TableChange(_table(upserts, rows.schema), _table(gone, key_schema), digest)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not len(schema):
        # A key of no columns: only the number of rows matters.
        return pa.table({"": pa.nulls(len(rows))})
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _digest(names: Sequence[str], lines: Sequence[str]) -> int:
    """63 bits of a hash that distinguish a batch from any other: Delta's transaction numbers are int64."""
    text = "\n".join([repr(list(names)), *lines])
    digest = hashlib.sha256(text.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]) >> 1


def to_stored_types(rows: pa.Table, where: str) -> pa.Table:
    """The rows in the types of `stored_type`; raises SpecError for one that has none."""
    return rows.replace_schema_metadata(None).cast(stored_schema(rows.schema, where))


def in_table_order(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """The rows with all columns of a table, in its order; a column that the result lacks is NULL."""
    columns = [
        rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in table
    ]
    return pa.table(columns, names=table.names)
