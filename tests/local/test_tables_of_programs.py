"""Tables of a program as tables of a query on the local engine: Arrow's, pandas' and those with Arrow's interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import aggloom.local as local
from aggloom.errors import AggloomError, DataError, SpecError

TABLE = pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]})
QUERY = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
SUMS = [{"k": "a", "s": 4}, {"k": "b", "s": 2}]


class Streamed:
    """A table of another library, of which nothing is known but Arrow's interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def totals(table: Any, query: str = QUERY) -> list[dict[str, Any]]:
    found = local.collect(local.sql(query, t=table, backend="python")).to_pylist()
    return sorted(found, key=lambda row: str(row["k"]))


@pytest.mark.parametrize(
    "make",
    [lambda t: t, lambda t: t.combine_chunks().to_batches()[0], pa.Table.to_pandas, Streamed],
)
def test_a_table_is_a_table_of_the_query(make: Callable[[pa.Table], Any]) -> None:
    assert totals(make(TABLE)) == SUMS


@pytest.mark.parametrize("schema", [None, "k STRING, v BIGINT"])
def test_a_stream_that_is_read_once_is_a_table_that_runs_again(schema: str | None) -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    query = local.sql(QUERY, t=local.from_rows(reader, schema), backend="python")
    for _ in range(2):
        assert sorted(local.collect(query).to_pylist(), key=lambda row: str(row["k"])) == SUMS


def test_types_of_other_writers_are_read() -> None:
    letters = pa.array(["a", "b", "a"], pa.large_string()).dictionary_encode()
    times = pa.array([1_000, 2_000, 3_000], pa.timestamp("ns"))
    table = pa.table({"k": letters, "v": pa.array([1, 2, 3], pa.int16()), "at": times})
    query = "SELECT k, MAX(v) AS s, MAX(at) AS at FROM t GROUP BY k"
    found = local.sql(query, t=table, backend="python")
    assert found.schema.types == [pa.string(), pa.int16(), pa.timestamp("us")]
    assert [row["s"] for row in totals(table, query)] == [3, 2]


def test_a_change_column_says_what_rows_are() -> None:
    table = TABLE.append_column("_change_type", pa.array(["insert", "insert", "delete"]))
    assert totals(table.set_column(1, "v", pa.array([3, 2, 3]))) == [{"k": "b", "s": 2}]


def test_tables_by_name() -> None:
    found = local.collect(local.sql(QUERY, tables={"t": TABLE}, backend="python")).to_pylist()
    assert sorted(found, key=lambda row: str(row["k"])) == SUMS


class SparkFrame(Streamed):
    """A DataFrame of Spark: it has Arrow's interface, too, and would fetch all rows of a cluster by it."""

    sparkSession = None  # noqa: N815 - the name is Spark's


def test_a_frame_of_spark_is_named() -> None:
    with pytest.raises(SpecError, match=r"t is a DataFrame of Spark; use al\.sql"):
        local.sql(QUERY, t=SparkFrame(TABLE))


def test_a_table_without_types_is_refused() -> None:
    with pytest.raises(DataError, match="column 'v' has no type"):
        totals(pa.table({"k": ["a"], "v": pa.nulls(1)}))
    with pytest.raises(DataError, match="a list has no types; give schema="):
        local.from_rows([("+I", 1)])
    with pytest.raises(SpecError, match="given twice"):
        local.sql(QUERY, t=TABLE, tables={"t": local.from_rows(TABLE)})
    with pytest.raises(SpecError, match=r"table 't' is a list; make it by local\.from_rows"):
        local.sql(QUERY, tables={"t": [("+I", "a", 1)]})
    # What is no table is an option of the planner.
    with pytest.raises(SpecError):
        local.sql(QUERY, t=pd.Series([1]).tolist())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("SIZE(SEQUENCE(1, 100000000))", "100,000,000 numbers of one array"),
        ("SIZE(ARRAY_REPEAT(1, 100000000))", "100,000,000 places of one array"),
        ("LENGTH(REPEAT(k, 2000000000))", "the texts of one batch take 6,000,000,000 bytes"),
        ("LENGTH(REPEAT('abcdefghij', 300000000))", "the texts of one batch take 3,000,000,000"),
    ],
)
def test_results_without_room_are_errors(
    monkeypatch: pytest.MonkeyPatch, call: str, message: str
) -> None:
    monkeypatch.setattr("aggloom.runtime.storage.allocation.available_memory", lambda: 1 << 30)
    table = local.from_rows([("+I", "abc")], "k STRING")
    with pytest.raises(AggloomError, match=message):
        local.collect(local.sql(f"SELECT {call} AS n FROM t", t=table))
