"""A global aggregate over nothing: one row in dialect spark, none in Flink's; in every plan, without and on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggloom.codegen import AggCall, AggSpec
from aggloom.codegen.planner import plan_query, walk
from aggloom.errors import OrphanRetractionError
from aggloom.runtime.local.harness import Harness
from aggloom.runtime.spark.release import SPARK

DDL = "k STRING, v INT"
TOTALS = "SELECT COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT v) AS d FROM t"
OVER = "SELECT MAX(n) AS m, COUNT(*) AS c FROM (SELECT COUNT(*) AS n FROM t WHERE v > 10 HAVING COUNT(*) < 1) AS s"
BELOW = "SELECT COUNT(*) AS keys, SUM(n) AS total FROM (SELECT k, COUNT(*) AS n FROM t WHERE v > 10 GROUP BY k) AS s"
GROUPS: dict[str, list[tuple[int]]] = {
    "ROLLUP (k)": [],
    "GROUPING SETS ((k), ())": [],
    "GROUPING SETS ((), ())": [],
    "GROUPING SETS (())": [(0,)],
    "'a'": [],
}
"""Spark's rows for each GROUP BY over an empty input."""
PLANS: dict[str, dict[str, Any]] = {
    "per record": {"mini_batch_enabled": False},
    "one phase": {"agg_phase_strategy": "ONE_PHASE"},
    "two phases": {"on_orphan_retraction": "keep"},
    "split": {"distinct_agg_split_enabled": True, "incremental_agg_enabled": False},
    "incremental": {"distinct_agg_split_enabled": True, "on_orphan_retraction": "keep"},
}


def harness(sql: str, **options: Any) -> Harness:
    return Harness.from_sql(sql, {"t": DDL}, backend="python", **options)


@pytest.mark.parametrize("plan", PLANS)
def test_the_row_is_there_before_rows_come_and_after_they_have_gone(plan: str) -> None:
    with harness(TOTALS, partitions=2, buckets=3, **PLANS[plan]) as t:
        t.flush()
        assert t.changes() == [("+I", 0, None, 0)]
        t.flush()
        assert t.changes() == []
        t.process([("+I", "a", 1), ("+I", "b", 1)])
        t.flush()
        assert t.table() == [(2, 2, 1)]
        assert t.changes()[0] == ("-U", 0, None, 0)
        t.process([("-D", "a", 1), ("-D", "b", 1)])
        t.flush()
        assert t.changes()[-1] == ("+U", 0, None, 0)
        state = t.snapshot()
        t.restore(state)
        assert t.table() == [(0, None, 0)]
        t.process([("+I", "a", 7)])
        t.flush()
        assert t.changes() == [("-U", 0, None, 0), ("+U", 1, 7, 1)]


@pytest.mark.parametrize("plan", PLANS)
def test_it_is_read_by_an_aggregate_above_and_reads_one_below(plan: str) -> None:
    with harness(OVER, **PLANS[plan]) as t:
        t.flush()
        assert t.table() == [(0, 1)]
        t.process([("+I", "a", 11)])
        t.flush()
        assert t.table() == [(None, 0)]
    with harness(BELOW, **PLANS[plan]) as t:
        t.process([("+I", "a", 1)])
        t.flush()
        assert t.changes() == [("+I", 0, None)]
        t.process([("+I", "a", 11), ("-D", "a", 11)])
        t.flush()
        assert t.table() == [(0, None)]


def test_the_first_row_brings_one_insertion() -> None:
    with harness(TOTALS, mini_batch_enabled=False) as t:
        t.process([("+I", "a", 1)])
        assert t.changes() == [("+I", 1, 1, 1)]
    with harness(TOTALS) as t:
        t.process([("-D", "a", 1)])
        t.flush()
        assert t.changes() == [("+I", 0, None, 0)]
        assert t.counters["orphans_dropped"] == 1


def test_an_orphan_that_is_refused_leaves_the_row() -> None:
    with harness(TOTALS, on_orphan_retraction="error") as t:
        t.flush()
        t.process([("-D", "a", 1)])
        with pytest.raises(OrphanRetractionError):
            t.flush()
        t.process([("+I", "a", 1)])
        t.flush()
        assert t.changes()[-2:] == [("-U", 0, None, 0), ("+U", 1, 1, 1)]


def test_without_updates_before_it_is_updated_and_never_deleted() -> None:
    with harness(TOTALS, update_before=False) as t:
        t.process([("+I", "a", 1)])
        t.flush()
        t.process([("-D", "a", 1)])
        t.flush()
        assert t.changes() == [("+I", 1, 1, 1), ("+U", 0, None, 0)]
        assert t.table() == [(0, None, 0)]


def test_in_flink_there_is_no_row_over_nothing() -> None:
    with Harness.from_sql(TOTALS, {"t": DDL}, dialect="flink", backend="python") as t:
        t.flush()
        t.process([("+I", "a", 1)])
        t.flush()
        t.process([("-D", "a", 1)])
        t.flush()
        assert t.changes() == [("+I", 1, 1, 1), ("-D", 1, 1, 1)]


def test_what_is_forgotten_comes_again_as_an_insertion() -> None:
    with harness("SELECT COUNT(*) AS n FROM t", state_ttl=1000) as t:
        t.process([("+I", "a", 1)])
        t.flush()
        t.set_ttl_time(2000)
        t.process([("+I", "a", 1)])
        t.flush()
        assert t.changes() == [("+I", 1), ("+I", 1)]


def test_an_empty_grouping_set_among_others_is_no_global_aggregate() -> None:
    for group, rows in GROUPS.items():
        with harness(f"SELECT COUNT(*) AS n FROM t GROUP BY {group}") as t:
            t.flush()
            assert t.table() == rows, group


def test_its_changes_hold_no_deletion() -> None:
    for dialect, kinds in (("spark", ("I", "UB", "UA")), ("flink", ("I", "UB", "UA", "D"))):
        plan = plan_query(TOTALS, {"t": DDL}, dialect=dialect)
        assert plan.root.changelog == kinds
        assert plan.root.never_deletes == (dialect == "spark")


def test_a_count_of_what_may_become_null_does_not_only_grow() -> None:
    inner = "SELECT SUM(v) AS s FROM t"
    sql = f"SELECT MAX(c) AS m FROM (SELECT COUNT(s) AS c FROM ({inner}) AS a) AS b"
    plan = plan_query(sql, {"t": DDL})
    assert not any(call.monotonic for node in walk(plan.root) for call in _calls(node))
    with harness(sql) as t:
        for row in (("+I", "a", 1), ("-D", "a", 1)):
            t.process([row])
            t.flush()
        assert t.table() == [(0,)]


def _calls(node: Any) -> tuple[AggCall, ...]:
    spec = getattr(node, "spec", None)
    return spec.calls if isinstance(spec, AggSpec) else ()


@pytest.mark.spark
def test_on_spark_it_is_there_over_no_rows_and_no_partitions(spark: Any, tmp_path: Path) -> None:
    from aggloom.runtime.spark import sql

    none = spark.createDataFrame(spark.sparkContext.emptyRDD(), DDL)
    assert none.rdd.getNumPartitions() == 0
    none.createOrReplaceTempView("none_at_all")
    for query in (TOTALS, OVER, BELOW, BELOW.replace("WHERE", "WHERE k > 'a' AND")):
        answer = sql(query, tables={"t": none}).drop("_change_type").collect()
        wanted = spark.sql(query.replace("FROM t", "FROM none_at_all")).collect()
        assert [tuple(row) for row in answer] == [tuple(row) for row in wanted]
    for group, rows in GROUPS.items() if SPARK >= (4, 2) else ():
        query = f"SELECT COUNT(*) AS n FROM none_at_all GROUP BY {group}"
        assert [tuple(row) for row in spark.sql(query).collect()] == rows, group


@pytest.mark.spark
def test_in_a_stream_the_first_batch_brings_it_whatever_is_in_it(
    spark: Any, tmp_path: Path
) -> None:
    from aggloom.runtime.spark import read_changes, sql

    source = tmp_path / "in"
    source.mkdir()
    (source / "0.jsonl").write_text('{"k": "a", "v": 1}\n', encoding="utf-8")
    plans = {
        "below": BELOW,
        "over": OVER,
        "direct": "SELECT COUNT(*) AS keys FROM (SELECT DISTINCT k FROM t WHERE v > 10) AS s",
    }
    parts = [
        f"SELECT '{name}' AS q, CAST(x AS BIGINT) AS x FROM (SELECT {column} AS x FROM ({query}) AS s) AS r"
        for (name, query), column in zip(plans.items(), ("keys", "c", "keys"), strict=True)
    ]
    t = read_changes(spark, str(source), "jsonl", DDL, maxFilesPerTrigger=1)
    out = sql(" UNION ALL ".join(parts), tables={"t": t}, backend="python")
    batches: list[list[tuple[Any, ...]]] = []

    def note(df: Any, _: int) -> None:
        batches.append(sorted((r._change_type, r.q, r.x) for r in df.collect()))

    def run() -> None:
        query = (
            out.writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "state"))
            .outputMode("append" if not hasattr(out, "none") else "update")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert batches == [[("insert", "below", 0), ("insert", "direct", 0), ("insert", "over", 1)]]
    (source / "1.jsonl").write_text('{"k": "a", "v": 11}\n', encoding="utf-8")
    run()
    (second,) = batches[1:]
    assert ("update_preimage", "below", 0) in second and ("update_postimage", "below", 1) in second
    assert ("update_postimage", "over", 0) in second and not [r for r in second if r[0] == "insert"]
