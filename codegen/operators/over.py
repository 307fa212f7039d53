"""Over: rows with the values of window functions, by any order over changes, or by time over insertions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from aggloom.codegen.operators.base import (
    Key,
    Node,
    Pruner,
    Title,
    Trend,
    Waker,
    constant,
    sort_kinds,
)
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.footprint import WORD, state_of
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.operators.row_numbers import shown_order
from aggloom.codegen.operators.rows_by_key import row_entries
from aggloom.codegen.operators.timed_rows import ROW_BYTES, By, TimedRowsNode
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.sql.frames import FrameClause
from aggloom.codegen.sql.numbering import SortItem

_TREE = 4 * WORD
INTEGERS = ("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE")
SHARES = ("PERCENT_RANK", "CUME_DIST")
SHIFTS = ("LAG", "LEAD")


@dataclass(frozen=True)
class OverCall:
    """A window function: an aggregate over a frame (`call`), or one that goes by where the row stands.

    columns: what it reads of a row, of LAG and LEAD the value and what stands for a row that is not there. number: the
    buckets of NTILE, the offset of LAG and LEAD, the n of NTH_VALUE. ignores_nulls: whether rows without a value are
    passed over.
    """

    name: str
    function: str
    frame: FrameClause
    columns: tuple[str, ...] = ()
    number: int = 0
    ignores_nulls: bool = False
    call: AggCall | None = None

    def type_in(self, schema: pa.Schema, dialect: str) -> pa.DataType:
        """The type of its values."""
        if self.call is not None:
            spec = AggSpec(schema, (), (self.call,), "append", dialect)  # type: ignore[arg-type]
            return spec.aggregate_schema.field(0).type
        if self.function in INTEGERS:
            return pa.int64()
        return pa.float64() if self.function in SHARES else schema.field(self.columns[0]).type

    @property
    def text(self) -> str:
        """The call as a line shows it."""
        if self.call is not None:
            return describe_call(replace(self.call, alias=None))
        inner = [*shown_names(self.columns[:1])]
        inner += [str(self.number)] if self.number else []
        inner += shown_names(self.columns[1:])
        nulls = " IGNORE NULLS" if self.ignores_nulls else ""
        return f"{self.function}({', '.join(inner)}){nulls}"

    @property
    def reads(self) -> Iterator[str]:
        """The columns that it reads."""
        yield from self.columns
        if self.call is not None:
            yield from self.call.args
            yield from (key.column for key in self.call.order_by)
            yield from () if self.call.filter is None else (self.call.filter,)


@dataclass(frozen=True)
class Over(TimedRowsNode):
    """Rows with the values of window functions in the last columns; the first columns are the key.

    order: none is the order of arrival. by: the time by which rows, which are only added, are emitted once.
    """

    words = "OVER"
    input: Node
    partition: Key
    order: tuple[SortItem, ...]
    calls: tuple[OverCall, ...]
    dialect: str
    by: By = ""
    update_before: bool = True
    merges: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *self.results])

    @cached_property
    def results(self) -> tuple[pa.Field, ...]:
        """The columns of the functions' values."""
        below, dialect = self.input.schema, self.dialect
        return tuple(pa.field(each.name, each.type_in(below, dialect)) for each in self.calls)

    @cached_property
    def spec(self) -> AggSpec | None:
        """The spec that the handler of its aggregates is generated from; None if it has none."""
        # No group keys: each frame is a slot of the handler, whatever its key is (decision 035).
        calls = tuple(replace(each.call, alias=each.name) for each in self.calls if each.call)
        if not calls:
            return None
        frames = [each.frame for each in self.calls if each.call]
        # Rows that leave a frame at its start, or around the current row, are retracted from the handler.
        slides = any(frame.start is not None or frame.exclude for frame in frames)
        changes: Any = "retract" if slides else "append"
        dialect: Any = self.dialect
        # The first spec only says which columns the calls read; the handler gets no others.
        whole = AggSpec(self.input.schema, (), calls, changes, dialect)
        return AggSpec(whole.handler_schema, (), calls, changes, dialect)

    @property
    def changelog(self) -> tuple[str, ...]:
        if self.by:
            return ("I",)
        # A row that arrives changes the values of rows around it.
        kinds = {"I", "UA"} | ({"UB"} if self.update_before else set())
        return sort_kinds(kinds | (set() if self.never_deletes else {"D"}))

    @property
    def never_deletes(self) -> bool:
        return bool(self.by) or self.input.appends_only

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # A ROW_NUMBER counts the rows of a partition without a gap, so that no two have the same.
        own = tuple(
            (*self.partition, each.name) for each in self.calls if each.function == "ROW_NUMBER"
        )
        return (*self.input.unique_keys, *own)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        if self.appends_only:
            return super().ordered_keys
        # Changes are emitted row by row: a number has its new row before the old one has left it.
        return tuple(key for key in self._row_keys if set(self.partition) <= set(key))

    @property
    def _row_keys(self) -> tuple[Key, ...]:
        """The unique key by which a row that changes is known again, if there is one."""
        # The only row of a table has no columns by which it would be known.
        return tuple(key for key in self.input.unique_keys[:1] if key)

    @property
    def trends(self) -> dict[str, Trend]:
        if self.appends_only:
            return constant(self.schema.names)
        return constant(self.input.schema.names) if self.input.appends_only else {}

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times if self.by else frozenset()

    def wakes_by(self, ttl: int) -> Waker:
        # A frame of a length of time loses rows as the clock moves on; its state is given up then.
        timed = self.by == "processing" and any(each.frame.by_value for each in self.calls)
        return "the clock" if timed else super().wakes_by(ttl)

    @cached_property
    def lineage(self) -> str:
        order, columns = self.order_lineage
        calls = [(each.text, each.frame.text) for each in self.calls]
        by = f" by {self.by} time" if self.by else ""
        return f"over {self.partition!r} {order!r} {calls!r} {columns!r}{by}"

    @property
    def title(self) -> Title:
        order = shown_order(self.order)
        if self.by:
            order = [f"{format_name(self.order[0].column)} ASC"] if self.waits else ["PROCTIME ASC"]
        frames = list(dict.fromkeys(each.frame.text for each in self.calls))
        calls = [
            each.text
            + (f" OVER {each.frame.text}" if len(frames) > 1 and each.call else "")
            + f" AS {format_name(each.name)}"
            for each in self.calls
        ]
        details = {
            "partitionBy": shown_names(self.partition),
            "orderBy": order,
            "window": [f" {text} " for text in frames],
            "select": [*shown_names(self.input.schema.names), *calls],
        }
        return "OverAggregate", {name: words for name, words in details.items() if words}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        stored = self.input.schema
        parts = self.index_parts
        if self.by:
            parts.append({"name": "emitted", "kind": "numbers", "bytes_per_key": 4 * WORD})
        else:
            # The last emitted values lie beside the rows, and new ones are compared with them (decision 035).
            stored = pa.schema([*stored, *self.results])
        entries = {"entries": self._stored_rows, **row_entries(stored, ROW_BYTES + WORD)}
        parts.append({"name": "rows", "kind": "sorted", "bytes_per_key": _TREE, **entries})
        # Frames that begin with the first row are sums that only grow: their accumulators stay for each key.
        if self.by and self.spec is not None and self.adds_up:
            whole = state_of(self.spec, backend, 0)
            parts += [part for part in whole["parts"] if part["name"] != "key"]
        bounds = [f"per key, {part['entries']}" for part in parts if "entries" in part]
        # By row time the watermark decides what is forgotten.
        return self.footprint_of_rows(parts, 0 if self.waits else ttl, bounds)

    @property
    def local_obstacle(self) -> str:
        return "which rows are in a frame is known only where all rows of a key are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        calls = tuple(each for each in self.calls if each.name in names)
        if not calls:
            below = self.input
            return pick(prune.input(below, [n for n in below.schema.names if n in names]), names)
        needed_names = {*names, *self.partition, *(each.column for each in self.order)}
        needed_names |= {column for each in calls for column in each.reads}
        if not self.by:
            # By these a row that changes is known again.
            needed_names |= {column for key in self._row_keys for column in key}
        every = self.input.schema.names
        # Rows have a column, even if only their number matters.
        read = [name for name in every if name in needed_names] or every[:1]
        return replace(self, input=pick(prune.input(self.input, read), read), calls=calls)

    def without_before(self) -> Node:
        # Where the key is not in order, -U says which row goes.
        in_order = self.unique_key in self.ordered_keys
        return replace(self, update_before=False) if in_order and not self.by else self

    @property
    def adds_up(self) -> bool:
        """True if it keeps accumulators: by time, of frames that no row leaves."""
        return bool(self.by) and any(e.call and e.frame.start is None for e in self.calls)

    @property
    def _stored_rows(self) -> str:
        """The rows that a key has in its state."""
        if not self.by:
            return "all its rows"
        waiting = ["those that wait"] if self.waits else []
        reach = [each.frame.text for each in self.calls if each.frame.start is not None]
        shifts = [each.number for each in self.calls if each.function == "LAG"]
        reasons = [f"those within {text}" for text in dict.fromkeys(reach)]
        reasons += [f"the last {max(shifts)}"] if shifts else []
        return " and ".join([*reasons, *waiting]) or "none"
