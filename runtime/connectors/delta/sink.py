"""delta: a Delta table, by the result's key (MERGE) or as a changelog, each batch once.

A batch is one commit, with Delta's own transaction identifiers: the number of the batch, its digest, and the epoch of
the table, which rises when a checkpoint replaces all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.connectors.delta.table import FEED, TIME, VERSION, delta_library, has_feed
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
from aggloom.runtime.lakes.types import CHANGE

RESERVED = (CHANGE, VERSION, TIME)
"""Columns that a table with a change data feed must not have."""
_EPOCH = "aggloom/epoch"
_CHECKPOINT, _BATCH = "aggloom.checkpoint", "aggloom.batch"
_MAX_COMMITS = 100


@dataclass
class DeltaSink(LakeSink):
    """Writes the batches of a result into a Delta table."""

    kind = "delta"
    _table: Any = None

    def __post_init__(self) -> None:
        _library()

    def __getstate__(self) -> dict[str, Any]:
        # A handle of the library belongs to its process; another opens the table for itself.
        return {**vars(self), "_table": None}

    @property
    def where(self) -> str:
        return f"sink delta, table {self.options.path}"

    def _exists(self) -> bool:
        storage = dict(self.options.storage) or None
        with self._translate_errors():
            return bool(_library().DeltaTable.is_deltatable(self.options.path, storage))

    def _open_table(self, schema: pa.Schema) -> Any:
        with self._translate_errors():
            if self._table is None:
                self._table = self._find_table(schema)
            else:
                self._table.update_incremental()
            table = self._table
        if has_feed(table.metadata().configuration):
            for name in RESERVED:
                if name in schema.names:
                    raise SinkError(
                        f"{self.where}: it has a change data feed, whose own column {name!r} is. Take {FEED} from the "
                        "table, or give the column another name"
                    )
        return table

    def _schema_of(self, table: Any) -> pa.Schema:
        return table_schema(table)

    def _add_column(self, column: pa.Field) -> str:
        path, type_name = self.options.path, str(_library().Field.from_arrow(column).type.type)
        return (
            f"ALTER TABLE delta.`{path}` ADD COLUMNS ({_quote_name(column.name)} {type_name}), or in Python "
            f"DeltaTable({path!r}).alter.add_columns(deltalake.Field({column.name!r}, ..))"
        )

    def _find_table(self, schema: pa.Schema) -> Any:
        """The table, created if it is missing; raises SinkError with create=false."""
        library, options = _library(), self.options
        storage = dict(options.storage) or None
        if not library.DeltaTable.is_deltatable(options.path, storage):
            if not options.create:
                raise SinkError(
                    f"{self.where}: there is no Delta table; make it, or leave create=false out"
                )
            self._check_partitioning(schema)
            library.DeltaTable.create(
                options.path,
                library.Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(options.partition_by) or None,
                configuration=dict(options.properties) or None,
                storage_options=storage,
            )
        return library.DeltaTable(options.path, storage_options=storage)

    def _last(self, table: Any, checkpoint: str) -> LastBatch | None:
        batch, digest, epoch = map(table.transaction_version, _names(checkpoint))
        # In another epoch: another checkpoint has replaced all rows since this one wrote its batch.
        if batch is None or epoch != (table.transaction_version(_EPOCH) or 0):
            return None
        self._check_restored(table, checkpoint)
        return LastBatch(batch, -1 if digest is None else digest)

    def _check_restored(self, table: Any, checkpoint: str) -> None:
        """Raise CheckpointError where the table was restored to a version before the checkpoint's last batch.

        RESTORE retracts rows, and leaves the numbers of batches, so the newest commits of the log are checked.
        """
        restored: list[int] = []
        # Nearly always the newest commit is this checkpoint's own: one is read first, and many only if it is not.
        for most in (1, _MAX_COMMITS):
            restored.clear()
            with self._translate_errors():
                newest = table.history(most)
            for commit in newest:
                if commit.get(_CHECKPOINT) == checkpoint:
                    # History is the newest first: these RESTOREs follow the commit, and return to a version before it.
                    if any(version < commit["version"] for version in restored):
                        raise CheckpointError(
                            f"{self.where}: it was restored to a version before batch {commit.get(_BATCH)} of this "
                            "checkpoint. Start with an empty checkpoint and existing=replace"
                        )
                    return
                if commit.get("operation") == "RESTORE":
                    restored.append(_target(commit.get("operationParameters") or {}))

    def _gain_columns(self, table: Any, columns: Sequence[pa.Field]) -> None:
        library = _library()
        fields = library.Schema.from_arrow(pa.schema(columns)).fields
        with self._translate_errors():
            table.alter.add_columns(fields)
        self._table = None

    def _has_rows(self, table: Any) -> bool:
        with self._translate_errors():
            return bool(table.count())

    def _commit(self, table: Any, change: TableChange, note: CommitNote) -> None:
        self._check_partitions(table, change.rows)
        library = _library()
        rows = in_table_order(change.rows, table_schema(table))
        known: dict[str, Any] = {"commit_properties": self._properties(table, note)}
        one_row = self.options.form == "table" and not self.key
        with self._translate_errors():
            # A global aggregate has no key to merge by: its one row is the whole table.
            if note.anew or (one_row and change.rows.num_rows + change.gone.num_rows):
                library.write_deltalake(table, rows, mode="overwrite", **known)
            # A batch without rows is committed as well, so that its number is known if it runs again.
            elif self.options.form == "changelog" or not (rows.num_rows or change.gone.num_rows):
                library.write_deltalake(table, rows, mode="append", **known)
            else:
                self._merge(table, change, known)

    def _merge(self, table: Any, change: TableChange, known: dict[str, Any]) -> None:
        """Write each row over the one of its key, and delete those whose keys are gone."""
        assert self.key is not None
        names, gone = change.rows.column_names, change.gone
        # The columns of a deletion outside of its key are NULL.
        merged = pa.concat_tables([change.rows, in_table_order(gone, change.rows.schema)])
        marks = pa.array([False] * change.rows.num_rows + [True] * gone.num_rows)
        # Columns are numbered: a user's name must not equal another, nor need quotes.
        numbered = [*(f"c{at}" for at in range(len(names))), "gone"]
        source = pa.table([*merged.columns, marks], names=numbered)
        # NULL is a key like any other.
        same = " AND ".join(
            f"(t.{_quote_name(name)} IS NOT DISTINCT FROM s.c{names.index(name)})"
            for name in self.key
        )
        sets = {_quote_name(name): f"s.c{at}" for at, name in enumerate(names)}
        merger = table.merge(source, predicate=same, source_alias="s", target_alias="t", **known)
        # The library takes the first clause that matches, so that deletion precedes update.
        merger = merger.when_matched_delete("s.gone").when_matched_update(sets)
        merger.when_not_matched_insert(sets, predicate="NOT s.gone").execute()

    def _properties(self, table: Any, note: CommitNote) -> Any:
        """The properties of a commit: its batch as transaction identifiers, and no retries by the library."""
        library = _library()
        batch, digest, epoch = _names(note.checkpoint)
        now = (table.transaction_version(_EPOCH) or 0) + note.anew
        properties = {batch: note.batch, digest: note.digest, epoch: now}
        if note.anew:
            properties[_EPOCH] = now
        return library.CommitProperties(
            custom_metadata={_CHECKPOINT: note.checkpoint, _BATCH: str(note.batch)},
            # A retry by the library would write over commits that the batch was not checked against.
            max_commit_retries=0,
            app_transactions=[
                library.Transaction(name, value) for name, value in properties.items()
            ],
        )

    def _check_partitions(self, table: Any, rows: pa.Table) -> None:
        """Raise SinkError for an empty text in a partition column, which Delta reads as NULL."""
        for name in table.metadata().partition_columns:
            if name in rows.column_names and "" in rows.column(name).to_pylist():
                raise SinkError(
                    f"{self.where}: column {name!r}, by which the table is partitioned, is '' in a row, which Delta "
                    "reads as NULL. Partition by another column, or write NULLIF or another text in the query"
                )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the library's errors into Conflict or SinkError; the table is opened again after one."""
        library = _library()
        try:
            yield
        except library.exceptions.CommitFailedError as error:
            self._table = None
            raise Conflict(take_first_line(error)) from error
        except (SinkError, SpecError, Conflict):
            raise
        except Exception as error:
            self._table = None
            raise SinkError(f"{self.where}: {take_first_line(error)}. {AGAIN}") from error


def table_schema(table: Any) -> pa.Schema:
    """The columns of a Delta table."""
    return pa.schema(table.schema().to_arrow())


def _names(checkpoint: str) -> tuple[str, str, str]:
    """Return the names of a checkpoint's transaction identifiers: of the batch, its digest, the epoch."""
    prefix = f"aggloom/{checkpoint}"
    return prefix, f"{prefix}/digest", f"{prefix}/epoch"


def _target(parameters: Mapping[str, Any]) -> int:
    """The version to which a table was restored; -1, before all, if RESTORE named a time."""
    version = str(parameters.get("version", "")).strip('"')
    return int(version) if version.isdigit() else -1


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _library() -> Any:
    return delta_library("sink delta")
