"""Read by each door: rows with the words of their changes, or the error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.operators import Scan
from aggloom.errors import AggloomError
from aggloom.runtime.local.file_reader import read_files
from aggloom.runtime.local.harness_rows import read_rows
from aggloom.runtime.spark import explain_failure, read_changes, sql
from aggloom.runtime.spark.api.group_aggregate import group_aggregate
from aggloom.runtime.spark.api.inputs import resolve_change_column
from aggloom.runtime.spark.node.pack import Pack
from aggloom.runtime.spark.plan.routes import Route
from aggloom.runtime.spark.read.files import PackFiles
from aggloom.runtime.spark.read.records import CHANGE_COLUMN
from aggloom.runtime.values.change_column import ChangeWords
from doors.example import DDL, Row
from doors.oracle import COLUMNS, ONE_WORD, RETRACTIONS

SCHEMA = pa.schema([("name", pa.string()), ("cnt", pa.int32())])
SPEC = AggSpec.from_sql("SELECT name, cnt, COUNT(*) AS n FROM t GROUP BY name, cnt", DDL)
_ROUTE = Route(SCHEMA, 2, 1)
_CHANGES = (*ChangeWords().names(COLUMNS), *ChangeWords().list_markers(COLUMNS))


def signed(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """Count how often each row is there in the end."""
    net: Counter[tuple[Any, ...]] = Counter()
    for name, cnt, word in rows:
        net[name, cnt] += -1 if word in RETRACTIONS else 1
    return +net


def spelt(rows: list[Row]) -> Counter[Row]:
    """Rows with the words of changes spelt in one way."""
    return Counter((name, cnt, ONE_WORD[word]) for name, cnt, word in rows)


def attempt(where: str, read: Callable[..., Any], *of: Any) -> tuple[Any, str]:
    """Read; return the rows and "", or None and the error, which has to be typed and name the place."""
    try:
        return read(*of), ""
    except Exception as failure:
        said = explain_failure(failure)
        assert type(said) is not AggloomError and isinstance(said, AggloomError), repr(failure)
        assert where in str(said), (where, str(said))
        return None, str(said)


def by_spark(spark: Any, format: str, path: Path) -> list[Row]:
    """The rows of files by Spark's expressions, or its Parquet reader."""
    df = read_changes(spark, str(path), format, DDL, streaming=False, whole_files=format == "csv")
    return [tuple(row) for row in df.collect()]


def whole(content: bytes, path: str) -> list[Row]:
    """The rows of a Parquet file as the Python worker reads it; no Spark."""
    pack = Pack(_ROUTE, SCHEMA, "t", CHANGE_COLUMN)
    stage = PackFiles(pack, "/in", _CHANGES, False, tuple(SCHEMA.names))
    found = list(stage.rows(pa.py_buffer(content), path))
    return [row for batch, kinds in found for row in _rows(batch, kinds)]


def packed(table: pa.Table) -> list[Row]:
    """The rows of a DataFrame as the stage before the shuffle takes them; no Spark."""
    frame: Any = SimpleNamespace(columns=table.column_names)
    change = resolve_change_column(frame, "", list(COLUMNS))
    frame = table.select([*COLUMNS, *([change] if change else [])])
    stage = Pack(_ROUTE, SCHEMA, "t", change)
    found = [stage._rows(batch) for batch in frame.to_batches()]
    return [row for batch, kinds in found for row in _rows(batch, kinds)]


def harness_table(given: Any) -> list[Row]:
    """The rows of a table of Arrow or pandas as a harness takes them."""
    return list(_rows(*read_rows(given, None, SCHEMA)))


def harness_file(path: Path) -> list[Row]:
    """The rows of a Parquet file as a harness reads it."""
    found = read_files(path, "parquet", Scan("t", SCHEMA), {})
    return [row for batch, kinds, *_ in found for row in _rows(batch, kinds)]


def frame(spark: Any, table: pa.Table) -> Any:
    """A query over a DataFrame, not run."""
    df = spark.createDataFrame(table)
    return group_aggregate(df, SPEC, buckets=1, on_orphan_retraction="keep")


def collected(result: Any) -> Counter[tuple[Any, ...]]:
    """The table of a query as rows with their number."""
    return Counter({(row.name, row.cnt): row.n for row in result.collect()})


def whole_by_spark(spark: Any, path: Path) -> Counter[tuple[Any, ...]]:
    """The table of a query over Parquet files that Spark hands to the Python worker."""
    df = read_changes(spark, str(path), "parquet", DDL, streaming=False)
    query = "SELECT name, cnt, COUNT(*) AS n FROM t GROUP BY name, cnt"
    return collected(sql(query, t=df, buckets=1, on_orphan_retraction="keep"))


def _rows(batch: pa.RecordBatch, kinds: Any) -> Iterable[Row]:
    words = np.array(["insert", "update_preimage", "update_postimage", "delete"])
    columns = [column.to_pylist() for column in batch.columns]
    return zip(*columns, words[np.asarray(kinds)].tolist(), strict=True)
