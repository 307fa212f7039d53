"""Tables that a query only shows, filtered or not: the kinds of their rows, on Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from aggloom.errors import DataError, UnknownChangeTypeError
from aggloom.runtime.values.changelog import CHANGE_TYPES, SPELLINGS

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.spark import explain_failure, sql  # noqa: E402


def shown(spark: Any, query: str, rows: list[tuple[Any, ...]], **options: Any) -> list[Any]:
    """The changes of a query over a table of (v, kind) rows."""
    df = spark.createDataFrame(rows, "v BIGINT, _change_type STRING").coalesce(1)
    return [tuple(row) for row in sql(query, t=df, **options).collect()]


def test_every_spelling_is_told_in_one(spark: Any) -> None:
    told = shown(spark, "SELECT v FROM t", list(enumerate(SPELLINGS)))
    assert told == [(number, CHANGE_TYPES[number % 4]) for number in range(len(SPELLINGS))]


@pytest.mark.parametrize("word", ["Insert", "", None])
def test_a_word_that_is_no_kind_fails_the_query(spark: Any, word: str | None) -> None:
    for query in ("SELECT v FROM t", "SELECT v FROM t WHERE v > 0"):
        with pytest.raises(Exception, match="unknown change type") as raised:
            shown(spark, query, [(1, "insert"), (2, word)])
        assert isinstance(explain_failure(raised.value), UnknownChangeTypeError)
        assert ("NULL" if word is None else f"'{word}'") in str(explain_failure(raised.value))


def test_kinds_that_are_no_texts_are_refused_before_anything_runs(spark: Any) -> None:
    df = spark.createDataFrame([(1, 0)], "v BIGINT, _change_type INT")
    with pytest.raises(UnknownChangeTypeError, match="has type INT, not STRING"):
        sql("SELECT v FROM t", t=df)


def test_a_retraction_among_insertions_fails_the_query(spark: Any) -> None:
    for query in ("SELECT v FROM t", "SELECT v FROM t WHERE v > 0"):
        with pytest.raises(Exception, match="declared append-only") as raised:
            shown(spark, query, [(1, "insert"), (1, "-D")], input_changes="append")
        assert isinstance(explain_failure(raised.value), DataError)


def test_a_filter_over_changes_keeps_what_it_reads(spark: Any) -> None:
    ddl = "id BIGINT, unread STRING, v BIGINT, w BIGINT, _change_type STRING"
    rows = [
        *((1, "x", 5, 0, "insert"), (2, "x", -5, 0, "insert")),
        *((1, "x", 5, 0, "update_preimage"), (1, "x", -1, 4, "update_postimage")),
        *((2, "x", -5, 0, "update_preimage"), (2, "x", 7, 5, "update_postimage")),
    ]
    df = spark.createDataFrame(rows, ddl).coalesce(1)
    told = sql("SELECT id, w + 1 AS more FROM t WHERE v > 0", t=df).collect()
    assert [tuple(row) for row in told] == [(1, 1, "insert"), (1, 1, "delete"), (2, 6, "insert")]


def test_late_rows_pass_a_filter_over_windows(spark: Any, tmp_path: Any) -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for number, seconds in enumerate([(1, 2, 40), (3, 41, 42), (80,)]):
        times = [(start + dt.timedelta(seconds=second), second) for second in seconds]
        spark.createDataFrame(times, "ts TIMESTAMP, v BIGINT").coalesce(1).write.mode(
            "append"
        ).parquet(str(tmp_path / "in" / f"n={number}"))
    df = spark.readStream.schema("ts TIMESTAMP, v BIGINT, n INT").option("maxFilesPerTrigger", 1)
    changes = sql(
        "SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '10' SECOND)) GROUP BY window_start, window_end HAVING COUNT(*) > 1",
        t=df.parquet(str(tmp_path / "in")).drop("n"),
        watermarks={"t": ("ts", "0 s")},
        late_rows=True,
    )
    seen: list[Any] = []
    writer = changes.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(
        (row.s, row._change_type, row.late_row and row.late_row.v) for row in seen if row.s
    ) == [
        (3, "insert", None),
        (123, "insert", None),
    ]
    assert [row.late_row.v for row in seen if row.late_row] == [3]
