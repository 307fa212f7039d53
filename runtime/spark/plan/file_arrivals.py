"""The tables whose order of files the result of a query depends on."""

from __future__ import annotations

from aggloom.codegen.planner import Scan, Stateful, walk


def find_orderly(node: Stateful, ordered: bool) -> set[str]:
    """The tables below a node whose rows it may not have in another order: its table could be another.

    A row that is taken back before it came is dropped, or kept and forgotten by a window; only aggregates heal.
    """
    arrivals = any(s.entry(call).by_arrival for s in node.handlers for call in s.calls)
    arrivals = arrivals or not node.handlers
    scans = [each for each in walk(node) if isinstance(each, Scan)]
    return {each.table for each in scans if ordered and (arrivals or each.changes != "append")}
