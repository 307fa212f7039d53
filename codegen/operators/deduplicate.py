"""Deduplicate: of the rows of a key the first or the last, by arrival or by time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

from aggloom.codegen.operators.base import (
    Key,
    Node,
    Pruner,
    Title,
    Trend,
    constant,
    sort_kinds,
    walk,
)
from aggloom.codegen.operators.calc import Calc, pick, pick_first
from aggloom.codegen.operators.footprint import WORD
from aggloom.codegen.operators.plan_text import shown_names
from aggloom.codegen.operators.rank import Rank
from aggloom.codegen.operators.row_numbers import Numbered
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, row_parts
from aggloom.codegen.scalar.expressions import select_names
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.numbering import SortItem
from aggloom.codegen.sql.numbering_range import Range
from aggloom.errors import SpecError, TypeMismatchError, UnknownColumnError, nearest

Keep = Literal["first", "last"]


class DeduplicateOptions(Protocol):
    """The planner's options that are about it."""

    @property
    def deduplicate_insert(self) -> bool: ...

    @property
    def deduplicate_insert_only(self) -> bool: ...


@dataclass(frozen=True)
class Deduplicate(KeyedRowsNode):
    """The first or the last row of each key; the first columns of its rows are the key.

    order: the time column by which rows come first or last; None: in the order in which they come. waits: whether a
    row is emitted once, when the watermark has come to its time, or to window_end, the key column at which its window
    ends. update_before: whether updates come with -U. sends_insert: whether +I is distinguished from +U where they do
    not. is_chained: rows come from below when the same watermark says so.
    """

    input: Node
    key: Key
    keep: Keep
    order: str | None = None
    update_before: bool = True
    sends_insert: bool = True
    waits: bool = False
    window_end: str | None = None
    is_chained: bool = False
    merges: bool = False

    @property
    def keys(self) -> Key:
        return self.key

    @property
    def name(self) -> str:
        return f"{self.keep} row by {', '.join(self.key) or '()'}"

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def never_updates(self) -> bool:
        """True if a row that is emitted stays."""
        # The first row to arrive is never beaten. By a time a later arrival may have an earlier one.
        return self.waits or (self.keep == "first" and self.order is None)

    @property
    def stores_rows(self) -> bool:
        return self.waits or not (self.never_updates or self.is_stateless)

    @property
    def is_stateless(self) -> bool:
        """True if every row is emitted as it comes, as +U, so that nothing need be known of the row before."""
        # Then +U of a row that nobody has seen is all that its reader expects: a key need not be remembered.
        silent = not self.update_before and not self.sends_insert
        return silent and self.keep == "last" and self.order is None and not self.waits

    @property
    def awaits_watermark(self) -> bool:
        return self.waits

    @property
    def event_times(self) -> frozenset[str]:
        # A row that waited for the end of its window may be behind the watermark.
        return self.input.event_times if self.never_updates and not self.window_end else frozenset()

    @property
    def changelog(self) -> tuple[str, ...]:
        if self.never_updates:
            return ("I",)
        # With neither -U nor +I the first row of a key leaves as +U, too.
        first = {"I"} if self.update_before or self.sends_insert else set()
        return sort_kinds(first | {"UA"} | ({"UB"} if self.update_before else set()))

    @property
    def never_deletes(self) -> bool:
        # A row of a key is only replaced: the input adds rows.
        return True

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        # What is unique among all rows is unique among those that are kept.
        others = (key for key in self.input.unique_keys if key != self.key)
        return (self.key, *others)

    @property
    def trends(self) -> dict[str, Trend]:
        if self.never_updates:
            return constant(self.schema.names)
        # The last row by a time is replaced by later ones only.
        moving: dict[str, Trend] = {}
        if self.order is not None:
            moving[self.order] = "increasing" if self.keep == "last" else "decreasing"
        return moving | constant(self.key)

    @property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.schema]
        words = [f"by {self.order!r}"] if self.order is not None else []
        words += ["waiting"] if self.waits else []
        words += [f"to {self.window_end!r}"] if self.window_end is not None else []
        words += ["without state"] if self.is_stateless else []
        return " ".join([f"deduplicate {self.keep} {self.key!r} {columns!r}", *words])

    @property
    def title(self) -> Title:
        keep = ["FirstRow" if self.keep == "first" else "LastRow"]
        order = ["PROCTIME" if self.order is None else "ROWTIME"]
        if self.window_end is None:
            return "Deduplicate", {"keep": keep, "key": shown_names(self.key), "order": order}
        details = {"window": shown_names((self.window_end,)), "keep": keep}
        keys = tuple(name for name in self.key if name != self.window_end)
        details |= {"partitionKeys": shown_names(keys)}
        details |= {"orderKey": shown_names((self.order,))} if self.order is not None else {}
        return "WindowDeduplicate", details | {"order": order}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        if self.is_stateless:
            return self.footprint([], ttl, ["nothing is kept"], texts=False)
        where, rows = row_parts(self.schema)
        times = [self.order] if self.order is not None else []
        times += ["when it is due"] if self.waits else []
        parts = [*self.index_parts, where]
        parts += [{"name": name, "kind": "time", "bytes_per_key": WORD} for name in times]
        if self.stores_rows:
            return self.footprint([*parts, rows], ttl, self._bounds)
        # Keys alone are remembered: texts of other columns take no room.
        keys = pa.schema([self.schema.field(name) for name in self.key])
        return self.footprint(parts, ttl, self._bounds, texts=holds_texts(keys))

    @property
    def _bounds(self) -> list[str]:
        """The bounds of its state, in words."""
        if self.window_end is not None:
            return ["the number of keys in windows that are not over"]
        return ["the number of keys" if self.key else "one key"]

    @property
    def local_obstacle(self) -> str:
        return f"which row is the {self.keep} is known only where all rows of its key are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        needed = {*names, *self.key, self.order}
        read = [n for n in self.schema.names if n in needed]
        return self.over(pick(prune.input(self.input, read), read))

    def decide_waits(self, options: DeduplicateOptions) -> Deduplicate:
        """Return the node for rows whose windows are known: by event time it waits for the end of a window."""
        chained = any(node.awaits_watermark for node in walk(self.input))
        bounds, waits, end = self.input.window_columns, self.waits, self.window_end
        if end is None and self.order is not None:
            # A key of one window gets no more rows once that is over, and its row leaves once.
            if bounds is not None and {bounds.start, bounds.end} <= set(self.key):
                waits, end = True, bounds.end
            else:
                waits = options.deduplicate_insert_only and self.keep == "first"
        return replace(
            self,
            sends_insert=options.deduplicate_insert,
            waits=waits,
            window_end=end,
            is_chained=chained and waits,
        )


def plan_deduplicate(node: Numbered, numbers: Range) -> Node | None:
    """The rows whose ROW_NUMBER by the clock or by one time is 1; None for other numberings."""
    rows, order = node.input, node.order
    # RANK may give several rows the number 1.
    if node.function != "ROW_NUMBER" or numbers != Range(1, 1) or len(order) != 1:
        return None
    # A row that is retracted would leave its place to one that was forgotten: a Rank remembers all.
    if not node.adds_only:
        return None
    (item,) = order
    time = None if item.column in rows.clock_columns else item.column
    if time is not None:
        # NULL comes before every time.
        usual = item.nulls_first is not item.descending
        if not usual or not pa.types.is_timestamp(rows.schema.field(time).type):
            return None
    first_rows = _of_rows(rows, node.partition, "last" if item.descending else "first", time)
    # The number of each of these rows is 1.
    select = (*select_names(rows.schema.names), (node.number, "CAST(1 AS BIGINT)"))
    return Calc(first_rows, select, node.schema)


def _of_rows(
    rows: Node, key: Key, keep: Keep, order: str | None, window_end: str | None = None
) -> Deduplicate:
    waits = window_end is not None
    return Deduplicate(pick_first(rows, key), key, keep, order, waits=waits, window_end=window_end)


def deduplicated_table(
    rows: Node, keys: Key, keep: Keep, order: str | None, window_end: str | None
) -> Node:
    """One row of each key of a table, as a call of the API asks for it; raises SpecError for what it cannot be."""
    names = rows.schema.names
    if keep not in ("first", "last"):
        raise SpecError(f"keep is {keep!r}. {nearest(str(keep), ('first', 'last'))}")
    for name in (*keys, *((order,) if order is not None else ())):
        if name not in names:
            raise UnknownColumnError(f"there is no column {name!r}. {nearest(name, names)}")
    if len(set(keys)) < len(keys):
        raise SpecError(f"keys: {', '.join(keys)} names a column twice; name each once.")
    if order is not None and not _is_time(rows.schema.field(order).type):
        kind = type_name(rows.schema.field(order).type)
        fix = "order by a TIMESTAMP, a DATE or an integer; by others ROW_NUMBER in al.sql does"
        raise TypeMismatchError(f"order_by: column {order!r} is {kind}; {fix}.")
    if not rows.appends_only and window_end is not None:
        fix = "leave it out, and every change of the first row is emitted, or say input_changes='append'"
        raise SpecError(f"window_end: rows that wait for it cannot be retracted; {fix}.")
    if not rows.appends_only:
        return _of_changes(rows, keys, keep, order)
    key = keys
    if window_end is not None:
        if window_end not in names:
            hint = nearest(window_end, names)
            raise UnknownColumnError(f"there is no column {window_end!r}. {hint}")
        # The end of the window last: state is forgotten by it.
        key = (*(name for name in keys if name != window_end), window_end)
    return pick(_of_rows(rows, key, keep, order, window_end), list(names))


def _of_changes(rows: Node, keys: Key, keep: Keep, order: str | None) -> Node:
    """One row of each key of rows that may be retracted, when another takes its place."""
    if any(set(unique) <= set(keys) for unique in rows.unique_keys):
        # There is never more than one.
        return rows
    if order is None and keep == "last":
        fix = (
            "say order_by=..., keep='first', or, if a row replaces the one before by its key, "
            "input_changes='upsert'; or 'append' if no row is ever retracted"
        )
        raise SpecError(f"deduplicate: the last row to arrive may be retracted; {fix}.")
    items: tuple[SortItem, ...] = ()
    if order is not None:
        items = (SortItem(order, descending=keep == "last", nulls_first=keep == "first"),)
    # The number 1 is read by nobody.
    rank = Rank(pick_first(rows, keys), keys, "ROW_NUMBER", items, Range(1, 1), None)
    return pick(rank, list(rows.schema.names))


def _is_time(kind: pa.DataType) -> bool:
    """Tell whether rows can be ordered by a column as by a time."""
    return bool(
        pa.types.is_timestamp(kind)
        or pa.types.is_date32(kind)
        or (pa.types.is_signed_integer(kind))
    )
