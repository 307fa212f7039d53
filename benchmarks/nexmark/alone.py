"""The operators of a query without Spark: what they take of one core, over the same files in the same batches.

python -m nexmark.alone --events 10000000 q18 q20 (PYTHONPATH=benchmarks): processor time, and the bytes of their state.
Time of the system is shown apart: it clears the pages that state grows into. On a virtual machine whose memory is lent
that may be more than all else, and differs from run to run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aggloom.runtime.hosting.local_phase import aggregate_rows
from aggloom.runtime.local.pipeline import MemoryHost, Parts, Pipeline, handlers
from aggloom.runtime.platform.memory_reuse import keep_memory
from aggloom.runtime.values.clock import BEFORE_ALL, Clock
from nexmark.catalogue import QUERIES, Query
from nexmark.engine import BATCHES, plan_of
from nexmark.events import Events
from nexmark.local import KINDS, batch_of

_DELAY_MS: Final = 2_000


class Taken(NamedTuple):
    """Seconds on the clock, of the processor, and of these in the system; and the bytes of the state."""

    clock: float
    processor: float
    system: float
    state_bytes: int


class WorkerHost(MemoryHost):
    """A host whose local phases give up as those of both engines do: where accumulators are not clearly fewer."""

    def aggregate(
        self, parts: Parts, handler: type[Any], keys: Sequence[int], buckets: int
    ) -> list[tuple[Parts, list[bytes]]]:
        """The rows of each task as accumulators by bucket, or as rows."""
        shares: list[tuple[Parts, list[bytes]]] = [([], []) for _ in range(buckets)]
        for rows in parts:
            partials, rows_by_bucket = aggregate_rows(rows, handler, keys, buckets)
            for bucket, data in partials:
                shares[bucket][1].append(data)
            for bucket, part in rows_by_bucket:
                shares[bucket][0].append(part)
        return shares


def seconds(query: Query, events: Events, batches: int) -> float:
    """Seconds on the clock, of a second run: the first one compiles."""
    return measure(query, events, batches).clock


def measure(query: Query, events: Events, batches: int) -> Taken:
    """Run a query's operators over all events, after a short run that compiles."""
    _once(query, Events(2_000, events.corrections, rate=50), 2)
    return _once(query, events, batches)


def _once(query: Query, events: Events, batches: int) -> Taken:
    handler_of = handlers("numba")
    pipeline = Pipeline(plan_of(query, events), handler_of, host=WorkerHost(handler_of))
    clock = processor = system = 0.0
    watermark = BEFORE_ALL
    for number in range(batches):
        rows = {table: _read(events, table, number, batches) for table in query.streams}
        if number == 0 and "side" in query.tables:
            side = batch_of(events.side())
            rows["side"] = side, np.zeros(side.num_rows, np.int8)
        steps = [(rows, watermark)]
        if query.timed:
            latest = min(
                pc.max(pc.cast(rows[table][0]["date_time"], pa.int64())).as_py()
                for table in query.streams
            )
            watermark = latest // 1000 - _DELAY_MS - 1
            steps.append(({}, watermark))
        for given, until in steps:
            begin, used = time.perf_counter(), os.times()
            pipeline.process(given, Clock(number, until))
            clock += time.perf_counter() - begin
            user, own = (now - then for now, then in zip(os.times()[:2], used[:2], strict=True))
            processor, system = processor + user + own, system + own
    size = sum(state.arena.nbytes for operator in pipeline.operators for state in operator.states)
    pipeline.close()
    return Taken(clock, processor, system, size)


def _read(
    events: Events, table: str, number: int, batches: int
) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
    files = sorted((events.folder / table).glob("*.parquet"))
    share = len(files) // batches
    own = pa.concat_tables(
        [pq.read_table(file) for file in files[number * share : (number + 1) * share]]
    )
    kinds = np.zeros(own.num_rows, np.int8)
    if "op" in own.column_names:
        places = pc.index_in(own["op"], pa.array(KINDS)).to_numpy()
        kinds, own = places.astype(np.int8), own.drop_columns("op")
    return batch_of(own), kinds


def _count_rows(query: Query, events: Events) -> int:
    files = [file for table in query.streams for file in (events.folder / table).glob("*.parquet")]
    return sum(pq.read_metadata(file).num_rows for file in files)


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--events", default=1_000_000, show_default=True)
@click.option("--rounds", default=3, show_default=True, help="The best of them counts.")
def main(names: tuple[str, ...], events: int, rounds: int) -> None:
    """Print, by query, rows a second of processor time and the bytes of the state."""
    # As workers and the local engine do.
    keep_memory()
    feed = Events(events)
    for query in QUERIES:
        if query.name not in names:
            continue
        runs = [measure(query, feed, BATCHES) for _ in range(rounds)]
        best = min(each.processor for each in runs)
        least = min(each.processor - each.system for each in runs)
        rows = _count_rows(query, feed)
        click.echo(
            f"{query.name}: {rows / best / 1e6:.2f} M rows/s, {best:.2f} s of the processor for {rows:,} rows; "
            f"{rows / least / 1e6:.2f} M rows/s without the system's time; "
            f"state {runs[-1].state_bytes / 1e6:,.0f} MB"
        )


if __name__ == "__main__":
    main()
