"""The output of a window operator: keys, the window's bounds, and the values of its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from aggloom.codegen import AggSpec
from aggloom.codegen.planner import Bounds
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.operators.windows.assign import bound_columns
from aggloom.runtime.storage.arena import FlagArray, NumberArray
from aggloom.runtime.values.changelog import transitions


class WindowOutput:
    """Puts together the rows of windows laid out in `zone`. more: columns after those of the calls."""

    def __init__(
        self, spec: AggSpec, bounds: Bounds, zone: str, more: Iterable[pa.Field] = ()
    ) -> None:
        self.bounds, self.zone = bounds, zone
        self.window_column = spec.group_by[-1]
        fields = list(spec.aggregate_schema)
        keys = len(spec.group_by)
        self.results = [*fields[keys:], *more]
        self.schema = pa.schema([*fields[: keys - 1], *bounds.fields, *self.results])

    def late_schema(self, rows: pa.Schema, on: str) -> pa.Schema:
        """The columns of a late row: the event time stands where the window's column stood, unless it is among them."""
        window = self.window_column
        fields = [
            pa.field(on, self.bounds.time_type) if field.name == window else field for field in rows
        ]
        named = [f.name for f in rows if f.name != window]
        columns = [
            f for f, old in zip(fields, rows, strict=True) if old.name != window or on not in named
        ]
        return pa.schema(columns)

    def late(self, rows: pa.RecordBatch, on: str) -> pa.RecordBatch:
        """Rows as they are handed out because they arrived too late."""
        schema = self.late_schema(rows.schema, on)
        columns = []
        for field in schema:
            if field.name in rows.schema.names:
                columns.append(rows.column(field.name))
                continue
            times = rows.column(self.window_column)
            columns.append(times.cast(pa.timestamp("ms", field.type.tz)).cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def batch(
        self, keys: list[pa.Array], starts: NumberArray, ends: NumberArray, values: list[pa.Array]
    ) -> pa.RecordBatch:
        """Rows of windows; starts and ends in milliseconds of the wall clock, forever is NULL."""
        bounds = bound_columns(self.bounds, starts, ends, self.zone)
        return pa.RecordBatch.from_arrays([*keys, *bounds, *values], schema=self.schema)

    def changes(
        self,
        handler: Any,
        keys: Any,
        windows: tuple[NumberArray, NumberArray],
        results: tuple[Any, Any],
        live: tuple[FlagArray, FlagArray],
        update_before: bool,
    ) -> Rows:
        """The changes of windows (starts, ends) from results before to results after; live: which were and are there.

        keys: from numbers of windows to their key columns.
        """
        (before, after), (was, now) = results, live
        n = len(was)
        if not n:
            return no_rows(self.schema)
        changed = handler.differ(before, after, n)
        item, after_it, kinds = transitions(was, now, changed, update_before)
        pair = handler.concatenate(before, after)
        # The results after lie n places behind those before.
        values = handler.to_arrow(pair, self.results, item + n * after_it)
        starts, ends = windows
        return self.batch(keys(item), starts[item], ends[item], values), kinds
