"""Over: rows with the values of window functions, by any order over changes, or by time over insertions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from aggloom.codegen.operators.base import (
    Key,
    Node,
    Pruner,
    Stateful,
    Title,
    Trend,
    Waker,
    constant,
    sort_kinds,
    walk,
)
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import TEXT, WORD, index_bytes, state_of
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.operators.row_numbers import shown_order
from aggloom.codegen.operators.rows_by_key import holds_texts, spec_of_rows
from aggloom.codegen.spec.agg_call import AggCall, describe_call
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.frames import FrameClause
from aggloom.codegen.sql.numbering import SortItem

By = Literal["", "row", "processing"]
"""The time by which rows are emitted, once and for all: row time, processing time; "": by nothing, over changes."""
# Beside its words a row has: its sort word and arrival, links to its equals, its slot, cells of the index, the number
# of its result, and an entry of a B+tree that is three quarters full.
_ROW = 24 + 4 + 12 + WORD + 32 * 4 // 3
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
class Over(Stateful):
    """Rows with the values of window functions in the last columns; the first columns are the key.

    order: none is the order of arrival. by: the time by which rows, which are only added, are emitted once.
    """

    input: Node
    partition: Key
    order: tuple[SortItem, ...]
    calls: tuple[OverCall, ...]
    dialect: str
    by: By = ""
    update_before: bool = True
    merges: bool = False

    @property
    def keys(self) -> Key:
        return self.partition

    @property
    def subject(self) -> Over:
        return self

    @cached_property
    def digest(self) -> str:
        """The mark by which the rules' notes know it."""
        return hashlib.sha256(self.lineage.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return f"OVER by {', '.join(self.partition) or '()'}"

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
        calls = tuple(replace(each.call, alias=each.name) for each in self.calls if each.call)
        if not calls:
            return None
        frames = [each.frame for each in self.calls if each.call]
        slides = any(frame.start is not None or frame.exclude for frame in frames)
        changes: Any = "retract" if slides else "append"
        dialect: Any = self.dialect
        whole = AggSpec(self.input.schema, (), calls, changes, dialect)
        return AggSpec(whole.handler_schema, (), calls, changes, dialect)

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return () if self.spec is None else (self.spec,)

    @property
    def is_chained(self) -> bool:
        """True if rows come from below when the same watermark says so."""
        return self.waits and any(node.awaits_watermark for node in walk(self.input))

    @property
    def waits(self) -> bool:
        """True if rows are emitted when the watermark has come to them."""
        return self.by == "row"

    @property
    def changelog(self) -> tuple[str, ...]:
        if self.by:
            return ("I",)
        kinds = {"I", "UA"} | ({"UB"} if self.update_before else set())
        return sort_kinds(kinds | (set() if self.never_deletes else {"D"}))

    @property
    def is_complete(self) -> bool:
        return True

    @property
    def never_deletes(self) -> bool:
        return bool(self.by) or self.input.appends_only

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        own = tuple(
            (*self.partition, each.name) for each in self.calls if each.function == "ROW_NUMBER"
        )
        return (*self.input.unique_keys, *own)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        if self.appends_only:
            return super().ordered_keys
        # Messages go row by row: a number has its new row before the old one has left it.
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
    def awaits_watermark(self) -> bool:
        return self.waits

    @property
    def clock_columns(self) -> frozenset[str]:
        return self.input.clock_columns

    @property
    def event_times(self) -> frozenset[str]:
        return self.input.event_times if self.by else frozenset()

    def wakes_by(self, ttl: int) -> Waker:
        timed = self.by == "processing" and any(each.frame.by_value for each in self.calls)
        return "the clock" if timed else super().wakes_by(ttl)

    @cached_property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.input.schema]
        order = [(each.column, each.descending, each.nulls_first) for each in self.order]
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

    @property
    def state_description(self) -> dict[str, Any]:
        spec = self.spec or spec_of_rows(self.input.schema, self.partition, "retract")
        return {"spec": json.loads(spec.to_json()), "windows": None, "steps": [self.lineage]}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        fields, results = list(self.input.schema), list(self.results)
        width = len(fields)
        row = WORD * width + width // 8 + 1 + _ROW
        parts: list[dict[str, Any]] = [
            {"name": "key", "kind": "index", "bytes_per_key": index_bytes(len(self.partition))},
            {"name": "written", "kind": "time", "bytes_per_key": WORD},
        ]
        if self.by:
            parts.append({"name": "emitted", "kind": "numbers", "bytes_per_key": 4 * WORD})
        else:
            row += WORD * len(results) + len(results) // 8 + 1
        rows_part = {
            "name": "rows",
            "kind": "sorted",
            "bytes_per_key": _TREE,
            "entries": self._stored_rows,
        }
        stored = pa.schema([*fields, *([] if self.by else results)])
        parts.append({**rows_part, "bytes_per_entry": row, "has_texts": holds_texts(stored)})
        if self.by and self.spec is not None and self.adds_up:
            whole = state_of(self.spec, backend, 0)
            parts += [part for part in whole["parts"] if part["name"] != "key"]
        sizes = [part["bytes_per_key"] for part in parts]
        named = {*self.partition, *(each.column for each in self.order)}
        texts = holds_texts(pa.schema([f for f in fields if f.name in named]))
        return {
            "bounded_by": [
                "the number of keys" if self.partition else "one key",
                *(f"per key, {part['entries']}" for part in parts if "entries" in part),
            ],
            "ttl_ms": 0 if self.waits else ttl,
            "compiled": None not in sizes,
            "bytes_per_key": None if None in sizes else sum(sizes),
            "parts": parts,
            "texts": texts or len(self.order) > 1,
            "bytes_per_text": TEXT,
        }

    @property
    def local_obstacle(self) -> str:
        return "which rows are in a frame is known only where all rows of a key are"

    def local_half(self, rows: Node) -> Node:
        return rows

    def insert_exchange(self) -> Node:
        return self.over(Exchange(self.input, self.partition))

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
