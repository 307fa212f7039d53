"""Rows in blocks: a statement for thousands of rows, whose columns are arrays, instead of one for each row.

The table does not depend on it. Where others write the same keys, the order in which rows are met counts: before some
of them are deleted, all are locked in the order of keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.connectors.database.array_texts import array_text, has_array_text
from aggloom.runtime.connectors.database.statements import Statements
from aggloom.runtime.sinks.net import NetRows

FEWEST = 20
"""The number of rows from which blocks are quicker."""
_ROWS, _BYTES = 50_000, 1 << 25
"""Number of rows that a block has at most, and number of bytes, about."""
_WHOLE = (20, 21, 23, 1700)
_TYPES = {
    "BOOLEAN": (16,),
    **dict.fromkeys(("SMALLINT", "INTEGER", "BIGINT"), _WHOLE),
    "REAL": (700,),
    "DOUBLE PRECISION": (701,),
    "TEXT": (25, 1043),
    "BYTEA": (17,),
    "DATE": (1082,),
    "TIMESTAMP": (1114,),
    "TIMESTAMP WITH TIME ZONE": (1184,),
    "TIME": (1083,),
    "NUMERIC": (1700,),
    "JSONB": (3802,),
    "BOOLEAN[]": (1000,),
    "SMALLINT[]": (1005,),
    "INTEGER[]": (1007,),
    "BIGINT[]": (1016,),
    "REAL[]": (1021,),
    "DOUBLE PRECISION[]": (1022,),
    "TEXT[]": (1009,),
    "BYTEA[]": (1001,),
    "DATE[]": (1182,),
    "TIMESTAMP[]": (1115,),
    "TIMESTAMP WITH TIME ZONE[]": (1185,),
    "TIME[]": (1183,),
    "NUMERIC[]": (1231,),
    "JSONB[]": (3807,),
}
"""The numbers of a table's types in which a type's values become what they become as single parameters."""


def fit_blocks(say: Statements, description: Sequence[Any]) -> bool:
    """Tell whether rows can be written in blocks into the table of which a driver tells these columns."""
    if not say.dialect.in_blocks:
        return False
    # A parameter is cast to the array of the sink's type and then assigned: into another type the database would
    # convert an item otherwise than a single parameter, which has no type yet.
    there = {column[0]: column[1] for column in description}
    return all(
        has_array_text(field.type)
        and there.get(field.name) in _TYPES.get(_bare(say.dialect.type_of(field.type)), ())
        for field in say.schema
    )


def _bare(name: str) -> str:
    """The name of a type without its digits."""
    head, _, rest = name.partition("(")
    return head + rest.partition(")")[2]


def write_blocks(cursor: Any, say: Statements, net: NetRows) -> bool:
    """Write the keys of a batch; False, and nothing is said, if it has values that have no text."""
    # All texts are made before the first statement: a value without one must not leave half of a batch behind.
    try:
        steps = list(_steps(say, net))
    except ValueError:
        return False
    for statement, values in steps:
        cursor.execute(statement, values)
    return True


def _steps(say: Statements, net: NetRows) -> Iterator[tuple[str, list[str]]]:
    """The statements of a batch with their parameters."""
    by_key = net.rows.select(list(net.key))
    nulls = _nulls(by_key)
    # A batch of upserts alone needs no locks before: its one statement takes them in the order of keys by itself.
    mixed = bool(net.gone.any() or nulls.any())
    patterns = np.unique(nulls, axis=0).tolist() if mixed else []
    if mixed and not net.gone.all():
        for pattern in patterns:
            alike = (nulls == pattern).all(axis=1)
            yield from _each(say, say.lock_many(pattern), by_key, alike)
    for pattern in patterns:
        # A key with NULL in it is no conflict to the database: its row has to go before it is written.
        alike = (nulls == pattern).all(axis=1) & (net.gone | any(pattern))
        yield from _each(say, say.delete_many(pattern), by_key, alike)
    # Last: a row whose key has NULL has been deleted above, so that it is a new row here.
    yield from _each(say, say.upsert_many, net.rows, ~net.gone)


def _nulls(keys: pa.Table) -> np.ndarray[Any, Any]:
    """Return which values of each key are NULL."""
    columns = [column.is_null().to_numpy() for column in keys.columns]
    return np.column_stack(columns) if columns else np.zeros((keys.num_rows, 0), np.bool_)


def _each(
    say: Statements, statement: str, rows: pa.Table, chosen: np.ndarray[Any, Any]
) -> Iterator[tuple[str, list[str]]]:
    """A statement with the parameters of each block of the rows that are chosen."""
    rows = rows.filter(pa.array(chosen))
    if not rows.num_rows:
        return
    # By the average size of a row: a parameter is one text in the client's memory and one in the server's.
    size = max(1, min(_ROWS, _BYTES * rows.num_rows // max(rows.nbytes, 1)))
    for at in range(0, rows.num_rows, size):
        block = rows.slice(at, size).combine_chunks()
        columns = (column.combine_chunks() for column in block.columns)
        yield statement, [array_text(column, say.dialect) for column in columns]
