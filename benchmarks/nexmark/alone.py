"""The operators of a query without Spark: what they take of one core, over the same files in the same batches."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aggloom.runtime.values.clock import BEFORE_ALL, Clock
from nexmark.catalogue import Query
from nexmark.events import Events
from nexmark.local import KINDS, batch_of, harness

_DELAY_MS: Final = 2_000


def seconds(query: Query, events: Events, batches: int) -> float:
    """Seconds in the plan's operators and expressions, of a second run: the first one compiles."""
    _once(query, Events(2_000, events.corrections, rate=50), 2)
    return _once(query, events, batches)


def _once(query: Query, events: Events, batches: int) -> float:
    fed = harness(query, events)
    taken, watermark = 0.0, BEFORE_ALL
    for number in range(batches):
        rows = {table: _read(events, table, number, batches) for table in query.streams}
        if number == 0 and "side" in query.tables:
            side = batch_of(events.side())
            rows["side"] = side, np.zeros(side.num_rows, np.int8)
        begin = time.perf_counter()
        fed.pipeline.process(rows, Clock(number, watermark))
        taken += time.perf_counter() - begin
        if query.timed:
            latest = min(
                pc.max(pc.cast(rows[table][0]["date_time"], pa.int64())).as_py()
                for table in query.streams
            )
            watermark = latest // 1000 - _DELAY_MS - 1
            begin = time.perf_counter()
            fed.pipeline.process({}, Clock(number, watermark))
            taken += time.perf_counter() - begin
    fed.close()
    return taken


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
