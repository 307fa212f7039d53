"""Flink SQL, run by the Python that has apache-flink: a query a line in, an answer a line out.

A line of input is JSON: {"settings": {...}, "statements": [DDL, ...], "query": SELECT, "collect": bool}, and perhaps
"sink": the name of a table. An answer is {"seconds": from the call to the end, "job": seconds of the job itself}, or,
if the changes are to be collected, {"changes": [[kind, values...], ...]}, or {"error": why there is none}. Nothing of
aggloom is imported here.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment
from pyflink.version import __version__

HOLE = TableDescriptor.for_connector("blackhole").build()
KINDS = ("+I", "-U", "+U", "-D")


def answer(
    settings: dict[str, str],
    statements: list[str],
    query: str,
    collect: bool,
    sink: str = "",
) -> dict[str, Any]:
    """Run a query into a table or a black hole, or collect its changes."""
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in settings.items():
        env.get_config().set(key, value)
    for statement in statements:
        env.execute_sql(statement)
    table = env.sql_query(query)
    if collect:
        with table.execute().collect() as rows:
            return {"changes": [[KINDS[row.get_row_kind().value], *row] for row in rows]}
    begin = time.perf_counter()
    running = table.execute_insert(sink or HOLE)
    running.wait()
    seconds = time.perf_counter() - begin
    client = running.get_job_client()
    assert client is not None
    job = client.get_job_execution_result().result().get_net_runtime() / 1000
    return {"seconds": seconds, "job": job}


def main() -> None:
    """Say the version, then answer until the input ends."""
    print(json.dumps({"version": __version__}), flush=True)
    for line in sys.stdin:
        try:
            made = answer(**json.loads(line))
        except Exception as error:
            made = {"error": str(error)}
        print(json.dumps(made, default=str), flush=True)


if __name__ == "__main__":
    main()
