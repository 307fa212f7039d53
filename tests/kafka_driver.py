"""A driver that reads a topic, adds up, and writes into another: tests kill it."""

from __future__ import annotations

import sys
from pathlib import Path

import kafka

import aggloom as al
from aggloom.runtime.sinks.kafka import KafkaSink
from aggloom.runtime.spark.each_batch import EachBatch


def main(servers: str, place: str, strike: str) -> None:
    """Run what there is; before or after the sink's commit of a batch, say so and wait to be killed."""
    spark = al.session("driver", master="local[1]", **kafka.connector_settings())
    df = al.read_kafka(
        spark, servers, "numbers", "jsonl", "k INT, v INT", max_messages_per_trigger=40
    )
    out = al.sql("SELECT k, SUM(v) AS s FROM t GROUP BY k", t=df, buckets=1, backend="python")
    batch, _, when = strike.partition(" ")
    written = EachBatch.__call__

    def struck(self: EachBatch, rows: object, number: int) -> None:
        if str(number) == batch and when == "after":
            written(self, rows, number)  # type: ignore[arg-type]
        if str(number) == batch:
            if when == "before":
                hold(self.sink)  # type: ignore[arg-type]
            else:
                wait(place)
        written(self, rows, number)  # type: ignore[arg-type]

    def hold(sink: KafkaSink) -> None:
        produce = sink._produce

        def produced(*args: object) -> None:
            produce(*args)  # type: ignore[arg-type]
            sink._producer.flush(30)
            wait(place)

        sink._produce = produced  # type: ignore[assignment]

    EachBatch.__call__ = struck  # type: ignore[method-assign]
    sink = {"kind": "kafka", "servers": servers, "topic": "sums", "format": "debezium-json"}
    al.await_end(al.write_changes(out, sink, f"{place}/checkpoint"))
    Path(place, "done").touch()


def wait(place: str) -> None:
    """Say that it is time, and wait for the end."""
    import time

    Path(place, "strike").touch()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
