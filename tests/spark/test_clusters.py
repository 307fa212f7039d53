"""Spark's own cluster of two workers on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import two_queries
from standalone import Daemon, bare_python, cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not os.environ.get("AGGLOOM_CLUSTER"),
        reason="drivers and executors take minutes: make clusters runs them",
    ),
]

SMALL = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.memory": "1g"}
SCRIPT = """
import json, sys
import aggloom as al
from aggloom.runtime.spark import explain_failure

spark = al.session("sent", **json.loads(sys.argv[1]))
rows = spark.createDataFrame([("a", 1), ("b", 2), ("a", 4)], "k STRING, v INT")

def table():
    out = al.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=rows, buckets=2, backend="python")
    return sorted(list(row) for row in out.collect())

def where(parts):
    import aggloom.errors
    yield aggloom.errors.__file__

lacking = ""
try:
    table()
except Exception as failure:
    error = explain_failure(failure)
    lacking = f"{type(error).__name__}: {error}"
al.ship(spark)
places = spark.sparkContext.parallelize(range(4), 4).mapPartitions(where).collect()
print(json.dumps([lacking, table(), places]))
"""


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Daemon]]]:
    """A master and two workers."""
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def test_modules_are_sent_to_executors_that_lack_them(
    spark_cluster: tuple[str, list[Daemon]], tmp_path: Path
) -> None:
    master, _ = spark_cluster
    settings = {
        **SMALL,
        "master": master,
        "spark.pyspark.python": str(bare_python(tmp_path / "bare")),
        # A few rows are sooner added up than anything is compiled.
        "spark.executorEnv.NUMBA_DISABLE_JIT": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lacking, table, places = json.loads(done.stdout.splitlines()[-1])
    assert lacking.startswith(
        "ExecutorError: the Python of Spark's executors has no package 'aggloom'"
    )
    assert table == [["a", 5, "insert"], ["b", 2, "insert"]]
    assert all("aggloom.zip/aggloom/errors.py" in place for place in places)


def test_a_stream_outlives_its_driver_and_a_worker(
    spark_cluster: tuple[str, list[Daemon]], tmp_path: Path
) -> None:
    master, workers = spark_cluster
    two_queries.write(tmp_path)
    environment = {**os.environ, "AGGLOOM_STATE_DIR": str(tmp_path / "the driver's")}
    settings = (f"{name}={value}" for name, value in SMALL.items())
    given = (master, *settings, f"spark.pyspark.python={sys.executable}")
    two_queries.struck(sys.executable, tmp_path, *given, environment=environment)
    struck = threading.Thread(target=_strike, args=(tmp_path, workers[0]))
    struck.start()
    found = two_queries.ended(sys.executable, tmp_path, *given, environment=environment)
    struck.join()
    sums, windows = two_queries.expected(tmp_path)
    assert two_queries.folded(found["sums"]) == sums
    assert two_queries.folded(found["windows"]) == windows
    # Each host has live state of its own, and the driver's has none.
    assert all(list(worker.state.iterdir()) for worker in workers)
    assert not (tmp_path / "the driver's").exists()


def test_a_cluster_that_a_driver_starts_for_itself(tmp_path: Path) -> None:
    two_queries.write(tmp_path)
    settings = (f"{name}={value}" for name, value in SMALL.items())
    given = ("local-cluster[2,1,1024]", *settings)
    found = two_queries.ended(sys.executable, tmp_path, *given, environment=dict(os.environ))
    sums, windows = two_queries.expected(tmp_path)
    assert two_queries.folded(found["sums"]) == sums
    assert two_queries.folded(found["windows"]) == windows


def _strike(place: Path, worker: Daemon) -> None:
    """End a worker with its executor in the middle of the second life; another worker is there in its place."""
    commit, until = place / "sums.checkpoint" / "commits" / "4", time.monotonic() + 240
    while not commit.exists() and time.monotonic() < until:
        time.sleep(0.05)
    worker.stop()
    worker.start()
