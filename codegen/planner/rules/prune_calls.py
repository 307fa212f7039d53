"""prune_calls: an aggregate keeps only the calls that something above it reads."""

from __future__ import annotations

from dataclasses import dataclass

from aggloom.codegen.operators import Node
from aggloom.codegen.operators.base import Subject
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.spec.agg_spec import AggSpec


def prune_calls(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """The plan without calls, and without columns between its steps, that nothing reads."""
    return keep_columns(root, list(root.schema.names), notes)


def keep_columns(root: Node, names: list[str], notes: Notes) -> Node:
    """The plan with at least these of the result's columns, and nothing that none of them is made of."""
    return _Pruning(notes).input(root, names)


@dataclass(frozen=True)
class _Pruning:
    """A plan on its way down from what is read."""

    notes: Notes

    def input(self, node: Node, names: list[str]) -> Node:
        """The node with at least these of its columns."""
        return node.prune_columns(names, self)

    def note_dropped_calls(self, spec: AggSpec, pruned: AggSpec) -> None:
        """Note the calls that a spec has lost."""
        gone = [call.text for call in spec.calls if call not in pruned.calls]
        if gone:
            self.notes.add("prune_calls", pruned, True, f"nothing reads {', '.join(gone)}")

    def note_replacement(self, spec: Subject, pruned: Subject) -> None:
        """Let what was said of a spec be said of the one in its place."""
        self.notes.move(spec, pruned)
