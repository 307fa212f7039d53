"""The application of a soak: a constant set of keys whose rows come and go at a constant rate, until told to stop.

python soak_driver.py DIRECTORY ROWS_PER_SECOND KEYS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import aggloom as al
from aggloom.errors import AggloomError

BUCKETS = 4
# A heap that is touched when the JVM starts: what grows is then not the collector's choice.
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}
_QUERY = "SELECT k, SUM(v) AS s, MAX(v) AS m, COUNT(*) AS n, COUNT(DISTINCT v % 5) AS d FROM t GROUP BY k"
_CYCLE = 4


def changes(spark: Any, rate: int, keys: int) -> Any:
    """In rounds 0 and 1 of four every key gets a row, in rounds 2 and 3 it loses them again."""
    values = spark.readStream.format("rate").option("rowsPerSecond", rate)
    values = values.option("numPartitions", 1).load()
    comes = f"(value DIV {keys}) % {_CYCLE} < 2"
    return values.selectExpr(
        f"value % {keys} AS k",
        f"IF({comes}, value, value - 2 * {keys}) AS v",
        f"IF({comes}, 'insert', 'delete') AS _change_type",
    )


def table(rows: int, keys: int) -> dict[int, tuple[int, ...]]:
    """Compute the rows of the query's result by key, after so many rows."""
    out: dict[int, tuple[int, ...]] = {}
    for key in range(keys):
        rounds = (rows - key + keys - 1) // keys
        into = rounds % _CYCLE
        live = {0: [], 1: [rounds - 1], 2: [rounds - 2, rounds - 1], 3: [rounds - 2]}[into]
        values = [key + keys * number for number in live]
        if values:
            out[key] = (sum(values), max(values), len(values), len({v % 5 for v in values}))
    return out


class Table:
    """Folds the changes as they come."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, ...]] = {}

    def __call__(self, df: Any, batch: int) -> None:
        """Fold one batch."""
        for key, *values, kind in df.collect():
            if kind in ("insert", "update_postimage"):
                self.rows[key] = tuple(values)
            elif self.rows.pop(key, None) != tuple(values):
                raise AggloomError(
                    f"batch {batch}: key {key} loses {values}, which it did not have"
                )


def main() -> None:
    """Run until the file `stop` is there; write what each batch took, and whether the table is right in the end."""
    directory, rate, keys = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    spark = al.session("soak", master="local[2]", **SETTINGS)
    folded = Table()
    out = al.sql(_QUERY, t=changes(spark, rate, keys), buckets=BUCKETS)
    writer = out.writeStream.foreachBatch(folded).trigger(processingTime="2 seconds")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    last, rows = -1, 0
    with (directory / "progress").open("w", buffering=1) as progress:
        while query.isActive:
            stop = (directory / "stop").exists()
            if stop:
                query.stop()
            for each in query.recentProgress:
                if each.batchId > last and each.numInputRows:
                    last, rows = each.batchId, rows + each.numInputRows
                    took = each.durationMs["triggerExecution"]
                    progress.write(json.dumps([each.batchId, each.numInputRows, took]) + "\n")
            time.sleep(1)
    al.await_end(query)
    wrong = len(folded.rows.items() ^ table(rows, keys).items())
    (directory / "verdict").write_text(
        f"{wrong} of {len(folded.rows)} keys are wrong after {rows} rows"
    )
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
