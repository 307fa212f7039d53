"""Specs of operators that may wait for the watermark, and of those over the rows of a key in the order of a time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from aggloom.codegen.planner import TimedRowsNode
from aggloom.runtime.operators.base import ExpiringSpec, NodeT, TimeMode
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.state.sort_key import SortColumn


class WaitingSpec(ExpiringSpec[NodeT]):
    """A spec of an operator that may wait for the watermark; is_chained: whether its input waits for the same one."""

    is_chained: bool
    late_rows: bool

    @property
    @abstractmethod
    def waits(self) -> bool:
        """True if it waits for the watermark."""

    @property
    def ttl_ms(self) -> int:
        # An operator that waits has timers by the watermark, and forgets keys when a bundle arrives.
        return 0 if self.waits else super().ttl_ms

    @property
    def time_mode(self) -> TimeMode:
        return "EventTime" if self.waits else super().time_mode

    @property
    def late_columns(self) -> pa.Schema | None:
        return self.rows if self.late_rows else None

    @property
    def moves_clock_last(self) -> bool:
        return self.is_chained


@dataclass(frozen=True, kw_only=True)
class TimedRowsSettings:
    """The rows of each key in an order, perhaps by time; columns by number.

    keys: how many of the first columns are the key. sort: the order of rows; by a time its column is the first. by: the
    time by which rows are seen once and for all; "": by none. zone: on whose clocks it lies if it is a wall clock.
    is_chained: rows come from another operator that waits for the same watermark.
    """

    schema: pa.Schema
    keys: int
    sort: tuple[SortColumn, ...]
    by: Literal["", "row", "processing"] = ""
    zone: str = "UTC"
    state_ttl_ms: Changing[int] = 0
    is_chained: Changing[bool] = False
    late_rows: Changing[bool] = False


class TimedRowsSpec(TimedRowsSettings, WaitingSpec[NodeT]):
    """The spec of an operator with such settings."""

    @property
    def waits(self) -> bool:
        return self.by == "row"

    @property
    def rows(self) -> pa.Schema:
        return self.schema

    @property
    def needs_order(self) -> bool:
        return True


def order_of(node: TimedRowsNode) -> tuple[SortColumn, ...]:
    """The order of a node's rows by the numbers of columns."""
    names = node.input.schema.names
    return tuple(
        SortColumn(names.index(each.column), each.descending, each.nulls_first)
        for each in node.order
    )
