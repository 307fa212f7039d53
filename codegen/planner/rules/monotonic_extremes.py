"""monotonic_extremes: a MAX that never falls keeps one value, not all, although rows are retracted."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.operators import AggregateNode, Node, transform, walk
from aggloom.codegen.operators.aggregate import call_trend
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.agg_spec import AggSpec

_EXTREMES = ("MAX", "MIN")


def monotonic_extremes(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Mark MAX over a column that only increases, MIN over one that only decreases."""
    hints = (each.state_ttl for each in walk(root) if isinstance(each, AggregateNode))
    if options.state_ttl or any(hints):
        # A row that is forgotten comes anew, from the beginning.
        return root
    return transform(root, lambda node: _mark_extremes(node, notes))


def _mark_extremes(node: Node, notes: Notes) -> Node:
    # Where nothing is retracted, one value is enough anyway.
    if not isinstance(node, AggregateNode) or node.input.appends_only:
        return node
    spec = node.spec
    calls = []
    for index, call in enumerate(spec.calls):
        if call.function in _EXTREMES and call_trend(spec, index, node.input):
            calls.append(replace(call, monotonic=True))
        else:
            calls.append(call)
    marked = [call.text for call in calls if call.monotonic]
    if not marked:
        return node
    # A call's form is part of the digest, so that a state with all values is not read as one with one value.
    new = AggSpec(spec.schema, spec.group_by, tuple(calls), spec.input_changes, spec.dialect)
    notes.move(spec, new)
    why = f"the argument of {' and '.join(marked)} only goes one way: no view of all values"
    notes.add("monotonic_extremes", new, True, why)
    return replace(node, spec=new)
