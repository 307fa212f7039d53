"""The Flink side of windows.py, run by the Python that has apache-flink: a query a line in, an answer a line out.

A line of input is JSON: {"folder": of CSV files, "sql": over t, "columns": of its result, "count": bool}. An answer is
{"seconds": ...}, with {"results": ...} if asked to count. Nothing of aggloom is imported here.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
}
# So that a count of all results does not come as a change for each of them.
BUNDLED = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "10 s",
    "table.exec.mini-batch.size": "1000000",
}
SOURCE = """CREATE TABLE t (
  k BIGINT, at_ms BIGINT, v INT, ts AS TO_TIMESTAMP_LTZ(at_ms, 3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv')"""


def environment(folder: str, settings: dict[str, str]) -> TableEnvironment:
    """A streaming environment that has the rows of a folder as table t."""
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in settings.items():
        env.get_config().set(key, value)
    env.execute_sql(SOURCE.format(folder=folder))
    return env


def answer(folder: str, sql: str, columns: str, count: bool) -> dict[str, Any]:
    """Run a query into the blackhole, or count what it gives out."""
    if count:
        env = environment(folder, SETTINGS | BUNDLED)
        begin = time.perf_counter()
        with env.execute_sql(f"SELECT COUNT(*) FROM ({sql})").collect() as changes:
            results = [change[0] for change in changes][-1]
        return {"seconds": time.perf_counter() - begin, "results": results}
    env = environment(folder, SETTINGS)
    env.execute_sql(f"CREATE TABLE hole ({columns}) WITH ('connector' = 'blackhole')")
    begin = time.perf_counter()
    env.execute_sql(f"INSERT INTO hole {sql}").wait()
    return {"seconds": time.perf_counter() - begin}


def main() -> None:
    """Say the version, then answer until the input ends."""
    print(json.dumps({"version": __version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
