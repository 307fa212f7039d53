"""Processor time that decoding a message takes, without a broker: microseconds of one thread, the best of some runs.

python benchmarks/decoding.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import click

from aggloom.runtime.formats.base import Messages
from aggloom.runtime.formats.decoder import decoder
from aggloom.runtime.formats.texts import Texts

_SCHEMA = "k BIGINT, v INT"
_MANY = f"{_SCHEMA}, s STRING, f DOUBLE, b BOOLEAN, d DECIMAL(10,2), t TIMESTAMP"
_OTHERS = '"name":"some name","when":"2020-01-01T00:00:00Z","price":12.5,"tags":["a","b"],"ok":true,"x":null'
_SOURCE = (
    '"source":{"version":"2.5.0.Final","connector":"postgresql","name":"shop","ts_ms":1700000000000,"snapshot":"false",'
    '"db":"shop","sequence":"[\\"1\\",\\"2\\"]","ts_us":1700000000000000,"ts_ns":1700000000000000000,'
    '"schema":"public","table":"orders","txId":1,"lsn":2,"xmin":null},"ts_ms":1700000000000,"transaction":null'
)
_CASES: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "JSON": ("jsonl", _SCHEMA, "", {}),
    "JSON, names in another case": ("jsonl", "K BIGINT, V INT", "", {}),
    "JSON, 6 fields more": ("jsonl", _SCHEMA, _OTHERS, {}),
    "JSON, 7 types": ("jsonl", _MANY, '"s":"a text","f":0.125,"b":true,"d":1.25,"t":"2020-01-01T00:00:01Z"', {}),
    "JSON, 1 kB": ("jsonl", f"{_SCHEMA}, w STRING", f'"w":"{"x" * 970}"', {}),
    "JSON, escapes": ("jsonl", f"{_SCHEMA}, w STRING", '"w":"say \\"hello\\"\\n"', {}),
    "debezium-json": ("debezium-json", _SCHEMA, "", {}),
    "debezium-json with its source": ("debezium-json", _SCHEMA, _SOURCE, {}),
    "the same, one table of several": ("debezium-json", _SCHEMA, _SOURCE, {"table": "orders"}),
}  # fmt: skip


def make_messages(format: str, more: str, count: int) -> Iterator[bytes]:
    """Messages of a format with some fields more; a third of envelopes are updates."""
    draw = random.Random(1)
    behind = f",{more}" if more else ""

    def make_row(fields: str = "") -> str:
        return f'{{"k":{draw.randrange(10_000)},"v":{draw.randrange(-500, 500)}{fields}}}'

    for number in range(count):
        if format == "jsonl":
            yield make_row(behind).encode()
            continue
        before, op = (make_row(), "u") if number % 3 == 0 else ("null", "c")
        yield f'{{"before":{before},"after":{make_row()},"op":"{op}"{behind}}}'.encode()


@click.command()
@click.option("--messages", default=20_000, help="As many as a fetcher hands on at once.")
@click.option("--runs", default=7, help="Of each case, after one that does not count.")
def main(messages: int, runs: int) -> None:
    """Measure, and print."""
    for title, (format_, schema, more, options) in _CASES.items():
        reading = decoder(format_, schema, table=options.get("table"))
        texts = Texts.copy(list(make_messages(format_, more, messages)))
        seconds = []
        for _ in range(runs + 1):
            block = Messages(texts, [None] * messages, str)
            start = time.thread_time()
            reading.decode(block)
            seconds.append(time.thread_time() - start)
        click.echo(f"{title}: {1e6 * min(seconds[1:]) / messages:.2f} us")


if __name__ == "__main__":
    main()
