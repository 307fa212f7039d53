"""OverWindow: one order of rows, and the nodes that functions over it become."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from aggloom.codegen.operators import Node, Over, OverCall, compute_columns, mark, pick_first
from aggloom.codegen.operators.calc import NO_TIME
from aggloom.codegen.operators.timed_rows import By
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.content import Computed
from aggloom.codegen.sql.errors import refusal
from aggloom.codegen.sql.numbering import SortItem

_BY_TIME = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG")
"""Functions whose value is known of a row by time once it is emitted, beside aggregates."""
_SHARES = ("PERCENT_RANK", "CUME_DIST")


@dataclass(frozen=True)
class OverWindow:
    """PARTITION BY and ORDER BY of window functions. place: where the query says so."""

    dialect: str
    options: PlanOptions
    partition: tuple[str, ...]
    order: tuple[SortItem, ...]
    place: tuple[int, int] | None

    def stack_calls(self, rows: Node, calls: list[OverCall], adds_only: bool) -> Node:
        """The functions over rows in one node; by time those that are added up apart from those that rows leave.

        adds_only: whether rows are only added.
        """
        clock = next((e for e in self.order if e.column in rows.clock_columns), None)
        by = self._time(rows, clock, calls) if adds_only else ""
        order = self.order
        if clock is not None:
            if clock.descending:
                fix = "order by a column with the time of the row"
                raise refusal(self.place, "OVER by PROCTIME() DESC is", fix)
            # Rows of one time come in one order: what follows the clock decides nothing, and nothing ties.
            order = order[: order.index(clock)]
            calls = [self._by_arrival(each, by) for each in calls]
            if any(each.frame.by_value for each in calls):
                rows, order = _with_time(rows, clock.column)
        # Sums that only grow keep accumulators, other frames keep rows: two operators (decision 035).
        groups = [calls]
        if by:
            adds = [bool(each.call) and each.frame.start is None for each in calls]
            groups = [
                [each for each, own in zip(calls, adds, strict=True) if own == added]
                for added in (True, False)
            ]
        for some in filter(None, groups):
            below = pick_first(rows, self.partition)
            rows = Over(below, self.partition, order, tuple(some), self.dialect, by)
        return rows

    def _time(self, rows: Node, clock: SortItem | None, calls: list[OverCall]) -> By:
        """The time by which rows are emitted once: in order of one time, and of frames that look back."""
        if not self.order or not all(map(_looks_back, calls)):
            return ""
        first, *more = self.order
        if clock is not None:
            return "processing" if first is clock else ""
        # Ascending with NULLs first: the order in which a watermark lets rows pass.
        usual = not first.descending and first.nulls_first and not more
        timed = pa.types.is_timestamp(rows.schema.field(first.column).type)
        return "row" if usual and timed and self.options.over_insert_only else ""

    def _by_arrival(self, call: OverCall, by: By) -> OverCall:
        """A call in order of arrival, where no two rows tie."""
        if call.function in _SHARES:
            fix = "order by a column with the time of the row"
            raise refusal(self.place, f"{call.function} by PROCTIME() is", fix)
        # Without ties the three numberings are one.
        if call.function in _BY_TIME[:3]:
            return replace(call, function="ROW_NUMBER")
        if call.frame.rows or not call.frame.by_value:
            return replace(call, frame=call.frame.in_order_of_arrival)
        if not by:
            what = "RANGE with a distance by PROCTIME(), but over insertions and back in time, is"
            raise refusal(self.place, what, "write ROWS, or order by a column")
        return call


def _looks_back(call: OverCall) -> bool:
    """Tell whether a row's value is known once all rows up to its time are."""
    start = call.frame.start
    known = call.call is not None or call.function in _BY_TIME
    ahead = start is not None and not isinstance(start, str) and start > 0
    ahead = ahead or (isinstance(start, str) and not start.startswith("-"))
    known = known and not call.frame.groups and not call.frame.exclude
    return known and call.frame.end == 0 and not call.ignores_nulls and not ahead


def _with_time(rows: Node, clock: str) -> tuple[Node, tuple[SortItem, ...]]:
    """Rows with a column for the time at which each is seen, and the order by it."""
    name = f"{mark(rows.schema)}seen"
    # A column of NULLs, which the operator fills with the time at which it sees the row.
    column = Computed(name, NO_TIME, rows.schema.field(clock).type)
    return compute_columns(rows, [column]), (SortItem(name),)
