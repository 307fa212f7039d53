"""A driver that reads a topic, adds up, and writes into another: tests kill it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import kafka

import aggloom as al
from aggloom.runtime.spark.write.each_batch import EachBatch


def run(spark: Any, servers: str, place: str) -> None:
    """Run what there is."""
    df = al.read_kafka(
        spark, servers, "numbers", "jsonl", "k INT, v INT", max_messages_per_trigger=40
    )
    out = al.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=df, buckets=1, backend="python")
    sink = {"kind": "kafka", "servers": servers, "topic": "sums", "format": "debezium-json"}
    al.await_end(al.write_changes(out, sink, f"{place}/checkpoint"))


def main(servers: str, place: str, strike: str) -> None:
    """Run; before or after the sink's commit of a batch, say so and wait to be killed."""
    spark = al.session("driver", master="local[2]", **kafka.connector_settings())
    batch, _, when = strike.partition(" ")
    written = EachBatch.__call__

    def struck(self: EachBatch, rows: Any, number: int) -> None:
        if str(number) == batch and when == "before":
            hold(self.sink)
        written(self, rows, number)
        if str(number) == batch:
            wait(place)

    def hold(sink: Any) -> None:
        produce = sink._produce

        def produce_once(*args: Any) -> None:
            produce(*args)
            sink._producer.flush(30)
            wait(place)

        sink._produce = produce_once

    EachBatch.__call__ = struck  # type: ignore[method-assign]
    run(spark, servers, place)


def wait(place: str) -> None:
    """Say that it is time, and wait for the end."""
    Path(place, "strike").touch()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
