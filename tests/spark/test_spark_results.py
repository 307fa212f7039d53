"""Every kind of result through Spark: lists, maps, structs, JSON, exact floats, sketches, over restarts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aggloom.codegen import AggSpec
from aggloom.runtime.local.harness import Harness

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

from aggloom.runtime.connectors.files.table_file import read_table  # noqa: E402
from aggloom.runtime.spark import read_changes, write_changes  # noqa: E402
from aggloom.runtime.spark.api.group_aggregate import group_aggregate  # noqa: E402

DDL = "name STRING, cnt INT, price DOUBLE, tags ARRAY<STRING>, who STRUCT<id: INT, name: STRING>"
RETRACTING = """
SELECT name, LISTAGG(CAST(cnt AS STRING), ';' ORDER BY cnt DESC) AS listed, ARRAY_AGG(price) AS prices,
  COLLECT(cnt) AS bag, TOP_K(cnt, 2) AS top, PERCENTILE(price, ARRAY(0.0, 0.5, 1.0)) AS spread,
  MAX_BY(who, price) AS dearest, LAST_VALUE(tags ORDER BY cnt) AS last_tags,
  STDDEV_SAMP(price) AS deviation, COUNT(DISTINCT cnt, who) AS pairs,
  JSON_OBJECTAGG(CAST(cnt AS STRING) VALUE tags) AS object, COLLECT_SET(tags) AS all_tags,
  BOOL_OR(cnt > 3) AS some, LOG_PERCENTILE(price, 0.5) AS about
FROM t GROUP BY name
"""
APPENDING = """
SELECT who, APPROX_COUNT_DISTINCT(cnt) AS n, APPROX_PERCENTILE(price, ARRAY(0.1, 0.9)) AS p,
  ANY_VALUE(tags) AS tags, VAR_POP(price) AS variance, REGR_SLOPE(price, cnt) AS slope,
  SUM(price) FILTER (WHERE cnt > 2) AS large
FROM t GROUP BY who
"""
Row = tuple[Any, ...]


def rows_of(batch: int, retracting: bool) -> list[Row]:
    """Changes that are valid after the batches before."""
    rows: list[Row] = []
    for k in range(12):
        for turn, kind in ((batch, "+I"), (batch - 1, "-D")):
            if kind == "+I" or (retracting and turn >= 0 and k % 2):
                cnt = None if k == 5 else k + turn
                price = None if k == 6 else 1e16 / 7**k + turn
                tags = [f"t{k}", None] if k % 3 else None
                who = {"id": k % 5, "name": f"w{k % 5}"}
                rows.append((kind, f"n{k % 4}", cnt, price, tags, who))
    return rows


def write(directory: Path, number: int, rows: list[Row]) -> None:
    """One file of changes."""
    directory.mkdir(exist_ok=True)
    names = ("op", "name", "cnt", "price", "tags", "who")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path = directory / f"{number:04d}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.mark.parametrize("retracting", [True, False])
@pytest.mark.sampled(1)
def test_spark_gives_what_the_harness_gives(spark: Any, tmp_path: Path, retracting: bool) -> None:
    sql = RETRACTING if retracting else APPENDING
    spec = AggSpec.from_sql(sql, DDL, "retract" if retracting else "append")
    with Harness(spec, backend="numba") as harness:
        for batch in range(3):
            rows = rows_of(batch, retracting)
            write(tmp_path / "in", batch, rows)
            harness.process(rows)
            harness.flush()
            # Each time a new query goes on with the state of the one before.
            source = read_changes(
                spark, str(tmp_path / "in"), "jsonl", DDL, max_files_per_trigger=1
            )
            out = group_aggregate(source, spec, buckets=3)
            write_changes(out, "table", tmp_path / "checkpoint").awaitTermination()
        got = [tuple(row.values()) for row in read_table(tmp_path / "checkpoint").to_pylist()]
        assert sorted(got, key=repr) == sorted(harness.table(), key=repr)
