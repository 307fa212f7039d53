"""two_phase: rows are aggregated where they are, before the exchange, and the accumulators merged after it."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.catalogue.entry import Aggregate as Entry
from aggloom.codegen.planner.nodes import (
    Aggregate,
    Calc,
    Exchange,
    GroupAggregate,
    LocalAggregate,
    Node,
    WindowAggregate,
    WindowAssign,
    column_name,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.traits import appends_only, is_complete
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.user.definition import unmergeable


def exchanges(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The physical plan in one phase: each aggregate reads the rows of its keys, exchanged."""

    def change(node: Node) -> Node:
        if isinstance(node, WindowAggregate):
            return node.over(Exchange(node.input, node.keys))
        if not isinstance(node, Aggregate):
            return node
        rows = Exchange(node.input, node.spec.group_by)
        return GroupAggregate(rows, node.spec, node.role, state_ttl=node.state_ttl)

    return transform(root, change)


def two_phase(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Put a local half before the exchange of every aggregate for which that is sound (SEMANTICS 3.3 and 3.7)."""

    def change(node: Node) -> Node:
        if not isinstance(node, GroupAggregate | WindowAggregate) or node.merges:
            return node
        exchange = node.input
        assert isinstance(exchange, Exchange)
        reason = _unsliced(node) or _obstacle(node.spec, exchange, options)
        notes.add("two_phase", node.spec, not reason, reason or "every call merges")
        if reason:
            return node
        role = node.role if isinstance(node, GroupAggregate) else ""
        local = LocalAggregate(exchange.input, node.spec, role)
        return replace(node, input=Exchange(local, exchange.keys), merges=True)

    return transform(root, change)


def _unsliced(node: GroupAggregate | WindowAggregate) -> str:
    """Why rows cannot be added up before it is known which window they are in; empty if they can."""
    if isinstance(node, GroupAggregate) or node.windowing.is_sliced:
        return ""
    windowing = node.windowing
    if not windowing.is_vectorised:
        return "its windows look at single rows"
    if not windowing.assigner.event_time:
        return "the windows of processing time are known only where they are kept"
    return "sessions are known only where all rows of a key are"


def _obstacle(spec: AggSpec, exchange: Exchange, options: PlanOptions) -> str:
    """Why an aggregate stays in one phase; empty if it need not."""
    rows = exchange.input
    if not options.mini_batch_enabled:
        return "table.exec.mini-batch.enabled is false"
    if options.agg_phase_strategy == "ONE_PHASE":
        return "table.optimizer.agg-phase-strategy is ONE_PHASE"
    retracts = not appends_only(rows)
    for call in spec.calls:
        entry = spec.entry(call)
        if entry.code is not None:
            reason = _obstacle_of_class(entry, retracts, options)
        elif retracts and any(getattr(s, "kind", "") == "double" for s in entry.append.state):
            reason = f"{call.function} clears its rounded sums where no row is left"
        elif entry.by_arrival:
            reason = f"{call.function} depends on the order of rows, which only the whole key knows"
        else:
            reason = ""
        if reason:
            return reason
    policy = options.on_orphan_retraction
    if retracts and not is_complete(rows) and policy != "keep":
        return (
            f"the input may take back rows that never came, and on_orphan_retraction={policy!r} "
            "asks for each whether it did"
        )
    if exchange.keys and _is_distributed(rows, exchange.keys):
        return "the rows of a key are in one place already"
    return ""


def _obstacle_of_class(entry: Entry, retracts: bool, options: PlanOptions) -> str:
    """Why a user's class stays in one phase: nobody but its user knows whether order matters to it."""
    if lacking := unmergeable(entry):
        return lacking
    if retracts:
        return f"{entry.name} may not take back in one place what it got in another"
    if options.agg_phase_strategy != "TWO_PHASE":
        return (
            f"{entry.name} may depend on the order of rows; if it does not, say so by "
            "table.optimizer.agg-phase-strategy TWO_PHASE"
        )
    return ""


def _is_distributed(rows: Node, keys: tuple[str, ...]) -> bool:
    """Whether the rows below come from an aggregate by the same key."""
    names: list[str | None] = list(keys)
    while isinstance(rows, Calc | WindowAssign):
        if isinstance(rows, Calc):
            sources = {name: column_name(sql) for name, sql in rows.select}
            names = [sources.get(key or "") for key in names]
        rows = rows.input
    if isinstance(rows, WindowAggregate):
        return set(names) == set(rows.keys)
    return isinstance(rows, GroupAggregate) and set(names) == set(rows.spec.group_by)
