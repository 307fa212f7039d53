"""Queries of several steps on Spark: chained operators in one query, each plan of it, restarts and failures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from aggloom.errors import (
    SpecError,
    StateMismatchError,
    UnknownColumnError,
    UnknownTableError,
    UnsupportedExpressionError,
    UnsupportedSqlError,
)
from aggloom.runtime.values.changelog import CHANGE_TYPES, KIND_NAMES, fold, sort_key

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.spark import explain_failure, read_changes, sql  # noqa: E402

DDL = "id BIGINT, a STRING, b STRING, v BIGINT"
Row = tuple[Any, ...]
PLANS: dict[str, dict[str, Any]] = {
    "one phase": {"agg_phase_strategy": "ONE_PHASE"},
    "two phases": {"on_orphan_retraction": "keep"},
    "split": {"distinct_agg_split_enabled": True, "incremental_agg_enabled": False},
    "incremental": {
        "distinct_agg_split_enabled": True,
        "distinct_agg_split_bucket_num": 8,
        "on_orphan_retraction": "keep",
    },
}
CASCADE = (
    "SELECT n, COUNT(*) AS groups, SUM(s) AS total, COUNT(DISTINCT top) AS tops "
    "FROM (SELECT a, COUNT(*) AS n, SUM(v) AS s, MAX(b) AS top FROM t WHERE v >= 0 GROUP BY a) GROUP BY n"
)
LEDGER = (
    "WITH entries AS (SELECT a AS account, -v AS amount FROM t UNION ALL SELECT b, v FROM t), "
    "balances AS (SELECT account, SUM(amount) AS balance FROM entries GROUP BY account) "
    "SELECT SUM(balance) AS total, COUNT(*) AS accounts FROM balances"
)


def write_file(directory: Path, number: int, rows: Iterable[Row]) -> None:
    """One file of (kind, id, a, b, v) changes."""
    directory.mkdir(exist_ok=True)
    names = ("op", "id", "a", "b", "v")
    path = directory / f"{number:04d}.jsonl"
    path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def history(batch: int) -> list[Row]:
    """Changes that are valid after the batches before: transfers come, are corrected, and go."""
    rng = np.random.default_rng(batch)
    rows: list[Row] = []
    for i in range(batch * 40, batch * 40 + 40):
        rows.append(
            ("+I", i, f"a{rng.integers(9)}", f"a{rng.integers(9)}", int(rng.integers(-1, 5)))
        )
    if batch:
        for i, (_, *old) in enumerate(history(batch - 1)[:40]):
            if i % 3 == 0:
                rows.append(("-D", *old))
            elif i % 3 == 1:
                rows += [("-U", *old), ("+U", *old[:3], int(rng.integers(-1, 5)))]
    return rows


def net(batches: int) -> pa.Table:
    rows = fold([row for batch in range(batches) for row in history(batch)])
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return pa.table(columns, names=["id", "a", "b", "v"])


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [sort_key(value) for value in row])


def by_duckdb(query: str, t: pa.Table) -> list[Row]:
    with duckdb.connect() as connection:
        connection.register("t", t)
        return ordered(connection.sql(query).fetchall())


def changes_of(df: Any) -> list[Row]:
    """The changelog as (kind, *values) rows in short words."""
    short = dict(zip(CHANGE_TYPES, KIND_NAMES, strict=True))
    return [(short.get(row[-1], row[-1]), *row[:-1]) for row in map(tuple, df.collect())]


def stream(
    spark: Any, path: Path, query: str, seen: Callable[[list[Row]], None], **options: Any
) -> None:
    """Process the files that are there, one a batch; `seen` gets the changes of each batch."""
    t = read_changes(spark, str(path / "in"), "jsonl", DDL, max_files_per_trigger=1)
    writer = sql(query, t=t, **options).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    writer.foreachBatch(lambda df, _: seen(changes_of(df))).start().awaitTermination()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.sampled(1)
def test_a_cascade_is_exact_after_every_batch_and_restart(
    spark: Any, tmp_path: Path, plan: str
) -> None:
    out: list[Row] = []
    tables: list[list[Row]] = []

    def seen(changes: list[Row]) -> None:
        out.extend(changes)
        tables.append(ordered(fold(out)))

    for batch in range(3):
        write_file(tmp_path / "in", batch, history(batch))
        if batch:
            stream(spark, tmp_path, CASCADE, seen, **PLANS[plan])
    assert tables == [by_duckdb(CASCADE, net(batches)) for batches in (1, 2, 3)]


def test_window_functions_are_exact_after_every_batch_and_restart(
    spark: Any, tmp_path: Path
) -> None:
    query = (
        "SELECT id, SUM(v) OVER (w ROWS 2 PRECEDING) AS s, LAG(v) OVER w AS l, RANK() OVER r AS k "
        "FROM t WINDOW w AS (PARTITION BY a ORDER BY id), r AS (PARTITION BY a ORDER BY v)"
    )
    out: list[Row] = []
    tables: list[list[Row]] = []

    def seen(changes: list[Row]) -> None:
        out.extend(changes)
        tables.append(ordered(fold(out)))

    for batch in range(3):
        write_file(tmp_path / "in", batch, history(batch))
        if batch:
            stream(spark, tmp_path, query, seen)
    assert tables == [by_duckdb(query, net(batches)) for batches in (1, 2, 3)]


def test_the_ledger_balances_in_every_batch(spark: Any, tmp_path: Path) -> None:
    out: list[Row] = []
    totals: list[list[Row]] = []

    def seen(changes: list[Row]) -> None:
        out.extend(changes)
        totals.append(fold(out))

    for batch in range(4):
        write_file(tmp_path / "in", batch, history(batch))
    stream(spark, tmp_path, LEDGER, seen)
    assert [total for ((total, _),) in totals] == [0, 0, 0, 0]
    assert totals[-1] == by_duckdb(LEDGER, net(4))


def test_a_checkpoint_serves_one_phase_and_two(spark: Any, tmp_path: Path) -> None:
    out: list[Row] = []
    write_file(tmp_path / "in", 0, history(0))
    stream(spark, tmp_path, CASCADE, out.extend, **PLANS["one phase"])
    write_file(tmp_path / "in", 1, history(1))
    stream(spark, tmp_path, CASCADE, out.extend, **PLANS["two phases"])
    assert ordered(fold(out)) == by_duckdb(CASCADE, net(2))


def test_a_checkpoint_of_another_query_is_refused(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, history(0))
    stream(spark, tmp_path, CASCADE, lambda _: None)
    write_file(tmp_path / "in", 1, history(1))
    other = CASCADE.replace("v >= 0", "v >= 1")
    with pytest.raises(Exception, match="STREAM_FAILED") as failure:
        stream(spark, tmp_path, other, lambda _: None)
    assert isinstance(explain_failure(failure.value), StateMismatchError)


@pytest.mark.parametrize("plan", ["two phases", "incremental"])
@pytest.mark.sampled(1)
def test_a_worker_that_dies_between_the_steps(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    from pyspark import cloudpickle

    from tests.spark import test_spark

    cloudpickle.register_pickle_by_value(test_spark)
    trigger = tmp_path / "die"
    factory = partial(test_spark.DeadlyFactory, trigger=str(trigger), kills=True)
    monkeypatch.setattr(sys.modules["aggloom.runtime.hosting.factory"], "FragmentFactory", factory)
    out: list[Row] = []
    write_file(tmp_path / "in", 0, history(0))
    stream(spark, tmp_path, CASCADE, out.extend, **PLANS[plan])
    write_file(tmp_path / "in", 1, history(1))
    trigger.touch()
    with pytest.raises(Exception, match="STREAM_FAILED"):
        stream(spark, tmp_path, CASCADE, out.extend, **PLANS[plan])
    assert not trigger.exists()
    stream(spark, tmp_path, CASCADE, out.extend, **PLANS[plan])
    assert ordered(fold(out)) == by_duckdb(CASCADE, net(2))


QUERIES = [
    CASCADE,
    "SELECT a, b, SUM(v) AS s FROM t GROUP BY ROLLUP (a, b)",
    "SELECT a FROM t UNION SELECT b FROM t WHERE v > 2",
    "WITH c AS (SELECT a, SUM(v) AS s FROM t GROUP BY a) "
    "SELECT MAX(s) AS s FROM c UNION ALL SELECT MIN(s) FROM c",
    "SELECT COUNT(*) AS n, SUM(s) AS s FROM (SELECT DISTINCT a, v AS s FROM t) WHERE s > 1",
    "SELECT w + 1 AS w, SUM(n) AS s FROM (SELECT w, n FROM (SELECT v AS w, id AS n FROM t UNION ALL "
    "SELECT n AS w, 1 FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b)) WHERE w > 1) GROUP BY w + 1",
    "SELECT a, v FROM t EXCEPT SELECT b, v FROM t",
    "SELECT UPPER(a) AS a, v * 2 AS w FROM t WHERE v > 3",
    "SELECT top, COUNT(*) AS n FROM (SELECT a, MAX(v) + 1 AS top FROM t GROUP BY a "
    "HAVING COUNT(*) > 3) GROUP BY top",
]


@pytest.mark.interpreted
@pytest.mark.parametrize("query", QUERIES)
def test_batch_queries_agree_with_duckdb(spark: Any, query: str) -> None:
    t = net(3)
    df = spark.createDataFrame(t.to_pandas(), DDL).repartition(3)
    wanted = by_duckdb(query, t)
    for options in (PLANS["one phase"], PLANS["incremental"], {"mini_batch_enabled": False}):
        assert ordered(fold(changes_of(sql(query, t=df, **options)))) == wanted


def test_large_tasks_aggregate_before_the_exchange(spark: Any) -> None:
    df = spark.range(60_000).selectExpr("id % 7 AS k", "id % 1000 AS v").repartition(2)
    query = "SELECT k, SUM(v) AS s, COUNT(DISTINCT v) AS n, MAX(v) AS m FROM t GROUP BY k"
    got = {row[1:] for row in changes_of(sql(query, t=df))}
    wanted = {tuple(row) for row in df.groupBy("k").agg({"v": "sum"}).collect()}
    assert {(k, s) for k, s, _, _ in got} == wanted
    assert {(n, m) for _, _, n, m in got} == {(1000, 999)}


def test_a_script_with_options_and_views_over_hostile_names(spark: Any) -> None:
    df = spark.createDataFrame(
        [("+I", "x", 1), ("+I", "x", 2), ("-D", "x", 1), ("+I", "ü`n", 5)],
        "op STRING, `$h0` STRING, `a``b` INT",
    ).coalesce(1)
    script = (
        "SET 'table.optimizer.distinct-agg.split.enabled' = 'true';\n"
        "CREATE TEMPORARY VIEW `my view` (k, x) AS SELECT `$h0`, `a``b` + 1 FROM `t 1`;\n"
        "SELECT k AS `$e`, COUNT(DISTINCT x) AS `n;--`, SUM(x) AS `'s` FROM `my view` GROUP BY k"
    )
    out = sql(script, tables={"t 1": df}, output_profile="flink")
    assert out.columns == ["$e", "n;--", "'s", "op"]
    assert ordered(fold(changes_of(out))) == [("x", 1, 3), ("ü`n", 1, 6)]


def test_what_is_wrong_is_said_before_anything_runs(spark: Any) -> None:
    df = spark.createDataFrame([(1, 2)], "a INT, b INT")
    with pytest.raises(SpecError, match="no table is given"):
        sql("SELECT a FROM t")
    with pytest.raises(UnknownTableError, match=r"(?s)no table 'u'.*line 1, column 22"):
        sql("SELECT COUNT(*) FROM u", t=df)
    with pytest.raises(UnknownColumnError, match="no change column 'kind'"):
        sql("SELECT COUNT(*) FROM t", t=df, change_column="kind")
    with pytest.raises(SpecError, match=r"no option .mini_batch_sise.*mini_batch_size"):
        sql("SELECT COUNT(*) FROM t", t=df, mini_batch_sise=3)
    with pytest.raises(UnsupportedSqlError, match="ASOF JOIN"):
        sql("SELECT COUNT(*) FROM t ASOF JOIN t u ON t.a = u.a", t=df)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT EXTRACT(EPOCH FROM ts) AS e FROM t",
        "SELECT k FROM t WHERE EXTRACT(EPOCH FROM ts) > 1",
        "SELECT EXTRACT(EPOCH FROM ts) AS e, COUNT(*) AS n FROM t GROUP BY EXTRACT(EPOCH FROM ts)",
    ],
)
def test_an_expression_that_spark_refuses_is_a_typed_error(spark: Any, query: str) -> None:
    """The planner knows that it is an INT, so that Spark is not asked before it is to evaluate it."""
    t = spark.createDataFrame([], "k INT, ts TIMESTAMP")
    with pytest.raises(UnsupportedExpressionError, match=r"Spark says .*EPOCH"):
        sql(query, t=t)
