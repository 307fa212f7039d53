"""reuse: steps that several inputs of a stateful node share are computed and shuffled once."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from aggloom.codegen.operators import Calc, Exchange, Node, Stateful, pick
from aggloom.codegen.operators.base import Key
from aggloom.codegen.planner.notes import Notes
from aggloom.codegen.planner.options import PlanOptions
from aggloom.codegen.scalar.expressions import columns_of


def reuse(root: Node, options: PlanOptions, notes: Notes) -> Node:
    """Have inputs of a fragment share an exchange where the same operator is below them, by the same columns.

    What differs, filters and projections over that operator, comes after the exchange then.
    """
    return _Reuse(notes).rewrite_node(root) if options.fragments_enabled else root


class _Input(NamedTuple):
    """An exchange, the operator below it, the columns there by which rows lie, and what is between, from the top."""

    exchange: Exchange
    source: Stateful
    keys: Key
    steps: tuple[Calc, ...]

    @property
    def reads(self) -> set[str]:
        """The columns of the operator that are read."""
        # Without a step in between all columns go on.
        if not self.steps:
            return set(self.source.schema.names)
        lowest = self.steps[-1]
        expressions = [*(sql for _, sql in lowest.select), lowest.where or ""]
        return {name for sql in expressions if sql for name in columns_of(sql)}


class _Reuse:
    def __init__(self, notes: Notes) -> None:
        self._notes, self._numbers = notes, count(1)

    def rewrite_node(self, node: Node) -> Node:
        """The plan from a node on down."""
        if isinstance(node, Stateful):
            return self._inside(node, self._share_exchanges(node))
        return node.over(*map(self.rewrite_node, node.inputs)) if node.inputs else node

    def _inside(self, node: Node, shared: dict[int, Node]) -> Node:
        """A part of a fragment over its inputs, some of which have become others."""
        below = []
        for each in node.inputs:
            if isinstance(each, Exchange):
                other = shared.get(id(each))
                below.append(other or each.over(self.rewrite_node(each.input)))
            else:
                below.append(self._inside(each, shared))
        return node.over(*below) if below else node

    def _share_exchanges(self, top: Stateful) -> dict[int, Node]:
        """Return the nodes that take the place of the exchanges of a fragment that have the same below them."""
        groups: list[list[_Input]] = []
        for candidate in filter(None, map(_input, _exchanges(top))):
            # Equal nodes by value: two branches of a query are planned apart, and are two objects that say the same.
            alike = (
                g for g in groups if (g[0].keys, g[0].source) == (candidate.keys, candidate.source)
            )
            group = next(alike, None)
            if group is None:
                groups.append([candidate])
            else:
                group.append(candidate)
        replacements: dict[int, Node] = {}
        for group in groups:
            if len(group) > 1:
                replacements |= self._one(group)
                why = f"{group[0].source.name} is computed once for {len(group)} inputs"
                self._notes.add("reuse", top.subject, True, why)
        return replacements

    def _one(self, group: list[_Input]) -> dict[int, Node]:
        """The inputs of a group over one exchange."""
        source, keys = group[0].source, group[0].keys
        reads = set(keys).union(*(each.reads for each in group))
        # What is below may share inputs of its own.
        rows = self.rewrite_node(source)
        # Only what one of the readers needs is shuffled.
        rows = pick(rows, [name for name in source.schema.names if name in reads])
        replacements: dict[int, Node] = {}
        exchange = Exchange(rows, keys, next(self._numbers))
        for each in group:
            node: Node = exchange
            for step in reversed(each.steps):
                node = step.over(node)
            # By identity: equal exchanges of different groups would else be one key.
            replacements[id(each.exchange)] = node
        return replacements


def _exchanges(node: Node) -> list[Exchange]:
    """The inputs of the fragment that a node is in."""
    exchanges = []
    for each in node.inputs:
        exchanges += [each] if isinstance(each, Exchange) else _exchanges(each)
    return exchanges


def _input(exchange: Exchange) -> _Input | None:
    """An exchange over an operator, and what can be done inside a fragment; None if it is over anything else."""
    node, keys = exchange.input, exchange.keys
    steps = []
    while isinstance(node, Calc):
        within = node.within(tuple(dict.fromkeys(keys)))
        if isinstance(within, str) or not set(keys) <= set(within[0]):
            return None
        keys = tuple(within[0][name] for name in keys)
        steps.append(node)
        node = node.input
    # Accumulators of a two-phase aggregate are no rows that a projection could follow.
    if not isinstance(node, Stateful) or node.accumulators is not None:
        return None
    return _Input(exchange, node, keys, tuple(steps))
