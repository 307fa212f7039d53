"""iceberg: an Iceberg table, by the result's key or as a changelog, each batch once.

A batch is one transaction of the catalog: the rows, and a property of the table that has the checkpoint's last batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from aggloom.errors import AggloomError, CheckpointError, SinkError
from aggloom.runtime.connectors.iceberg.table import (
    IcebergPlace,
    ancestors_of,
    iceberg_library,
    iceberg_schema,
    without_retries,
)
from aggloom.runtime.lakes.library_errors import take_first_line
from aggloom.runtime.lakes.sink import (
    AGAIN,
    CommitNote,
    Conflict,
    LakeSink,
    LastBatch,
    TableChange,
    in_table_order,
)
from aggloom.runtime.values.changelog import same_value

_OWN = "aggloom."
_CHECKPOINT, _BATCH = f"{_OWN}checkpoint", f"{_OWN}batch"


@dataclass
class IcebergSink(LakeSink):
    """Writes the batches of a result into an Iceberg table."""

    kind = "iceberg"
    _catalog: Any = None

    def __post_init__(self) -> None:
        iceberg_library(self.where)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_catalog": None}

    @property
    def where(self) -> str:
        return f"sink iceberg, table {self.options.table}"

    def _exists(self) -> bool:
        options = self.options
        if self._catalog is None:
            place = IcebergPlace(options.table, options.catalog, options.connect)
            self._catalog = place.opened_catalog()
        with self._translate_errors():
            return bool(self._catalog.table_exists(options.table))

    def _open_table(self, schema: pa.Schema) -> Any:
        options = self.options
        is_new = not self._exists()
        with self._translate_errors():
            if is_new:
                self._make(self._catalog, schema)
            table = self._catalog.load_table(options.table)
        # A retry by the library would write over commits that the batch was not checked against.
        return without_retries(table)

    def _schema_of(self, table: Any) -> pa.Schema:
        return iceberg_schema(table)

    def _add_column(self, column: pa.Field) -> str:
        table = self.options.table
        return f"ALTER TABLE {table} ADD COLUMN {column.name} .., or in Python table.update_schema().add_column"

    def _make(self, catalog: Any, schema: pa.Schema) -> None:
        """Create the table; raises SinkError with create=false, Conflict if another writer was first."""
        options = self.options
        if not options.create:
            raise SinkError(
                f"{self.where}: there is no such table; make it, or leave create=false out"
            )
        self._check_partitioning(schema)
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            catalog.create_namespace_if_not_exists(options.table.rpartition(".")[0])
            new_table = catalog.create_table_transaction(
                options.table, schema=schema, properties=dict(options.properties)
            )
            if options.partition_by:
                with new_table.update_spec() as spec:
                    for name in options.partition_by:
                        spec.add_identity(name)
            new_table.commit_transaction()
        except TableAlreadyExistsError as error:
            raise Conflict(take_first_line(error)) from error

    def _last(self, table: Any, checkpoint: str) -> LastBatch | None:
        recorded = table.properties.get(_OWN + checkpoint)
        if recorded is None:
            return None
        batch, digest = map(int, recorded.split())
        newest = _newest(table, checkpoint)
        # A rollback removes snapshots, and leaves the property.
        if newest not in (None, batch):
            raise CheckpointError(
                f"{self.where}: it was rolled back to batch {newest} of this checkpoint, which has written {batch}. "
                "Start with an empty checkpoint and existing=replace"
            )
        return LastBatch(batch, digest)

    def _gain_columns(self, table: Any, columns: Sequence[pa.Field]) -> None:
        with self._translate_errors(), table.update_schema() as update:
            update.union_by_name(pa.schema(columns))

    def _has_rows(self, table: Any) -> bool:
        with self._translate_errors():
            return bool(table.scan().count())

    def _commit(self, table: Any, change: TableChange, note: CommitNote) -> None:
        properties = {_CHECKPOINT: note.checkpoint, _BATCH: str(note.batch)}
        rows = in_table_order(change.rows, iceberg_schema(table)).cast(iceberg_schema(table))
        count = change.rows.num_rows + change.gone.num_rows
        with self._translate_errors():
            transaction = table.transaction()
            if note.anew:
                # Other checkpoints must not find their batches in a table whose rows are replaced.
                others = [name for name in table.properties if name.startswith(_OWN)]
                if others:
                    transaction.remove_properties(*others)
            if note.anew or (self.options.form == "table" and not self.key and count):
                transaction.overwrite(rows, snapshot_properties=properties)
            else:
                if self.options.form == "table" and count:
                    rows = self._delete_keys(table, transaction, change, rows, properties)
                # Without rows as well: a commit with a snapshot conflicts with the commits of others.
                transaction.append(rows, snapshot_properties=properties)
            transaction.set_properties({_OWN + note.checkpoint: f"{note.batch} {note.digest}"})
            transaction.commit_transaction()

    def _delete_keys(
        self,
        table: Any,
        transaction: Any,
        change: TableChange,
        rows: pa.Table,
        properties: dict[str, str],
    ) -> pa.Table:
        """Delete the rows of a change's keys, and return the rows to append.

        The library deletes by conditions on single columns, which rows of other keys may meet: they are appended again.
        """
        assert self.key is not None
        keys = pa.concat_tables([change.rows.select(self.key), change.gone])
        condition = _condition(keys)
        stored = table.scan(row_filter=condition).to_arrow()
        identities = set(_identities(keys))
        is_other = [each not in identities for each in _identities(stored.select(self.key))]
        # The table has no key of the batch, so nothing has to be rewritten.
        if all(is_other):
            return rows
        transaction.delete(condition, snapshot_properties=properties)
        return pa.concat_tables([stored.cast(rows.schema).filter(pa.array(is_other)), rows])

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the library's errors into Conflict or SinkError; the catalog is opened again after one."""
        iceberg_library(self.where)
        from pyiceberg.exceptions import CommitFailedException

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except CommitFailedException as error:
            raise Conflict(take_first_line(error)) from error
        except (AggloomError, Conflict):
            raise
        except Exception as error:
            self._catalog = None
            raise SinkError(f"{self.where}: {take_first_line(error)}. {AGAIN}") from error


def _newest(table: Any, checkpoint: str) -> int | None:
    """The batch of the newest snapshot that a checkpoint wrote; None if there is none, or it has expired."""
    for snapshot in ancestors_of(table):
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if properties.get(_CHECKPOINT) == checkpoint:
            return int(properties[_BATCH])
    return None


def _condition(keys: pa.Table) -> Any:
    """A condition that the rows of all these keys meet, and few others: it tests each column by itself.

    Columns of floats and nested types are left out: the library's statistics do not find NaN, and nested types have
    none.
    """
    from pyiceberg.expressions import AlwaysTrue, And, In, IsNull, Or

    condition: Any = AlwaysTrue()
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if pt.is_nested(column.type) or pt.is_floating(column.type):
            continue
        values = column.unique().to_pylist()
        known = {value for value in values if value is not None}
        test: Any = In(name, known) if known else None
        if None in values:
            test = IsNull(name) if test is None else Or(IsNull(name), test)
        condition = And(condition, test)
    return condition


def _identities(keys: pa.Table) -> Iterator[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return map(same_value, zip(*columns, strict=True))
