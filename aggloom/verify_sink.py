"""The comparison of a query's sink with the table that the query gives over its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.display import fields_of
from aggloom.errors import (
    InputFormatError,
    MissingFileError,
    SinkError,
    SpecError,
    StateCorruptError,
    UnverifiableError,
)
from aggloom.runtime.connectors.files.sink_log import entries
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table, table_batch
from aggloom.runtime.connectors.registry import destination, made_sink
from aggloom.runtime.connectors.sink_key import find_key
from aggloom.runtime.inspection.comparison import KeyDifference, PlaceComparison
from aggloom.runtime.inspection.facts import Row
from aggloom.runtime.inspection.text import NOT_THERE
from aggloom.runtime.values.changelog import same_value
from aggloom.runtime.values.row_difference import row_difference

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan
    from aggloom.job import Job
    from aggloom.runtime.connectors.database.sink import DatabaseSink
    from aggloom.runtime.connectors.kafka.sink import KafkaSink
    from aggloom.runtime.lakes.sink import LakeSink

    TableSink = DatabaseSink | LakeSink | KafkaSink

_OF_FILES: Final = ("table", "jsonl", "parquet")
_OF_OPTIONS: Final = ("database", "delta", "iceberg", "kafka")


@dataclass(frozen=True)
class StoredSink:
    """The sink of a query after a batch. table: its rows; None where it is not compared (note), or lost (error).

    keys: the columns by which upserts are read, of which none may be NULL.
    """

    place: str
    table: pa.Table | None = None
    note: str = ""
    error: str = ""
    keys: tuple[str, ...] = ()


def read_sink(root: Path, job: Job, plan: Plan, checkpoint: str, batch: int) -> StoredSink:
    """The sink of a job after a batch; checkpoint: its id. Raises UnverifiableError where the sink has a later one."""
    kind, path, options = destination(job.sink)
    place = f"sink {kind}"
    why = _find_obstacle(kind, options, plan, job)
    if why:
        return StoredSink(place, note=f"not compared: {why}")

    try:
        sink = _open_sink(plan, job, options) if kind in _OF_OPTIONS else None

        def find_newest() -> int | None:
            if sink is not None:
                return sink.last_batch(checkpoint)
            if kind == "table":
                return table_batch(root / TABLE_FILE)
            return max(entries(Path(path)), default=None)

        newest = find_newest()
        _check_batch(root, newest, batch)
        if sink is None:
            table = read_table(root) if kind == "table" else _read_output(kind, path, plan, job)
        else:
            table = _read_table(sink, options, plan, job)
        # A query that runs may have written more while it was read.
        again = find_newest()
    except (StateCorruptError, MissingFileError, InputFormatError, SinkError, SpecError) as error:
        keys = tuple(job.key or plan.key or ()) if kind == "kafka" and options.needs_key else ()
        return StoredSink(place, error=str(error).splitlines()[0], keys=keys)
    _check_batch(root, again, batch)
    if again != newest:
        raise UnverifiableError(f"{root}: the query wrote batch {again} while its sink was read.")
    return StoredSink(place, table)


def _find_obstacle(kind: str, options: Any, plan: Plan, job: Job) -> str:
    """Return why the sink of a job cannot be compared; empty if it can."""
    if kind not in (*_OF_FILES, *_OF_OPTIONS):
        return "it shows batches and keeps none"
    if getattr(options, "existing", "") == "keep":
        return "with existing=keep it has rows of others"
    if kind != "kafka":
        return ""
    if options.guarantee != "exactly-once":
        return "without transactions a batch may be there twice"
    if not (job.key or plan.key) and plan.has_old_rows:
        return "messages without a key have no order over partitions"
    return ""


def _open_sink(plan: Plan, job: Job, options: Any) -> TableSink:
    """The sink with options of a job; raises SpecError where its library is not there."""
    key, has_old_rows = find_key(plan, plan.schema.names, list(job.key) or None, options)
    return cast("TableSink", made_sink(options, key, has_old_rows)[0])


def _read_table(sink: TableSink, options: Any, plan: Plan, job: Job) -> pa.Table:
    """The table that a database, a lake or a topic holds; raises SinkError, SpecError and InputFormatError."""
    from aggloom import local

    if options.kind == "database":
        return cast("DatabaseSink", sink).read(plan.schema)
    columns = _columns_of(plan)
    if options.kind == "delta":
        written = local.read_delta(options.path, storage=dict(options.storage) or None)
    elif options.kind == "iceberg":
        place = {"catalog": options.catalog, "connect": dict(options.connect) or None}
        written = local.read_iceberg(options.table, **place)
    else:
        # A topic with a key holds upserts, and its rows are the last of each key; without, every message is a change.
        keys = list(job.key or plan.key or ()) if options.needs_key else None
        more = {"properties": dict(options.properties) or None, "registry": options.registry}
        written = local.read_kafka(
            options.servers, options.topic, options.format, columns, keys, **more
        )
    names = ", ".join(f"`{name}`" for name in plan.schema.names)
    # Collected by the engine itself: it applies the changes that were written, in their order, and so tells what a
    # reader of the sink has at the end.
    return local.collect(local.sql(f"SELECT {names} FROM written", written=written))


def _columns_of(plan: Plan) -> str:
    """The columns of a result as a schema's text."""
    return ", ".join(f"`{each.name}` {type_name(each.type)}" for each in plan.schema)


def compare_sink(stored: StoredSink, job: Job, plan: Plan, expected: pa.Table) -> PlaceComparison:
    """The sink of a job beside the table that it should have."""
    if stored.error and any(expected.column(name).null_count for name in stored.keys):
        why = "not compared: a key is NULL, which no reader of upserts takes"
        return PlaceComparison(stored.place, note=why)
    if stored.error:
        lost = KeyDifference(stored.place, {}, (stored.error,), ("the table of the query",))
        return PlaceComparison(stored.place, differences=[lost])
    if stored.table is None:
        return PlaceComparison(stored.place, note=stored.note)
    rows = stored.table.select(expected.schema.names)
    differences = list(_differences(stored.place, rows, expected, job.key or plan.key or ()))
    most = max(rows.num_rows, expected.num_rows)
    return PlaceComparison(stored.place, keys=most, differences=differences)


def _check_batch(root: Path, newest: int | None, batch: int) -> None:
    """Raise UnverifiableError where the sink has a batch, the newest, that the checkpoint has not committed."""
    if newest is not None and newest > batch:
        raise UnverifiableError(
            f"{root}: the sink has batch {newest} already, and batch {batch} is the last that is committed. Let the "
            "query finish its batch: stop it with Ctrl-C, or run it once more if it was killed."
        )


def _read_output(kind: str, path: str, plan: Plan, job: Job) -> pa.Table:
    """The table that the changes in a directory come to; raises MissingFileError where a batch's file is lost."""
    from aggloom import local

    if not Path(path).is_dir():
        raise MissingFileError(f"sink {kind}: {path} is not there")
    columns = _columns_of(plan)
    keys = None if plan.has_old_rows else list(job.key or plan.key or ()) or None
    changes = None if plan.has_old_rows else "upsert"
    written = local.read_changes(path, kind, columns, keys=keys, changes=changes, order="name")
    return local.collect(local.sql("SELECT * FROM written", written=written))


def _differences(
    place: str, stored: pa.Table, expected: pa.Table, keys: Sequence[str]
) -> Iterator[KeyDifference]:
    """Yield the keys whose rows differ; where the result has no key each row is its own."""
    only_stored, only_expected = row_difference(stored, expected.cast(stored.schema))
    sides: dict[Any, tuple[Row, tuple[list[str], list[str]]]] = {}
    for number, rows in enumerate((only_stored, only_expected)):
        for row in rows.to_pylist():
            key = {name: row[name] for name in keys} if keys else row
            _, lines = sides.setdefault(same_value(key), (key, ([], [])))
            lines[number].append(fields_of(row))
    for key, (left, right) in sides.values():
        yield KeyDifference(place, key, tuple(left) or (NOT_THERE,), tuple(right) or (NOT_THERE,))
