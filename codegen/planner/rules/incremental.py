"""incremental: the global half of a partial aggregate and the local half of the final one become one node."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.operators import (
    Calc,
    Exchange,
    Expand,
    GroupAggregate,
    IncrementalAggregate,
    LocalAggregate,
    Node,
    Scan,
    transform,
)
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions


def incremental(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Join the halves that meet between the two exchanges of a split aggregate."""

    def change(node: Node) -> Node:
        # Only a split aggregate has two halves that lie by the same keys in one task.
        if not isinstance(node, GroupAggregate) or node.role != "final":
            return node
        exchange = node.input
        if not isinstance(exchange, Exchange) or not isinstance(exchange.input, LocalAggregate):
            return node
        local = exchange.input
        steps: list[Node] = []
        below: Node = local.input
        while isinstance(below, Calc | Expand):
            # The node says what stands below a step: it need not be stored twice.
            steps.append(below.over(Scan("", below.input.schema, "append")))
            below = below.input
        if not isinstance(below, GroupAggregate) or below.role != "partial":
            return node
        if not options.incremental_agg_enabled:
            why = "table.optimizer.incremental-agg-enabled is false"
            notes.add("incremental", node.spec, False, why)
            return node
        # Its input comes as rows and not as accumulators, so that no half is beside the other.
        if not below.merges:
            notes.add("incremental", node.spec, False, "the partial aggregate has one phase")
            return node
        notes.add("incremental", node.spec, True, "partial and final halves share a node")
        halves = tuple(reversed(steps))
        ttl = below.state_ttl
        joined = IncrementalAggregate(below.input, below.spec, node.spec, halves, state_ttl=ttl)
        return replace(node, input=Exchange(joined, exchange.keys), merges=True)

    return transform(root, change)
