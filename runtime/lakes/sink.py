"""The part that sinks into tables of files share: Delta's and Iceberg's, whose every commit is one transaction.

The rows of a batch and its number are in one commit: either both are there, or neither. What is written again after a
kill is found by the number, under the checkpoint's own id, and passed over.
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
from aggloom.runtime.lakes.types import stored_schema
from aggloom.runtime.sinks.net import has_old_rows, net_by_key
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, Kinds, kinds_to_arrow

CHANGE = CHANGE_COLUMNS["spark"]
_LONGEST = 5.0
AGAIN = "If the batch was written, the next run finds it and passes over it."
_ANEW = "Start with an empty checkpoint and existing=replace."


class Last(NamedTuple):
    """The batch that a checkpoint wrote last into a table."""

    batch: int
    digest: int


class TableChange(NamedTuple):
    """The change of a batch: rows that are there from now on (or changes, of a changelog), keys whose rows are gone."""

    rows: pa.Table
    gone: pa.Table
    digest: int


class CommitNote(NamedTuple):
    """The note committed with a batch. anew: whether the table holds nothing else from now on."""

    checkpoint: str
    batch: int
    digest: int
    anew: bool


class Conflict(Exception):
    """Somebody else has committed to the table since it was looked at."""


@dataclass
class LakeSink(ABC):
    """Writes the batches of a result into a table of files.

    key: the columns by which rows are distinguished; a changelog needs none. has_old_rows: whether the changes tell
    each row that is replaced; None: as each batch looks. added: the columns that the table gets if it lacks them.
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
        """Tell whether the table is there."""

    def check_start(self, schema: pa.Schema) -> None:
        """Raise SinkError where a table that is there does not take the result's columns in its types."""
        columns = stored_schema(schema, self.where)
        if self.options.form == "changelog" and CHANGE not in columns.names:
            columns = columns.append(pa.field(CHANGE, pa.string()))
        if self._exists():
            table = self._open_table(columns)
            lacks = {field.name for field in self._find_lacking(table, columns)}
            there = pa.schema([field for field in columns if field.name not in lacks])
            self._fit_columns(table, there)

    @abstractmethod
    def _open_table(self, schema: pa.Schema) -> Any:
        """The table as it is now, made if it is not there; raises SinkError where it cannot have these columns."""

    @abstractmethod
    def _schema_of(self, table: Any) -> pa.Schema:
        """The columns of the table."""

    @abstractmethod
    def _add_column(self, column: pa.Field) -> str:
        """Return what would add a column to the table."""

    @abstractmethod
    def _gain_columns(self, table: Any, columns: Sequence[pa.Field]) -> None:
        """Add columns to the table, in a commit of their own; raises Conflict if another commit was first."""

    def _find_lacking(self, table: Any, schema: pa.Schema) -> list[pa.Field]:
        """The columns that the result has gained and the table does not have yet."""
        there = self._schema_of(table).names
        return [each for each in schema if each.name in self.added and each.name not in there]

    @abstractmethod
    def _last(self, table: Any, checkpoint: str) -> Last | None:
        """The batch that the checkpoint wrote last; None: none, or the table was made anew since."""

    @abstractmethod
    def _has_rows(self, table: Any) -> bool:
        """Tell whether the table has rows, of whomever."""

    @abstractmethod
    def _commit(self, table: Any, change: TableChange, note: CommitNote) -> None:
        """Write a batch and its note in one commit; raises Conflict if another commit was first."""

    def last_batch(self, checkpoint: str) -> int | None:
        """The number of the batch that a checkpoint wrote last; None without one, and where there is no table."""
        if not self._exists():
            return None
        last = self._last(self._open_table(pa.schema([])), checkpoint)
        return None if last is None else last.batch

    def _check_partitioning(self, schema: pa.Schema) -> None:
        """Raise SpecError where the table is to be parted by what the result does not have."""
        for name in self.options.partition_by:
            if name not in schema.names:
                raise SpecError(
                    f"{self.where}: partition_by names {name!r}, which the result does not have"
                )

    def write(
        self, rows: pa.Table, kinds: Kinds, batch: int, checkpoint: str, before: int | None = None
    ) -> bool:
        """Write a batch; False if it was there. checkpoint: its id. before: the batch before this one.

        Raises SinkError for what the table does not take, CheckpointError for a checkpoint that does not fit it.
        """
        change = self._change(rows, kinds)
        before = batch - 1 if before is None else before
        for attempt in range(self.options.attempts):
            if attempt:
                self.pause(random.uniform(0.5, 1) * min(_LONGEST, 0.1 * 2**attempt))
            try:
                table = self._open_table(change.rows.schema)
                lacking = self._find_lacking(table, change.rows.schema)
                if lacking:
                    # Before the batch: a kill in between leaves a table that has the columns already.
                    self._gain_columns(table, lacking)
                    table = self._open_table(change.rows.schema)
            except Conflict as error:
                message = str(error)
                continue
            # Each attempt judges anew: whoever has committed meanwhile may have been another run of this checkpoint.
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
        self, last: Last | None, batch: int, before: int, has_rows: Callable[[], bool]
    ) -> None:
        """Raise SinkError or CheckpointError for a batch that does not fit what the table has."""
        existing = self.options.existing
        if last is None:
            # The table may have been dropped and made anew; going on would leave a table of the last batches only.
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
        there, cast = self._schema_of(table), self.options.cast
        return fit_columns(schema, there, key, cast, self.where, self._add_column)

    def _cast_change(self, change: TableChange, columns: pa.Schema) -> TableChange:
        """The change in the types of the table; raises SinkError for a value that they do not hold."""
        check_nulls(change.rows, columns, self.where)
        rows = cast_rows(change.rows, columns, self.where)
        # Without columns of a key there is only how many rows are gone.
        gone = cast_rows(change.gone, columns, self.where) if self.key else change.gone
        return change._replace(rows=rows, gone=gone)

    def _change(self, rows: pa.Table, kinds: Kinds) -> TableChange:
        """Return the change that a batch makes."""
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
        there = [each.row for each in net if each.row is not None]
        gone = [each.key for each in net if each.row is None]
        own = pa.schema([rows.schema.field(name) for name in self.key])
        digest = _digest(rows.schema.names, [repr(tuple(each)) for each in net])
        return TableChange(_table(there, rows.schema), _table(gone, own), digest)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not len(schema):
        # A key of no columns: how many rows there are is all that is to be said.
        return pa.table({"": pa.nulls(len(rows))})
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _digest(names: Sequence[str], lines: Sequence[str]) -> int:
    """63 bits that tell a batch from any other."""
    text = "\n".join([repr(list(names)), *lines])
    digest = hashlib.sha256(text.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]) >> 1


def to_stored_types(rows: pa.Table, where: str) -> pa.Table:
    """The rows in types that tables of files have; raises SpecError for one that they do not."""
    return rows.replace_schema_metadata(None).cast(stored_schema(rows.schema, where))


def in_table_order(rows: pa.Table, there: pa.Schema) -> pa.Table:
    """The rows with all columns of a table, in its order; those that the result does not have are NULL."""
    columns = [
        rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type)
        for f in there
    ]
    return pa.table(columns, names=there.names)
