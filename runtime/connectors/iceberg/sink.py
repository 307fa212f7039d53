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
    iceberg_library,
    iceberg_schema,
    tried_once,
)
from aggloom.runtime.lakes.library_errors import take_first_line
from aggloom.runtime.lakes.sink import (
    AGAIN,
    CommitNote,
    Conflict,
    LakeSink,
    Last,
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
        # The library would try a commit again by itself over a table that the batch was not computed for.
        return tried_once(table)

    def _schema_of(self, table: Any) -> pa.Schema:
        return iceberg_schema(table)

    def _add_column(self, column: pa.Field) -> str:
        table = self.options.table
        return f"ALTER TABLE {table} ADD COLUMN {column.name} .., or in Python table.update_schema().add_column"

    def _make(self, catalog: Any, schema: pa.Schema) -> None:
        """Make the table."""
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

    def _last(self, table: Any, checkpoint: str) -> Last | None:
        recorded = table.properties.get(_OWN + checkpoint)
        if recorded is None:
            return None
        batch, digest = map(int, recorded.split())
        newest = _newest(table, checkpoint)
        # The property stays as it is where a table is rolled back; only the snapshots go.
        if newest not in (None, batch):
            raise CheckpointError(
                f"{self.where}: it was rolled back to batch {newest} of this checkpoint, which has written {batch}. "
                "Start with an empty checkpoint and existing=replace"
            )
        return Last(batch, digest)

    def _gain_columns(self, table: Any, columns: Sequence[pa.Field]) -> None:
        with self._translate_errors(), table.update_schema() as update:
            update.union_by_name(pa.schema(columns))

    def _has_rows(self, table: Any) -> bool:
        with self._translate_errors():
            return bool(table.scan().count())

    def _commit(self, table: Any, change: TableChange, note: CommitNote) -> None:
        about = {_CHECKPOINT: note.checkpoint, _BATCH: str(note.batch)}
        rows = in_table_order(change.rows, iceberg_schema(table)).cast(iceberg_schema(table))
        count = change.rows.num_rows + change.gone.num_rows
        with self._translate_errors():
            work = table.transaction()
            if note.anew:
                # Checkpoints that wrote before must not find their numbers in a table that is not theirs any more.
                others = [name for name in table.properties if name.startswith(_OWN)]
                if others:
                    work.remove_properties(*others)
            if note.anew or (self.options.form == "table" and not self.key and count):
                work.overwrite(rows, snapshot_properties=about)
            else:
                if self.options.form == "table" and count:
                    rows = self._instead(table, work, change, rows, about)
                # Without rows as well: a commit that has a snapshot is compared with those of others.
                work.append(rows, snapshot_properties=about)
            work.set_properties({_OWN + note.checkpoint: f"{note.batch} {note.digest}"})
            work.commit_transaction()

    def _instead(
        self, table: Any, work: Any, change: TableChange, rows: pa.Table, about: dict[str, str]
    ) -> pa.Table:
        """The rows that are put for those of their keys, which are deleted.

        The library deletes by conditions on single columns, which rows of other keys may meet: they are put again.
        """
        assert self.key is not None
        keys = pa.concat_tables([change.rows.select(self.key), change.gone])
        condition = _condition(keys)
        there = table.scan(row_filter=condition).to_arrow()
        if not there.num_rows:
            return rows
        mine = set(_identities(keys))
        is_untouched = [identity not in mine for identity in _identities(there.select(self.key))]
        # No key of the batch is there: nothing has to be rewritten, only appended.
        if all(is_untouched):
            return rows
        work.delete(condition, snapshot_properties=about)
        return pa.concat_tables([there.cast(rows.schema).filter(pa.array(is_untouched)), rows])

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Says in words what Iceberg's library says."""
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
    """The batch of a checkpoint that the table's newest snapshot of it has, as far as snapshots are kept."""
    at = table.current_snapshot()
    while at is not None:
        properties = at.summary.additional_properties if at.summary else {}
        if properties.get(_CHECKPOINT) == checkpoint:
            return int(properties[_BATCH])
        at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
    return None


def _condition(keys: pa.Table) -> Any:
    """A condition that the rows of all these keys meet, and few others: each column by itself.

    NaN is not found by the library's statistics, and what is nested has none; such columns say nothing.
    """
    from pyiceberg.expressions import AlwaysTrue, And, In, IsNull, Or

    condition: Any = AlwaysTrue()
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if pt.is_nested(column.type) or pt.is_floating(column.type):
            continue
        values = column.unique().to_pylist()
        some = {value for value in values if value is not None}
        either: Any = In(name, some) if some else None
        if None in values:
            either = IsNull(name) if either is None else Or(IsNull(name), either)
        condition = And(condition, either)
    return condition


def _identities(keys: pa.Table) -> Iterator[Any]:
    columns = [column.to_pylist() for column in keys.columns]
    return map(same_value, zip(*columns, strict=True))
