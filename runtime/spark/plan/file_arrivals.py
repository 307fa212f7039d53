"""The tables whose order of files the result of a query depends on."""

from __future__ import annotations

from aggloom.codegen.planner import FromChangelog, Scan, Stateful, walk


def find_orderly(node: Stateful, ordered: bool) -> set[str]:
    """The tables below a node whose rows it may not have in another order: its table could be another.

    A row that is retracted before it arrives is dropped, or kept and forgotten by a window; only aggregates heal.
    """
    arrivals = any(s.entry(call).by_arrival for s in node.handlers for call in s.calls)
    arrivals = arrivals or not node.handlers
    if not ordered:
        return set()
    below = walk(node)
    logs = {id(scan) for each in below if isinstance(each, FromChangelog) for scan in walk(each)}
    return {
        each.table
        for each in below
        if isinstance(each, Scan) and (arrivals or each.changes != "append" or id(each) in logs)
    }
