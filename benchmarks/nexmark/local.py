"""The queries without Spark: the same plans in the harness, fed in batches, with a restart between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import aggloom as al
from nexmark.catalogue import Query
from nexmark.events import SIDE_SCHEMA, Events

KINDS = ("+I", "-U", "+U", "-D")
_COUNT_CHAR = ("count_char(extra, 'c')", "LENGTH(extra) - LENGTH(REPLACE(extra, 'c', ''))")
"""The user's function, which Spark evaluates, and what it does."""
_TICK, _AFTER = 7_000, 60_000


def plan_arguments(query: Query, events: Events, *, update_before: bool = True) -> dict[str, Any]:
    """Return the planner's arguments beside the query: changes, keys and watermarks of its tables.

    update_before: whether the rows before an update leave, too. A table is checked with them. A run into nothing is
    measured without them, since Flink's sink `blackhole` does not ask for them either.
    """
    streams = query.streams
    changes = {table: "retract" if events.changes(table) else "append" for table in query.tables}
    keys = {"auction": "id", "person": "id", "side": "key"}
    if events.corrections:
        keys["bid"] = "id"
    return {
        "input_changes": changes,
        "keys": {table: keys[table] for table in query.tables if table in keys},
        "options": {**query.options(events.corrections), "update_before": update_before},
        "watermarks": {table: query.watermarks()[table] for table in streams if query.timed},
    }


def harness(query: Query, events: Events, **more: Any) -> al.Harness:
    """The query over the events' tables."""
    schemas = {table: events.schema(table) for table in query.streams}
    if "side" in query.tables:
        schemas["side"] = SIDE_SCHEMA
    sql = query.text("aggloom").replace(*_COUNT_CHAR)
    return al.Harness.from_sql(sql, schemas, **plan_arguments(query, events), **more)


def run(
    query: Query,
    events: Events,
    tables: Mapping[str, pa.Table],
    cuts: int = 4,
    restart: bool = True,
    make: Callable[..., al.Harness] = harness,
    **more: Any,
) -> pa.Table:
    """The changes of the query's table, in batches of the same share of each stream; with `restart` the second half
    of them by another harness that goes on from the state of the first."""
    changes: list[tuple[Any, ...]] = []
    fed = make(query, events, **more)
    names = fed.plan.schema.names
    for number in range(cuts):
        if restart and number == cuts // 2:
            state, clock = fed.snapshot(), fed.current_watermark
            changes += fed.changes()
            fed.close()
            fed = make(query, events, **more)
            fed.restore(state)
            fed.processing_time(_TICK * number)
            fed.watermark(clock)
        fed.processing_time(_TICK * number)
        if number == 0 and "side" in query.tables:
            fed.process(batch_of(events.side()), table="side")
        for table in query.streams:
            batch, kinds = _share(tables[table], number, cuts)
            fed.process(batch, kinds, table=table)
        fed.flush()
    fed.processing_time(_TICK * cuts + _AFTER)
    fed.end_of_input()
    changes += fed.changes()
    fed.close()
    schema = fed.plan.schema
    columns = list(zip(*changes, strict=True)) or [()] * (len(names) + 1)
    arrays = [
        pa.array(list(values), kind) for values, kind in zip(columns[1:], schema.types, strict=True)
    ]
    return pa.table([*arrays, pa.array(list(columns[0]), pa.string())], [*names, "op"])


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    return table.combine_chunks().to_batches()[0]


def _share(table: pa.Table, part: int, parts: int) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
    begin, end = (table.num_rows * place // parts for place in (part, part + 1))
    own = table.slice(begin, end - begin)
    kinds = np.zeros(own.num_rows, np.int8)
    if "op" in own.column_names:
        codes = np.array([KINDS.index(kind) for kind in own["op"].to_pylist()], np.int8)
        kinds, own = codes, own.drop_columns("op")
    return batch_of(own), kinds
