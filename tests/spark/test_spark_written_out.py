"""Rows that are compared, lists of patterns and sub-queries without a table in a stream on Spark, over a restart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import aggloom as al
from aggloom.runtime.spark.failures import await_end

pytestmark = [pytest.mark.spark, pytest.mark.interpreted]

QUERIES: dict[str, tuple[str, str | None]] = {
    "counts by comparisons, IN as a value": (
        """
    SELECT k, v, (SELECT COUNT(*) FROM t AS u WHERE u.k = t.k AND u.v < t.v) AS below,
      (SELECT SUM(u.v * t.v) FROM t AS u WHERE u.s <> t.s) AS product,
      v NOT IN (SELECT u.v FROM t AS u WHERE u.k = t.k AND u.s > t.s) AS last
    FROM t WHERE k = 'a' OR s = 'ab'""",
        None,
    ),
    "rows, lists of patterns, a value": (
        """
    SELECT k, COUNT(*) AS n, SUM(v) FILTER (WHERE (k, v) < ('b', 3)) AS below,
      MAX(concat_ws('-', s, array(k, NULL))) AS last
    FROM t
    WHERE s LIKE ANY ('a%', '%b') AND s NOT LIKE ALL ('ab', 'a_b')
      AND (k, v) IS DISTINCT FROM ('a', 1) AND v <> (SELECT 2)
    GROUP BY k""",
        # As in Spark, the least value of a row that is compared is NULL.
        """
    SELECT k, COUNT(*), SUM(v) FILTER (WHERE k IS NULL OR k < 'b' OR k = 'b' AND v < 3), MAX(concat_ws('-', s, k))
    FROM t
    WHERE (s LIKE 'a%' OR s LIKE '%b') AND s NOT LIKE 'ab' AND s NOT LIKE 'a_b'
      AND (k IS DISTINCT FROM 'a' OR v IS DISTINCT FROM 1) AND v <> 2
    GROUP BY k""",
    ),
    "a question as a value, rows between rows, a column twice": (
        """
    SELECT k, k, v, CASE WHEN EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k AND u.v < t.v) THEN 'above' ELSE 'least' END
    FROM t WHERE (k, v) BETWEEN ('a', 2) AND ('b', 2) AND s IS NOT NULL""",
        """
    SELECT k, k, v, CASE WHEN EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k AND u.v < t.v) THEN 'above' ELSE 'least' END
    FROM t
    WHERE (k = 'a' AND v >= 2 OR k > 'a') AND (k < 'b' OR k = 'b' AND (v <= 2 OR v IS NULL)) AND s IS NOT NULL""",
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_over_a_restart_gives_duckdbs_table(spark: Any, tmp_path: Path, name: str) -> None:
    sql, by_duckdb = QUERIES[name]
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    texts = ("ax", "xb", "ab", "a1b", "c", None, "äb")
    rows = [(k, v, s) for k in ("a", "b", "c", None) for v in (1, 2, 3, None) for s in texts]
    gone, names = rows[1::3], ("k", "v", "s", "_change_type")
    for number, (kind, changed) in enumerate([("insert", rows), ("delete", gone)]):
        dicts = (dict(zip(names, (*row, kind), strict=True)) for row in changed)
        lines = "".join(json.dumps(each) + "\n" for each in dicts)
        (source / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        changes = al.read_changes(spark, str(source), "jsonl", "k STRING, v INT, s STRING")
        await_end(al.write_changes(al.sql(sql, t=changes), "table", checkpoint))
    found = Counter(tuple(row.values()) for row in al.read_table(checkpoint).to_pylist())
    database = duckdb.connect()
    database.execute("CREATE TABLE t (k VARCHAR, v INT, s VARCHAR)")
    database.executemany(
        "INSERT INTO t VALUES (?, ?, ?)", list((Counter(rows) - Counter(gone)).elements())
    )
    wanted = database.execute(by_duckdb or sql).fetchall()
    assert found == Counter(wanted) and len(wanted) > 3
