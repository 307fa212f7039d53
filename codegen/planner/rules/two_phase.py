"""two_phase: rows are aggregated before the exchange, and their accumulators are merged after it."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.catalogue.entry import Aggregate as Entry
from aggloom.codegen.operators import Exchange, Node, Stateful, transform
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.agg_spec import AggSpec
from aggloom.codegen.user.definition import unmergeable

_IN_PLACE = "the rows of a key are in one place already"


def two_phase(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Put a local half before the exchange of every aggregate whose result stays the same with it."""

    def change(node: Node) -> Node:
        if not isinstance(node, Stateful) or node.merges:
            return node
        exchange = node.inputs[0]
        if not isinstance(exchange, Exchange):
            notes.add("two_phase", node.subject, False, _IN_PLACE)
            return node
        # First why the operator cannot, then why one of its calls cannot.
        reason = node.local_obstacle
        for spec in node.handlers:
            reason = reason or _obstacle(spec, exchange, options)
        notes.add("two_phase", node.subject, not reason, reason or "every call merges")
        if reason:
            return node
        local = node.local_half(exchange.input)
        return replace(node, input=Exchange(local, exchange.keys), merges=True)  # type: ignore[call-arg]

    return transform(root, change)


def _obstacle(spec: AggSpec, exchange: Exchange, options: PlanOptions) -> str:
    """The reason why an aggregate stays in one phase; empty if it need not."""
    rows = exchange.input
    # The first phase adds up the rows of a batch before they are sent to their key; without batches it saves nothing.
    if not options.mini_batch_enabled:
        return "table.exec.mini-batch.enabled is false"
    if options.agg_phase_strategy == "ONE_PHASE":
        return "table.optimizer.agg-phase-strategy is ONE_PHASE"
    # Over insertions no half can lack the row that a retraction means.
    retracts = not rows.appends_only
    for call in spec.calls:
        entry = spec.entry(call)
        if entry.code is not None:
            reason = _obstacle_of_class(entry, retracts, options)
        # Such a sum is set to 0 with the last row, to lose the errors of rounding; the first phase does not know of it.
        elif retracts and any(getattr(s, "kind", "") == "double" for s in entry.append.state):
            reason = f"{call.function} clears its rounded sums where no row is left"
        elif entry.by_arrival:
            reason = f"{call.function} depends on the order of rows, which only the whole key knows"
        else:
            reason = ""
        if reason:
            return reason
    policy = options.on_orphan_retraction
    if retracts and not rows.is_complete and policy != "keep":
        return (
            f"the input may retract rows that were never added, and with on_orphan_retraction={policy!r} "
            "only the whole key knows which"
        )
    # The rows are where their key is already, so that the first phase would save no transport.
    if exchange.keys and set(rows.distribution or ()) == set(exchange.keys):
        return _IN_PLACE
    return ""


def _obstacle_of_class(entry: Entry, retracts: bool, options: PlanOptions) -> str:
    """The reason why a user's class stays in one phase: nobody but its user knows whether order matters to it."""
    if lacking := unmergeable(entry):
        return lacking
    # A local half sees retractions of rows that other tasks got.
    if retracts:
        return f"{entry.name} may be unable to retract in one task a row that it accumulated in another"
    if options.agg_phase_strategy != "TWO_PHASE":
        return (
            f"{entry.name} may depend on the order of rows; if it does not, say so by "
            "table.optimizer.agg-phase-strategy TWO_PHASE"
        )
    return ""
