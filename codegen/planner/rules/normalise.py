"""normalise: take filters into the operator that completes upserts, and remove it where nobody needs old rows."""

from __future__ import annotations

from dataclasses import replace

from aggloom.codegen.operators import Calc, Node, Normalise, pick, transform, walk
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions


def normalise(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Put filters into a Normalise, leave it out where the result takes upserts as they come, and say why it stays."""
    root = transform(root, _with_filter)
    # Only whoever takes upserts as they are can do without the rows before.
    if not options.update_before:
        root = _without(root)
    for node in walk(root):
        if isinstance(node, Normalise):
            notes.add("normalise", node.subject, True, _why(node, root, options))
    return root


def _with_filter(node: Node) -> Node:
    """A filter over a Normalise as a part of it: rows that do not pass are not remembered.

    Rows that leave columns out are completed first, by remembered rows that need not have passed.
    """
    if not isinstance(node, Calc) or node.where is None:
        return node
    picked, below = None, node.input
    if isinstance(below, Calc) and below.picked_columns == tuple(below.schema.names):
        picked, below = list(below.picked_columns), below.input
    # A filter over a row that is not complete could drop what the next update needs.
    if not isinstance(below, Normalise) or below.absent is not None:
        return node
    # Fewer rows are remembered: those that fail are not there for anybody above.
    filtered = below.filter_rows(node.where)
    return replace(node, input=pick(filtered, picked) if picked else filtered, where=None)


def _without(node: Node) -> Node:
    """The plan without a Normalise whose rows reach the result as they are, with their key and no filter."""
    if isinstance(node, Normalise):
        # With a filter, an update may have to delete a row that has passed before: only remembered rows say so.
        return node.input if node.passes is None and node.absent is None else node
    # What picks columns with the key among them passes upserts on as upserts.
    if isinstance(node, Calc) and node.where is None and node.unique_keys:
        return node.over(_without(node.input))
    return node


def _why(node: Normalise, root: Node, options: PlanOptions) -> str:
    """The reason why a Normalise is there."""
    if node.absent is not None:
        return "rows omit columns, which keep their previous values"
    if node.passes is not None:
        return "its filter must know whether the previous row passed"
    if any(each is not node and each.handlers for each in walk(root)):
        return "the operator above retracts the previous row, which the table does not have"
    if options.update_before:
        return "the result has the previous row; with update_before=false upserts pass unchanged"
    return "the operator above does not use the key alone"
