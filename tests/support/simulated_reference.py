"""The references of the simulator: the bare operators over the same packed rows, and the table in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pyarrow as pa
from simulated_queries import Batch, Query, Row
from simulated_spark import PackedRow

from aggloom.runtime.hosting.bucket_store import Blob, gather
from aggloom.runtime.spark.node.output_encoding import PackedRowOutput, emit_frames
from aggloom.runtime.spark.node.partitioning import hash_int
from aggloom.runtime.spark.plan.routes import Packer
from aggloom.runtime.values.clock import BEFORE_ALL, NO_TIME, Clock

Change = tuple[str, ...]
Outputs = dict[int, list[Change]]
"""Changes by grouping key."""


class Undisturbed:
    """A query's operators, one for each bucket: no host, no store, and every bucket hears of every batch."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._operators: list[dict[int, Any]] = [{} for _ in query.operators]

    def run(self, batch: Batch, packed: list[PackedRow]) -> Outputs:
        """The changes of a batch."""
        out: Outputs = {}
        for place, operators in enumerate(self._operators):
            options, onward = self.query.operators[place]._options, []
            rows = by_key(packed)
            for key in sorted({*rows, *operators}):
                changes, kinds, late = self._process(place, key, rows.get(key, []), batch)
                way = options.encoding
                if isinstance(way, PackedRowOutput):
                    packer = Packer(way.route, hash_int(key))
                    if changes.num_rows:
                        onward += [*packer.add(changes, kinds), *packer.finish()]
                    continue
                found = shown(self.query, emit_frames(way, key, [(changes, kinds)], late, [0]))
                if found:
                    out[key] = found
            packed = onward
        return out

    def contents(self) -> Counter[Change]:
        """The table as the operators have it."""
        found: Counter[Change] = Counter()
        for operator in self._operators[-1].values():
            found.update(
                tuple(map(str, row.values())) for row in operator.contents()[0].to_pylist()
            )
        return found

    def _process(self, place: int, key: int, rows: list[PackedRow], batch: Batch) -> Any:
        processor, operators = self.query.operators[place], self._operators[place]
        factory, mode = processor._factory, processor._options.time_mode
        if key not in operators:
            operators[key] = factory.open(None, hash_int(key))
        came = gather([Blob(*row[1:]) for row in rows], factory.fragment.inputs)
        # Spark's watermark is a time at which rows may still come, an operator's one at which none does.
        mark = batch.watermark - 1 if mode == "EventTime" and batch.watermark else BEFORE_ALL
        clock = NO_TIME if mode == "None" else Clock(batch.now, mark)
        operator = operators[key]
        changes, kinds = operator.run(came.bundles, clock)
        late = operator.take_late()
        return changes, kinds, late


def by_key(packed: list[PackedRow]) -> dict[int, list[PackedRow]]:
    """Packed rows by their grouping key."""
    found: dict[int, list[PackedRow]] = defaultdict(list)
    for row in packed:
        found[row[0]].append(tuple(row))  # type: ignore[arg-type]
    return dict(found)


def shown(query: Query, frames: Iterable[pd.DataFrame]) -> list[Change]:
    """The changes in what leaves the last operator, as the user sees them."""
    if query.unpack is None:
        # The last column is that of counts; a row without a kind brings nothing else.
        columns = [[pa.array(f[at].array) for at in range(len(f.columns) - 1)] for f in frames]
        return [row for each in columns for row in _rows(each) if row[-1] != "None"]
    blobs = [blob for frame in frames for blob in frame["blob"] if blob is not None]
    packed = pa.record_batch({"blob": pa.array(blobs, pa.binary())})
    return [row for batch in query.unpack([packed]) for row in _rows(batch.columns)]


def _rows(columns: Iterable[pa.Array]) -> list[Change]:
    return [tuple(map(str, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


def folded(every: Iterable[Outputs]) -> Counter[Change]:
    """The table that changes add up to; a row that is taken away too often is there a negative number of times."""
    net: Counter[Change] = Counter()
    for changes in (changes for outputs in every for changes in outputs.values()):
        for *row, kind in changes:
            net[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in net.items() if count})


def table_of(given: Iterable[Batch]) -> Counter[Change]:
    """k, COUNT(*), SUM(v), MAX(w), COUNT(DISTINCT v) by k of the rows that are there in the end, in plain Python."""
    net: Counter[Row] = Counter()
    for row in (row for batch in given for rows in batch.tasks for row in rows):
        net[row.__class__("", row.k, row.v, row.w, row.ts)] += 1 if row.kind[0] == "+" else -1
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in net.elements():
        groups[row.k].append(row)
    table: Counter[Change] = Counter()
    for key, rows in groups.items():
        values = [row.v for row in rows if row.v is not None]
        words = [row.w for row in rows if row.w is not None]
        top = max(words, key=str.encode) if words else None
        found = (key, len(rows), sum(values) if values else None, top, len(set(values)))
        table[tuple(map(str, found))] += 1
    return table
