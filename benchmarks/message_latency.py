"""Time from a message of Kafka to its row in PostgreSQL, by engine: `aggloom run --continuous` under a steady stream.

    python benchmarks/message_latency.py                          # both engines, some minutes
    python benchmarks/message_latency.py --engine local --messages 2000 --rate 100

A message is a new key of a GROUP BY. Its time is from just before it is sent until another connection sees its row,
which it asks for every two milliseconds. The broker and the database are those of the tests, on this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import servers
from servers import kafka, postgres

_QUERY = """
CREATE TABLE t (id INT, v INT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
  'properties.bootstrap.servers' = '{servers}');
CREATE TABLE totals (id INT, n BIGINT, s BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc',
  'url' = 'jdbc:{url}', 'table-name' = '{topic}');
INSERT INTO totals SELECT id, COUNT(*), SUM(v) FROM t GROUP BY id;
"""
_POLL_SECONDS = 0.002
_START_SECONDS, _END_SECONDS = 300.0, 60.0


class Line:
    """A query of one engine between a topic and a table, in a process of its own."""

    def __init__(self, engine: str, broker: Any, database: Any, folder: Path) -> None:
        from confluent_kafka import Producer

        self.topic = broker.topic(f"latency_{engine}", servers.PARTITIONS)
        self._producer = Producer(
            {"bootstrap.servers": broker.servers, "linger.ms": 0, "log_level": 0}
        )
        self._db = database.connect(autocommit=True)
        self._db.execute(f"CREATE TABLE {self.topic} (id INT PRIMARY KEY, n BIGINT, s BIGINT)")
        script = folder / f"{engine}.sql"
        script.write_text(_QUERY.format(topic=self.topic, servers=broker.servers, url=database.url))
        jars = kafka.connector_settings()["spark.jars"]
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
        command = [sys.executable, "-m", "aggloom", "run", str(script), "--engine", engine]
        command += ["--continuous", "--checkpoint", str(folder / engine)]
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def send(self, number: int) -> None:
        """Send a message."""
        value = f'{{"id": {number}, "v": 1}}'
        self._producer.produce(self.topic, value, partition=number % servers.PARTITIONS)
        self._producer.poll(0)

    def count_rows(self) -> int:
        """The rows that are there."""
        return int(self._db.execute(f"SELECT COUNT(*) FROM {self.topic}").fetchone()[0])

    def new_ids(self, known: int) -> list[int]:
        """The keys of rows that are there, from a number on."""
        rows = self._db.execute(f"SELECT id FROM {self.topic} WHERE id >= {known}").fetchall()
        return [row[0] for row in rows]

    def await_rows(self, count: int, seconds: float) -> None:
        """Wait until so many rows are there; raises ClickException."""
        end = time.monotonic() + seconds
        while self.count_rows() < count:
            if time.monotonic() > end or self._process.poll() is not None:
                raise click.ClickException(f"{self.topic}: no rows, or the query has ended")
            time.sleep(0.1)

    def close(self) -> None:
        """End the query."""
        self._producer.flush(10)
        self._process.terminate()
        self._process.wait(60)
        self._db.close()


def measure(line: Line, messages: int, rate: float) -> np.ndarray[Any, Any]:
    """Seconds from each message to its row, after as many that do not count: float64[messages]."""
    line.send(0)
    line.await_rows(1, _START_SECONDS)
    total = 1 + 2 * messages
    sent, seen = np.zeros(total), np.full(total, np.nan)
    begin, number, first = time.perf_counter(), 1, 1
    end = begin + total / rate + _END_SECONDS
    while first < total and time.perf_counter() < end:
        while number < total and time.perf_counter() >= begin + number / rate:
            sent[number] = time.perf_counter()
            line.send(number)
            number += 1
        found = np.array(line.new_ids(first), np.int64)
        now = time.perf_counter()
        seen[found[np.isnan(seen[found])]] = now
        while first < total and not np.isnan(seen[first]):
            first += 1
        time.sleep(_POLL_SECONDS)
    return (seen - sent)[1 + messages :]


@click.command()
@click.option("--engine", "engines", multiple=True, default=("spark", "local"))
@click.option("--messages", default=1_000, help="That count; as many go before them.")
@click.option("--rate", default=50.0, help="Messages a second.")
def main(engines: tuple[str, ...], messages: int, rate: float) -> None:
    """Measure, and print."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        kafka.broker() as broker,
        postgres.server() as database,
    ):
        for engine in engines:
            line = Line(engine, broker, database, Path(folder))
            try:
                seconds = measure(line, messages, rate)
            finally:
                line.close()
            median, high = (1e3 * np.percentile(seconds, share) for share in (50, 99))
            click.echo(
                f"{engine}: {messages:,} messages at {rate:g}/s, ms to the row: median {median:.0f}, 99th percentile "
                f"{high:.0f}, longest {1e3 * seconds.max():.0f}"
            )


if __name__ == "__main__":
    main()
