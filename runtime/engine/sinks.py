"""Sinks of the local engine: each takes the changes of a batch once, by the batch's number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa

from aggloom.codegen.planner import Plan
from aggloom.errors import AggloomError, SpecError
from aggloom.runtime.connectors.console import print_changes
from aggloom.runtime.connectors.files.table_file import TableFile
from aggloom.runtime.connectors.registry import Sink, destination, made_sink
from aggloom.runtime.connectors.sink_key import find_key
from aggloom.runtime.engine.file_sink import FileBatches
from aggloom.runtime.hosting.recent_changes import note_changes
from aggloom.runtime.values.changelog import CHANGE_COLUMNS, PROFILES, Kinds
from aggloom.runtime.values.columns import to_python
from aggloom.type_layout import is_variant

ROWS_SHOWN = 20


class BatchSink(Protocol):
    """A place for the changes of batches."""

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Take the changes of a batch; one that was taken before changes nothing."""


class ConsoleBatches:
    """Prints the first changes of each batch, in Flink's short words."""

    def __init__(self, rows_shown: int = ROWS_SHOWN, out: TextIO | None = None) -> None:
        self._rows_shown, self._out = rows_shown, out

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Print a batch."""
        print_changes(rows, kinds, batch, self._rows_shown, self._out)


class TableBatches:
    """The sink `table`: the folded table in a file under the checkpoint."""

    def __init__(self, table: TableFile) -> None:
        self._table = table

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Fold a batch into the table."""
        self._table.write(rows, kinds, batch, batch - 1)


class FunctionBatches:
    """A function of the user's as a sink; a batch that was killed before its commit comes once more."""

    def __init__(self, function: Callable[[pa.Table, int], None]) -> None:
        self._function = function

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Call the function with the changes of a batch, whose last column says their kinds, and its number."""
        # Spark's words, so that a function serves both engines.
        words = pa.array(PROFILES["spark"]).take(pa.array(kinds))
        self._function(rows.append_column(CHANGE_COLUMNS["spark"], words), batch)


class NamedSink:
    """A sink of a kind with options, under the id of the checkpoint."""

    def __init__(self, sink: Sink, checkpoint: str) -> None:
        self._sink, self._checkpoint = sink, checkpoint

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Hand a batch on; the sink knows batches by the checkpoint's id and their numbers."""
        self._sink.write(rows, kinds, batch, self._checkpoint, batch - 1)


class NotedBatches:
    """A sink whose last changes are kept in the checkpoint, too, for those who watch the query."""

    def __init__(self, sink: BatchSink, checkpoint: Path) -> None:
        self._sink, self._checkpoint = sink, checkpoint

    def write(self, rows: pa.Table, kinds: Kinds, batch: int) -> None:
        """Hand a batch on, and note its first changes; raises DataError for a time that Python's dates do not reach."""
        try:
            # The sink first: what is noted for watchers has been written.
            self._sink.write(rows, kinds, batch)
        except (OverflowError, ValueError) as error:
            if not isinstance(error, AggloomError):
                # Only a batch that fails pays for the search of the column.
                to_python(rows)
            raise
        note_changes(self._checkpoint, rows, kinds, batch)


def leaving_rows(rows: pa.Table) -> pa.Table:
    """Changes as sinks take them: VARIANTs are JSON as other programs write it."""
    if not any(map(is_variant, rows.schema.types)):
        return rows
    # Loaded where there are any: the functions of expressions take long to load.
    from aggloom.runtime.scalar.variant_columns import shown_variants

    return shown_variants(rows)


def open_sink(
    sink: str | Mapping[str, Any] | FunctionBatches,
    plan: Plan,
    checkpoint: Path,
    checkpoint_id: str,
    key_columns: Sequence[str] | None,
    added: Set[str] = frozenset(),
) -> BatchSink:
    """Open the sink of a query; raises SpecError where it cannot take the result.

    added: the columns that the result has gained, which a table that was there before gets, too.
    """
    if isinstance(sink, FunctionBatches):
        return sink
    named = _open_named(sink, plan, checkpoint, checkpoint_id, key_columns, added)
    return NotedBatches(named, checkpoint)


def _open_named(
    sink: str | Mapping[str, Any],
    plan: Plan,
    checkpoint: Path,
    checkpoint_id: str,
    key_columns: Sequence[str] | None,
    added: Set[str],
) -> BatchSink:
    kind, path, options = destination(sink)
    names = plan.schema.names
    for name in key_columns or ():
        if name not in names:
            raise SpecError(
                f"sink {kind}: key_columns names {name!r}, which the result does not have"
            )
    if options is not None:
        key, has_before = find_key(plan, names, key_columns, options)
        opened, _ = made_sink(options, key, has_before, added)
        check_start = getattr(opened, "check_start", None)
        if check_start is not None:
            # A table or a schema that exists is compared with the result before any row is read.
            check_start(plan.schema)
        return NamedSink(opened, checkpoint_id)
    if kind == "console":
        return ConsoleBatches()
    if kind == "table":
        in_order = key_columns is None or plan.is_ordered(key_columns)
        return TableBatches(TableFile(checkpoint, key_columns, in_order, plan.has_old_rows))
    return FileBatches(kind, Path(path), checkpoint_id)
