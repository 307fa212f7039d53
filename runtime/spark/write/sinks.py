"""Sinks for a changelog: the console, a materialised table, JSON lines, Parquet; a database, a topic of Kafka."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from aggloom.display import text_of
from aggloom.errors import CheckpointError, SpecError, StateCorruptError, nearest
from aggloom.platform_switch import is_tuned
from aggloom.runtime.connectors.files.discovery import suggest_sibling
from aggloom.runtime.connectors.files.paths import whole
from aggloom.runtime.connectors.files.sink import WRITTEN, FileSink, take_back
from aggloom.runtime.connectors.files.source_log import check_output
from aggloom.runtime.connectors.registry import KNOWN, destination
from aggloom.runtime.sinks.net import tells_before
from aggloom.runtime.spark.api.group_aggregate import check_frame
from aggloom.runtime.spark.arguments import check_path, check_text, check_trigger
from aggloom.runtime.spark.checkpoint import TABLE_FILE, batches, is_local, local
from aggloom.runtime.spark.failures import explain_failure, start_query, translate_failures
from aggloom.runtime.spark.plan.lower import find_lowering
from aggloom.runtime.spark.sessions.cluster import check_shared
from aggloom.runtime.spark.sessions.session import is_here
from aggloom.runtime.spark.start_checks import WithFiles, ordered_by_name, ready
from aggloom.runtime.spark.watch.journal import follow_query
from aggloom.runtime.spark.watch.repartition import batch_before, hint
from aggloom.runtime.spark.write.each_batch import EachBatch, change_column_of
from aggloom.runtime.values.changelog import (
    KIND_NAMES,
    ChangelogLawError,
    is_retraction,
    parse_kinds,
    same_value,
)
from aggloom.writable import check_checkpoint_directory, check_output_directory

_LOG = logging.getLogger("aggloom")
_WEIGHT, _PLACE = "weight", "place"
_BATCH_ID, _CHECKSUM = b"aggloom.batch_id", b"aggloom.checksum"


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
    """Start a query that writes a changelog to `console`, `table`, `jsonl:PATH`, `parquet:PATH`, a database, or Kafka.

    sink: one of these, or a mapping of its kind and its options, as in {"kind": "database", "table": "totals",
    "connect": "dbname=shop"} (docs/sinks.md). By default it processes what is there and stops. `key_columns` tell
    `table` which row a lone +U replaces, and the others by which columns rows are written, if not by the result's key.
    """
    check_frame("write_changes", df, upserts=True)
    check_path("write_changes", "checkpoint", checkpoint)
    if trigger:
        check_trigger("write_changes", trigger)
    if query_name is not None:
        check_text("write_changes", "query_name", query_name)
    if type(rows_shown) is not int or rows_shown < 0:
        raise SpecError(f"write_changes: rows_shown is {rows_shown!r}; it must be a whole number")
    _check_names(key_columns)
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
    kind, path, options = destination(sink)
    chosen = trigger or {"availableNow": True}
    try:
        df.writeStream.trigger(**chosen)
    except PySparkException as failure:
        raise SpecError(
            f"write_changes: Spark refuses trigger={trigger!r}: {explain_failure(failure)}"
        ) from None
    path = whole(df.sparkSession, path) if path else path
    checkpoint = whole(df.sparkSession, checkpoint)
    if is_local(checkpoint):
        check_checkpoint_directory(local(checkpoint))
    if path and is_local(path):
        check_output_directory(local(path))
    made = given = find_lowering(df)
    written = path or getattr(options, "path", None)
    if written and made is not None:
        check_output(written, {name: table.df for name, table in made.tables.items()})
    batches = None
    if options is not None:
        batches = EachBatch.of(df, made, options, key_columns, checkpoint)
    else:
        _check_key(df.columns[:-1], key_columns)
    df = ready(df, checkpoint)
    keeps = hint(df.sparkSession, checkpoint)
    if keeps:
        _LOG.warning(keeps)
    writer = df.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(**chosen)
    if query_name:
        writer = writer.queryName(query_name)
    each: Callable[[DataFrame, int], None] | None = batches
    if kind == "console":
        each = ConsoleSink(rows_shown)
    elif kind == "table":
        made = find_lowering(df)
        in_order = made is None or key_columns is None or made.plan.is_ordered(key_columns)
        told = None if made is None else made.plan.tells_before
        each = TableSink(Path(checkpoint), key_columns, in_order, told)
    elif batches is None:
        check_shared(df.sparkSession, "output", path)
        take_back(path, checkpoint)
        own = is_here(df.sparkSession) and is_tuned()
        each = FileSink(kind, path, str(checkpoint)) if own else None
    if each is not None:
        writer = writer.foreachBatch(WithFiles(checkpoint, each, ordered_by_name(given)))
    else:
        writer = writer.format("json" if kind == "jsonl" else kind).option("path", path)
        writer = writer.options(**WRITTEN[kind])
    return follow_query(start_query(writer), checkpoint, given)


def _check_names(key: Any) -> None:
    """Raise SpecError unless what is to tell rows apart, if given, is a list of names."""
    if isinstance(key, str):
        raise SpecError(f"write_changes: key_columns is the text {key!r}; give a list of columns")
    listed = isinstance(key, Sequence) and all(isinstance(name, str) for name in key)
    if key is not None and not listed:
        raise SpecError(f"write_changes: key_columns is {key!r}; give a list of columns")


def _check_key(names: Sequence[str], key: Sequence[str] | None) -> None:
    """Raise SpecError unless what is to tell rows apart are columns of the result."""
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
            table = batch.toArrow()
        kinds = parse_kinds(table.column(change_column_of(table.column_names)), "console sink")
        head = table.slice(0, self._rows_shown).to_pylist()
        for kind, row in zip(kinds, head, strict=False):
            values = ", ".join(f"{name}={text_of(value)}" for name, value in list(row.items())[:-1])
            print(f"{KIND_NAMES[kind]} {values}", file=self._out)
        if table.num_rows > len(head):
            print(f"... batch {batch_id}: {table.num_rows:,} changes in all", file=self._out)


class TableSink:
    """Keeps the table that the changelog describes, in a file under the checkpoint.

    The file is replaced by a rename and names the batch it includes, so a batch that Spark repeats changes nothing.
    in_order: whether a row of a key comes after the one that it replaces. If not, each row is taken back as it came.
    told: whether each row that is replaced is told, perhaps in an earlier batch (None: unknown).
    """

    def __init__(
        self,
        checkpoint: Path,
        key_columns: Sequence[str] | None = None,
        in_order: bool = True,
        told: bool | None = None,
    ) -> None:
        self._file, self._in_order = checkpoint / TABLE_FILE, in_order
        self._told = told
        self._keys = list(key_columns) if key_columns is not None else None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Fold one batch into the table."""
        # Spark commits the state of a batch that has run; one that it repeats must run, too.
        with translate_failures("table sink"):
            changes = batch.toArrow()
        old = _read_file(self._file) if batch_id or self._file.exists() else None
        if old is not None:
            last = int(old.schema.metadata[_BATCH_ID])
            if batch_id <= last:
                return
            self._check_order(last, batch_id)
        new = self._fold(old, changes)
        about = {_BATCH_ID: str(batch_id).encode()}
        new = new.combine_chunks().replace_schema_metadata(about)
        new = new.replace_schema_metadata({**about, _CHECKSUM: _checksum(new)})
        with translate_failures(f"table sink: {self._file}"):
            _write(new, self._file)

    def _check_order(self, last: int, batch_id: int) -> None:
        """Raise CheckpointError if the table lacks a batch before this one."""
        if last < batch_before(self._file.parent, batch_id, None):
            raise CheckpointError(
                f"table sink: {self._file} has batch {last}, and the checkpoint comes to batch {batch_id} now: the "
                "changes between are missing, as after the file was restored from an older copy. Restore the whole "
                "checkpoint from one copy, or start over with an empty checkpoint directory."
            )

    def _fold(self, old: pa.Table | None, changes: pa.Table) -> pa.Table:
        """The table, with each row's weight as the last column, after some changes."""
        kinds = parse_kinds(changes.column(change_column_of(changes.column_names)), "table sink")
        # An update may be cut by the end of a batch: a batch need not have as many -U rows as +U rows.
        if self._keys is None and not self._told and not tells_before(kinds):
            raise ChangelogLawError(
                "table sink: +U rows come without -U rows; a changelog without -U rows needs key_columns"
            )
        rows = changes.drop_columns([changes.column_names[-1]])
        # Columns are numbered: a user's name must not meet the weight's.
        names = rows.column_names
        weights = pa.array([-1 if retracts else 1 for retracts in is_retraction(kinds)], pa.int64())
        delta = rows.rename_columns([f"c{place}" for place in range(len(names))])
        delta = delta.append_column(_WEIGHT, weights)
        if old is not None:
            before = _by_name(old, rows.schema).rename_columns(delta.column_names)
            before = before.replace_schema_metadata(None)
            delta = pa.concat_tables([before, delta.replace_schema_metadata(None)])
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
        return rows.take(pa.array(sorted(last.values()), pa.int64()))


def _by_name(old: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the columns that the query has now: what it had under their names and types, else NULL."""
    kept = old.schema.remove(old.num_columns - 1)
    if kept.equals(schema):
        return old
    places = {(field.name, field.type): place for place, field in enumerate(kept)}
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
    columns = rows.column_names[:-1]
    marks = pa.table([_groupable(column) for column in rows.columns], names=rows.column_names)
    marks = marks.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    net = marks.group_by(columns, use_threads=False).aggregate([(_WEIGHT, "sum"), (_PLACE, "min")])
    net = net.filter(pc.not_equal(net.column(f"{_WEIGHT}_sum"), 0))
    kept = rows.take(net.column(f"{_PLACE}_min"))
    net = kept.set_column(len(columns), _WEIGHT, net.column(f"{_WEIGHT}_sum"))
    if net.num_rows and pc.min(net.column(_WEIGHT)).as_py() < 0:
        worst = net.filter(pc.less(net.column(_WEIGHT), 0)).slice(0, 1).to_pylist()[0]
        raise ChangelogLawError(
            f"table sink: a row is retracted that is not there: {tuple(worst.values())[:-1]!r}; "
            "was the checkpoint, or the table in it, replaced?"
        )
    return net


def _groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that Arrow can group by: for arrays, structs and maps, numbers that are equal where these are."""
    if not pa.types.is_nested(column.type):
        return column
    numbers: dict[Any, int] = {}
    marks = [numbers.setdefault(same_value(value), len(numbers)) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(marks, pa.int64())])


def _write(table: pa.Table, file: Path) -> None:
    """Replace a file by one of the table, in one step; what does not get so far leaves nothing behind."""
    scratch = file.with_suffix(".new")
    try:
        with pa.ipc.new_file(scratch, table.schema) as writer:
            writer.write_table(table)
        scratch.replace(file)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def _read_file(file: Path) -> pa.Table:
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


def _checksum(table: pa.Table) -> bytes:
    """Return the checksum that tells the contents of a table, and its metadata, from any other."""
    found = zlib.crc32(table.schema.serialize())
    for batch in table.to_batches():
        found = zlib.crc32(batch.serialize(), found)
    return str(found).encode()


def read_table(checkpoint: str | Path) -> pa.Table:
    """The table that a `table` sink keeps under this checkpoint; a row that is there n times comes n times.

    Raises CheckpointError if there is no such directory, or if no batch has run; StateCorruptError if the file is
    damaged or missing.
    """
    check_path("read_table", "checkpoint", checkpoint)
    file = Path(checkpoint) / TABLE_FILE
    if not file.parent.is_dir():
        is_file = file.parent.exists()
        where = " That is a file." if is_file else suggest_sibling(file.parent)
        raise CheckpointError(f"read_table: there is no directory {str(checkpoint)!r}.{where}")
    if not file.exists() and not batches(file.with_name("commits")):
        raise CheckpointError(f"{checkpoint}: no batch has run yet, so that there is no table.")
    stored = _read_file(file)
    weights = stored.column(stored.num_columns - 1).to_pylist()
    positions = [place for place, weight in enumerate(weights) for _ in range(weight)]
    return stored.drop_columns([stored.column_names[-1]]).take(pa.array(positions, pa.int64()))
