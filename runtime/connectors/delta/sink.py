"""delta: a Delta table, by the result's key (MERGE) or as a changelog, each batch once.

A batch is one commit, with Delta's own transaction identifiers: the checkpoint's number of the batch, its digest, and
the epoch of the table, which goes up when a checkpoint makes the table anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aggloom.errors import CheckpointError, SinkError, SpecError
from aggloom.runtime.connectors.delta.table import (
    CHANGE,
    FEED,
    TIME,
    VERSION,
    delta_library,
    has_feed,
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

RESERVED = (CHANGE, VERSION, TIME)
"""Columns that a table with a change data feed must not have."""
_EPOCH = "aggloom/epoch"
_CHECKPOINT, _BATCH = "aggloom.checkpoint", "aggloom.batch"
_LOOKED = 100


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
        """The table; made if it is not there."""
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

    def _last(self, table: Any, checkpoint: str) -> Last | None:
        batch, digest, epoch = map(table.transaction_version, _names(checkpoint))
        # Another checkpoint has made the table anew since: the numbers of before say nothing about it.
        if batch is None or epoch != (table.transaction_version(_EPOCH) or 0):
            return None
        self._check_restored(table, checkpoint)
        return Last(batch, -1 if digest is None else digest)

    def _check_restored(self, table: Any, checkpoint: str) -> None:
        """Raise CheckpointError where the table was restored to a version before the checkpoint's last batch.

        RESTORE retracts rows, and leaves the numbers of batches. The newest commits of the log are asked.
        """
        restored: list[int] = []
        # Nearly always the newest commit is this checkpoint's own: one is read first, and many only if it is not.
        for most in (1, _LOOKED):
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
            # A batch without rows is committed as well: its number has to be found if it runs again.
            elif self.options.form == "changelog" or not (rows.num_rows or change.gone.num_rows):
                library.write_deltalake(table, rows, mode="append", **known)
            else:
                self._merge(table, change, known)

    def _merge(self, table: Any, change: TableChange, known: dict[str, Any]) -> None:
        """Write each row over the one of its key, and delete those whose keys are gone."""
        assert self.key is not None
        names = change.rows.column_names
        gone = change.gone
        # Columns are numbered: a user's name must not meet another, nor need quoting.
        columns = []
        for name in names:
            of_gone = (
                gone.column(name)
                if name in self.key
                else pa.nulls(gone.num_rows, change.rows.schema.field(name).type)
            )
            columns.append(pa.chunked_array([*change.rows.column(name).chunks, *_chunks(of_gone)]))
        marks = pa.array([False] * change.rows.num_rows + [True] * gone.num_rows)
        source = pa.table(
            [*columns, marks], names=[*(f"c{at}" for at in range(len(names))), "gone"]
        )
        # NULL is a key as any other.
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
        """Properties committed beside the rows: no commit is tried again without a look at the commits between."""
        library = _library()
        batch, digest, epoch = _names(note.checkpoint)
        now = (table.transaction_version(_EPOCH) or 0) + note.anew
        properties = {batch: note.batch, digest: note.digest, epoch: now}
        if note.anew:
            properties[_EPOCH] = now
        return library.CommitProperties(
            custom_metadata={_CHECKPOINT: note.checkpoint, _BATCH: str(note.batch)},
            # The library would try again by itself, and so write over what it has not been judged against.
            max_commit_retries=0,
            app_transactions=[
                library.Transaction(name, value) for name, value in properties.items()
            ],
        )

    def _check_partitions(self, table: Any, rows: pa.Table) -> None:
        """Refuse what Delta's partitions cannot tell from NULL."""
        for name in table.metadata().partition_columns:
            if name in rows.column_names and "" in rows.column(name).to_pylist():
                raise SinkError(
                    f"{self.where}: column {name!r}, by which the table is partitioned, is '' in a row, which Delta "
                    "reads as NULL. Partition by another column, or write NULLIF or another text in the query"
                )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Says in words what Delta's library says; what was read of the table is read again then."""
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
    """Return the names of Delta's transaction identifiers of a checkpoint: the batch's, its digest's, the epoch's."""
    own = f"aggloom/{checkpoint}"
    return own, f"{own}/digest", f"{own}/epoch"


def _target(parameters: Mapping[str, Any]) -> int:
    """The version to which a table was restored; before all, where a time says it."""
    version = str(parameters.get("version", "")).strip('"')
    return int(version) if version.isdigit() else -1


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _library() -> Any:
    return delta_library("sink delta")
