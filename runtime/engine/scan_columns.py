"""The columns of a table that a plan reads: all others stay on disk."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from aggloom.codegen import columns_of, is_expression
from aggloom.codegen.planner import Plan, Scan, walk
from aggloom.runtime.operators.stateless import columns_read


def time_columns(time: str, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that the event time of a table is made of: it is one, or an expression of some."""
    return columns_of(time) if is_expression(time, schema.names) else (time,)


def scan_columns(plan: Plan, table: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """The columns of a table that its readers in a plan read, in their order; more: others that are wanted."""
    scan = plan.scans[table]
    read = set(more)
    if isinstance(plan.root, Scan):
        return tuple(scan.schema.names)
    for node in walk(plan.root):
        if any(isinstance(below, Scan) and below.table == table for below in node.inputs):
            read |= set(columns_read((node,), scan.schema))
    # Where there are no columns nobody knows how many rows there are.
    read_columns = tuple(name for name in scan.schema.names if name in read)
    return read_columns or tuple(scan.schema.names)
