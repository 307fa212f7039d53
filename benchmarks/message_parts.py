"""Processor time that a message of Kafka takes, by part: fetched, decoded, and the rest of the local engine.

    python benchmarks/message_parts.py --messages 1000000                 # a minute or two
    python benchmarks/message_parts.py --messages 1000000 --width 1000    # messages of 1 kB

Each part is run with those before it, twice, and the second run counts: microseconds of all threads, and of the one
that runs. The broker is that of the tests; its time is not counted.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import servers
from rows import Rows
from servers import COUNT, SUMS, Place, Topic, on_local_engine

from aggloom.runtime.connectors.kafka.fetch import MessageFetcher, OffsetRange
from aggloom.runtime.connectors.kafka.offsets import OffsetPlanner
from aggloom.runtime.connectors.kafka.options import KafkaSource
from aggloom.runtime.formats.decoder import decoder

_CASES = (
    ("JSON, counted", COUNT, False),
    ("JSON, by 10,000 keys", SUMS, False),
    ("debezium-json, by 10,000 keys", SUMS, True),
)


def _spent() -> float:
    """Seconds of processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _time(run: Callable[[], Any], count: int) -> str:
    """Microseconds a message of a second run: of all threads, of this one, and on the clock."""
    run()
    spent, thread, clock = _spent(), time.thread_time(), time.perf_counter()
    run()
    parts = _spent() - spent, time.thread_time() - thread, time.perf_counter() - clock
    whole, own, wall = (1e6 * each / count for each in parts)
    return f"{whole:.2f} us of all threads, {own:.2f} of this one, {wall:.2f} on the clock"


def measure(topic: Topic, count: int, sql: str) -> dict[str, str]:
    """The parts of a case, by name."""
    source = KafkaSource(servers=topic.servers, topic=topic.name)
    planned = OffsetPlanner(source, "a benchmark").plan_whole()
    ranges = [OffsetRange(p, at, planned.ends[p]) for p, at in sorted(planned.starts.items())]
    format_ = "debezium-json" if topic.changes else "jsonl"
    reading = decoder(format_, topic.schema)
    fetchers = {
        "fetched as objects": MessageFetcher(source, "a benchmark"),
        "fetched in columns": MessageFetcher(source, "a benchmark", ()),
    }

    def fetch(fetcher: MessageFetcher) -> None:
        for _ in fetcher.fetch(ranges):
            pass

    def fetch_and_decode() -> None:
        for block in fetchers["fetched in columns"].fetch(ranges):
            reading.decode(block)

    runs: dict[str, Callable[[], Any]] = {
        name: partial(fetch, fetcher) for name, fetcher in fetchers.items()
    }
    runs["and decoded"] = fetch_and_decode
    runs["the local engine, into nothing"] = lambda: on_local_engine(sql, Place(topic, count, None))
    return {name: _time(run, count) for name, run in runs.items()}


@click.command()
@click.option("--messages", default=500_000, help="Rows of each topic.")
@click.option("--width", default=0, help="Bytes that the rows in messages have at least.")
def main(messages: int, width: int) -> None:
    """Measure, and print."""
    with servers.kafka.broker() as broker:
        counts: dict[str, int] = {}
        for title, sql, changes in _CASES:
            rows = Rows(messages, 10_000, "retract" if changes else "append")
            topic = Topic(rows, broker.servers, changes, width)
            if topic.name not in counts:
                counts[topic.name] = topic.fill(broker)
            count = counts[topic.name]
            for part, said in measure(topic, count, sql).items():
                click.echo(f"{title}, {count:,} messages, {part}: {said}")


if __name__ == "__main__":
    main()
