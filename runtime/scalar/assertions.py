"""Errors that a query raises itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import RaisedError
from aggloom.runtime.scalar.values import Value, array


def raise_error(message: Value, rows: pa.RecordBatch, sql: str) -> pa.Array:
    """RAISE_ERROR: raises RaisedError with the message of the first row; of no rows it gives no values."""
    texts = array(message, rows.num_rows)
    if len(texts):
        raise _error(sql, texts[0].as_py())
    return pa.nulls(0)


def assert_true(
    condition: Value, rows: pa.RecordBatch, sql: str, message: Value | None = None
) -> pa.Array:
    """ASSERT_TRUE: a NULL for each row; raises RaisedError where the condition is not true."""
    failed = pc.invert(pc.fill_null(array(condition, rows.num_rows), False))
    place = pc.index(failed, True).as_py()
    if place < 0:
        return pa.nulls(rows.num_rows)
    if message is None:
        raise _error(sql, "the condition is not true")
    raise _error(sql, array(message, rows.num_rows)[place].as_py())


def _error(sql: str, message: str | None) -> RaisedError:
    text = "NULL" if message is None else message
    return RaisedError(f"expression {sql}: {text}; filter such rows, or take the check out.")
