"""What an operator's state was made from: a digest of everything below it, however it is executed."""

from __future__ import annotations

import hashlib
from typing import Any

from aggloom.codegen.operators import Node, Stateful


def lineage(node: Node) -> str:
    """Sixteen hex digits that differ where the rows that reach a node's state, or the state itself, would.

    Phases and exchanges do not count: the same state serves a query in one phase and in two.
    """
    return hashlib.sha256("\n".join(_lines(node)).encode()).hexdigest()[:16]


def described(node: Stateful) -> dict[str, Any]:
    """What `lineage` is the digest of, as data: what the node's state is made from, and what is below."""
    found = dict(node.described)
    below = [line for each in node.inputs for line in _below(each)]
    return {**found, "below": [*below, *found.pop("steps", ())]}


def _lines(node: Node) -> list[str]:
    below = [line for each in node.inputs for line in _lines(each)]
    return [*below, *([node.lineage] if node.lineage else [])]


def _below(node: Node) -> list[Any]:
    below = [line for each in node.inputs for line in _below(each)]
    return [*below, *([node.lineage_data] if node.lineage else [])]
