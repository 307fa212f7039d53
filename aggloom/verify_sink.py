"""The sink of a query beside the table that the query has over its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.display import fields_of
from aggloom.errors import InputFormatError, MissingFileError, StateCorruptError, UnverifiableError
from aggloom.runtime.connectors.files.sink_log import entries
from aggloom.runtime.connectors.files.table_file import TABLE_FILE, read_table, table_batch
from aggloom.runtime.connectors.registry import destination
from aggloom.runtime.inspection.comparison import KeyDifference, PlaceComparison
from aggloom.runtime.inspection.facts import Row
from aggloom.runtime.inspection.text import NOT_THERE
from aggloom.runtime.values.changelog import same_value
from aggloom.runtime.values.row_difference import row_difference

if TYPE_CHECKING:
    from aggloom.codegen.planner import Plan
    from aggloom.job import Job


@dataclass(frozen=True)
class StoredSink:
    """The sink of a query after a batch. table: its rows; None where it is not compared (note), or lost (error)."""

    place: str
    table: pa.Table | None = None
    note: str = ""
    error: str = ""


def read_sink(root: Path, job: Job, plan: Plan, batch: int) -> StoredSink:
    """The sink of a job after a batch; raises UnverifiableError where it has a later one."""
    kind, path, _ = destination(job.sink)
    place = f"sink {kind}"
    if kind not in ("table", "jsonl", "parquet"):
        why = "it shows batches and keeps none" if kind == "console" else "it is not read here"
        return StoredSink(place, note=f"not compared: {why}")
    try:
        _check_batch(root, kind, path, batch)
        table = read_table(root) if kind == "table" else _read_output(kind, path, plan, job)
    except (StateCorruptError, MissingFileError, InputFormatError) as error:
        return StoredSink(place, error=str(error).splitlines()[0])
    # A query that runs may have written more while it was read.
    _check_batch(root, kind, path, batch)
    return StoredSink(place, table)


def compare_sink(stored: StoredSink, job: Job, plan: Plan, expected: pa.Table) -> PlaceComparison:
    """The sink of a job beside the table that it should have."""
    if stored.error:
        lost = KeyDifference(stored.place, {}, (stored.error,), ("the table of the query",))
        return PlaceComparison(stored.place, differences=[lost])
    if stored.table is None:
        return PlaceComparison(stored.place, note=stored.note)
    rows = stored.table.select(expected.schema.names)
    found = list(_differences(stored.place, rows, expected, job.key or plan.key or ()))
    most = max(rows.num_rows, expected.num_rows)
    return PlaceComparison(stored.place, keys=most, differences=found)


def _check_batch(root: Path, kind: str, path: str, batch: int) -> None:
    """Raise UnverifiableError where the sink has a batch that the checkpoint has not committed."""
    is_table = kind == "table"
    newest = table_batch(root / TABLE_FILE) if is_table else max(entries(Path(path)), default=None)
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
    columns = ", ".join(f"`{each.name}` {type_name(each.type)}" for each in plan.schema)
    keys = None if plan.tells_before else list(job.key or plan.key or ()) or None
    changes = None if plan.tells_before else "upsert"
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
