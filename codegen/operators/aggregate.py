"""Aggregates by key: the logical node, the keyed operator, and the local half before its exchange."""

from __future__ import annotations

import json
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
    constant,
    sort_kinds,
)
from aggloom.codegen.operators.calc import pick
from aggloom.codegen.operators.exchange import Exchange
from aggloom.codegen.operators.footprint import state_of
from aggloom.codegen.operators.passing import AccumulatorRows
from aggloom.codegen.operators.plan_text import shown_calls, shown_names
from aggloom.codegen.spec.agg_spec import AggCall, AggSpec
from aggloom.codegen.spec.durations import format_duration as shown_duration
from aggloom.codegen.user.source import CHANGES

Role = Literal["", "partial", "final"]
_COUNTS = ("COUNT", "COUNT_IF", "REGR_COUNT", "APPROX_COUNT_DISTINCT")
_TRENDS: dict[str, Trend] = {
    "COUNT": "increasing",
    "MAX": "increasing",
    "MIN": "decreasing",
    "SUM": "increasing",
    "SUM0": "increasing",
}
"""SUM of what is never below zero."""
_SUMS = ("SUM", "SUM0")


class AggregateRows(Node):
    """Traits of the rows that any aggregate emits: one row for each key that has input rows."""

    input: Node
    spec: AggSpec
    role: Role

    @property
    def schema(self) -> pa.Schema:
        return self.spec.aggregate_schema

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        return sort_kinds({"I", "UB", "UA"} | (set() if self.never_deletes else {"D"}))

    @property
    def is_complete(self) -> bool:
        return True

    @cached_property
    def never_deletes(self) -> bool:
        # A global aggregate of dialect spark has its row over no rows, too (decision 024).
        if self.spec.one_row:
            return True
        below = self.input.rows
        # A row that moves from one key to another leaves the first, perhaps without rows.
        moves = not below.appends_only and not set(self.spec.group_by) <= below.constants
        return below.never_deletes and not moves

    @property
    def unique_keys(self) -> tuple[Key, ...]:
        return (self.spec.group_by,)

    @cached_property
    def trends(self) -> dict[str, Trend]:
        trends = constant(self.spec.group_by)
        for index, call in enumerate(self.spec.calls):
            trend = call_trend(self.spec, index, self.input.rows)
            if trend is not None:
                trends[call.output_name] = trend
        return trends

    @cached_property
    def non_negative(self) -> frozenset[str]:
        below = self.input.rows
        keys = below.non_negative & set(self.spec.group_by)
        # Retractions of rows that never arrived could count below zero.
        calls = self.spec.calls if below.is_complete else ()
        return keys | {
            call.output_name for call in calls if _is_non_negative(call, self.spec, below)
        }

    @property
    def lineage(self) -> str:
        return f"aggregate {self.spec.to_json()}"


@dataclass(frozen=True)
class AggregateNode(AggregateRows):
    """GROUP BY: the spec's schema is the input's, and nothing precedes its keys or follows its calls.

    state_ttl: after how many milliseconds without a change it forgets a key, if that differs from the plan's option.
    emits_changes: the rows of its only call, a table aggregate, are opened right above it: an update may show those
    alone that its class says have changed.
    """

    input: Node
    spec: AggSpec
    role: Role = ""
    state_ttl: int | None = None
    emits_changes: bool = False

    @cached_property
    def clock_columns(self) -> frozenset[str]:
        # A call's result is of several times; a key that is the time of day is still that time.
        return self.input.clock_columns & set(self.spec.group_by)

    @property
    def never_null(self) -> frozenset[str]:
        counts = {call.output_name for call in self.spec.calls if call.function in _COUNTS}
        return (self.input.never_null & set(self.spec.group_by)) | counts

    @property
    def distribution(self) -> None:
        return None

    @property
    def title(self) -> Title:
        return "LogicalAggregate", shown_aggregate(self.spec, self.role, self.state_ttl)

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        spec = self.spec
        calls = tuple(call for call in spec.calls if call.output_name in names)
        if not calls and not spec.group_by:
            # Whether there is a row at all is all that is asked.
            calls = (AggCall("COUNT", alias=spec.calls[0].output_name),)
        # Which columns remaining calls read is known by a spec of them alone, so that there are two steps.
        pruned = AggSpec(spec.schema, spec.group_by, calls, spec.input_changes, spec.dialect)
        read = list(pruned.handler_schema.names)
        if read != spec.schema.names:
            pruned = AggSpec(
                pruned.handler_schema, spec.group_by, calls, spec.input_changes, spec.dialect
            )
        prune.note_dropped_calls(spec, pruned)
        return AggregateNode(
            pick(prune.input(self.input, read), read),
            pruned,
            self.role,
            self.state_ttl,
            self.emits_changes,
        )

    def emit_changes(self) -> Node:
        code = self.spec.entry(self.spec.calls[0]).code if len(self.spec.calls) == 1 else None
        # Beside other calls whole rows are compared, where a part of a list would look like a deletion (decision
        # 079).
        says = code is not None and bool(code.columns) and CHANGES in code.methods
        return replace(self, emits_changes=True) if says else self

    def insert_exchange(self) -> Node:
        rows = Exchange(self.input, self.spec.group_by)
        return GroupAggregate(
            rows,
            self.spec,
            self.role,
            state_ttl=self.state_ttl,
            emits_changes=self.emits_changes,
        )

    @property
    def lineage(self) -> str:
        return super().lineage + " by changes" * self.emits_changes


@dataclass(frozen=True)
class GroupAggregate(AggregateRows, Stateful):
    """A keyed operator; `merges`: its input are accumulators. update_before: whether it emits -U.

    emits_changes: as that of AggregateNode.
    """

    input: Node
    spec: AggSpec
    role: Role = ""
    merges: bool = False
    update_before: bool = True
    state_ttl: int | None = None
    emits_changes: bool = False

    @property
    def lineage(self) -> str:
        return super().lineage + " by changes" * self.emits_changes

    @property
    def subject(self) -> AggSpec:
        return self.spec

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return (self.spec,)

    @property
    def keys(self) -> Key:
        return self.spec.group_by

    @cached_property
    def changelog(self) -> tuple[str, ...]:
        kinds = super().changelog
        return kinds if self.update_before else tuple(kind for kind in kinds if kind != "UB")

    @property
    def clock_columns(self) -> frozenset[str]:
        return frozenset()

    @property
    def spreads(self) -> bool:
        return self.role == "partial"

    @property
    def title(self) -> Title:
        return "Global" * self.merges + "GroupAggregate", shown_aggregate(
            self.spec, self.role, self.state_ttl
        )

    @property
    def state_description(self) -> dict[str, Any]:
        return {"spec": json.loads(self.spec.to_json()), "windows": None}

    def state(self, backend: str, ttl: int) -> dict[str, Any]:
        return state_of(self.spec, backend, ttl)

    @property
    def local_obstacle(self) -> str:
        return ""

    def local_half(self, rows: Node) -> Node:
        return LocalAggregate(rows, self.spec, self.role)

    def prune_columns(self, names: list[str], prune: Pruner) -> Node:
        return self

    def without_before(self) -> Node:
        return replace(self, update_before=False)


@dataclass(frozen=True)
class LocalAggregate(AccumulatorRows):
    """Rows are aggregated before the exchange; what leaves are accumulators of the spec."""

    input: Node
    spec: AggSpec
    role: Role = ""

    @property
    def handlers(self) -> tuple[AggSpec, ...]:
        return (self.spec,)

    @property
    def accumulators(self) -> AggSpec:
        return self.spec

    @property
    def schema(self) -> pa.Schema:
        # Accumulators travel as whole arenas (decision 009). The columns are those of rows, which small tasks send.
        return self.spec.handler_schema

    @property
    def rows(self) -> Node:
        return self.input.rows

    @property
    def lineage(self) -> str:
        # A state above is made of the same rows whether they were aggregated before the exchange or not.
        return ""

    @property
    def title(self) -> Title:
        return "LocalGroupAggregate", shown_aggregate(self.spec, self.role)


def shown_aggregate(spec: AggSpec, role: Role, ttl: int | None = None) -> dict[str, list[str]]:
    """The details of an aggregate's line."""
    details = {}
    if spec.group_by:
        details["groupBy"] = shown_names(spec.group_by)
    if role:
        details["partialFinalType"] = [role.upper()]
    if ttl is not None:
        details["stateTtl"] = [shown_duration(ttl)]
    return {**details, "select": shown_calls(spec)}


def call_trend(spec: AggSpec, index: int, below: Node) -> Trend | None:
    """Return the trend of a call's result, if it only ever goes one way."""
    call = spec.calls[index]
    trend = _TRENDS.get(call.function)
    # Where rows may go, every result may turn back.
    if trend is None or not below.never_deletes:
        return None
    if call.function in _SUMS and not _adds_up(call, spec, below):
        return None
    # Rows that stay as they are can only raise a count and a maximum.
    if below.appends_only:
        return trend
    steady = below.constants
    # A row that leaves the group or its filter takes its part of the result along.
    if not set(spec.group_by) <= steady or (call.filter is not None and call.filter not in steady):
        return None
    if call.function == "COUNT":
        # What has a trend never becomes NULL again, so that a row that counts goes on to count.
        return trend if set(call.args) <= (steady if call.distinct else set(below.trends)) else None
    if call.function in _SUMS and call.distinct and not set(call.args) <= steady:
        # Two values that become one are added once.
        return None
    # A replaced row that goes the other way could lower the maximum that it was.
    return trend if below.trends.get(call.args[0]) in (trend, "constant") else None


def _adds_up(call: AggCall, spec: AggSpec, below: Node) -> bool:
    """Tell whether a sum is of values that are never below zero, and an error where it does not fit."""
    # In dialect flink an integer wraps and a decimal becomes NULL.
    wraps = spec.dialect == "flink" and not pa.types.is_floating(
        spec.schema.field(call.args[0]).type
    )
    return call.args[0] in below.non_negative and not wraps


def _is_non_negative(call: AggCall, spec: AggSpec, below: Node) -> bool:
    """Tell whether a result is never below zero, over whole changes."""
    if call.function == "COUNT":
        return True
    # An overflow would end up below zero where integers wrap around.
    if call.function in (*_SUMS, "AVG"):
        return _adds_up(call, spec, below)
    return call.function in ("MIN", "MAX") and call.args[0] in below.non_negative
