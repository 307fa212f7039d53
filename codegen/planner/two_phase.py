"""two_phase: rows are aggregated where they are, before the exchange, and the accumulators merged after it."""

from __future__ import annotations

from aggloom.codegen.aggregate import Aggregate as Entry
from aggloom.codegen.own import unmergeable
from aggloom.codegen.planner.nodes import (
    Aggregate,
    Calc,
    Exchange,
    GroupAggregate,
    LocalAggregate,
    Node,
    column_name,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.planner.traits import appends_only, is_complete
from aggloom.codegen.spec import AggSpec


def exchanges(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The physical plan in one phase: each aggregate reads the rows of its keys, exchanged."""

    def change(node: Node) -> Node:
        if not isinstance(node, Aggregate):
            return node
        return GroupAggregate(Exchange(node.input, node.spec.group_by), node.spec, node.role)

    return transform(root, change)


def two_phase(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Put a local half before the exchange of every aggregate for which that is sound (SEMANTICS 3.3 and 3.7)."""

    def change(node: Node) -> Node:
        if not isinstance(node, GroupAggregate) or node.merges:
            return node
        reason = _obstacle(node, options)
        notes.add("two_phase", node.spec, not reason, reason or "every call merges")
        if reason:
            return node
        local = LocalAggregate(node.input.input, node.spec, node.role)
        return GroupAggregate(
            Exchange(local, node.input.keys), node.spec, node.role, True, node.update_before
        )

    return transform(root, change)


def _obstacle(node: GroupAggregate, options: PlanOptions) -> str:
    """Why an aggregate stays in one phase; empty if it need not."""
    spec, rows = node.spec, node.input.input
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
    if spec.group_by and _is_distributed(rows, spec):
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


def _is_distributed(rows: Node, spec: AggSpec) -> bool:
    """Whether the rows below come from an aggregate by the same key."""
    keys: list[str | None] = list(spec.group_by)
    while isinstance(rows, Calc):
        sources = {name: column_name(sql) for name, sql in rows.select}
        keys = [sources.get(key or "") for key in keys]
        rows = rows.input
    return isinstance(rows, GroupAggregate) and set(keys) == set(rows.spec.group_by)
