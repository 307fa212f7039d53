"""TO_CHANGELOG and FROM_CHANGELOG on Spark: results and inputs of operators, filters that Spark evaluates, restarts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aggloom as al
from aggloom.runtime.spark.failures import await_end

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

CHANGES = [
    *(("insert", "a", 1), ("insert", "b", 5), ("insert", "a", 2), ("insert", "a", 7)),
    *(("delete", "a", 7), ("delete", "a", 2), ("delete", "b", 5)),
]
# LN is none that Arrow computes.
FILTERS = {"lowered": "n > 1", "by Spark": "n > 1 AND LN(n) > 0"}


@pytest.mark.parametrize("condition", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.sampled(1)
def test_filters_below_a_log_give_whole_changes(spark: Any, condition: str) -> None:
    df = spark.createDataFrame(CHANGES, "_change_type STRING, k STRING, v INT").coalesce(1)
    sums = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
    log = f"TO_CHANGELOG(input => (SELECT * FROM ({sums}) WHERE {condition}))"
    options = {"t": df, "mini_batch_enabled": False, "buckets": 2, "output_profile": "flink"}
    found = al.sql(f"SELECT op AS code, k, n, s FROM {log}", **options).collect()
    wanted = [("INSERT", 2, 3), ("UPDATE_BEFORE", 2, 3), ("UPDATE_AFTER", 3, 10)]
    wanted += [("UPDATE_BEFORE", 3, 10), ("UPDATE_AFTER", 2, 3), ("DELETE", 2, 3)]
    assert [tuple(row) for row in found] == [(op, "a", n, s, "+I") for op, n, s in wanted]
    options["mini_batch_enabled"] = True
    once = f"SELECT op AS code, COUNT(*) AS c, SUM(s) AS s FROM {log} GROUP BY op"
    assert al.sql(once, **options).collect() == []
    # Filters directly over a table judge the halves of an update together, too.
    updates = [("insert", "a", 1), ("update_preimage", "a", 1), ("update_postimage", "a", 5)]
    df = spark.createDataFrame(updates, "_change_type STRING, k STRING, n INT").coalesce(1)
    log = f"TO_CHANGELOG(input => (SELECT * FROM t WHERE {condition}))"
    grouped = al.sql(f"SELECT op AS code, SUM(n) AS s FROM {log} GROUP BY op", t=df)
    assert [tuple(row) for row in grouped.collect()] == [("INSERT", 5, "insert")]


LOG_SQL = """
    SELECT k, SUM(n) AS n FROM FROM_CHANGELOG(
        input => (SELECT * FROM TO_CHANGELOG(
            input => (SELECT k, c, COUNT(*) AS n FROM FROM_CHANGELOG(
                input => TABLE t PARTITION BY id,
                op_mapping => MAP['c, r', 'INSERT', 'u', 'UPDATE_AFTER', 'd', 'DELETE']) GROUP BY k, c),
            op => DESCRIPTOR(code))),
        op => DESCRIPTOR(code))
    GROUP BY k"""


def test_a_stream_of_operations_over_restarts(spark: Any, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    batches = [
        [("c", 1, "a", "x"), ("r", 2, "a", "y"), ("u", 1, "b", "x")],
        [("d", 2, None, None), ("c", 3, "b", "z"), ("u", 3, "a", "z")],
        [("c", 2, "b", "x")],
    ]
    for number, rows in enumerate(batches):
        lines = (json.dumps(dict(zip(("op", "id", "k", "c"), row, strict=True))) for row in rows)
        (source / f"{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        df = al.read_changes(spark, str(source), "jsonl", "op STRING, id INT, k STRING, c STRING")
        changes = al.sql(LOG_SQL, t=df, input_changes="append", change_column=None, buckets=2)
        await_end(al.write_changes(changes, "table", checkpoint))
    found = al.read_table(checkpoint).to_pylist()
    assert Counter(tuple(row.values()) for row in found) == Counter([("a", 1), ("b", 2)])


def test_a_log_is_a_result_and_says_what_it_does_not_know(spark: Any) -> None:
    rows = [("c", 1, 2), ("u", 1, 3), ("d", 1, 3), ("c", 2, 5)]
    df = spark.createDataFrame(rows, "code STRING, id INT, v INT").coalesce(1)
    call = "FROM_CHANGELOG(TABLE t, DESCRIPTOR(code), MAP['c, u', 'INSERT', 'd', 'DELETE'])"
    found = al.sql(f"SELECT * FROM {call}", t=df, output_profile="flink").collect()
    wanted = [(1, 2, "+I"), (1, 3, "+I"), (1, 3, "-D"), (2, 5, "+I")]
    assert [tuple(row) for row in found] == wanted
    strict = call.replace(", u", "")
    with pytest.raises(
        Exception, match="the operation in column 'code' is 'u'; known are 'c', 'd'"
    ):
        al.sql(f"SELECT * FROM {strict}", t=df).collect()
