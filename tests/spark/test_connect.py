"""A Spark Connect session: the same query, in a process of its own, since Spark has either kind of session.

Spark gives two processes of a streaming query ten seconds to import what they need, and starts them with an archive of
itself first on their path, whose modules each compiles anew: with that, a busy machine is too slow. Here Spark's home
has no such archive, and a query that failed for it is started again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from aggloom.runtime.spark.release import SPARK

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="needs pyspark[connect]"),
]

SCRIPT = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
import aggloom as al
from aggloom.errors import WorkerStartError

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
home = Path(sys.argv[1])
spec = al.AggSpec.from_sql(
    "SELECT name, SUM(cnt * 2) AS total, MAX(cnt) AS top FROM t GROUP BY name HAVING SUM(cnt * 2) > 0",
    "name STRING, cnt INT",
)
batch = spark.createDataFrame([("a", 1), ("b", None), ("a", 4)], "name STRING, cnt INT")
found = [list(row) for row in al.group_aggregate(batch, spec).collect()]

source = al.read_changes(spark, str(home / "in"), "jsonl", "name STRING, cnt INT")
out = al.group_aggregate(source, spec)
def ended(sink, starts):
    try:
        query = al.write_changes(out, sink, home / sink.partition(":")[0])
        al.await_end(query)
    except WorkerStartError:
        if starts == 1:
            raise
        return ended(sink, starts - 1)
    return query

ended("table", starts=5)
counts = al.progress(ended(f"parquet:{home / 'out'}", starts=5)).to_dict()
checkpoint, key = home / "parquet", {"name": "a"}
(part,) = al.why(checkpoint, key=key, spark=spark).now
counted = [counts["rows"], counts["changes"], counts["operators"][0]["keys"], part.results["total"]]
streamed = [list(row) for row in spark.read.parquet(str(home / "out")).collect()]
from aggloom.runtime.connectors.files.table_file import read_table
table = [list(row.values()) for row in read_table(home / "table").to_pylist()]
print("RESULT " + json.dumps([found, streamed, table, counted]))
"""


@pytest.mark.thorough
def test_batch_and_streaming_over_connect(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [("insert", "a", 1), ("delete", "a", 1), ("insert", "a", 5), ("insert", "b", 0)]
    lines = [json.dumps({"_change_type": op, "name": name, "cnt": cnt}) for op, name, cnt in rows]
    (tmp_path / "in" / "changes.jsonl").write_text("\n".join(lines) + "\n")
    spark_home = tmp_path / "spark"
    spark_home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (spark_home / part.name).symlink_to(part)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # The server's port is a free one then.
        "SPARK_TESTING": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    if SPARK < (4, 1):
        assert "SparkVersionError: Spark Connect: the client of Spark 4.0" in done.stderr
        return
    results = [line for line in done.stdout.splitlines() if "RESULT " in line]
    assert results, done.stderr[-3000:]
    found, streamed, table, counted = json.loads(results[-1].partition("RESULT ")[2])
    assert found == [["a", 10, 4, "insert"]]
    assert streamed == [["a", 10, 5, "insert"]]
    assert table == [["a", 10, 5]]
    assert counted == [4, 1, 2, 10]
