"""Rank: the rows of each key whose number in an order is asked for, Top-N above all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

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
from aggloom.codegen.operators.calc import pick, pick_first
from aggloom.codegen.operators.footprint import WORD
from aggloom.codegen.operators.plan_text import format_name, shown_names
from aggloom.codegen.operators.row_numbers import Numbered, shown_order
from aggloom.codegen.operators.rows_by_key import KeyedRowsNode, holds_texts, row_entries
from aggloom.codegen.spec.choices import Changes
from aggloom.codegen.spec.dtypes import type_name
from aggloom.codegen.sql.numbering import Function, SortItem
from aggloom.codegen.sql.numbering_range import Range

Strategy = Literal["append", "update", "retract"]
_FLINK: dict[Strategy, str] = {
    "append": "AppendFastStrategy",
    "update": "UpdateFastStrategy",
    "retract": "RetractStrategy",
}
# Beside its words a row has: its sort word and arrival, links to its equals, its slot and cells of the index, and an
# entry of a B+tree that is three quarters full.
_CELL = 12
_ROW = 24 + 4 + _CELL + 32 * 4 // 3
_TREE = 4 * WORD
"""The root of a tree, its block's head and the room behind its last entry."""


@dataclass(frozen=True)
class Rank(KeyedRowsNode):
    """The rows of each key with certain numbers in an order; the input's first columns are the key.

    order: none is the order of arrival. number: the name of the number's column, the last one; None: nobody reads it.
    update_before: whether it emits -U. window: the key column that is the end of the row's window, for whose end it
    waits; on the clocks of `zone` if it is a wall clock.
    """

    input: Node
    partition: Key
    function: Function
    order: tuple[SortItem, ...]
    bounds: Range
    number: str | None
    update_before: bool = True
    merges: bool = False
    window: str | None = None
    zone: str = "UTC"
    takes: ClassVar[Changes] = "retract"

    @property
    def keys(self) -> Key:
        return self.partition

    @property
    def stored_schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def identity(self) -> str:
        # Two ranks that differ in the number's column alone share a lineage, and rules note them apart.
        return f"{self.lineage} {self.number}"

    @property
    def name(self) -> str:
        return f"{self.function} by {', '.join(self.partition) or '()'}"

    @property
    def schema(self) -> pa.Schema:
        below = self.input.schema
        return below if self.number is None else below.append(pa.field(self.number, pa.int64()))

    @cached_property
    def strategy(self) -> Strategy:
        """The strategy, by what to remember: in fast ones only the rows that are asked for and those before them."""
        return self._strategy_choice[0]

    @property
    def why(self) -> str:
        """The reason why this is its strategy."""
        return self._strategy_choice[2]

    @property
    def row_key(self) -> Key:
        """The columns by which a row is known when it changes; none if every column counts."""
        return self._strategy_choice[1]

    @cached_property
    def numbers_rows(self) -> bool:
        """True if its changes go by number: the number of a key has one row at a time."""
        return self.number is not None and self.function == "ROW_NUMBER"

    @property
    def one_row(self) -> bool:
        """True if a key has one row at most."""
        numbers = self.bounds
        return (
            self.function == "ROW_NUMBER"
            and numbers.end is not None
            and numbers.start >= numbers.end
        )

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        by_arrival = not self.order and self.function == "ROW_NUMBER"
        # By arrival no later row comes before an earlier one, and a window is over before it is emitted.
        if self.strategy == "append" and (by_arrival or self.window is not None):
            return ("I",)
        kinds = {"I", "UB", "UA", "D"}
        if self.never_deletes:
            kinds -= {"D"}
        return tuple(k for k in sort_kinds(kinds) if self.update_before or k != "UB")

    @property
    def never_deletes(self) -> bool:
        # By number a row is put in place of another, and places only become more; row by row one that falls out is
        # deleted.
        by_place = self.numbers_rows or self.one_row or self.window is not None
        return self.strategy != "retract" and (by_place or not self.order)

    @cached_property
    def unique_keys(self) -> tuple[Key, ...]:
        # The plainest first: readers take the first one that serves them.
        keys: list[Key] = [self.partition] if self.one_row else []
        if self.numbers_rows and self.number is not None:
            keys.append((*self.partition, self.number))
        keys += [key for key in self.input.unique_keys if key not in keys]
        return tuple(keys)

    @property
    def ordered_keys(self) -> tuple[Key, ...]:
        if self.appends_only or self.one_row:
            return super().ordered_keys
        # Changes go by number or else row by row: of another key the new row may come first.
        if self.numbers_rows and self.number is not None:
            return ((*self.partition, self.number),)
        if self._by_place:
            return ()
        # The only row of a table has no columns by which it would be known.
        known = (self.row_key,) if self.row_key else self.input.unique_keys[:1]
        return tuple(key for key in known if key and set(self.partition) <= set(key))

    @property
    def _by_place(self) -> bool:
        """True if changes go by a number that nobody reads, as Flink's do row by row: a row may be there twice."""
        return self.function == "ROW_NUMBER" and self.number is None and self.bounds.start > 1

    @property
    def trends(self) -> dict[str, Trend]:
        if self.appends_only:
            return constant(self.schema.names)
        fixed = list(self.partition)
        if self.numbers_rows and self.number is not None:
            fixed.append(self.number)
        return constant(fixed)

    @property
    def awaits_watermark(self) -> bool:
        return self.window is not None

    @property
    def is_chained(self) -> bool:
        """True if rows come from below when the same watermark says so; without a window it does not matter."""
        return self.window is None or any(node.awaits_watermark for node in walk(self.input))

    @cached_property
    def lineage(self) -> str:
        columns = [(field.name, type_name(field.type)) for field in self.input.schema]
        order = [(each.column, each.descending, each.nulls_first) for each in self.order]
        numbers = (self.bounds.start, self.bounds.end, self.bounds.end_column)
        what = (self.partition, order, numbers, columns, self.window, self.zone)
        return f"rank {self.function} {self.strategy} {self.row_key!r} {what!r}"

    @property
    def title(self) -> Title:
        below, numbers = self.input.schema.names, self.bounds
        strategy = _FLINK[self.strategy]
        if self.strategy == "update":
            strategy += f"[{','.join(str(below.index(name)) for name in self.row_key)}]"
        end = numbers.end if numbers.end_column is None else format_name(numbers.end_column)
        ends = [f"rankStart={numbers.start}", f"rankEnd={end}"]
        details: dict[str, list[str]] = {
            "strategy": [strategy],
            "rankType": [self.function],
            "rankRange": ends if numbers.end_column is None else ends[1:],
            "partitionBy": shown_names(self.partition),
            "orderBy": shown_order(self.order),
            "select": shown_names(self.schema.names),
        }
        shown_details = {name: words for name, words in details.items() if words}
        if self.window is None:
            return "Rank", shown_details
        del shown_details["strategy"]
        return "WindowRank", {"windowEnd": [format_name(self.window)], **shown_details}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        parts = self.index_parts
        # The last number comes from a column, whose first value in a key holds for good.
        if self.bounds.end_column is not None:
            parts.append({"name": "end", "kind": "number", "bytes_per_key": WORD})
        rows = {"name": "rows", "kind": "sorted", "bytes_per_key": _TREE}
        of_row = {
            "entries": self._stored_rows,
            # Rows that are only added are never looked for by their values: no index.
            **row_entries(self.stored_schema, _ROW - _CELL * (self.strategy == "append")),
        }
        bounds = [
            "the number of keys" if self.partition else "one key",
            f"per key, {self._stored_rows}",
        ]
        # Rows of a window are forgotten when it is over.
        ttl = ttl if self.window is None else 0
        # Several sort columns are one word, which lies where the texts of keys do.
        named = [*self.partition, *(each.column for each in self.order)]
        texts = holds_texts(pa.schema([self.stored_schema.field(n) for n in named]))
        texts = texts or len(self.order) > 1
        return self.footprint([*parts, {**rows, **of_row}], ttl, bounds, texts)

    @property
    def local_obstacle(self) -> str:
        return "which rows come first is known only where all rows of a key are"

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        needed_names = {
            *names,
            *self.partition,
            *(each.column for each in self.order),
            *self.row_key,
        }
        # The strategy stays with these columns: the key that it goes by is among them.
        needed_names |= {self.bounds.end_column} if self.bounds.end_column is not None else set()
        read = [name for name in self.input.schema.names if name in needed_names]
        number = self.number if self.number in names else None
        return replace(self, input=pick(prune.input(self.input, read), read), number=number)

    @property
    def _stored_rows(self) -> str:
        """The rows that a key has in its state."""
        if self.strategy == "retract":
            return "all its rows"
        end = self.bounds.end_column or self.bounds.end
        ties = "" if self.function == "ROW_NUMBER" else " and those that tie with the last"
        return f"its first {end} rows{ties}"

    @cached_property
    def _strategy_choice(self) -> tuple[Strategy, Key, str]:
        """The strategy, the key by which its rows are known, and why."""
        rows = self.input
        # A key that changes with its row would leave an old row that nobody finds, and the only row of a table has no
        # columns by which it would be known.
        keys = [key for key in rows.unique_keys if key and set(key) <= rows.constants]
        if rows.appends_only:
            until = "" if self.window is None else f", and wait for {self.window}"
            # A row that was pushed out can only come back if one above it goes: with insertions alone it never does.
            return "append", (), f"rows are only added{until}"
        own = next((key for key in keys if set(self.partition) <= set(key)), None)
        reason = "; ".join(self._obstacles(own))
        if reason or own is None:
            return "retract", (), reason
        return "update", own, f"rows are known by {', '.join(own)} and only ever get better"

    def _obstacles(self, key: Key | None) -> Iterator[str]:
        """Yield the reasons why the rows that are out of range have to be remembered."""
        rows = self.input
        if not rows.never_deletes:
            yield "rows are retracted"
        if key is None:
            yield "no unique key of the rows that never changes contains the key of the rank"
        if self.function == "DENSE_RANK":
            yield "a dense rank falls where a sort key above it is left by its last row"
        for each in self.order:
            trend = rows.trends.get(each.column)
            better = "increasing" if each.descending else "decreasing"
            # A column that never changes can neither worsen nor better a row.
            if trend == "constant":
                continue
            if trend != better:
                yield f"{each.column} is not known to be {better}"
            elif each.nulls_first:
                yield f"{each.column} may be NULL, which comes first, and then not be it any more"


def plan_rank(node: Numbered, numbers: Range) -> Node | None:
    """The Rank of numbered rows; by the clock it is the order of arrival. None: the last rows by the clock."""
    rows, order = node.input, node.order
    clocks = [each for each in order if each.column in rows.clock_columns]
    if clocks:
        # Rows of one time come in one order: what follows the clock decides nothing.
        # The last rows by the clock: each new row pushes another out, which Deduplicate does for one row.
        if clocks[0].descending and node.function == "ROW_NUMBER":
            return None
        order = order[: order.index(clocks[0])]
    below = pick_first(rows, node.partition)
    rank = Rank(below, node.partition, node.function, order, numbers, node.number)
    return pick(rank, list(node.schema.names))
