"""Sinks for a changelog: the console, a materialised table, JSON lines, Parquet; a database, a topic of Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.errors import SpecError, nearest
from aggloom.platform_switch import is_tuned
from aggloom.runtime.connectors.console import print_changes
from aggloom.runtime.connectors.files.paths import absolute_path
from aggloom.runtime.connectors.files.sink import WRITTEN, FileSink, delete_uncommitted
from aggloom.runtime.connectors.files.source_log import check_output
from aggloom.runtime.connectors.files.table_file import TableFile
from aggloom.runtime.connectors.registry import KNOWN, destination
from aggloom.runtime.hosting.arguments import check_checkpoint, check_key_columns
from aggloom.runtime.hosting.checkpoint_paths import is_local, local
from aggloom.runtime.hosting.recent_changes import note_changes
from aggloom.runtime.spark.api.inputs import check_frame
from aggloom.runtime.spark.arguments import check_text, check_trigger
from aggloom.runtime.spark.failures import explain_failure, start_query, translate_failures
from aggloom.runtime.spark.plan.lower import find_lowering
from aggloom.runtime.spark.plan.variant_frames import rows_of, with_json_texts
from aggloom.runtime.spark.sessions.cluster import check_shared
from aggloom.runtime.spark.sessions.session import is_here
from aggloom.runtime.spark.start_checks import (
    WithFiles,
    ordered_by_name,
    prepare_start,
    resume_changelog,
)
from aggloom.runtime.spark.watch.journal import follow_query
from aggloom.runtime.spark.watch.repartition import batch_before, hint
from aggloom.runtime.spark.write.each_batch import EachBatch, change_column_of
from aggloom.runtime.values.changelog import parse_kinds
from aggloom.writable import check_checkpoint_directory, check_output_directory

_LOG = logging.getLogger("aggloom")
WriteBatch = Callable[[DataFrame, int], None]
"""The function of foreachBatch: writes the changes of the batch of a number."""


def write_changes(
    df: DataFrame,
    sink: str | Mapping[str, Any],
    checkpoint: str | Path,
    *,
    trigger: dict[str, Any] | None = None,
    query_name: str | None = None,
    key_columns: Sequence[str] | None = None,
    rows_shown: int = 20,
) -> StreamingQuery:
    """Start a query that writes a changelog to a sink. By default it processes what is there and stops.

    df: a result of `sql` or its kin. sink: `console`, `table`, `jsonl:PATH`, `parquet:PATH`, or a mapping of its kind
    and its options, as in {"kind": "database", "table": "totals", "connect": "dbname=shop"} (docs/sinks.md).
    checkpoint: the directory of its progress and state. trigger: as of Spark's `writeStream.trigger`, such as
    {"processingTime": "10 seconds"}. query_name: its name on Spark. key_columns: those that tell `table` which row a
    lone +U replaces, and the others by which columns rows are written, if not by the result's key. rows_shown: how
    many rows of a batch `console` prints. Raises SpecError and its kin.

    Example:
        >>> import aggloom as al
        >>> from aggloom.sample import write_sample
        >>> from pathlib import Path
        >>> folder, checkpoint = Path("changes").resolve(), Path("state").resolve()
        >>> _ = write_sample(folder)
        >>> orders = al.read_changes(al.session(), folder, schema="customer STRING, amount INT")
        >>> totals = al.sql("SELECT customer, SUM(amount) AS spent FROM orders GROUP BY customer", orders=orders)
        >>> query = al.write_changes(totals, "table", checkpoint)
        >>> al.await_end(query)
        >>> sorted(row["spent"] for row in al.read_table(checkpoint).to_pylist())
        [45, 53, 55]
        >>> al.progress(query).rows
        13
        >>> al.repartition(al.session(), checkpoint, 3)
    """
    chosen = trigger or {"availableNow": True}
    _check_arguments(df, checkpoint, trigger, query_name, rows_shown)
    check_key_columns("write_changes", key_columns)
    _check_kinds(df, sink)
    kind, path, options = destination(sink)
    _try_trigger(df, chosen, trigger)
    path = absolute_path(df.sparkSession, path) if path else path
    checkpoint = absolute_path(df.sparkSession, checkpoint)
    _check_directories(checkpoint, path)
    df = resume_changelog(df, checkpoint)
    lowering = find_lowering(df)
    written = path or getattr(options, "path", None)
    if written and lowering is not None:
        check_output(written, {name: table.df for name, table in lowering.tables.items()})
    write_batch: WriteBatch | None = None
    if options is not None:
        write_batch = EachBatch.of(df, lowering, options, key_columns, checkpoint)
    else:
        _check_key(df.columns[:-1], key_columns)
    df = prepare_start(df, checkpoint)
    if keeps := hint(df.sparkSession, checkpoint):
        _LOG.warning(keeps)
    if kind == "console":
        write_batch = ConsoleSink(rows_shown)
    elif kind == "table":
        write_batch = _open_table(df, checkpoint, key_columns)
    elif write_batch is None:
        write_batch = _open_files(df, kind, path, checkpoint)
    # Into JSON Spark writes a VARIANT as its value; its own form in Parquet has few other readers.
    written_frame = with_json_texts(df) if kind == "parquet" else df
    writer = written_frame.writeStream.outputMode("append").trigger(**chosen)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if query_name:
        writer = writer.queryName(query_name)
    if write_batch is not None:
        sources = ordered_by_name(lowering)
        writer = writer.foreachBatch(WithFiles(checkpoint, write_batch, sources))
    else:
        writer = writer.format("json" if kind == "jsonl" else kind).option("path", path)
        writer = writer.options(**WRITTEN[kind])
    return follow_query(start_query(writer), checkpoint, lowering)


def _check_arguments(
    df: Any, checkpoint: Any, trigger: Any, query_name: Any, rows_shown: Any
) -> None:
    """Raise SpecError for an argument of `write_changes` of the wrong type or value."""
    check_frame("write_changes", df, upserts=True)
    check_checkpoint("write_changes", checkpoint)
    if trigger:
        check_trigger("write_changes", trigger)
    if query_name is not None:
        check_text("write_changes", "query_name", query_name)
    if type(rows_shown) is not int or rows_shown < 0:
        raise SpecError(f"write_changes: rows_shown is {rows_shown!r}; it must be a whole number")


def _check_kinds(df: DataFrame, sink: Any) -> None:
    """Raise SpecError for a DataFrame that is no stream, or a sink that is neither a text nor a mapping."""
    if not df.isStreaming:
        raise SpecError(
            "write_changes: the DataFrame is a batch, whose changes are all there: use df.write or df.toArrow(), "
            "or read a stream (al.read_changes does unless streaming=False)"
        )
    if not isinstance(sink, str | Mapping):
        raise SpecError(
            f"sink is a {type(sink).__name__}; known are {', '.join(KNOWN)}. "
            "For a function of your own use df.writeStream.foreachBatch"
        )


def _try_trigger(df: DataFrame, chosen: dict[str, Any], trigger: dict[str, Any] | None) -> None:
    """Raise SpecError for a trigger that Spark refuses, before the first file is written."""
    try:
        df.writeStream.trigger(**chosen)
    except PySparkException as failure:
        raise SpecError(
            f"write_changes: Spark refuses trigger={trigger!r}: {explain_failure(failure)}"
        ) from None


def _check_directories(checkpoint: str, path: str) -> None:
    """Raise SpecError and its kin for a checkpoint or an output directory that cannot be written."""
    if is_local(checkpoint):
        check_checkpoint_directory(local(checkpoint))
    if path and is_local(path):
        check_output_directory(local(path))


def _open_table(df: DataFrame, checkpoint: str, key_columns: Sequence[str] | None) -> TableSink:
    lowering = find_lowering(df)
    in_order = lowering is None or key_columns is None or lowering.plan.is_ordered(key_columns)
    has_before = None if lowering is None else lowering.plan.has_old_rows
    return TableSink(Path(checkpoint), key_columns, in_order, has_before)


def _open_files(df: DataFrame, kind: str, path: str, checkpoint: str) -> FileSink | None:
    """Return the sink of files that replaces Spark's; None if Spark's own has to write."""
    check_shared(df.sparkSession, "output", path)
    delete_uncommitted(path, checkpoint)
    return FileSink(kind, path, checkpoint) if is_here(df.sparkSession) and is_tuned() else None


def _check_key(names: Sequence[str], key: Sequence[str] | None) -> None:
    """Raise SpecError unless what is to distinguish rows are columns of the result."""
    for name in key or ():
        if name not in names:
            raise SpecError(
                f"write_changes: key_columns names {name!r}, which the result does not have. {nearest(name, names)}"
            )


class ConsoleSink:
    """Prints the first changes of each batch, in Flink's short words."""

    def __init__(self, rows_shown: int = 20, out: TextIO | None = None) -> None:
        self._rows_shown = rows_shown
        self._out = out

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Print one batch."""
        with translate_failures("console sink"):
            table = rows_of(batch)
        kinds = parse_kinds(table.column(change_column_of(table.column_names)), "console sink")
        rows = table.drop_columns([table.column_names[-1]])
        print_changes(rows, kinds, batch_id, self._rows_shown, self._out)


class TableSink:
    """Keeps the table that the changelog describes, in a file under the checkpoint, as `TableFile` says."""

    def __init__(
        self,
        checkpoint: Path,
        key_columns: Sequence[str] | None = None,
        in_order: bool = True,
        has_before: bool | None = None,
    ) -> None:
        self._table = TableFile(checkpoint, key_columns, in_order, has_before)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Fold one batch into the table."""
        # Spark commits the state of a batch that has run; one that it repeats must run, too.
        with translate_failures("table sink"):
            changes = rows_of(batch)
        kinds = parse_kinds(changes.column(change_column_of(changes.column_names)), "table sink")
        rows = changes.drop_columns([changes.column_names[-1]])
        before = batch_before(self._table.file.parent, batch_id, None)
        with translate_failures(f"table sink: {self._table.file}"):
            self._table.write(rows, kinds, batch_id, before)
        note_changes(self._table.file.parent, rows, kinds, batch_id)
