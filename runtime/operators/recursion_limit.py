"""The step that fails where a recursive query has found rows beyond its limit."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen.planner import RecursionLimit
from aggloom.errors import RecursionLimitError
from aggloom.runtime.operators.steps import Rows


def check_limit(node: RecursionLimit, rows: Rows) -> Rows:
    """The rows without the flag; raises RecursionLimitError where it is false in one of them.

    Which kind of change such a row is does not matter: it would have failed the query when it arrived.
    """
    batch, kinds = rows
    beyond = pc.invert(batch.column(batch.num_columns - 1))
    within = batch.select(range(batch.num_columns - 1))
    if pc.any(beyond).as_py():
        raise RecursionLimitError(_describe(node, within.filter(beyond).slice(0, 1)))
    return within, kinds


def _describe(node: RecursionLimit, row: pa.RecordBatch) -> str:
    """The message about the first row that is beyond the limit."""
    columns = zip(row.schema.names, row.columns, strict=True)
    values = ", ".join(f"{name}={column[0].as_py()!r}" for name, column in columns)
    return (
        f"the recursive query {node.name} is not at its end after {node.limit} steps: the next one finds "
        f"{values}. Raise the number behind MAX RECURSION LEVEL or recursion_limit, or end the recursion by a condition"
    )
