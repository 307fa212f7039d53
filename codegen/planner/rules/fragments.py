"""fragments: operators whose rows can be distributed by the same columns share an exchange and a stateful node."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from aggloom.codegen.operators import Exchange, Node, Stateful
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions

Columns = Mapping[int, str]
"""The names that columns of the topmost operator's key have at a node, by their place in that key."""


def fragments(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Take out exchanges between operators that one distribution serves, from the top down.

    Rows that lie by the columns D serve an operator with the keys K if D is a subset of K. The topmost operator's key
    narrows as the chain grows: the longest chain comes before the finest distribution.
    """
    # From the top: the topmost operator's key decides which columns may be left.
    if isinstance(root, Stateful):
        return _Fragment(root, options, notes).rewrite()
    return (
        root.over(*(fragments(each, options, notes) for each in root.inputs))
        if root.inputs
        else root
    )


class _Fragment:
    """The operators that join the one on top, and the columns of its key that are left to lie by."""

    def __init__(self, top: Stateful, options: PlanOptions, notes: Notes) -> None:
        self._top, self._options, self._notes = top, options, notes
        self._wakers = {self._waker(top)} - {""}
        self._joined: list[Stateful] = []
        self._obstacle = ""
        first = self._exchanges(top)[0]
        self._types = [first.schema.field(name).type for name in first.keys]
        self._places = frozenset(range(len(first.keys)))

    def rewrite(self) -> Node:
        """The operator over its inputs as they are read in one node with those that have joined it."""
        below = [
            (each.inputs[0], dict(enumerate(each.keys))) for each in self._exchanges(self._top)
        ]
        for node, columns in below:
            # First all that can join, then the distribution that is left to them: an exchange is placed by the final
            # columns.
            self._reach(node, columns)
        self._say()
        return self._top.over(*(self._place_node(node, columns) for node, columns in below))

    def _reach(self, node: Node, columns: Columns) -> None:
        """Let the operators below join that can."""
        if isinstance(node, Stateful):
            obstacle = self._join(node, columns)
            if obstacle:
                self._obstacle = self._obstacle or obstacle
                return
            for exchange, own in self._through(node, columns):
                self._reach(exchange.input, own)
            return
        if not _has_operators(node):
            return
        passed = self._pass_columns(node, columns)
        if isinstance(passed, str):
            self._obstacle = self._obstacle or passed
            return
        for each, own in passed:
            self._reach(each, own)

    def _join(self, node: Stateful, columns: Columns) -> str:
        """Let an operator join, and return an empty text, or the reason why it cannot; the places are then those of its
        key, too."""
        if not self._options.fragments_enabled:
            return "fragments_enabled is false"
        # Beside its consumer in one node it would find rows where one key puts them, and spread nothing.
        if node.spreads:
            return f"{node.name} spreads a key over several buckets"
        # Spark's stateful node has one kind of timer: by event time, or by the clock.
        wakers = self._wakers | {self._waker(node)} - {""}
        if len(wakers) > 1:
            return f"a stateful node has one kind of timer, and these need {' and '.join(sorted(wakers))}"
        below = node.below(tuple(columns.values()))
        shared = frozenset(p for p in self._places if all(columns.get(p) in own for own in below))
        if not shared:
            return f"its key has no column in common with the key of {node.name}"
        # Three values of a key would leave all but three tasks without rows.
        if all(pa.types.is_boolean(self._types[place]) for place in shared):
            return f"only BOOLEAN columns of its key are in the key of {node.name}"
        # Each operator that joins leaves fewer columns to those below it.
        self._places, self._wakers = shared, wakers
        self._joined.append(node)
        return ""

    def _place_node(self, node: Node, columns: Columns) -> Node:
        """A node below as it feeds the fragment: through operators that have joined, else over an exchange."""
        if isinstance(node, Stateful) and self._leads(node):
            pairs = self._through(node, columns)
            return node.over(*(self._place_node(each.input, own) for each, own in pairs))
        if not isinstance(node, Stateful) and self._leads(node):
            passed = self._pass_columns(node, columns)
            assert not isinstance(passed, str)
            return node.over(*(self._place_node(each, own) for each, own in passed))
        # Of several inputs each has its own names for the same columns, in the same order.
        keys = tuple(columns[place] for place in sorted(self._places))
        return Exchange(fragments(node, self._options, self._notes), keys)

    def _leads(self, node: Node) -> bool:
        """Tell whether a node is an operator that has joined, or has one below with no other in between."""
        if isinstance(node, Stateful):
            # By identity: two equal operators may stand at different places.
            return any(node is each for each in self._joined)
        return any(self._leads(each) for each in node.inputs)

    def _pass_columns(self, node: Node, columns: Columns) -> list[tuple[Node, Columns]] | str:
        """The inputs of a node without state, with the columns' names there; or why rows cannot pass it here."""
        names = tuple(dict.fromkeys(columns.values()))
        sources = node.within(names)
        if isinstance(sources, str):
            return sources
        return [
            (each, {place: own[name] for place, name in columns.items() if name in own})
            for each, own in zip(node.inputs, sources, strict=True)
        ]

    def _through(self, node: Stateful, columns: Columns) -> list[tuple[Exchange, Columns]]:
        """The exchanges below an operator, with the columns' names there."""
        below = node.below(tuple(dict.fromkeys(columns.values())))
        return [
            (each, {place: own[name] for place, name in columns.items() if name in own})
            for each, own in zip(self._exchanges(node), below, strict=True)
        ]

    def _exchanges(self, node: Stateful) -> list[Exchange]:
        return [each for each in node.inputs if isinstance(each, Exchange)]

    def _waker(self, node: Stateful) -> str:
        own = getattr(node, "state_ttl", None)
        return node.wakes_by(self._options.state_ttl if own is None else own)

    def _say(self) -> None:
        if self._joined:
            first = self._exchanges(self._top)[0].keys
            by = ", ".join(first[place] for place in sorted(self._places))
            names = "; ".join(dict.fromkeys(each.name for each in self._joined))
            # Fewer columns may mean fewer different values to spread rows by, which a reader should know.
            fewer = "" if len(self._places) == len(first) else f" instead of {', '.join(first)}"
            why = f"in one stateful node with {names}, with rows distributed by {by}{fewer}"
            self._notes.add("fragments", self._top.subject, True, why)
        elif self._obstacle:
            self._notes.add("fragments", self._top.subject, False, self._obstacle)


def _has_operators(node: Node) -> bool:
    return isinstance(node, Stateful) or any(_has_operators(each) for each in node.inputs)
